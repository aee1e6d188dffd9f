import type { CancelSignal } from "../cancellation.ts";
import type { CallResult, Catalog, ToolContract } from "../host/catalog.ts";

/**
 * The shapes that transports, methods and codecs share. The protocol core knows no Express and no socket: a
 * transport hands it what it read, and is handed what to write.
 */
export interface Post {
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly body: string;
  /** Where messages go before the answer; absent when the client takes no stream. */
  readonly events?: EventSink;
  /** Aborted when the client is gone. */
  readonly signal?: CancelSignal;
}

export interface EventSink {
  /** The first message opens the stream, and the answer ends it. `message` is JSON text. */
  send(message: string): void;
}

export interface Answer {
  /** HTTP status; a transport without statuses ignores it. */
  readonly status: number;
  /** JSON text; absent for 202. */
  readonly body?: string;
}

/** One call of one method, in the terms of no revision. */
export interface MethodCall {
  readonly catalog: Catalog;
  readonly params: Readonly<Record<string, unknown>>;
  readonly codec: Codec;
  readonly events: EventSink | undefined;
  readonly signal: CancelSignal | undefined;
}

/** Gives the JSON text of the result. Throws `BerthError` for a protocol error. */
export type Method = (call: MethodCall) => string | Promise<string>;

/** How one era writes what the core decided: all that differs between eras in a result stands behind this. */
export interface Codec {
  readonly era: "modern" | "legacy";
  readonly methods: ReadonlyMap<string, Method>;
  toolsPage(catalog: Catalog, page: ToolsPage): string;
  callResult(catalog: Catalog, tool: ToolContract, result: CallResult): string;
}

export interface ToolsPage {
  readonly tools: readonly ToolContract[];
  readonly nextCursor?: string;
}
