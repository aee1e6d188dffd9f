import type { Principal } from "../access/principal.ts";
import type { CancelSignal } from "../lib/cancellation.ts";
import type { BerthError } from "../lib/errors.ts";
import type {
  CallResult,
  InputRequests,
  Catalog,
  Contract,
  PromptResult,
  ReadResult,
  ToolContract,
} from "../host/catalog.ts";
import type { Trace } from "../lib/trace.ts";
import type { JsonObject } from "../lib/json.ts";
import type { Text } from "../lib/long-text.ts";
import type { LogLevel } from "../lib/log-level.ts";
import type { Request } from "./json-rpc.ts";
import type { ClientLogs } from "./methods/log.ts";

/**
 * The shapes that transports, methods and codecs share. The protocol core knows no Express and no socket: a
 * transport hands it what it read, and is handed what to write.
 */
export interface Post {
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  /**
   * The transport has no headers, so that none repeats the body (stdio). What its connection has settled, such as the
   * version and the session, still stands in `headers`.
   */
  readonly headerless?: true;
  readonly body: string;
  /** Whose request it is; undefined where nobody is asked for a token. */
  readonly principal?: Principal;
  /** Where messages go before the answer; absent when the client takes no stream. */
  readonly events?: EventSink;
  /** Aborted when the client is gone. */
  readonly signal?: CancelSignal;
  readonly trace?: Trace;
}

export interface EventSink {
  /**
   * The first message opens the stream, and the answer ends it. `message` is JSON text. A promise asks to wait: it
   * settles when the client has taken what was sent, or is gone.
   */
  send(message: Text, more?: EventDetails): void | Promise<void>;
  /**
   * Opens the stream before there is anything to say; with an id to come back by, and how long to wait before doing
   * so. Absent on a transport whose streams cannot be taken up again.
   */
  open?(first?: { readonly eventId: string; readonly retryMs: number }): void;
  /** Says that it stays until its client leaves. Throws `too_many_requests` where it may not. */
  stand?(): void;
  /** Ends the connection. */
  close?(): void;
  /** As `close`, for a client that comes back to the stream by itself; does nothing for any other. */
  release?(): void;
  /**
   * Says that so many bytes wait in memory until the stream ends, whether its client stays or leaves. Gives the reason
   * where there is no room for them.
   */
  hold?(bytes: number): BerthError | undefined;
}

export interface EventDetails {
  /** By which a client that lost the connection says what it got. */
  readonly eventId?: string;
  /** To be kept for such a client whatever else is not: an answer, or a question. */
  readonly lasting?: boolean;
}

/** Whom a message is for: `server` as it was asked for, with a release after it or not. */
export interface Place {
  readonly tenant: string;
  readonly server: string;
  /** What of it the principal may use. */
  readonly catalog: Catalog;
  /** Whose message it is. */
  readonly principal: Principal | undefined;
}

/** What opens a stream without a request of its own. */
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
  /** Why it was refused, where a token that permits more would help: HTTP tells its client how to get one. */
  readonly denied?: BerthError;
}

/** One call of one method, in the terms of no revision. */
export interface MethodCall {
  readonly tenant: string;
  /** The name that was asked for, which need not be the catalog's own. */
  readonly server: string;
  readonly catalog: Catalog;
  readonly id: string | number;
  readonly method: string;
  readonly params: Readonly<Record<string, unknown>>;
  /** The text that the message was read from: `params` change when arguments are filled in with their defaults. */
  readonly body: string;
  readonly codec: Codec;
  readonly client: Client;
  readonly principal: Principal | undefined;
  readonly trace: Trace | undefined;
  readonly events: EventSink | undefined;
  readonly logs: ClientLogs;
  readonly signal: CancelSignal | undefined;
  /** Aborted when the service is about to end: what stays open by itself ends now, with its result. */
  readonly closing: CancelSignal;
  /** What the client answered in earlier rounds of this request, by the keys of the input requests. */
  readonly answers?: JsonObject;
}

/** Who asks, as far as this request says it (modern) or its session (legacy). */
export interface Client {
  readonly version: string;
  readonly capabilities: JsonObject;
  /** The least level of log messages to send on the request's stream; none are sent without it. */
  readonly logLevel?: LogLevel;
  /** The session that the request belongs to, when it has one. */
  readonly session?: string;
}

/** Gives the JSON text of the result. Throws `BerthError` for a protocol error. */
export type Method = (call: MethodCall) => Text | Promise<Text>;

/** How an era recognizes who speaks, and how it answers. */
export interface Era {
  readonly codec: Codec;
  /** Checks what each request of the era must carry, and says who asks. Throws `BerthError`, or rejects with one. */
  readonly clientOf: (request: Request, post: Post, place: Place) => Client | Promise<Client>;
}

/** How one era writes what the core decided: all that differs between eras in a result stands behind this. */
export interface Codec {
  readonly era: "modern" | "legacy";
  /** Names what its lists look like; codecs of one shape share them. */
  readonly shape: string;
  readonly methods: ReadonlyMap<string, Method>;
  /** An item of a list, as the era shows it. */
  listItem(list: ListName, item: object): object;
  /** The JSON text of a page of a list without its items. */
  listPage(catalog: Catalog, page: ListPage): string;
  callResult(catalog: Catalog, tool: ToolContract, result: CallResult): Text;
  readResult(catalog: Catalog, result: ReadResult): Text;
  promptResult(catalog: Catalog, result: PromptResult): Text;
  /** Any other result, such as a completion. */
  result(catalog: Catalog, result: object): Text;
  /** The answers that this call begins with: what an earlier round of the same request brought. */
  answersOf(call: MethodCall): JsonObject | undefined;
  /**
   * Guest code needs answers. Either gives them, to call it again with (legacy: asked on the stream), or the JSON text
   * of a result that ends this request (modern: `input_required`). Throws `missing_capability`.
   */
  ask(call: MethodCall, inputRequests: InputRequests, answers: JsonObject): Promise<Asked>;
}

export type Asked = { readonly answers: JsonObject } | { readonly result: Text };

export type ListName = Exclude<keyof Contract, "description">;

export interface ListPage {
  readonly nextCursor?: string;
}
