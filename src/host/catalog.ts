import type { CancelSignal } from "../cancellation.ts";
import type { Cid } from "../cid.ts";
import type { Json, JsonObject, JsonSchema } from "../json.ts";
import type { ToolAnnotations } from "../discover/discovery.ts";
import type { Problem } from "../problem.ts";

/**
 * The contract between what a server is and how a protocol shows it: the ready-to-serve form of one release.
 * Neutral of every MCP revision; whoever serves it may keep what it derives under `memo`, which lives and dies
 * with the release.
 */
export interface Catalog {
  readonly server: string;
  /** The version: the CID of the release. */
  readonly release: Cid;
  /** The CID of what a client sees. List results are as fresh as this is unchanged. */
  readonly contractCid: Cid;
  readonly contract: Contract;
  readonly problems: readonly Problem[];
  /** Undefined when the contract names no such tool. */
  tool(name: string): Tool | undefined;
  readonly memo: Map<string, unknown>;
}

/** What a client sees of a server. Its CID changes exactly when this does. */
export interface Contract {
  readonly description?: string;
  readonly tools: readonly ToolContract[];
}

export interface ToolContract {
  readonly name: string;
  readonly title?: string;
  readonly description?: string;
  readonly inputSchema: JsonSchema;
  /** Schema of `structuredContent`: any JSON Schema 2020-12, not only objects. */
  readonly outputSchema?: JsonSchema;
  readonly annotations?: ToolAnnotations;
}

export interface Tool {
  readonly contract: ToolContract;
  /**
   * Checks the arguments and carries the call out. Whatever goes wrong in it is a result with `isError`;
   * it never rejects.
   */
  call(args: JsonObject, options: CallOptions): Promise<CallResult>;
}

export interface CallOptions {
  readonly signal?: CancelSignal;
  readonly onProgress?: (event: Json) => void;
}

/** A result as every revision knows it; `structuredContent` may be any JSON value. */
export interface CallResult {
  readonly content: readonly ContentBlock[];
  readonly structuredContent?: Json;
  readonly isError?: boolean;
}

export type ContentBlock = JsonObject & { type: string };
