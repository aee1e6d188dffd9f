import type { Json } from "../lib/json.ts";
import { isObject } from "../lib/json.ts";
import type { GuestValue, InputRequest, InputRequests } from "./executor.ts";
import { locationUnitsMax, nameUnitsMax, nulledUnitsMax, questionsMax, toHost } from "./guest/wire.mts";

const none: GuestValue = { kind: "none" };

/** The value in a result frame of `units` UTF-16 code units; undefined if the frame is malformed. */
export function readValue(
  frame: readonly unknown[],
  units: number,
  outputBytes: number,
): GuestValue | "too large" | undefined {
  const content = frame[2];
  switch (frame[0]) {
    case toHost.none:
      return none;
    case toHost.text:
      if (typeof content !== "string") return undefined;
      if (exceeds(content, outputBytes)) return "too large";
      return isType(frame[3]) ? { kind: "text", text: content, mimeType: frame[3] } : { kind: "text", text: content };
    case toHost.json:
      if (content === undefined) return undefined;
      if (units > outputBytes) return "too large";
      return isNulled(frame[3])
        ? { kind: "json", value: content as Json, nulled: frame[3] }
        : { kind: "json", value: content as Json };
    case toHost.bytes:
      return readBytes(content, frame[3], outputBytes);
    case toHost.redirect:
      if (typeof content !== "string" || content.length > locationUnitsMax) return undefined;
      return { kind: "redirect", location: content };
    case toHost.asks:
      if (units > outputBytes) return "too large";
      return isQuestions(content) ? { kind: "asks", inputRequests: content } : undefined;
    default:
      return undefined;
  }
}

const methods: readonly unknown[] = [
  "elicitation/create",
  "sampling/createMessage",
  "roots/list",
] satisfies InputRequest["method"][];

function isQuestions(value: unknown): value is InputRequests {
  if (!isObject(value)) return false;
  const entries = Object.entries(value);
  return entries.length > 0 && entries.length <= questionsMax && entries.every(isQuestion);
}

function isQuestion([key, value]: [string, unknown]): boolean {
  if (key === "" || key.length > nameUnitsMax || !isObject(value)) return false;
  return Object.keys(value).length === 2 && methods.includes(value["method"]) && isObject(value["params"]);
}

function readBytes(base64: unknown, mimeType: unknown, outputBytes: number): GuestValue | "too large" | undefined {
  if (typeof base64 !== "string" || !/^[A-Za-z0-9+/]*={0,2}$/.test(base64)) return undefined;
  if (base64.length * 0.75 > outputBytes + 2) return "too large";
  return isType(mimeType) ? { kind: "bytes", base64, mimeType } : { kind: "bytes", base64 };
}

function isNulled(value: unknown): value is string {
  return typeof value === "string" && value.length <= nulledUnitsMax;
}

function isType(mimeType: unknown): mimeType is string {
  return typeof mimeType === "string" && mimeType.length < 256 && /^[\w.+-]+\/[\w.+-]+(;.*)?$/.test(mimeType);
}

function exceeds(text: string, bytes: number): boolean {
  return text.length > bytes || (text.length * 3 > bytes && Buffer.byteLength(text) > bytes);
}
