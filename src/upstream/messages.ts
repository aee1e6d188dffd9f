import type { JSONRPCMessage } from "@modelcontextprotocol/client";
import { isObject } from "../json.ts";

/** A JSON-RPC message of a server, sound in form. */
export type Message = JSONRPCMessage;

/** The messages of one line: one, or those of a batch (2025-03-26). Undefined for what is no message. */
export function parseMessages(line: Buffer): readonly Message[] | undefined {
  let value: unknown;
  // Who floods with text must not cost an exception a line.
  const first = line.find((byte) => byte > SPACE);
  if (first !== OPEN_BRACE && first !== OPEN_BRACKET) return undefined;
  try {
    value = JSON.parse(line.toString("utf8"));
  } catch {
    return undefined;
  }
  const messages: unknown[] = Array.isArray(value) ? value : [value];
  return messages.length > 0 && messages.every(isMessage) ? messages : undefined;
}

const SPACE = 32;
const OPEN_BRACE = 123;
const OPEN_BRACKET = 91;

function isMessage(value: unknown): value is Message {
  if (!isObject(value) || value["jsonrpc"] !== "2.0") return false;
  if (typeof value["method"] === "string") return value["id"] === undefined || isId(value["id"]);
  return isId(value["id"]) && (isObject(value["result"]) || isObject(value["error"]));
}

function isId(value: unknown): boolean {
  return typeof value === "string" || typeof value === "number";
}
