import { Socket } from "node:net";
import { getHeapStatistics } from "node:v8";
import { withBlocks } from "../../contract/content-block.ts";
import { hashSkillFile } from "../../contract/contents-digests.ts";
import { scalarsAt } from "../../contract/parameter-headers.ts";
import { fillPrompt } from "../../entry/prompt-fields.ts";
import type { GuestOutcome } from "../../executor/executor.ts";
import { failure, outputTooLarge } from "../../executor/failures.ts";
import { readValue } from "../../executor/guest-value.ts";
import { BoundedMap } from "../../lib/bounded-map.ts";
import { digestOfJson } from "../../lib/canonical-json.ts";
import { parseDraft } from "../../lib/draft.ts";
import { errors, type BerthError } from "../../lib/errors.ts";
import { parseExactly, type ExactJson } from "../../lib/exact-numbers.ts";
import {
  isObject,
  type Json,
  type JsonDigest,
  type JsonObject,
  type JsonSchema,
  NESTING_MAX,
  nestsTooDeep,
  tryParseJson,
  countValues,
} from "../../lib/json.ts";
import { LongText } from "../../lib/long-text.ts";
import { parseJson } from "../../lib/parse-json.ts";
import { serialize, TransferReader } from "../../lib/transfer.ts";
import { readTaskResult } from "../../upstream/calls/tasks.ts";
import { readLongEvent, readLongMessage, type LongEvent } from "../../upstream/messages/long-answers.ts";
import {
  readCompletion,
  readPromptResult,
  readResourceResult,
  readToolResult,
  type ToolResult,
} from "../../upstream/messages/results.ts";
import { UpstreamError } from "../../upstream/messages/upstream-error.ts";
import { sayBroken } from "../offers/call-failures.ts";
import type { CallResult, ContentBlock, AnyOutput, PromptResult, ReadResult } from "../offers/catalog.ts";
import { completionIn, completionOf } from "../offers/completion.ts";
import {
  BARE_TEXT,
  bareOf,
  saidIn,
  sizeOf,
  toConfiguredResult,
  toResult,
  withoutAudio,
  withoutLink,
  type ReturnedValue,
} from "../offers/content.ts";
import type { LongObjectParts, LongResultParts, OlderTexts } from "../offers/long-result.ts";
import { endOfResult, withoutEnvelope } from "../offers/outcomes.ts";
import { promptOfContent, promptResultOf } from "../offers/prompt-result.ts";
import { blockOfContents, contentsOfBytes, contentsOfResult, toContents } from "../offers/resource-contents.ts";
import { gotPromptOf, readResultOf, resultOf } from "../offers/upstream-results.ts";
import { argumentTexts } from "./argument-texts.ts";
import { compileSchema, overfilled } from "./schema-code.ts";
import {
  READY,
  type AnswerKind,
  type AnswerTask,
  type BoundedResultTask,
  type CheckReport,
  type CheckTask,
  type DraftTask,
  type FillTask,
  type ReadOutcome,
  type OutcomeUse,
  type OutcomeTask,
  type ListTask,
  type ReadAnswer,
  type ReadGuestResult,
  type ReadList,
  type ReadTask,
  type ScalarsTask,
  type CheckProcessTask,
  type Remade,
  type RemakeTask,
  type UpstreamTask,
} from "./tasks.ts";

/**
 * The check process: compiles schemas to code, and checks values that are large or intricate. It takes one task at
 * a time from fd 3, answers on fd 4, and ends when fd 3 does. It is started with a memory limit and killed from outside
 * when it takes too long; it holds nothing worth keeping.
 */

/** The most units of schemas, and of the code made of them, to keep ready: each takes about two bytes of the heap. */
const KEPT_UNITS = getHeapStatistics().heap_size_limit / 16;
/** The code that ends at the first error, and the one that finds all. */
const CODES = 2;

const ready = new BoundedMap<string, ReadySchema>(KEPT_UNITS, ({ units }) => units);

const tasks = new Socket({ fd: 3, readable: true, writable: false });
const reports = new Socket({ fd: 4, readable: false, writable: true });
const reader = new TransferReader(Infinity);

tasks.on("data", (chunk) => {
  for (const task of reader.push(chunk)) say(answerTo(task as CheckProcessTask));
});
tasks.on("end", () => process.exit(0));
for (const socket of [tasks, reports]) socket.on("error", () => process.exit(1));
// Prepares what every schema needs before the time of any counts.
compileSchema({ type: "object" }, { texts: false });
say(READY);

function say(value: CheckReport | typeof READY): void {
  for (const piece of serialize(value)) reports.write(piece);
}

function answerTo(task: CheckProcessTask): CheckReport {
  if ("bytes" in task) return { problems: [], upstream: messageOf(task) };
  if ("answer" in task) return { problems: [], answered: answerOf(task) };
  if ("pieces" in task) return { problems: [], remade: remadeOf(task) };
  if ("list" in task) return { problems: [], listed: listOf(task) };
  if ("body" in task) return readOf(task);
  if ("draft" in task) return draftOf(task);
  if ("paths" in task) return { problems: [], scalars: scalarsOf(task) };
  if ("names" in task) return { problems: [], texts: argumentTexts(JSON.parse(task.args) as JsonObject, task.names) };
  if ("prompt" in task) return { problems: [], prompted: promptedOf(task) };
  if ("given" in task) return { problems: [], given: givenOf(task) };
  return "frame" in task ? { problems: [], ended: guestResultOf(task) } : reportOf(task);
}

interface ReadySchema extends ReturnType<typeof compileSchema> {
  readonly units: number;
}

function reportOf({ schema, texts, value, wantsCode, filledMax, wantsDigest }: CheckTask): CheckReport {
  let made: ReadySchema;
  try {
    made = readyFor(schema, texts);
  } catch (error) {
    return { fault: (error as Error).message, problems: [] };
  }
  const quick = wantsCode ? { quick: made.quick } : {};
  if (value === undefined) return { problems: [], ...quick };
  const parsed: unknown = JSON.parse(value);
  const problems = made.judge(parsed, filledMax);
  if (problems.length > 0) return { problems, ...quick };
  const filled = jsonOf(parsed);
  if (filled === undefined || filled.length > value.length + filledMax)
    return { problems: [overfilled(filledMax)], ...quick };
  return {
    problems,
    ...quick,
    ...(filled !== value && { filled, ...(wantsDigest && { digest: digestOfJson(parsed) }) }),
  };
}

/** Undefined for a value that defaults have nested too deep to write. */
function jsonOf(value: unknown): string | undefined {
  try {
    return JSON.stringify(value);
  } catch (error) {
    if (error instanceof RangeError) return undefined;
    throw error;
  }
}

function readyFor(schema: string, texts: boolean): ReadySchema {
  const key = `${texts ? "texts" : "values"} ${schema}`;
  const known = ready.get(key);
  if (known) return known;
  const judging = compileSchema(JSON.parse(schema) as JsonSchema, { texts });
  const made = { ...judging, units: key.length + CODES * judging.quick.code.length };
  ready.set(key, made);
  return made;
}

function readOf({ body, valuesMax, isArguments }: ReadTask): CheckReport {
  let exact: ExactJson;
  try {
    parseJson(body);
    exact = parseExactly(body);
  } catch (error) {
    return refusedBy(error as BerthError);
  }
  const { value, written } = exact;
  const argumentsOf = (args: Record<string, unknown>): { text: string; digest: JsonDigest } => {
    const text = written(args);
    return { text, digest: digestOfJson(written === JSON.stringify ? args : JSON.parse(text)) };
  };
  if (isArguments) {
    if (!isObject(value)) {
      return { problems: [], refusal: { code: "invalid_params", message: "the body must be an object of arguments" } };
    }
    return { problems: [], read: { message: "null", arguments: [{ at: 0, ...argumentsOf(value) }] } };
  }
  const found: { at: number; text: string; digest: JsonDigest }[] = [];
  for (const [at, message] of (Array.isArray(value) ? (value as unknown[]) : [value]).entries()) {
    if (!isObject(message) || typeof message["method"] !== "string" || !isObject(message["params"])) continue;
    const { _meta: meta, ...given } = message["params"];
    // The parameters of a native call, which a separator tells from methods of MCP, are the arguments themselves.
    const isNative = /[._]/.test(message["method"]);
    const args = isNative ? given : given["arguments"];
    if ((!isNative && message["method"] !== "tools/call") || !isObject(args)) continue;
    found.push({ at, ...argumentsOf(args) });
    if (isNative) message["params"] = meta === undefined ? {} : { _meta: meta };
    else delete message["params"]["arguments"];
  }
  if (countValues(value, valuesMax) > valuesMax) {
    const message = `a message of this length has at most ${valuesMax} values besides the arguments of a tool`;
    return { problems: [], refusal: { code: "invalid_request", message } };
  }
  return { problems: [], read: { message: written(value), arguments: found } };
}

/** Texts are cut, since no header repeats one that is longer than any header. */
function scalarsOf({ args, paths }: ScalarsTask): NonNullable<CheckReport["scalars"]> {
  const found = scalarsAt(JSON.parse(args), paths);
  return found.map((value) => (typeof value === "string" ? value.slice(0, HEADER_UNITS_MAX) : value));
}

const HEADER_UNITS_MAX = 64 * 1024;

function draftOf({ draft: body, filesMax }: DraftTask): CheckReport {
  let draft: ReturnType<typeof parseDraft>;
  try {
    draft = parseDraft(body);
  } catch (error) {
    return refusedBy(error as BerthError);
  }
  const files = draft ? Object.keys(draft.files).length : 0;
  if (files <= filesMax) return { problems: [], draft };
  const message = `a draft has at most ${filesMax} files, not ${files}`;
  return { problems: [], refusal: { code: "invalid_params", message } };
}

function refusedBy({ code, message }: BerthError): CheckReport {
  return { problems: [], refusal: { code, message: message.slice(errors[code].message.length + 2) } };
}

function guestResultOf(task: BoundedResultTask): ReadGuestResult {
  const { frame, outputSchema, promisesNothing, outputBytes, unitsMax } = task;
  const returned = valueIn(frame, outputBytes);
  if (!returned.ok) return { outcome: returned };
  const outcome = withoutEnvelope(returned, promisesNothing);
  if (!outcome.ok || outcome.value.kind === "asks" || outcome.value.kind === "redirect") return { outcome };

  const hasSchema = outputSchema !== undefined;
  const result = (hasSchema && promisesNothing ? toConfiguredResult : toResult)(outcome.value, hasSchema);
  if (hasSchema && !result.isError) {
    const { fault, problems } = judged(JSON.stringify(outputSchema), result.structuredContent ?? null);
    if (fault !== undefined) return { broken: `its schema is not valid: ${fault}` };
    if (problems.length > 0) return { broken: sayBroken(problems.join("; "), outcome.value) };
  }
  const { parts, units } = partsOf(result);
  if (units <= unitsMax) return { result: parts };
  return { outcome: { ok: false, error: outputTooLarge(outputBytes) } };
}

function valueIn(frame: Uint8Array, outputBytes: number): GuestOutcome {
  const text = decoder.decode(frame);
  const read = tryParseJson(text);
  if (read === undefined) return refused("its process wrote something that is not JSON to its pipe");
  if (!Array.isArray(read)) return refused("its process wrote something that is not a frame to its pipe");
  if (nestsTooDeep(read, text.length)) {
    return refused(`its process wrote a value nested more than ${NESTING_MAX} levels deep`);
  }
  const value = readValue(read, text.length, outputBytes);
  if (value === undefined) return refused("its process wrote an invalid result");
  return value === "too large" ? { ok: false, error: outputTooLarge(outputBytes) } : { ok: true, value };
}

/** A value that cannot be converted becomes a short one, which is refused in the same words. */
function givenOf({ given, as, outputBytes, unitsMax }: OutcomeTask): ReadOutcome {
  const returned = valueIn(given, outputBytes);
  if (!returned.ok || returned.value.kind === "asks" || returned.value.kind === "redirect") return returned;
  const { value } = returned;
  const object = objectIn(value, as);
  if (!object) return noneOf;
  return object.units <= unitsMax ? { object: object.parts } : { ok: false, error: outputTooLarge(outputBytes) };
}

function promptedOf({ prompt, argumentNames: names, argumentTexts, outputBytes }: FillTask): LongObjectParts | null {
  const values = Object.fromEntries(names.map((name, place) => [name, argumentTexts[place]!]));
  const result = fillPrompt({ template: JSON.parse(prompt) as PromptResult, names, values }, outputBytes);
  const written = result && promptObject(result);
  return written && written.units <= outputBytes ? written.parts : null;
}

const noneOf: GuestOutcome = { ok: true, value: { kind: "json", value: null } };

function objectIn(value: ReturnedValue, given: OutcomeUse): Written<LongObjectParts> | undefined {
  switch (given.as) {
    case "completion": {
      const completion = completionIn(value, given.start);
      return completion && objectOf(completion);
    }
    case "resource": {
      const contents = toContents(value, given.uri, given.mimeType);
      return contents && objectOf({ contents });
    }
    case "prompt":
      try {
        return promptObject(promptResultOf(value, given));
      } catch {
        return undefined;
      }
  }
}

/** The parts that are needed to write a result without parsing it. */
function partsOf(result: CallResult, write: ExactJson["written"] = JSON.stringify): Written<LongResultParts> {
  const { content: blocks, structuredContent, isError, _meta: meta, ...others } = result;
  const structured = structuredContent === undefined ? undefined : write(structuredContent);
  const content = write(blocks);
  const more = write(isError === false ? { isError, ...others } : others).slice(1, -1);
  const parts = {
    content: encoder.encode(content),
    blocks: blocks.length,
    older:
      blocks.length === 0 && structured !== undefined
        ? inEachRevision(encoder.encode(JSON.stringify([{ type: "text", text: structured }])))
        : olderTexts(blocks, (blockOf) => write(blocks.map(blockOf))),
    ...(structured !== undefined && { structured: encoder.encode(structured) }),
    ...(more !== "" && { more: encoder.encode(more) }),
    ...(meta && { meta: write(meta) }),
    isError: isError === true,
    ...(isError && { said: saidIn(result) }),
    size: sizeOf(result),
    digest: digestOfJson(write === JSON.stringify ? result : JSON.parse(write(result))),
  };
  return { parts, units: content.length + (structured?.length ?? 0) + more.length + (parts.meta?.length ?? 0) };
}

function inEachRevision(content: Uint8Array): OlderTexts {
  return { "2025-03-26": content, "2024-11-05": content };
}

/** Undefined where every revision can carry all of the content. */
function olderTexts(
  content: readonly ContentBlock[],
  write: (blockOf: (block: ContentBlock) => ContentBlock) => string,
): OlderTexts | undefined {
  const hasAudio = content.some(({ type }) => type === "audio");
  if (!hasAudio && !content.some(({ type }) => type === "resource_link")) return undefined;
  const withAudio = encoder.encode(write(withoutLink));
  const without = (block: ContentBlock): ContentBlock => withoutAudio(withoutLink(block));
  return {
    "2025-03-26": withAudio,
    "2024-11-05": hasAudio ? encoder.encode(write(without)) : withAudio,
  };
}

function messageOf({ bytes, isEvent, valuesMax }: UpstreamTask): LongEvent {
  const text = decoder.decode(bytes);
  return isEvent ? readLongEvent(text, valuesMax) : { ...readLongMessage(text, valuesMax), head: "" };
}

const decoder = new TextDecoder();
const encoder = new TextEncoder();

function answerOf({ answer, as, what, unitsMax }: AnswerTask): ReadAnswer | { broken: string } {
  try {
    const { parts, units } = answerIn(decoder.decode(answer), as, what);
    if (units <= unitsMax) return parts;
    return { broken: `${what}: its result is written in more than ${unitsMax} characters` };
  } catch (error) {
    if (!(error instanceof UpstreamError)) throw error;
    return { broken: error.message.slice(errors[error.code].message.length + 2) };
  }
}

/** The form that a value takes, and its length as text, in UTF-16 units. */
interface Written<T> {
  readonly parts: T;
  readonly units: number;
}

function answerIn(answer: string, as: AnswerKind, what: string): Written<ReadAnswer> {
  const warnings: string[] = [];
  // Numbers count here; its other numbers pass through as they are.
  const { value, written } = as === "completion" ? plainly(answer) : parseExactly(answer);
  const given = value as Record<string, unknown>;
  if (as === "task") {
    const { result } = given;
    const task = taskIn(given);
    if (task["status"] !== "completed" || !isObject(result)) return { parts: { task, warnings }, units: 0 };
    const { parts, units } = toolIn(readTaskResult(what, result), written);
    return { parts: { ...parts, task }, units };
  }
  if (as === "tool") return toolIn(readToolResult(what, given), written);
  if (as === "completion") {
    const completion = completionOf(readCompletion(what, given));
    return { parts: { warnings, completion }, units: JSON.stringify(completion).length };
  }
  if (as === "resource") {
    const result = readResultOf(readResourceResult(what, given));
    const { parts, units } = objectOf(result, written);
    return { parts: { warnings, object: { ...parts, file: hashSkillFile(result.contents) } }, units };
  }
  const { parts: object, units } = promptObject(gotPromptOf(readPromptResult(what, given)), written);
  return { parts: { warnings, object }, units };
}

function toolIn(given: ToolResult, written: ExactJson["written"]): Written<ReadAnswer> {
  const warnings: string[] = [];
  const result = resultOf(given);
  const ended = endOfResult(result, (message) => warnings.push(message)) ?? { result };
  const { result: end, transient } = ended;
  const asks = "inputRequests" in end;
  const { parts: tool, units } = asks ? { parts: end, units: JSON.stringify(end).length } : partsOf(end, written);
  return { parts: { tool, warnings, ...(transient !== undefined && { transient }) }, units };
}

function plainly(json: string): ExactJson {
  return { value: JSON.parse(json), written: JSON.stringify };
}

/** The members of a task beside a long result. */
function taskIn(given: Record<string, unknown>): JsonObject {
  const task: JsonObject = {};
  for (const name of ["taskId", "status", "createdAt", "pollIntervalMs"]) {
    const value = given[name];
    const isShort = typeof value === "string" ? value.length <= TASK_UNITS_MAX : typeof value === "number";
    if (isShort) task[name] = value as Json;
  }
  return task;
}

/** More than any id, status or time of a task may have. */
const TASK_UNITS_MAX = 16 * 1024;

function listOf({ list, isFrame, listBytes, outputBytes }: ListTask): ReadList {
  const given: GuestOutcome = isFrame
    ? valueIn(list, outputBytes)
    : { ok: true, value: { kind: "json", value: JSON.parse(decoder.decode(list)) as Json } };
  if (!given.ok) return { fault: given.error.message };
  if (given.value.kind !== "json" || !Array.isArray(given.value.value)) return { fault: "it did not return a list" };
  const items = given.value.value.map((item) => JSON.stringify(item));
  const bytes = items.reduce((sum, item) => sum + Buffer.byteLength(item) + 1, 1);
  return bytes > listBytes ? { bytes } : { items };
}

function remadeOf({ pieces, from, into, unitsMax }: RemakeTask): Remade {
  const { remade, units } = remadeIn(pieces, from, into);
  return units <= unitsMax ? remade : { failed: `it is written in more than ${unitsMax} characters` };
}

function remadeIn(
  pieces: RemakeTask["pieces"],
  from: RemakeTask["from"],
  into: RemakeTask["into"],
): { readonly remade: Remade; readonly units: number } {
  const objectMade = ({ parts, units }: Written<LongObjectParts>) => ({ remade: { object: parts }, units });
  if (from === "bytes") {
    const { uri, mimeType } = into as Extract<RemakeTask["into"], { as: "contents" }>;
    return objectMade(objectOf({ contents: [contentsOfBytes(pieces[0] as Uint8Array, uri, mimeType)] }));
  }
  const value: unknown = JSON.parse(String(new LongText(...pieces)));
  const contents = from === "contents" ? (value as ReadResult).contents : [];
  const result = from === "result" ? (value as CallResult) : { content: contents.map(blockOfContents) };
  if (result.isError) return { remade: { failed: saidIn(result) }, units: 0 };
  switch (into.as) {
    case "result": {
      const { parts, units } = partsOf(result);
      return { remade: { result: parts }, units };
    }
    case "bare": {
      const { type, body } = bareOf(result) ?? { type: BARE_TEXT, body: "" };
      const bytes = typeof body === "string" ? encoder.encode(body) : body;
      return { remade: { bare: { type, body: bytes } }, units: body.length };
    }
    case "prompt":
      return objectMade(promptObject(promptOfContent(result.content, into.description)));
    case "contents": {
      const { uri, mimeType } = into;
      const as = { uri, ...(mimeType !== undefined && { mimeType }) };
      const made =
        from === "contents" ? contents.map((each) => Object.assign(each, as)) : contentsOfResult(result, uri, mimeType);
      return objectMade(objectOf({ contents: made }));
    }
  }
}

function promptObject(prompt: PromptResult, write: ExactJson["written"] = JSON.stringify): Written<LongObjectParts> {
  const { messages } = prompt;
  const older = olderTexts(
    messages.map(({ content }) => content),
    (blockOf) => write(withBlocks(prompt, blockOf)),
  );
  const { parts, units } = objectOf(prompt, write);
  return { parts: { ...parts, older }, units };
}

function objectOf(value: object, write: ExactJson["written"] = JSON.stringify): Written<LongObjectParts> {
  const { _meta: meta, ...others } = value as AnyOutput;
  const text = write(others);
  const parts = {
    text: encoder.encode(text),
    ...(meta && { meta: write(meta) }),
    digest: digestOfJson(write === JSON.stringify ? value : JSON.parse(write(value))),
  };
  return { parts, units: text.length + (parts.meta?.length ?? 0) };
}

function judged(schema: string, value: unknown): CheckReport {
  let made: ReadySchema;
  try {
    made = readyFor(schema, false);
  } catch (error) {
    return { fault: (error as Error).message, problems: [] };
  }
  return { problems: made.judge(value) };
}

function refused(message: string): GuestOutcome {
  return { ok: false, error: failure("protocol", message) };
}
