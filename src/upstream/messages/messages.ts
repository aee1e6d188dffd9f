import { jsonPrefix, cutText } from "../../lib/cut-text.ts";
import { isObject, type Json, type JsonObject } from "../../lib/json.ts";
import { printableLine } from "../../lib/printable.ts";
import { fixed } from "../../limits/fixed.ts";

export const messageBounds = fixed({ upstreamBatchMessages: 100 });

export type MessageId = string | number;

/** A request of the server, or a notification if it has no id. */
export interface RequestMessage {
  readonly id?: MessageId;
  readonly method: string;
  readonly params?: unknown;
}

/** The answer to a request. If it has no number, only its origin can tell which request it answers. */
export interface AnswerMessage {
  readonly id?: unknown;
  readonly result?: unknown;
  readonly error?: unknown;
}

/** Text that is not JSON, but names the request that it answers. */
export class BrokenAnswer implements AnswerMessage {
  readonly id: number;
  readonly text: string;

  constructor(id: number, text: string) {
    this.id = id;
    this.text = cutText(text, QUOTED_UNITS);
  }
}

/** A JSON-RPC message of a server, its members as they were sent: only its kind is certain. */
export type UpstreamMessage = RequestMessage | AnswerMessage;

/** Records a deviation of a server from the protocol; `habit` completes "it …". */
export type Deviate = (habit: string) => void;

/**
 * The messages in a JSON value: one, those of a batch (2025-03-26), or none. A message whose kind is recognizable
 * counts, whatever else is wrong with it.
 */
export function findMessages(value: unknown, deviate: Deviate): UpstreamMessage[] {
  if (!Array.isArray(value)) return isMessage(value, deviate) ? [value] : [];
  const messages = (value.length === 1 && Array.isArray(value[0]) ? (value[0] as unknown[]) : value).filter((each) =>
    isMessage(each, deviate),
  );
  if (messages.length > 0 && messages.length < value.length) deviate("sends batches with values that are not messages");
  return messages;
}

function isMessage(value: unknown, deviate: Deviate): value is UpstreamMessage {
  if (value instanceof BrokenAnswer) return true;
  if (!isObject(value)) return false;
  const { jsonrpc, id, method } = value;
  // An answer may repeat the method of its request.
  const isCall = typeof method === "string" && !("result" in value);
  const isOutcome = "result" in value || "error" in value;
  if (!isCall && !isOutcome && (jsonrpc === undefined || id === undefined)) return false;
  if (!isCall && method !== undefined) delete value["method"];
  if (jsonrpc !== "2.0") {
    // Programs log JSON objects, which may have members with these names.
    if (jsonrpc === undefined && id === undefined && (isCall || Object.keys(value).length > 1)) return false;
    deviate(jsonrpc === undefined ? "omits `jsonrpc`" : `sends \`"jsonrpc": ${quoted(jsonrpc)}\``);
  }
  if (isCall && id === null) {
    deviate("sends notifications with `id: null`");
    delete value["id"];
  }
  return true;
}

/** The number of the request that an answer names; undefined if it names none. */
export function requestNumber({ id }: AnswerMessage): number | undefined {
  const number = typeof id === "string" && id.trim() !== "" ? Number(id) : id;
  return typeof number === "number" && Number.isSafeInteger(number) ? number : undefined;
}

export interface RpcError {
  readonly code: number;
  readonly message: string;
  readonly data?: unknown;
}

export function readOutcome(
  method: string,
  answer: AnswerMessage,
  deviate: Deviate,
): { readonly result: object } | { readonly error: RpcError } | { readonly fault: string } {
  if (answer instanceof BrokenAnswer) return { fault: `it answered with invalid JSON: ${quoted(answer.text)}` };
  const { result, error } = answer;
  if (error !== undefined && error !== null && error !== false) return { error: readError(error, deviate) };
  if (error !== undefined) deviate(`answers with \`error: ${String(error)}\``);
  if (typeof result === "object" && result !== null && !Array.isArray(result)) return { result };
  if (!("result" in answer)) return { fault: `it answered with neither a result nor an error: ${quoted(answer)}` };
  deviate(`answers with \`result: ${Array.isArray(result) ? "[…]" : quoted(result)}\``);
  const coerced = coerceResult(method, result);
  return coerced ? { result: coerced } : { fault: `it answered with "result": ${quoted(result)}` };
}

function readError(error: unknown, deviate: Deviate): RpcError {
  if (!isObject(error)) {
    deviate(`answers with \`error: ${quoted(error)}\``);
    return { code: INTERNAL_ERROR, message: typeof error === "string" ? error : quoted(error) };
  }
  const { code, message, data } = error;
  const number = typeof code === "string" && code.trim() !== "" ? Number(code) : code;
  return {
    code: typeof number === "number" && Number.isFinite(number) ? number : INTERNAL_ERROR,
    message:
      typeof message === "string" ? message : isObject(message) ? quoted(message) : `it does not say why${hint(error)}`,
    ...(data !== undefined && { data }),
  };
}

/** Some servers put their message elsewhere: `{"error": {"detail": "…"}}`. */
function hint(error: object): string {
  const { code: _code, message: _message, data: _data, ...others } = error as Record<string, unknown>;
  return Object.keys(others).length === 0 ? "" : `: ${quoted(others)}`;
}

function coerceResult(method: string, value: unknown): object | undefined {
  if (ACKNOWLEDGED.has(method)) return {};
  if (method !== "tools/call") return undefined;
  if (value === null || value === undefined) return { content: [] };
  if (Array.isArray(value) && value.every((each) => isObject(each) && typeof each["type"] === "string"))
    return { content: value as unknown[] };
  return { content: [{ type: "text", text: typeof value === "string" ? value : JSON.stringify(value) }] };
}

/** Methods whose results are empty. */
const ACKNOWLEDGED: ReadonlySet<string> = new Set([
  "ping",
  "logging/setLevel",
  "resources/subscribe",
  "resources/unsubscribe",
  "subscriptions/listen",
  "tasks/cancel",
]);

export function readParams({ params }: RequestMessage): JsonObject {
  return isObject(params) ? (params as JsonObject) : {};
}

export function quoted(value: unknown): string {
  return printableLine(cutText(jsonPrefix(value as Json, QUOTED_UNITS), QUOTED_UNITS));
}

const QUOTED_UNITS = 200;
const INTERNAL_ERROR = -32603;
