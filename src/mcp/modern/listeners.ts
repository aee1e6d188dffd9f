import type { ServerChange } from "../../host/catalog.ts";
import type { Host } from "../../host/host.ts";
import type { EventSink } from "../protocol.ts";
import { META_SUBSCRIPTION_ID } from "../revisions.ts";

/**
 * Who listens to what. It owns the open `subscriptions/listen` streams and tells each of them what it asked for, in
 * its own words. All that is kept for one stream is one small object: thousands of them are open at once.
 */
export class Listeners {
  readonly #host: Pick<Host, "watch">;
  readonly #servers = new Map<string, ListenedServer>();
  readonly #tasks = new Map<string, Set<Listener>>();

  constructor(host: Pick<Host, "watch">) {
    this.#host = host;
  }

  /** Gives the way to stop listening. */
  add(tenant: string, server: string, listener: Listener): () => void {
    const key = JSON.stringify([tenant, server]);
    let group = this.#servers.get(key);
    if (!group) {
      const listeners = new Set<Listener>();
      group = { listeners, stop: this.#host.watch(tenant, server, (change) => tell(listeners, change)) };
      this.#servers.set(key, group);
    }
    group.listeners.add(listener);
    for (const taskId of listener.taskIds ?? []) {
      const taskKey = JSON.stringify([tenant, taskId]);
      this.#tasks.set(taskKey, (this.#tasks.get(taskKey) ?? new Set()).add(listener));
    }
    return () => this.#remove(tenant, key, listener);
  }

  /** `task` is what `tasks/get` says of it. */
  tellOfTask(tenant: string, taskId: string, task: object): void {
    const listeners = this.#tasks.get(JSON.stringify([tenant, taskId]));
    for (const { sink, id } of listeners ?? []) void sink.send(notificationOn(id, "notifications/tasks", task));
  }

  /** Ends every stream of a tenant with its result. */
  endTenant(tenant: string): void {
    for (const [key, { listeners }] of this.#servers) {
      if ((JSON.parse(key) as string[])[0] === tenant) for (const { end } of listeners) end();
    }
  }

  /** Ends every stream with its result. */
  close(): void {
    for (const { listeners } of this.#servers.values()) for (const { end } of listeners) end();
  }

  #remove(tenant: string, key: string, listener: Listener): void {
    const group = this.#servers.get(key);
    if (!group?.listeners.delete(listener)) return;
    for (const taskId of listener.taskIds ?? []) {
      const taskKey = JSON.stringify([tenant, taskId]);
      const listeners = this.#tasks.get(taskKey);
      listeners?.delete(listener);
      if (listeners?.size === 0) this.#tasks.delete(taskKey);
    }
    if (group.listeners.size > 0) return;
    group.stop();
    this.#servers.delete(key);
  }
}

export interface Listener {
  readonly sink: EventSink;
  /** JSON text of the id of the request that opened the stream. */
  readonly id: string;
  /** Some of `PARTS`, added up. */
  readonly parts: number;
  readonly uris: ReadonlySet<string> | undefined;
  readonly taskIds: readonly string[] | undefined;
  readonly end: () => void;
}

/** Lists that a listener can ask for; a number holds any set of them. */
export const PARTS = { tools: 1, prompts: 2, resources: 4 } as const;

interface ListenedServer {
  readonly listeners: Set<Listener>;
  readonly stop: () => void;
}

/** The text of a notification on the stream that the request with this id (JSON text) opened. */
export function notificationOn(id: string, method: string, params: object = {}): string {
  const rest = JSON.stringify(params).slice(1, -1);
  const meta = `"_meta":{"${META_SUBSCRIPTION_ID}":${id}}`;
  return `{"jsonrpc":"2.0","method":"${method}","params":{${meta}${rest === "" ? "" : `,${rest}`}}}`;
}

function tell(listeners: ReadonlySet<Listener>, change: ServerChange): void {
  if (change.kind === "resource") {
    for (const { sink, id, uris } of listeners) {
      if (!uris?.has(change.uri)) continue;
      void sink.send(notificationOn(id, "notifications/resources/updated", { uri: change.uri }));
    }
    return;
  }
  for (const { sink, id, parts } of listeners) {
    if (parts & PARTS[change.kind]) void sink.send(notificationOn(id, `notifications/${change.kind}/list_changed`));
  }
}
