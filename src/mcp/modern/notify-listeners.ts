import type { Principal } from "../../access/principal.ts";
import type { Host } from "../../host/host.ts";
import type { ServerChange } from "../../host/offers/catalog.ts";
import { BerthError } from "../../lib/errors.ts";
import { createYielder } from "../../lib/event-loop.ts";
import { LongText, type Text } from "../../lib/long-text.ts";
import { fixed } from "../../limits/fixed.ts";
import { mayReceiveUpdates } from "../admit.ts";
import type { EventSink } from "../protocol.ts";
import { META_SUBSCRIPTION_ID } from "../revisions.ts";

const bounds = fixed({
  /** Streams of one process that follow one task. */
  listenersPerTask: 32,
});

/**
 * The open `subscriptions/listen` streams, each with the notifications that it asked for. Thousands are open at once,
 * so little is stored for each, a notification for many is serialized once, and sending yields to other calls.
 */
export class Listeners {
  readonly #host: Pick<Host, "watch">;
  readonly #servers = new Map<string, ListenedServer>();
  readonly #tasks = new Map<string, Set<Listener>>();
  /** Notifications to send, by tenant; tenants are served in rotation. */
  readonly #waiting = new Map<string, Map<string, Broadcast>>();
  #isSending = false;

  constructor(host: Pick<Host, "watch">) {
    this.#host = host;
  }

  /**
   * Adds a listener and returns the function that removes it. Throws `too_many_streams` when one of the tasks has too
   * many listeners.
   */
  add(tenant: string, server: string, listener: Listener): () => void {
    const { uris = [], taskIds = [] } = listener;
    const taskKeys = taskIds.map((id) => JSON.stringify([tenant, id]));
    for (const taskKey of taskKeys) {
      if ((this.#tasks.get(taskKey)?.size ?? 0) < bounds.listenersPerTask) continue;
      throw new BerthError("too_many_streams", `at most ${bounds.listenersPerTask} listeners may follow one task`);
    }
    const key = JSON.stringify([tenant, server]);
    let group = this.#servers.get(key);
    if (!group) {
      const stop = this.#host.watch(tenant, server, (change) => this.#onChange(tenant, key, change));
      group = { listeners: new Set(), byUri: new Map(), stop };
      this.#servers.set(key, group);
    }
    group.listeners.add(listener);
    for (const uri of uris) addTo(group.byUri, uri, listener);
    for (const taskKey of taskKeys) addTo(this.#tasks, taskKey, listener);
    return () => this.#remove(key, taskKeys, listener);
  }

  hasListeners(tenant: string, taskId: string): boolean {
    return this.#tasks.has(JSON.stringify([tenant, taskId]));
  }

  tasks(): [tenant: string, taskId: string][] {
    return [...this.#tasks.keys()].map((key) => JSON.parse(key) as [string, string]);
  }

  /** `task` is the task as `tasks/get` returns it. */
  notifyTask(tenant: string, taskId: string, task: object): void {
    const key = JSON.stringify([tenant, taskId]);
    const listeners = this.#tasks.get(key);
    // Later listeners get the state of the task at that time.
    if (listeners) this.#push(tenant, key, { listeners: [...listeners], method: "notifications/tasks", params: task });
  }

  endTenant(tenant: string): void {
    for (const [key, { listeners }] of this.#servers) {
      if ((JSON.parse(key) as string[])[0] === tenant) for (const { end } of listeners) end();
    }
  }

  close(): void {
    for (const { listeners } of this.#servers.values()) for (const { end } of listeners) end();
  }

  #remove(key: string, taskKeys: readonly string[], listener: Listener): void {
    const group = this.#servers.get(key);
    if (!group?.listeners.delete(listener)) return;
    for (const uri of listener.uris ?? []) removeFrom(group.byUri, uri, listener);
    for (const taskKey of taskKeys) removeFrom(this.#tasks, taskKey, listener);
    if (group.listeners.size > 0) return;
    group.stop();
    this.#servers.delete(key);
  }

  #onChange(tenant: string, key: string, change: ServerChange): void {
    const group = this.#servers.get(key);
    if (change.kind !== "resource") {
      const { kind } = change;
      const broadcast = {
        listeners: group?.listeners ?? [],
        part: PARTS[kind],
        method: `notifications/${kind}/list_changed`,
      };
      return this.#push(tenant, `${kind} ${key}`, broadcast);
    }
    const { uri, server } = change;
    const listeners = group?.byUri.get(uri);
    const method = "notifications/resources/updated";
    if (listeners)
      this.#push(tenant, JSON.stringify([key, uri, server]), { listeners, server, method, params: { uri } });
  }

  /** The latest notification about a subject replaces a waiting one. */
  #push(tenant: string, key: string, broadcast: Broadcast): void {
    const waiting = this.#waiting.get(tenant) ?? new Map<string, Broadcast>();
    this.#waiting.set(tenant, waiting.set(key, broadcast));
    if (this.#isSending) return;
    this.#isSending = true;
    void this.#sendAll();
  }

  async #sendAll(): Promise<void> {
    const maybeYield = createYielder();
    for (const [tenant, waiting] of this.#waiting) {
      const [first] = waiting;
      const [key, { listeners, part = 0, server, method, params }] = first!;
      waiting.delete(key);
      const rest = sharedPart(params);
      for (const listener of listeners) {
        if ((part === 0 || listener.parts & part) && mayReceiveUpdates(listener.principal, server))
          void listener.sink.send(notificationText(listener.id, method, rest));
        const pause = maybeYield();
        if (pause) await pause;
      }
      this.#waiting.delete(tenant);
      if (waiting.size > 0) this.#waiting.set(tenant, waiting);
    }
    this.#isSending = false;
  }
}

export interface Listener {
  readonly sink: EventSink;
  /** JSON text of the id of the request that opened the stream. */
  readonly id: string;
  readonly parts: number;
  readonly uris: readonly string[] | undefined;
  readonly taskIds: readonly string[] | undefined;
  readonly principal?: Principal | undefined;
  readonly end: () => void;
}

/** Lists that a listener can ask for, as bit flags. */
export const PARTS = { tools: 1, prompts: 2, resources: 4 } as const;

interface ListenedServer {
  readonly listeners: Set<Listener>;
  readonly byUri: Map<string, Set<Listener>>;
  readonly stop: () => void;
}

interface Broadcast {
  readonly listeners: Iterable<Listener>;
  /** Only for listeners that asked for this list; otherwise for all. */
  readonly part?: number;
  /** Only for listeners that may read this server. */
  readonly server?: string | undefined;
  readonly method: string;
  readonly params?: object;
}

function addTo(groups: Map<string, Set<Listener>>, key: string, listener: Listener): void {
  const group = groups.get(key);
  if (group) group.add(listener);
  else groups.set(key, new Set([listener]));
}

function removeFrom(groups: Map<string, Set<Listener>>, key: string, listener: Listener): void {
  const group = groups.get(key);
  group?.delete(listener);
  if (group?.size === 0) groups.delete(key);
}

/** A notification on the stream that the request with this id (JSON text) opened. */
export function subscriptionNotification(id: string, method: string, params?: object): Text {
  return notificationText(id, method, sharedPart(params));
}

/** Longer texts are shared by all streams as the same bytes. */
const COPIED_UNITS_MAX = 16 * 1024;

function sharedPart(params: object = {}): Text {
  if (params instanceof LongText) {
    const [first, ...others] = params.pieces;
    return new LongText(`,${String(first).slice(1)}`, ...others, "}");
  }
  const members = JSON.stringify(params).slice(1, -1);
  const rest = `${members === "" ? "" : `,${members}`}}}`;
  return rest.length > COPIED_UNITS_MAX ? new LongText(Buffer.from(rest)) : rest;
}

function notificationText(id: string, method: string, rest: Text): Text {
  const head = `{"jsonrpc":"2.0","method":"${method}","params":{"_meta":{"${META_SUBSCRIPTION_ID}":${id}}`;
  return typeof rest === "string" ? head + rest : new LongText(head, ...rest.pieces);
}
