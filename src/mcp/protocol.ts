import type { Principal } from "../access/principal.ts";
import type { Host } from "../host/host.ts";
import type { Catalog } from "../host/offers/catalog.ts";
import type { CancelSignal } from "../lib/cancellation.ts";
import { BerthError } from "../lib/errors.ts";
import type { JsonObject } from "../lib/json.ts";
import type { LogLevel } from "../lib/log-level.ts";
import type { Text } from "../lib/long-text.ts";
import type { Trace } from "../lib/trace.ts";

/**
 * Types shared by transports, methods and eras. The protocol core knows no Express and no socket: a transport passes it
 * input, and writes its output.
 */
export interface Post {
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  /**
   * Set by a transport without headers (stdio), where no header repeats the body. Settings of the connection, such as
   * the version and the session, are still in `headers`.
   */
  readonly headerless?: true;
  readonly body: string;
  readonly principal?: Principal;
  /** Receives messages before the answer; absent when the client accepts no stream. */
  readonly events?: EventSink;
  /** Aborted when the client disconnects. */
  readonly signal?: CancelSignal;
  readonly trace?: Trace;
}

export interface EventSink {
  /**
   * The first message opens the stream, and the answer ends it. `message` is JSON text. Senders await a returned
   * promise: it settles when the client has received the message or disconnected.
   */
  send(message: Text, more?: EventDetails): void | Promise<void>;
  /**
   * Opens the stream before its first message, with an event id to resume from and the delay before reconnecting, if
   * given. Absent on a transport whose streams cannot be resumed.
   */
  open?(first?: { readonly eventId: string; readonly retryMs: number }): void;
  /**
   * Declares that the stream stays open until its client disconnects. Throws `too_many_requests` when a limit is
   * exceeded.
   */
  stand?(): void;
  close?(): void;
  /** Like `close`, for a client that reconnects automatically; does nothing for any other. */
  release?(): void;
  /**
   * Reserves memory for bytes that wait until the stream ends, whether or not its client stays. Returns an error when
   * the limit is exceeded.
   */
  hold?(bytes: number): BerthError | undefined;
}

export interface EventDetails {
  /** The id from which a client resumes after it lost the connection. */
  readonly eventId?: string;
  /** Set for answers and questions, which are retained for a reconnecting client even when other events are dropped. */
  readonly lasting?: boolean;
}

/** The target of a message: `server` as requested, with or without a release. */
export interface RequestTarget {
  readonly tenant: string;
  readonly server: string;
  readonly catalog: Catalog;
  readonly principal: Principal | undefined;
}

/** A request to open a stream that belongs to no other request. */
export interface Listen {
  readonly headers: Post["headers"];
  readonly principal?: Principal;
  readonly events: EventSink;
  readonly signal?: CancelSignal;
}

export interface Answer {
  readonly status: number;
  /** Absent for 202. */
  readonly body?: Text;
  /** Additional headers, such as `Mcp-Session-Id`. */
  readonly headers?: Readonly<Record<string, string>>;
  /** Set when a token with more permissions would help: HTTP tells the client how to get one. */
  readonly denied?: BerthError;
}

export interface ClientLogs {
  /** Lines dropped because their clients were too slow. */
  dropped: number;
}

export interface MethodCall<C extends Client = Client> {
  readonly tenant: string;
  /** The requested name, which may differ from the catalog's own. */
  readonly server: string;
  readonly catalog: Catalog;
  readonly id: string | number;
  readonly method: string;
  readonly params: Readonly<Record<string, unknown>>;
  /** The raw message: `params` change when defaults are filled into arguments. */
  readonly body: string;
  readonly client: C;
  readonly principal: Principal | undefined;
  readonly trace: Trace | undefined;
  readonly events: EventSink | undefined;
  readonly logs: ClientLogs;
  readonly signal: CancelSignal | undefined;
  /** The client's answers in earlier rounds of this request, by the keys of the input requests. */
  readonly answers?: JsonObject;
}

/** The client, as this request (modern) or its session (legacy) describes it. */
export interface Client {
  readonly version: string;
  readonly capabilities: JsonObject;
  /** The lowest level of log messages to send on the request's stream; without it, none are sent. */
  readonly logLevel?: LogLevel;
  readonly session?: string;
}

/** Calls a tool by a method of its own, `server.tool`. Rejects with `method_not_found` if there is no such tool. */
export type CallNatively = (host: Host, call: MethodCall) => Promise<Text>;

/** Calls a method that is none of MCP's. Without native calls, no such method exists. */
export function callOtherMethod(
  { host, callNatively }: { readonly host: Host; readonly callNatively?: CallNatively | undefined },
  call: MethodCall,
): Promise<Text> {
  if (!callNatively) throw new BerthError("method_not_found", call.method);
  return callNatively(host, call);
}

/** A separator distinguishes native methods from those of MCP, which contain none in any revision. */
export function isNativeName(method: string): boolean {
  return /[._]/.test(method);
}
