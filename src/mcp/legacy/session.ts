import { randomUUID } from "node:crypto";
import type { Cancellation } from "../../lib/cancellation.ts";
import { BerthError } from "../../lib/errors.ts";
import type { JsonObject } from "../../lib/json.ts";
import type { LogLevel } from "../../lib/log-level.ts";
import { notificationText, type RequestId } from "../json-rpc.ts";
import type { Client, MethodCall, Post, RequestTarget } from "../protocol.ts";
import { isLegacy, SUPPORTED_VERSIONS, VERSION_WITHOUT_HEADER } from "../revisions.ts";
import { isToListen, type Stream } from "./stream.ts";

/** The claims of a session token: all that a call depends on, so that any process can execute it. */
export interface SessionClaims {
  readonly id: string;
  readonly version: string;
  /** The client's capabilities that a server can use. */
  readonly capabilities: JsonObject;
  /** Milliseconds since the epoch. */
  readonly until: number;
}

/** Settings that a client made in its session, for calls in other processes or after a restart. */
export interface SessionState {
  readonly ended?: true;
  readonly logLevel?: LogLevel;
  readonly subscriptions?: readonly string[];
}

/** The owner of a session; no one else can find it. */
export type SessionOwner = Pick<RequestTarget, "tenant" | "server" | "principal">;

/**
 * The part of a session in the memory of this process: work in progress, watches and pending questions. Losing it
 * affects no call of another process.
 */
export class Session {
  readonly token: string;
  readonly tenant: string;
  readonly server: string;
  /** Undefined when no token is required. */
  readonly principalId: string | undefined;
  readonly claims: SessionClaims;
  /** The server chooses the level until the client sets one (2025-11-25 `server/utilities/logging`). */
  logLevel: LogLevel = "info";
  subscriptions: ReadonlySet<string> = new Set();
  /** Messages in progress whose clients are still connected. */
  present = 0;
  readonly calls = new Map<RequestId, Cancellation>();
  readonly #streams = new Map<string, Stream>();
  readonly #open = new Set<Stream>();
  /** Open streams that were opened to listen, oldest first. */
  readonly #listeners = new Set<Stream>();
  readonly questions: SessionQuestions;
  /** Ends the watch for changes that listeners are notified of. */
  unwatch: (() => void) | undefined;

  /** `node` is this process; ids of questions name it. */
  constructor(token: string, { tenant, server, principal }: SessionOwner, claims: SessionClaims, node: string) {
    this.token = token;
    this.tenant = tenant;
    this.server = server;
    this.principalId = principal?.id;
    this.claims = claims;
    this.questions = new SessionQuestions(node);
  }

  apply({ logLevel = "info", subscriptions = [] }: SessionState): void {
    this.logLevel = logLevel;
    this.subscriptions = new Set(subscriptions);
  }

  stopWatching(): void {
    this.unwatch?.();
    this.unwatch = undefined;
  }

  /** True when nothing is in progress, and nothing is retained for a reconnecting client. */
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

  /** Marks a stream as ended; it is retained for a reconnecting client. */
  streamEnded(stream: Stream): void {
    this.#open.delete(stream);
    this.#listeners.delete(stream);
  }

  /** Drops a stream that its client can no longer resume. */
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

  dropStreams(): Stream[] {
    const streams = [...this.#streams.values()];
    for (const stream of streams) this.dropStream(stream);
    return streams;
  }

  /** Sends on one stream only: the newest connected one, otherwise the newest. */
  notify(method: string, params?: JsonObject): void {
    const { listeners } = this;
    const stream = listeners.findLast(({ isAttached }) => isAttached) ?? listeners.at(-1);
    void stream?.send(notificationText(method, params));
  }
}

/** A client's answer: its result, from a message of `units` UTF-16 code units, or its error message. */
export type ClientAnswer = { readonly result: JsonObject; readonly units: number } | { readonly error: string };

interface SessionQuestion {
  readonly id: string;
  readonly answer: Promise<ClientAnswer | undefined>;
  giveUp(): void;
}

/**
 * The server's requests that wait for the client's answer. Their ids name the waiting process, and are never reused,
 * even after a restart.
 */
class SessionQuestions {
  readonly #node: string;
  readonly #waiting = new Map<RequestId, (answer: ClientAnswer | undefined) => void>();

  constructor(node: string) {
    this.#node = node;
  }

  ask(send: (id: string) => void, timeoutMs: number): SessionQuestion {
    const id = `${this.#node}.${randomUUID()}`;
    let resolveAnswer!: (answer: ClientAnswer | undefined) => void;
    const answer = new Promise<ClientAnswer | undefined>((resolve) => (resolveAnswer = resolve));
    const settle = (value: ClientAnswer | undefined): void => {
      clearTimeout(timer);
      this.#waiting.delete(id);
      resolveAnswer(value);
    };
    const timer = setTimeout(settle, timeoutMs, undefined);
    this.#waiting.set(id, settle);
    send(id);
    return { id, answer, giveUp: () => settle(undefined) };
  }

  giveUp(): void {
    for (const settle of this.#waiting.values()) settle(undefined);
  }

  /** Returns false when no question is waiting for this answer. */
  answer(id: RequestId, answer: ClientAnswer): boolean {
    const settle = this.#waiting.get(id);
    settle?.(answer);
    return settle !== undefined;
  }
}

/** The node that waits for the answer to a question with this id; undefined for an id that no node issues. */
export function nodeOfQuestion(id: RequestId): string | undefined {
  return typeof id === "string" ? /^([\w-]{12})\.[\da-f-]{36}$/.exec(id)?.[1] : undefined;
}

export interface LegacyClient extends Client {
  readonly peer?: Session;
}

export type LegacyCall = MethodCall<LegacyClient>;

/** The server chooses the level for a client that did not set one (2025-11-25 `server/utilities/logging`). */
const LOG_LEVEL_WITHOUT_SESSION = "info";

export function legacyClient(headers: Post["headers"], peer: Session | undefined): LegacyClient {
  const version = legacyVersion(headers, peer);
  if (!peer) return { version, capabilities: {}, logLevel: LOG_LEVEL_WITHOUT_SESSION };
  const { id, capabilities } = peer.claims;
  return { version, capabilities, logLevel: peer.logLevel, session: id, peer };
}

/** The revision in the header, otherwise of the session. Throws `unsupported_version` for an unknown one. */
function legacyVersion(headers: Post["headers"], peer: Session | undefined): string {
  const header = headers["mcp-protocol-version"];
  if (header === undefined) return peer?.claims.version ?? VERSION_WITHOUT_HEADER;
  if (typeof header === "string" && isLegacy(header)) return header;
  const requested = String(header);
  throw new BerthError("unsupported_version", requested, { data: { supported: SUPPORTED_VERSIONS, requested } });
}
