import { isDeepStrictEqual } from "node:util";
import { isObject, type Json, type JsonObject } from "../../../lib/json.ts";
import type { NativeEvent, NativeResult } from "../client.ts";

/**
 * A part of a call for a person: `out` is for standard output, `aside` for stderr. Each is empty or ends with a line end.
 * Texts are the tool's own, which may hold anything.
 */
export interface CallText {
  readonly out: string;
  readonly aside: string;
}

type FinalResult = Exclude<NativeResult, { readonly inputRequests: JsonObject }>;

/** Shows one event: what a generator yields is output, and progress and logs stand aside. */
export function textOfEvent(event: NativeEvent): CallText {
  switch (event.type) {
    case "data": {
      const { data } = event;
      if (!isObject(data) || typeof data["progress"] !== "number") return { out: line(textOfValue(data)), aside: "" };
      const { progress, total, message } = data;
      const figures = total === undefined ? `${progress}` : `${progress} of ${JSON.stringify(total)}`;
      return { out: "", aside: line(typeof message === "string" ? `${figures}: ${message}` : figures) };
    }
    case "log":
      return { out: "", aside: line(`${event.level}: ${textOfValue(event.message)}`) };
    default:
      return { out: "", aside: "" };
  }
}

/** Shows a result: its text, or its value as JSON where it has one, and what a terminal cannot show by its name. */
export function textOfResult({ content, structuredContent, isError = false }: FinalResult): CallText {
  const texts = content.map(textOfBlock);
  const [only] = content;
  const isSame = content.length <= 1 && isValueOf(only, structuredContent);
  const value = structuredContent === undefined ? [] : [textOfValue(structuredContent)];
  const parts = structuredContent !== undefined && isSame ? value : [...texts, ...value];
  const shown = parts.map(line).join("");
  return isError
    ? { out: "", aside: `berth: ${shown || "the tool failed, and said nothing\n"}` }
    : { out: shown, aside: "" };
}

/** True if the block only repeats the value. */
function isValueOf(block: JsonObject | undefined, value: Json | undefined): boolean {
  const text = block?.["text"];
  if (block === undefined || text === value) return true;
  if (typeof text !== "string") return false;
  try {
    return isDeepStrictEqual(JSON.parse(text), value);
  } catch {
    return false;
  }
}

function textOfBlock(block: JsonObject): string {
  const { type, text, data, mimeType, uri, name, resource } = block;
  switch (type) {
    case "text":
      return textOfValue(text);
    case "image":
    case "audio":
      return `[${type}, ${textOfValue(mimeType)}, ${sizeOfBase64(data)}; --json has it]`;
    case "resource_link":
      return `[link, ${textOfValue(name)} <${textOfValue(uri)}>]`;
    case "resource": {
      const held = isObject(resource) ? resource : {};
      if (typeof held["text"] === "string") return held["text"];
      const kind = typeof held["mimeType"] === "string" ? `${held["mimeType"]}, ` : "";
      return `[resource ${textOfValue(held["uri"])}, ${kind}${sizeOfBase64(held["blob"])}; --json has it]`;
    }
    default:
      return textOfValue(block);
  }
}

function sizeOfBase64(data: unknown): string {
  const bytes = typeof data === "string" ? Math.floor((data.replace(/=+$/, "").length * 3) / 4) : 0;
  return bytes < 10_000 ? `${bytes} bytes` : `${Math.round(bytes / 1_000)} kB`;
}

function textOfValue(value: unknown): string {
  return typeof value === "string" ? value : JSON.stringify(value, undefined, 2);
}

function line(text: string): string {
  return text === "" || text.endsWith("\n") ? text : `${text}\n`;
}
