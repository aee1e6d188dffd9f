import type { Principal } from "../../access/principal.ts";
import type { Host } from "../../host/host.ts";
import type { ServerChange } from "../../host/offers/catalog.ts";
import { BerthError } from "../../lib/errors.ts";
import { turnTaker } from "../../lib/event-loop.ts";
import { LongText, type Text } from "../../lib/long-text.ts";
import { fixed } from "../../limits/fixed.ts";
import { mayHearOf } from "../admit.ts";
import type { EventSink } from "../protocol.ts";
import { META_SUBSCRIPTION_ID } from "../revisions.ts";

const bounds = fixed({
  /** Streams in one process that follow one task. */
  listenersPerTask: 32,
});

/**
 * The open `subscriptions/listen` streams. Sends each the notifications that it asked for, taking turns with the calls
 * of others: thousands are open at once, so little is kept for each, and a notification for many is written once.
 */
export class Listeners {
  readonly #host: Pick<Host, "watch">;
  readonly #servers = new Map<string, ListenedServer>();
  readonly #tasks = new Map<string, Set<Listener>>();
  /** Notifications to send, by tenant, each once; tenants take turns. */
  readonly #waiting = new Map<string, Map<string, Told>>();
  #isTelling = false;

  constructor(host: Pick<Host, "watch">) {
    this.#host = host;
  }

  /**
   * Adds a listener and returns the function that removes it. Throws `too_many_streams` when one of the tasks has as
   * many listeners as it may.
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
      const stop = this.#host.watch(tenant, server, (change) => this.#tellOf(tenant, key, change));
      group = { listeners: new Set(), byUri: new Map(), stop };
      this.#servers.set(key, group);
    }
    group.listeners.add(listener);
    for (const uri of uris) addTo(group.byUri, uri, listener);
    for (const taskKey of taskKeys) addTo(this.#tasks, taskKey, listener);
    return () => this.#remove(key, taskKeys, listener);
  }

  /** True when somebody listens to the task. */
  hearOfTask(tenant: string, taskId: string): boolean {
    return this.#tasks.has(JSON.stringify([tenant, taskId]));
  }

  /** The tasks that somebody listens to. */
  tasks(): [tenant: string, taskId: string][] {
    return [...this.#tasks.keys()].map((key) => JSON.parse(key) as [string, string]);
  }

  /** `task` is the task as `tasks/get` returns it. */
  tellOfTask(tenant: string, taskId: string, task: object): void {
    const key = JSON.stringify([tenant, taskId]);
    const listeners = this.#tasks.get(key);
    // Later listeners get the state that the task has by then.
    if (listeners) this.#tell(tenant, key, { listeners: [...listeners], method: "notifications/tasks", params: task });
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

  #remove(key: string, taskKeys: readonly string[], listener: Listener): void {
    const group = this.#servers.get(key);
    if (!group?.listeners.delete(listener)) return;
    for (const uri of listener.uris ?? []) removeFrom(group.byUri, uri, listener);
    for (const taskKey of taskKeys) removeFrom(this.#tasks, taskKey, listener);
    if (group.listeners.size > 0) return;
    group.stop();
    this.#servers.delete(key);
  }

  #tellOf(tenant: string, key: string, change: ServerChange): void {
    const group = this.#servers.get(key);
    if (change.kind !== "resource") {
      const { kind } = change;
      const told = {
        listeners: group?.listeners ?? [],
        part: PARTS[kind],
        method: `notifications/${kind}/list_changed`,
      };
      return this.#tell(tenant, `${kind} ${key}`, told);
    }
    const { uri, server: of } = change;
    const listeners = group?.byUri.get(uri);
    const method = "notifications/resources/updated";
    if (listeners) this.#tell(tenant, JSON.stringify([key, uri, of]), { listeners, of, method, params: { uri } });
  }

  /** The latest notification about a thing replaces a waiting one. */
  #tell(tenant: string, key: string, told: Told): void {
    const waiting = this.#waiting.get(tenant) ?? new Map<string, Told>();
    this.#waiting.set(tenant, waiting.set(key, told));
    if (this.#isTelling) return;
    this.#isTelling = true;
    void this.#tellAll();
  }

  async #tellAll(): Promise<void> {
    const takeTurns = turnTaker();
    for (const [tenant, waiting] of this.#waiting) {
      const [first] = waiting;
      const [key, { listeners, part = 0, of, method, params }] = first!;
      waiting.delete(key);
      const rest = restOf(params);
      for (const listener of listeners) {
        if ((part === 0 || listener.parts & part) && mayHearOf(listener.principal, of))
          void listener.sink.send(onStream(listener.id, method, rest));
        const turn = takeTurns();
        if (turn) await turn;
      }
      this.#waiting.delete(tenant);
      if (waiting.size > 0) this.#waiting.set(tenant, waiting);
    }
    this.#isTelling = false;
  }
}

export interface Listener {
  readonly sink: EventSink;
  /** JSON text of the id of the request that opened the stream. */
  readonly id: string;
  /** A sum of `PARTS`. */
  readonly parts: number;
  readonly uris: readonly string[] | undefined;
  readonly taskIds: readonly string[] | undefined;
  readonly principal?: Principal | undefined;
  readonly end: () => void;
}

/** Lists that a listener can ask for; a number holds any set of them. */
export const PARTS = { tools: 1, prompts: 2, resources: 4 } as const;

interface ListenedServer {
  readonly listeners: Set<Listener>;
  readonly byUri: Map<string, Set<Listener>>;
  readonly stop: () => void;
}

interface Told {
  readonly listeners: Iterable<Listener>;
  /** Restricts it to listeners that asked for this list; otherwise all get it. */
  readonly part?: number;
  /** Restricts it to listeners that may read this server. */
  readonly of?: string | undefined;
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

/** The text of a notification on the stream that the request with this id (JSON text) opened. */
export function notificationOn(id: string, method: string, params?: object): Text {
  return onStream(id, method, restOf(params));
}

/** A longer text is passed to all streams as the same bytes. */
const COPIED_UNITS_MAX = 16 * 1024;

/** The part of a notification that is the same on all streams. */
function restOf(params: object = {}): Text {
  if (params instanceof LongText) {
    const [first, ...others] = params.pieces;
    return new LongText(`,${String(first).slice(1)}`, ...others, "}");
  }
  const members = JSON.stringify(params).slice(1, -1);
  const rest = `${members === "" ? "" : `,${members}`}}}`;
  return rest.length > COPIED_UNITS_MAX ? new LongText(Buffer.from(rest)) : rest;
}

function onStream(id: string, method: string, rest: Text): Text {
  const head = `{"jsonrpc":"2.0","method":"${method}","params":{"_meta":{"${META_SUBSCRIPTION_ID}":${id}}`;
  return typeof rest === "string" ? head + rest : new LongText(head, ...rest.pieces);
}
