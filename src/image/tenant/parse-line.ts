import { isCid, type Cid } from "../../lib/cid.ts";
import { nestsTooDeep } from "../../lib/json.ts";
import { contentLine } from "./format.ts";

/** The most bytes of a line without content. */
const SHORT_LINE_BYTES = 64 * 1024;

/** Undefined for a line that is not JSON, or is too long or too deep for a line without content. */
export function shortLine(bytes: Uint8Array): unknown {
  if (bytes.length > SHORT_LINE_BYTES) return undefined;
  try {
    const value = JSON.parse(textOf(bytes)) as unknown;
    return nestsTooDeep(value, bytes.length) ? undefined : value;
  } catch {
    return undefined;
  }
}

const CONTENT_START = /^\{"content":"([a-z0-9]{1,100})","(text|base64)":(?=")/;
const CONTENT_START_BYTES = 150;

/** Parsed by its fixed form, so that nothing but one text is made of it. */
export function readContent(line: Uint8Array): { cid: Cid; bytes: Uint8Array } | undefined {
  // Copies the start alone: a CID that was cut out of the line would hold on to all of it.
  const head = Buffer.from(line.subarray(0, CONTENT_START_BYTES)).toString("latin1");
  const [start, cid, encoding] = CONTENT_START.exec(head) ?? [];
  if (start === undefined || cid === undefined || !isCid(cid)) return undefined;
  try {
    const text = textOf(line);
    if (!text.endsWith(`"}`)) return undefined;
    const value: unknown = JSON.parse(text.slice(start.length, -1));
    if (typeof value !== "string") return undefined;
    const bytes = Buffer.from(value, encoding === "text" ? "utf8" : "base64");
    return contentLine(cid, bytes) === text ? { cid, bytes } : undefined;
  } catch {
    return undefined;
  }
}

/** A time in the notation of the file. */
export function isTime(text: unknown): text is string {
  if (typeof text !== "string") return false;
  const time = Date.parse(text);
  return time >= 0 && new Date(time).toISOString() === text;
}

/** Tells if a line is this text, byte for byte: each line has one notation. */
export function isSame(bytes: Uint8Array, text: string): boolean {
  return Buffer.from(text).equals(bytes);
}

function textOf(bytes: Uint8Array): string {
  return decoder.decode(bytes);
}

const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
