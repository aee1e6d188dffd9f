/**
 * The commands for pipes: they read records from standard input and write them to standard output. With `inspect` they
 * are the most used commands, and one part of the bundles.
 */

import type { Readable } from "node:stream";
import { type JsonObject, tryParseObject } from "../../../lib/json.ts";
import type { ListedTool } from "../../../upstream/messages/lists.ts";
import { type CalledOutcome, callTool } from "./call-tool.ts";
import { CommandFailure, exitCodes, failureFields, printFailure, usageFailure } from "./failure.ts";
import { countOf, type CountOptions, formatOf, type RecordOptions, wholeNumber } from "./options.ts";
import { RecordOutput } from "./output.ts";
import { argumentsFor, findTool, perform } from "./perform.ts";
import { reach, type Reached } from "./reach.ts";

export { inspect } from "./inspect.ts";

/** `berth cat <reference>`: all records of a call, a resource, a prompt or a list (J3). */
export function cat(reference: string, options: RecordOptions): Promise<number> {
  return reach(reference, { ...options, attended: true }, async (reached) => {
    const output = new RecordOutput(formatOf(options));
    const { whole, records } = await perform(reached);
    if (options.raw) await output.json(whole);
    else {
      for (const record of records) await output.write(record);
      await output.end();
    }
    return 0;
  });
}

/** `berth head <reference>`: the first records (J3). */
export function head(reference: string, options: CountOptions): Promise<number> {
  return reach(reference, { ...options, attended: true }, async (reached) => {
    let left = countOf(options);
    const output = new RecordOutput(formatOf(options));
    const { records } = await perform(reached);
    for (const record of records) {
      if (left-- <= 0) break;
      await output.write(record);
    }
    await output.end();
    return 0;
  });
}

/** `berth tail <reference>`: the last records (J3). Stores no more of them than it prints. */
export function tail(reference: string, options: CountOptions): Promise<number> {
  return reach(reference, { ...options, attended: true }, async (reached) => {
    const count = countOf(options);
    const output = new RecordOutput(formatOf(options));
    const { records } = await perform(reached);
    for (const record of lastOf(records, count)) await output.write(record);
    await output.end();
    return 0;
  });
}

/** The last records in order, from a ring buffer. */
function lastOf(records: Iterable<JsonObject>, count: number): JsonObject[] {
  const ring: JsonObject[] = [];
  let seen = 0;
  if (count > 0) for (const record of records) ring[seen++ % count] = record;
  const start = seen > count ? seen % count : 0;
  return [...ring.slice(start), ...ring.slice(0, start)];
}

interface PutOptions extends RecordOptions {
  /** Concurrent calls; 1 by default. */
  readonly concurrency?: string;
  /** Stops at the first record that fails. */
  readonly failFast?: boolean;
}

/**
 * `berth put <reference>`: calls the tool once for each NDJSON record on standard input (J3). A record has the call's
 * arguments, which take precedence over those of the reference. Output is in input order, whatever the concurrency;
 * each result has `record`, its number from 1. A record that fails is reported on stderr while the others continue; the
 * exit code is then that of the first failure.
 */
export function put(reference: string, options: PutOptions): Promise<number> {
  return reach(reference, options, async (reached) => {
    const { target } = reached.operation;
    const concurrency = wholeNumber("--concurrency", options.concurrency ?? "1", 1, CONCURRENCY_MAX);
    if (target?.kind !== "tool") throw usageFailure("put calls a tool: add tool=… to the reference.");
    const output = new RecordOutput(formatOf(options));
    const tool = await findTool(reached.upstream, target.name, { signal: reached.signal });
    const call = (line: InputLine): Promise<CalledOutcome | Failed> =>
      callFor(line, tool, reached).catch((error: unknown) => ({ error }));
    let exitCode: number = exitCodes.ok;
    let done = 0;
    try {
      for await (const [{ number }, outcome] of inOrder(inputLines(process.stdin, reached.signal), concurrency, call)) {
        reached.progress(`${target.name}: ${++done} records`);
        if ("error" in outcome) {
          if (reached.signal.aborted) throw outcome.error;
          const failure = failureFields(outcome.error);
          printFailure({ ...failure, fields: { ...failure.fields, record: number } });
          exitCode ||= failure.exitCode;
          if (options.failFast || isGone(failure.fields.code)) break;
        } else await writeOutcome(output, outcome, number, options, target.name);
      }
    } finally {
      process.stdin.destroy();
    }
    if (!options.raw) await output.end();
    return exitCode;
  });
}

interface Failed {
  readonly error: unknown;
}

const CONCURRENCY_MAX = 256;

async function callFor(line: InputLine, tool: ListedTool, reached: Reached): Promise<CalledOutcome> {
  const { operation, signal } = reached;
  const record = recordOf(line);
  return callTool(reached, tool, { ...argumentsFor(tool, operation.arguments), ...record }, { signal });
}

function recordOf({ text, number }: InputLine): JsonObject {
  const value = tryParseObject(text);
  if (value) return value;
  throw new CommandFailure("bad_record", `Record ${number} is not a JSON object.`, exitCodes.usage);
}

async function writeOutcome(
  output: RecordOutput,
  { whole, records }: CalledOutcome,
  number: number,
  { raw }: PutOptions,
  tool: string,
): Promise<void> {
  if (raw) return output.json(whole);
  let written = 0;
  for (const { type, tool: name, ...fields } of records) {
    await output.write({ type: type!, tool: name!, record: number, ...fields });
    written++;
  }
  // Each record is reported, even if the tool had no output.
  if (written === 0) await output.write({ type: "tool_result", tool, record: number });
}

/** Every other record would fail in the same way. */
function isGone(code: string): boolean {
  return code === "upstream_ended";
}

/**
 * Processes several items concurrently, and yields each with its result in the order of the items, as soon as possible.
 * Reads no further ahead than it processes. `work` never rejects.
 */
async function* inOrder<T, R>(
  items: AsyncIterable<T>,
  concurrency: number,
  work: (item: T) => Promise<R>,
): AsyncGenerator<[T, R]> {
  const iterator = items[Symbol.asyncIterator]();
  const read = (): Promise<{ readonly taken: IteratorResult<T> }> => iterator.next().then((taken) => ({ taken }));
  const underWay: Promise<{ readonly given: [T, R] }>[] = [];
  let next: ReturnType<typeof read> | undefined = read();
  try {
    while (next || underWay.length > 0) {
      const [first] = underWay;
      const events = [...(next && underWay.length < concurrency ? [next] : []), ...(first ? [first] : [])];
      const event = await Promise.race<{ readonly taken: IteratorResult<T> } | { readonly given: [T, R] }>(events);
      if ("given" in event) {
        void underWay.shift();
        yield event.given;
      } else if (event.taken.done) next = undefined;
      else {
        const { value } = event.taken;
        underWay.push(work(value).then((result) => ({ given: [value, result] })));
        next = read();
      }
    }
  } finally {
    // A consumer that stops early does not wait for an item that may never arrive.
    next?.catch(() => {});
  }
}

interface InputLine {
  readonly text: string;
  /** Counts non-empty lines, from 1. */
  readonly number: number;
}

const LINE_CHARACTERS_MAX = 16 * 1024 * 1024;

/** The non-empty lines of a stream, one by one; an endless line is rejected before it fills memory. */
async function* inputLines(stream: Readable, signal: AbortSignal): AsyncGenerator<InputLine> {
  const stop = (): void => void stream.destroy();
  signal.addEventListener("abort", stop, { once: true });
  let number = 0;
  let rest = "";
  try {
    for await (const chunk of stream.setEncoding("utf8") as AsyncIterable<string>) {
      const lines = (rest + chunk).split("\n");
      rest = lines.pop()!;
      for (const text of lines) if (text.trim() !== "") yield { text, number: ++number };
      if (rest.length > LINE_CHARACTERS_MAX) {
        throw usageFailure(`Record ${number + 1} is longer than ${LINE_CHARACTERS_MAX} characters.`);
      }
    }
    if (rest.trim() !== "") yield { text: rest, number: ++number };
  } catch (error) {
    if (!signal.aborted) throw error;
  } finally {
    signal.removeEventListener("abort", stop);
    stream.destroy();
  }
}
