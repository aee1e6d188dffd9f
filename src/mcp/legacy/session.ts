import { randomUUID } from "node:crypto";
import type { Cancellation } from "../../lib/cancellation.ts";
import { BerthError } from "../../lib/errors.ts";
import type { JsonObject } from "../../lib/json.ts";
import type { LogLevel } from "../../lib/log-level.ts";
import { notificationText, type RequestId } from "../json-rpc.ts";
import type { Client, MethodCall, Post, ServerPlace } from "../protocol.ts";
import { isLegacy, SUPPORTED_VERSIONS, VERSION_WITHOUT_HEADER } from "../revisions.ts";
import { isToListen, type Stream } from "./stream.ts";

/** The content of a session token: all that a call depends on, so that any process can carry it out. */
export interface SessionFacts {
  readonly id: string;
  readonly version: string;
  /** The client's capabilities, as far as a server may use them. */
  readonly capabilities: JsonObject;
  /** The end of the session, in milliseconds since the epoch. */
  readonly until: number;
}

/** The settings of a session by its client, for calls in other processes or after a restart. */
export interface SessionState {
  readonly ended?: true;
  readonly logLevel?: LogLevel;
  readonly subscriptions?: readonly string[];
}

/** The owner of a session: nobody else finds it. */
export type Whose = Pick<ServerPlace, "tenant" | "server" | "principal">;

/**
 * The part of a session that this process remembers: what is in progress, what is watched, and who waits for what.
 * Losing it loses no call of another process.
 */
export class Session {
  readonly token: string;
  readonly tenant: string;
  readonly server: string;
  /** Undefined when no token is required. */
  readonly principalId: string | undefined;
  readonly facts: SessionFacts;
  /** Not set by a client, so the server decides (2025-11-25 `server/utilities/logging`). */
  logLevel: LogLevel = "info";
  subscriptions: ReadonlySet<string> = new Set();
  /** Messages in progress whose clients are still connected. */
  present = 0;
  readonly calls = new Map<RequestId, Cancellation>();
  readonly #streams = new Map<string, Stream>();
  /** The streams that have not ended. */
  readonly #open = new Set<Stream>();
  /** The open streams that were opened to listen, the oldest first. */
  readonly #listeners = new Set<Stream>();
  readonly questions: SessionQuestions;
  /** Ends the watch for changes that the session's listeners are told. */
  unwatch: (() => void) | undefined;

  /** `node` is this process, which ids of questions name. */
  constructor(token: string, { tenant, server, principal }: Whose, facts: SessionFacts, node: string) {
    this.token = token;
    this.tenant = tenant;
    this.server = server;
    this.principalId = principal?.id;
    this.facts = facts;
    this.questions = new SessionQuestions(node);
  }

  /** The client's settings count from now on. */
  follow({ logLevel = "info", subscriptions = [] }: SessionState): void {
    this.logLevel = logLevel;
    this.subscriptions = new Set(subscriptions);
  }

  stopWatching(): void {
    this.unwatch?.();
    this.unwatch = undefined;
  }

  /** True when nothing is in progress, and nothing is kept for a client that comes back. */
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

  addStream(stream: Stream): void {
    this.#streams.set(stream.id, stream);
    this.#open.add(stream);
    if (isToListen(stream)) this.#listeners.add(stream);
  }

  /** Marks a stream as ended; it stays for a client that comes back. */
  streamEnded(stream: Stream): void {
    this.#open.delete(stream);
    this.#listeners.delete(stream);
  }

  /** Drops a stream that no client can come back to. */
  dropStream(stream: Stream): void {
    this.#streams.delete(stream.id);
    this.streamEnded(stream);
  }

  /** The oldest ended stream if there are more than `most`. */
  endedBeyond(most: number): Stream | undefined {
    if (this.#streams.size - this.#open.size <= most) return undefined;
    for (const stream of this.#streams.values()) if (stream.isEnded) return stream;
    return undefined;
  }

  /** Returns the streams that it had. */
  dropStreams(): Stream[] {
    const streams = [...this.#streams.values()];
    for (const stream of streams) this.dropStream(stream);
    return streams;
  }

  /** Sends on one stream only: the newest connected one, otherwise the newest to come back. */
  notify(method: string, params?: JsonObject): void {
    const { listeners } = this;
    const stream = listeners.findLast(({ isAttached }) => isAttached) ?? listeners.at(-1);
    void stream?.send(notificationText(method, params));
  }
}

/** The answer of a client: the result, in a message of so many UTF-16 units, or the message of its error. */
export type ClientAnswer = { readonly result: JsonObject; readonly units: number } | { readonly error: string };

interface SessionQuestion {
  readonly id: string;
  /** Undefined when no answer came. */
  readonly answer: Promise<ClientAnswer | undefined>;
  giveUp(): void;
}

/**
 * The server's requests that wait for the client's answer. Their ids name the process that waits, and are never reused,
 * not even after a restart.
 */
class SessionQuestions {
  readonly #node: string;
  readonly #waiting = new Map<RequestId, (answer: ClientAnswer | undefined) => void>();

  constructor(node: string) {
    this.#node = node;
  }

  /** `send` is given the id of the request. */
  ask(send: (id: string) => void, timeoutMs: number): SessionQuestion {
    const id = `${this.#node}.${randomUUID()}`;
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

  /** Ends every question without an answer. */
  giveUp(): void {
    for (const settle of this.#waiting.values()) settle(undefined);
  }

  /** Returns false when no question waits for this answer. */
  answer(id: RequestId, answer: ClientAnswer): boolean {
    const settle = this.#waiting.get(id);
    settle?.(answer);
    return settle !== undefined;
  }
}

/** The node that waits for the answer to a question of this id; undefined when no node gives such ids. */
export function nodeOfQuestion(id: RequestId): string | undefined {
  return typeof id === "string" ? /^([\w-]{12})\.[\da-f-]{36}$/.exec(id)?.[1] : undefined;
}

/** The client of a legacy request, and its session, if any. */
export interface LegacyClient extends Client {
  readonly peer?: Session;
}

/** A method called in this era. */
export type LegacyCall = MethodCall<LegacyClient>;

/** The server decides what to log for a client that did not set a level (2025-11-25 `server/utilities/logging`). */
const LOG_LEVEL_WITHOUT_SESSION = "info";

export function legacyClient(headers: Post["headers"], peer: Session | undefined): LegacyClient {
  const version = legacyVersion(headers, peer);
  if (!peer) return { version, capabilities: {}, logLevel: LOG_LEVEL_WITHOUT_SESSION };
  const { id, capabilities } = peer.facts;
  return { version, capabilities, logLevel: peer.logLevel, session: id, peer };
}

/** The revision of the header, otherwise of the session. Throws `unsupported_version` for a header that names none. */
function legacyVersion(headers: Post["headers"], peer: Session | undefined): string {
  const header = headers["mcp-protocol-version"];
  if (header === undefined) return peer?.facts.version ?? VERSION_WITHOUT_HEADER;
  if (typeof header === "string" && isLegacy(header)) return header;
  const requested = String(header);
  throw new BerthError("unsupported_version", requested, { data: { supported: SUPPORTED_VERSIONS, requested } });
}
