import type { JSONRPCMessage } from "@modelcontextprotocol/client";
import { isObject, tryParseJson } from "../lib/json.ts";
import { fixed } from "../limits/fixed.ts";

/** Messages of one batch of an upstream. */
export const messageBounds = fixed({ upstreamBatchMessages: 100 });

/** A JSON-RPC message of a server, valid in form. */
export type UpstreamMessage = JSONRPCMessage;

/** A message that is not an answer. */
export type RequestMessage = Extract<UpstreamMessage, { readonly method: string }>;

/** The content of one line: a message, or those of a batch (2025-03-26). Undefined if it is no message. */
export function readLine(line: Buffer): UpstreamMessage | readonly UpstreamMessage[] | undefined {
  // A flood of plain text must not cost an exception for each line.
  if (!isStructure(line)) return undefined;
  const value = tryParseJson(line.toString());
  return messagesIn(value) && (value as UpstreamMessage | readonly UpstreamMessage[]);
}

/** The messages of a parsed line: one, or those of a batch. Undefined if there is none. */
export function messagesIn(value: unknown): UpstreamMessage[] | undefined {
  if (!Array.isArray(value)) return isMessage(value) ? [value] : undefined;
  return value.length > 0 && value.every(isMessage) ? value : undefined;
}

function isStructure(line: Buffer): boolean {
  let at = 0;
  while (at < line.length && line[at]! <= SPACE) at += 1;
  return line[at] === OPEN_BRACE || line[at] === OPEN_BRACKET;
}

const SPACE = 32;
const OPEN_BRACE = 123;
const OPEN_BRACKET = 91;

function isMessage(value: unknown): value is UpstreamMessage {
  if (!isObject(value) || value["jsonrpc"] !== "2.0") return false;
  if (typeof value["method"] === "string") return value["id"] === undefined || isId(value["id"]);
  return isId(value["id"]) && (isObject(value["result"]) || isObject(value["error"]));
}

function isId(value: unknown): boolean {
  return typeof value === "string" || typeof value === "number";
}
