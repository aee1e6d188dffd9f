import { BerthError } from "../lib/errors.ts";
import { isObject } from "../lib/json.ts";
import { LongText, type Text } from "../lib/long-text.ts";

/** JSON-RPC 2.0 as MCP uses it: ids are strings or integers, params are objects. */
export type RequestId = string | number;

export interface Request {
  readonly kind: "request";
  readonly id: RequestId;
  readonly method: string;
  readonly params: Params;
}

export interface Notification {
  readonly kind: "notification";
  readonly method: string;
  readonly params: Params;
}

/** A client's response to a request of the server. */
export interface ClientResponse {
  readonly kind: "response";
  readonly id: RequestId;
  readonly body: Record<string, unknown>;
}

export type Message = Request | Notification | ClientResponse;
export type Params = Readonly<Record<string, unknown>>;

const NO_PARAMS: Params = Object.freeze({});

/** Reads one message. Throws `invalid_request`, naming the wrong member. */
export function readMessage(value: unknown): Message {
  if (!isObject(value)) throw new BerthError("invalid_request", "a message must be an object");
  if (value["jsonrpc"] !== "2.0") throw new BerthError("invalid_request", '"jsonrpc" must be "2.0"');

  const { id, method, params } = value;
  if (method === undefined && ("result" in value || "error" in value)) {
    if (!isId(id)) throw new BerthError("invalid_request", "a response needs the id of its request");
    return { kind: "response", id, body: value };
  }
  if (typeof method !== "string" || method === "") throw new BerthError("invalid_request", '"method" must be a string');
  if (params !== undefined && !isObject(params)) throw new BerthError("invalid_request", '"params" must be an object');
  if (id === undefined) return { kind: "notification", method, params: params ?? NO_PARAMS };
  if (!isId(id)) {
    throw new BerthError(
      "invalid_request",
      `"id" must be a string of at most ${ID_UNITS_MAX} characters or an integer`,
    );
  }
  return { kind: "request", id, method, params: params ?? NO_PARAMS };
}

/** The id to use in the answer to a message that may be invalid. */
export function idOf(value: unknown): RequestId | null {
  return isObject(value) && isId(value["id"]) && typeof value["method"] === "string" ? value["id"] : null;
}

/** `result` is already JSON text. */
export function resultText(id: RequestId, result: string): string;
export function resultText(id: RequestId, result: Text): Text;
export function resultText(id: RequestId, result: Text): Text {
  if (result instanceof LongText) {
    return new LongText(`{"jsonrpc":"2.0","id":${JSON.stringify(id)},"result":`, ...result.pieces, "}");
  }
  return `{"jsonrpc":"2.0","id":${JSON.stringify(id)},"result":${result}}`;
}

export function errorText(id: RequestId | null, error: BerthError): string {
  const { rpc: code, message, data } = error;
  return JSON.stringify({ jsonrpc: "2.0", id, error: { code, message, ...(data && { data }) } });
}

export function requestText(id: string, method: string, params?: unknown): string {
  return JSON.stringify({ jsonrpc: "2.0", id, method, params });
}

export function notificationText(method: string, params?: unknown): string {
  return JSON.stringify({ jsonrpc: "2.0", method, params });
}

/** Limits ids and progress tokens: every message about a request repeats its id or token. */
export const ID_UNITS_MAX = 1_024;

export function isId(value: unknown): value is RequestId {
  if (typeof value === "string") return value.length <= ID_UNITS_MAX;
  return typeof value === "number" && Number.isSafeInteger(value);
}
