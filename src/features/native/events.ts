import type { Json, JsonObject } from "../../lib/json.ts";

/**
 * A native call on the wire: a JSON-RPC request whose method is `server.tool` and whose params are the tool's
 * arguments. On a connection that accepts a stream each event leaves at once, as a notification of the same method with
 * `{subscription: <the request's id>, result: <the event>}` (seed 004, "MCP vs Native Call"); the response follows the
 * last of them. This folder is shared by the server and the client of native calls: a leaf.
 */
export type NativeEvent =
  /** The call has begun; `release` is the CID of the version that carries it out. */
  | { readonly type: "start"; readonly server: string; readonly tool: string; readonly release: string }
  /** A value that a generator yields, or a progress report: any JSON value. */
  | { readonly type: "data"; readonly data: Json }
  | { readonly type: "log"; readonly level: string; readonly message: Json; readonly logger?: string }
  /** The last event of a call, before its response: it is complete, needs answers, or has failed. */
  | { readonly type: "complete" }
  | { readonly type: "input_required" }
  | { readonly type: "error"; readonly message: string };

/** The result of the response: that of `tools/call`, or the questions that the tool needs answered first. */
export type NativeResult =
  | { readonly content: readonly JsonObject[]; readonly structuredContent?: Json; readonly isError?: boolean }
  | { readonly inputRequests: JsonObject };

/**
 * The only key of params that is not an argument. Its `inputResponses` holds all answers so far, by the keys of
 * `inputRequests`, for a call that is repeated because it asked.
 */
export const NATIVE_META = "_meta";
