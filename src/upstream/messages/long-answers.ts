import { contractBounds } from "../../contract/contract-bounds.ts";
import type { Scalar } from "../../contract/parameter-headers.ts";
import { hasInexactNumbers, parseExactly, type ExactJson } from "../../lib/exact-numbers.ts";
import { isObject, NESTING_MAX, nestsTooDeep, countValues, type JsonText } from "../../lib/json.ts";
import { readingBounds } from "../../lib/reading-bounds.ts";
import { fixed } from "../../limits/fixed.ts";
import { findMessages } from "./messages.ts";
import {
  LongAnswer,
  LongPage,
  type UpstreamCompletion,
  type UpstreamPromptResult,
  type ResourceResult,
  type ToolResult,
  type PageParts,
  type LeftOutEntry,
  type UpstreamResult,
} from "./results.ts";
import { shortError } from "./upstream-error.ts";

/**
 * Upstream messages that are too long to parse on the serving thread. The connecting code supplies a `LongReader`,
 * which parses them elsewhere; without one they are parsed in place. A result stays bytes until the method that it
 * answers is known.
 */
export interface LongReader {
  /** Takes ownership of the bytes. */
  message(bytes: Uint8Array<ArrayBuffer>): Promise<LongMessage>;
  /** The same for an event of a stream (`text/event-stream`). */
  event(bytes: Uint8Array<ArrayBuffer>): Promise<LongEvent>;
  /** Like `scalarsAt`; rejects with `invalid_params`. */
  scalars(args: JsonText, paths: readonly (readonly string[])[]): Promise<readonly (Scalar | undefined)[]>;
  /** Each of these rejects with `upstream_protocol` for a result that does not match its method. */
  toolResult(what: string, answer: LongAnswer): Promise<ToolResult>;
  /** The detail of a task, separate from the result that may be in it. */
  taskResult(what: string, answer: LongAnswer): Promise<LongTask>;
  resourceResult(what: string, answer: LongAnswer): Promise<ResourceResult>;
  promptResult(what: string, answer: LongAnswer): Promise<UpstreamPromptResult>;
  completion(what: string, answer: LongAnswer): Promise<UpstreamCompletion>;
}

export interface LongTask {
  readonly detail: UpstreamResult;
  readonly result: ToolResult | undefined;
}

export interface LongMessage {
  /** A JSON list of the messages without their results; undefined without a message. */
  readonly text: string | undefined;
  /** By message index; a result that is not a page is JSON. */
  readonly results: readonly LongResultAt[];
  /** Why it is rejected; completes "the server …". */
  readonly fault?: string;
  /** Deviations of the server that show in it, as for `Deviate`. */
  readonly habits?: readonly string[];
}

interface LongResultAt {
  readonly at: number;
  readonly result: Uint8Array<ArrayBuffer> | PageParts;
}

export interface LongEvent extends LongMessage {
  /** The lines of the event that are not data. */
  readonly head: string;
}

/** Limits one list of an upstream; further entries are omitted, or the list is rejected. */
export const listBounds = fixed({
  upstreamListItems: 10_000,
  upstreamListBytes: 1024 * 1024,
});

/** The maximum size of one list entry, such as a tool with its schemas. */
const ENTRY_BYTES = 128 * 1024;
/** The longest message that is not a result: a question, a log line, progress, an error. */
const NOTICE_BYTES = 4 * 1024 * 1024;

/** True for a message that is long, or has numbers that the serving thread would not write back exactly. */
export function needsReader(message: Buffer): boolean {
  return message.length > readingBounds.inlineBodyBytes || hasInexactNumbers(message.toString("latin1"));
}

export function longResult({ result }: LongMessage["results"][number]): LongAnswer | LongPage {
  return result instanceof Uint8Array ? new LongAnswer(result) : new LongPage(result);
}

/** The work of a `LongReader` on one message. */
export function readLongMessage(json: string, valuesMax: number): LongMessage {
  let exact: ExactJson;
  try {
    exact = parseExactly(json);
  } catch {
    return NO_MESSAGE;
  }
  const { value, written } = exact;
  const habits: string[] = [];
  const messages = findMessages(value, (habit) => void habits.push(habit)) as Record<string, unknown>[];
  if (messages.length === 0) return NO_MESSAGE;
  const results: LongResultAt[] = [];
  for (const [at, message] of messages.entries()) {
    const { result, error } = message;
    if (isObject(error)) Object.assign(message, { error: shortError(error) });
    // Questions are passed on unchanged.
    if (!isObject(result) || (error ?? null) !== null || result["resultType"] === "input_required") continue;
    const page = readPage(result, written);
    if (page) results.push({ at, result: page });
    else if (nestsTooDeep(result, Infinity)) {
      delete message["result"];
      message["error"] = { code: INTERNAL_ERROR, message: `its result nests more than ${NESTING_MAX} levels deep` };
      continue;
    } else if (RESULT_KEYS.some((key) => key in result) || ("taskId" in result && isObject(result["result"]))) {
      results.push({ at, result: new TextEncoder().encode(written(result)) });
    } else continue;
    message["result"] = {};
  }
  if (messages.some((each) => nestsTooDeep(each, Infinity)))
    return rejectMessage(`that nests more than ${NESTING_MAX} levels deep`);
  if (countValues(messages, valuesMax) > valuesMax) {
    return rejectMessage(`of more than ${valuesMax} values`);
  }
  const text = written(messages);
  if (text.length > NOTICE_BYTES) return rejectMessage(`of more than ${NOTICE_BYTES} bytes`);
  return { text, results, ...(habits.length > 0 && { habits }) };
}

/** The same for an event: its data is the text after `data:` in its lines. */
export function readLongEvent(event: string, valuesMax: number): LongEvent {
  const head: string[] = [];
  const data: string[] = [];
  for (const line of event.split(/\r\n|\r|\n/)) {
    if (line.startsWith("data:")) data.push(line.slice(line[5] === " " ? 6 : 5));
    else if (line !== "") head.push(line);
  }
  return { ...readLongMessage(data.join("\n"), valuesMax), head: head.map((line) => `${line}\n`).join("") };
}

function rejectMessage(description: string): LongMessage {
  return { text: undefined, results: [], fault: `sent a message ${description} that is not a result` };
}

/** Checks an entry of a list against the limits; `bytes` and `values` are the totals of the entries before it. */
export function checkListEntry(
  entry: unknown,
  position: EntryPosition,
  written: ExactJson["written"] = JSON.stringify,
): (CheckedEntry & { readonly json: string }) | LeftOutEntry {
  const name = entryName(entry, position);
  const leftOut = (why: string): LeftOutEntry => ({ name: name.slice(0, SHOWN_UNITS), why });
  if (name.length > NAME_UNITS) return leftOut(`its ${position.nameKey} has more than ${NAME_UNITS} characters`);
  if (nestsTooDeep(entry, Infinity)) return leftOut(`it nests more than ${NESTING_MAX} levels deep`);
  const json = written(entry);
  const bytes = Buffer.byteLength(json);
  if (bytes > ENTRY_BYTES) return leftOut(`it has more than ${ENTRY_BYTES} bytes`);
  const values = countValues(entry, contractBounds.contractValues);
  const why = listLimitReason(position, { bytes, values });
  return why === undefined ? { entry, json, bytes, values } : leftOut(why);
}

/** The same for an entry of a `LongPage`, which can only exceed the limits of the whole list. */
export function checkListEntryText(json: string, position: EntryPosition): CheckedEntry | LeftOutEntry {
  const entry: unknown = JSON.parse(json);
  const bytes = Buffer.byteLength(json);
  const values = countValues(entry, contractBounds.contractValues);
  const why = listLimitReason(position, { bytes, values });
  return why === undefined ? { entry, bytes, values } : { name: entryName(entry, position).slice(0, SHOWN_UNITS), why };
}

interface Size {
  readonly bytes: number;
  readonly values: number;
}

interface EntryPosition extends Size {
  readonly nameKey: string;
  readonly index: number;
}

interface CheckedEntry extends Size {
  readonly entry: unknown;
}

function listLimitReason(before: Size, entry: Size): string | undefined {
  const [{ upstreamListBytes }, { contractValues }] = [listBounds, contractBounds];
  if (before.bytes + entry.bytes > upstreamListBytes) {
    return `with it the list has more than ${upstreamListBytes} bytes`;
  }
  if (before.values + entry.values > contractValues) {
    return `with it the list has more than ${contractValues} values`;
  }
  return undefined;
}

function entryName(entry: unknown, { nameKey, index }: EntryPosition): string {
  const name = isObject(entry) ? entry[nameKey] : undefined;
  return typeof name === "string" ? name : `number ${index + 1}`;
}

function readPage(result: Record<string, unknown>, written: ExactJson["written"]): PageParts | undefined {
  if ("content" in result) return undefined;
  for (const [list, nameKey] of Object.entries(LISTS)) {
    const entries = result[list];
    if (!Array.isArray(entries)) continue;
    const [accepted, leftOut]: [string[], LeftOutEntry[]] = [[], []];
    let [bytes, values] = [0, 0];
    // One more than the limit shows that there are too many.
    for (const [index, entry] of entries.slice(0, listBounds.upstreamListItems + 1).entries()) {
      const checked = checkListEntry(entry, { nameKey, index, bytes, values }, written);
      if ("why" in checked) leftOut.push(checked);
      else {
        accepted.push(checked.json);
        bytes += checked.bytes;
        values += checked.values;
      }
    }
    const nextCursor: unknown = JSON.parse(written(result["nextCursor"] ?? null));
    return { entries: accepted, leftOut, nextCursor };
  }
  return undefined;
}

const LISTS: Readonly<Record<string, string>> = {
  tools: "name",
  prompts: "name",
  resources: "uri",
  resourceTemplates: "uriTemplate",
};
/** Members of results that may legitimately be long. */
const RESULT_KEYS = ["content", "structuredContent", "contents", "messages", "completion"];
const NO_MESSAGE: LongMessage = { text: undefined, results: [] };
const INTERNAL_ERROR = -32603;
const SHOWN_UNITS = 128;
/** Names appear in problems, changes and pages, each many times. */
const NAME_UNITS = 2_048;
