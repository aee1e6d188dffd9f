import { isObject, type JsonObject } from "../../lib/json.ts";
import type { ListedTool } from "../../upstream/lists.ts";
import { callTool, type CalledOutcome } from "./call-tool.ts";
import { exitCodes } from "./exit-codes.ts";
import { CommandFailure, failureFields, printFailure, usageFailure } from "./failure.ts";
import { inOrder } from "./in-order.ts";
import { formatOf, wholeNumber, type RecordOptions } from "./options.ts";
import { RecordOutput } from "./output.ts";
import { argumentsFor, findTool } from "./perform.ts";
import { reach, type Reached } from "./reach.ts";
import { inputLines, type InputLine } from "./input-lines.ts";

export interface PutOptions extends RecordOptions {
  /** Calls under way at once; 1 by default. */
  readonly concurrency?: string;
  /** Ends at the first record that fails. */
  readonly failFast?: boolean;
}

/**
 * `berth put <reference>`: calls the tool once for each NDJSON record on standard input (J3). A record is the call's
 * arguments, before those of the reference. Output follows the order of the input, whatever the concurrency; each
 * result carries `record`, its number from 1. A record that fails is reported on stderr, and the others go on; the exit
 * code is then that of the first failure.
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
  try {
    const value: unknown = JSON.parse(text);
    if (isObject(value)) return value as JsonObject;
  } catch {
    // Reported below, like JSON that is no object.
  }
  throw new CommandFailure("bad_record", `Record ${number} is not a JSON object.`, exitCodes.usage);
}

async function writeOutcome(
  output: RecordOutput,
  { whole, records }: CalledOutcome,
  number: number,
  { raw }: PutOptions,
  tool: string,
): Promise<void> {
  if (raw) return output.text(`${JSON.stringify(whole)}\n`);
  let written = 0;
  for (const { type, tool: name, ...fields } of records) {
    await output.write({ type: type!, tool: name!, record: number, ...fields });
    written++;
  }
  // Each record is reported, even if the tool had no output.
  if (written === 0) await output.write({ type: "tool_result", tool, record: number });
}

/** Every other record would fail the same way. */
function isGone(code: string): boolean {
  return code === "upstream_ended";
}
