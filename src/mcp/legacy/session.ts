import { randomUUID } from "node:crypto";
import type { Cancellation } from "../../lib/cancellation.ts";
import type { JsonObject } from "../../lib/json.ts";
import { notificationText, type RequestId } from "../json-rpc.ts";
import type { LogLevel } from "../../lib/log-level.ts";
import type { Place } from "../protocol.ts";
import { isToListen } from "./event-id.ts";
import type { Stream } from "./stream.ts";

/** What the token of a session says: all that a call depends on, so that any process can carry it out. */
export interface SessionFacts {
  readonly id: string;
  readonly version: string;
  /** The client's, as far as a server may use them. */
  readonly capabilities: JsonObject;
  /** Its end, in milliseconds since the epoch. */
  readonly until: number;
}

/** Whom a session is of: nobody else finds it. */
export type Whose = Pick<Place, "tenant" | "server" | "principal">;

/**
 * What this process remembers of a session: what is under way, what is watched, and who waits for what. Losing it
 * loses no call of another process.
 */
export class Session {
  readonly token: string;
  readonly tenant: string;
  readonly server: string;
  /** Undefined where nobody is asked for a token. */
  readonly principalId: string | undefined;
  readonly facts: SessionFacts;
  /** Nobody set it, so the server decides (2025-11-25 `server/utilities/logging`). */
  logLevel: LogLevel = "info";
  readonly subscriptions = new Set<string>();
  /** For good. */
  isEnded = false;
  /** Messages that are being answered to clients that are still there. */
  present = 0;
  readonly calls = new Map<RequestId, Cancellation>();
  readonly #streams = new Map<string, Stream>();
  /** Those that have not ended. */
  readonly #open = new Set<Stream>();
  /** Of those the ones that were opened to listen, the oldest first. */
  readonly #listeners = new Set<Stream>();
  readonly questions = new Questions();
  /** Ends the watch over what the session's listeners are told of. */
  unwatch: (() => void) | undefined;

  constructor(token: string, { tenant, server, principal }: Whose, facts: SessionFacts) {
    this.token = token;
    this.tenant = tenant;
    this.server = server;
    this.principalId = principal?.id;
    this.facts = facts;
  }

  stopWatching(): void {
    this.unwatch?.();
    this.unwatch = undefined;
  }

  /** Nothing is under way, and nothing is kept for a client that comes back. */
  get isIdle(): boolean {
    return this.calls.size === 0 && this.#streams.size === 0;
  }

  get isConnected(): boolean {
    if (this.present > 0) return true;
    for (const stream of this.#open) if (stream.isAttached) return true;
    return false;
  }

  get openStreams(): number {
    return this.#open.size;
  }

  /** Streams that were opened to listen and have not ended, the oldest first. */
  get listeners(): Stream[] {
    return [...this.#listeners];
  }

  stream(id: string): Stream | undefined {
    return this.#streams.get(id);
  }

  hasStream({ id }: Stream): boolean {
    return this.#streams.has(id);
  }

  addStream(stream: Stream): void {
    this.#streams.set(stream.id, stream);
    this.#open.add(stream);
    if (isToListen(stream)) this.#listeners.add(stream);
  }

  /** It has ended, and stays for a client that comes back. */
  streamEnded(stream: Stream): void {
    this.#open.delete(stream);
    this.#listeners.delete(stream);
  }

  /** Nobody comes back to it. */
  dropStream(stream: Stream): void {
    this.#streams.delete(stream.id);
    this.streamEnded(stream);
  }

  /** The oldest of those that have ended, where there are more than so many. */
  endedBeyond(most: number): Stream | undefined {
    if (this.#streams.size - this.#open.size <= most) return undefined;
    for (const stream of this.#streams.values()) if (stream.isEnded) return stream;
    return undefined;
  }

  /** Gives the streams that it had. */
  dropStreams(): Stream[] {
    const streams = [...this.#streams.values()];
    for (const stream of streams) this.dropStream(stream);
    return streams;
  }

  /** On one stream alone: the newest that is connected, else the newest to come back. */
  notify(method: string, params?: JsonObject): void {
    const { listeners } = this;
    const stream = listeners.findLast(({ isAttached }) => isAttached) ?? listeners.at(-1);
    void stream?.send(notificationText(method, params));
  }
}

/** What a client answered: the result, in a message of so many UTF-16 units, or the message of its error. */
export type ClientAnswer = { readonly result: JsonObject; readonly units: number } | { readonly error: string };

export interface Question {
  readonly id: string;
  /** Undefined when nobody answered. */
  readonly answer: Promise<ClientAnswer | undefined>;
  giveUp(): void;
}

/** Requests of the server's that wait for the client's answer. Ids are never used again, not even after a restart. */
export class Questions {
  readonly #waiting = new Map<RequestId, (answer: ClientAnswer | undefined) => void>();

  /** `send` is given the id of the request. */
  ask(send: (id: string) => void, timeoutMs: number): Question {
    const id = randomUUID();
    let resolveAnswer!: (answer: ClientAnswer | undefined) => void;
    const answer = new Promise<ClientAnswer | undefined>((resolve) => (resolveAnswer = resolve));
    const settle = (given: ClientAnswer | undefined): void => {
      clearTimeout(timer);
      this.#waiting.delete(id);
      resolveAnswer(given);
    };
    const timer = setTimeout(settle, timeoutMs, undefined);
    this.#waiting.set(id, settle);
    send(id);
    return { id, answer, giveUp: () => settle(undefined) };
  }

  /** Has every question end without an answer. */
  giveUp(): void {
    for (const settle of this.#waiting.values()) settle(undefined);
  }

  /** False when nobody waits for this answer. */
  answer(id: RequestId, answer: ClientAnswer): boolean {
    const settle = this.#waiting.get(id);
    settle?.(answer);
    return settle !== undefined;
  }
}
