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
 * The types that transports, methods and eras share. The protocol core knows no Express and no socket: a transport
 * passes it its input, and gets the output to write.
 */
export interface Post {
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  /**
   * The transport has no headers, so none repeats the body (stdio). The settings of its connection, such as the version
   * and the session, are still in `headers`.
   */
  readonly headerless?: true;
  readonly body: string;
  /** The principal of the request; undefined when no token is required. */
  readonly principal?: Principal;
  /** Takes messages before the answer; absent when the client accepts no stream. */
  readonly events?: EventSink;
  /** Aborted when the client is gone. */
  readonly signal?: CancelSignal;
  readonly trace?: Trace;
}

export interface EventSink {
  /**
   * The first message opens the stream, and the answer ends it. `message` is JSON text. A returned promise asks the
   * sender to wait: it settles when the client has taken the message, or is gone.
   */
  send(message: Text, more?: EventDetails): void | Promise<void>;
  /**
   * Opens the stream before its first message; with an id for coming back, and the delay before that. Absent on a
   * transport whose streams cannot be resumed.
   */
  open?(first?: { readonly eventId: string; readonly retryMs: number }): void;
  /** Declares that the stream stays until its client leaves. Throws `too_many_requests` when it may not. */
  stand?(): void;
  /** Ends the connection. */
  close?(): void;
  /** Like `close`, for a client that comes back by itself; does nothing for any other. */
  release?(): void;
  /**
   * Declares that so many bytes wait in memory until the stream ends, whether its client stays or leaves. Returns the
   * reason when there is no room for them.
   */
  hold?(bytes: number): BerthError | undefined;
}

export interface EventDetails {
  /** The id by which a client that lost the connection says what it got. */
  readonly eventId?: string;
  /** Set for an answer or a question, which is kept for such a client whatever else is dropped. */
  readonly lasting?: boolean;
}

/** The destination of a message: `server` as requested, with or without a release. */
export interface ServerPlace {
  readonly tenant: string;
  readonly server: string;
  /** The part of it that the principal may use. */
  readonly catalog: Catalog;
  /** The principal of the message. */
  readonly principal: Principal | undefined;
}

/** A request to open a stream that answers no request of its own. */
export interface Listen {
  readonly headers: Post["headers"];
  readonly principal?: Principal;
  readonly events: EventSink;
  readonly signal?: CancelSignal;
}

export interface Answer {
  /** HTTP status; a transport without statuses ignores it. */
  readonly status: number;
  /** JSON text; absent for 202. */
  readonly body?: Text;
  /** Further headers, such as the session's. */
  readonly headers?: Readonly<Record<string, string>>;
  /** The refusal, if a token that permits more would help: HTTP tells the client how to get one. */
  readonly denied?: BerthError;
}

/** The log lines of all calls, on their way to clients. */
export interface ClientLogs {
  /** The lines dropped because their client was too far behind. */
  dropped: number;
}

/** One call of one method, independent of the revision. */
export interface MethodCall<C extends Client = Client> {
  readonly tenant: string;
  /** The requested name, which need not be the catalog's own. */
  readonly server: string;
  readonly catalog: Catalog;
  readonly id: string | number;
  readonly method: string;
  readonly params: Readonly<Record<string, unknown>>;
  /** The text that the message was parsed from: `params` change when defaults are filled into arguments. */
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
  /** The least level of log messages to send on the request's stream; without it, none are sent. */
  readonly logLevel?: LogLevel;
  /** The session of the request, if any. */
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
