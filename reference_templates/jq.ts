import type { ToolContext } from "berth";
import { loadJq } from "jq-wasm/inline";

/**
 * jq 1.8 itself, built to WebAssembly: the same language, results and error messages as on the command line. What a filter says by `debug` and `stderr` is logged.
 * Manual: https://jqlang.org/manual/
 */

/** What both tools take. */
interface Query {
  /** The jq filter, such as `.items[] | select(.price > 10) | .name`. */
  filter: string;
  /**
   * What the filter is applied to. A text is read as jq reads its input: one JSON value, or several after one another.
   * Any other value is taken as it is. Without input the filter runs once, on null.
   */
  input?: unknown;
  /** Read the whole input into one array and apply the filter to that, once (`--slurp`). */
  slurp?: boolean;
  /** Do not parse the input: each line is a string, with `slurp` the whole text is one (`--raw-input`). */
  rawInput?: boolean;
  /** Sort the keys of objects in the output (`--sort-keys`). */
  sortKeys?: boolean;
  /** Values for the filter by name: `{"limit": 3}` is `$limit` (`--argjson`). */
  variables?: Record<string, unknown>;
}

/** {@link Query}, and how to print. */
interface PrintedQuery extends Query {
  /** Print strings as they are, without quotes and escapes (`--raw-output`). */
  rawOutput?: boolean;
  /** One line for each result instead of indented JSON (`--compact-output`). */
  compact?: boolean;
}

/**
 * Applies a jq filter and gives what jq prints: each result on lines of its own.
 *
 * @example { "filter": ".a | map(. * 2)", "input": { "a": [1, 2, 3] }, "compact": true }
 * @readOnly
 * @idempotent
 */
export async function jq(
  { filter, rawOutput = false, compact = false, ...options }: PrintedQuery,
  context: ToolContext,
): Promise<string> {
  const output = await run({ filter, ...options }, compact ? ["--compact-output"] : [], context);
  if (!rawOutput) return output;
  // The engine trims what it prints, so strings are unquoted here: on a line of its own is only ever a whole result.
  const lines = output.split("\n").map((line) => (line.startsWith('"') ? (JSON.parse(line) as string) : line));
  return lines.join("\n");
}

/**
 * Applies a jq filter and gives its results as a list of JSON values.
 *
 * @example { "filter": ".[] | .name", "input": [{ "name": "a" }, { "name": "b" }] }
 * @readOnly
 * @idempotent
 */
export async function query({ filter, ...options }: Query, context: ToolContext): Promise<unknown[]> {
  const lines = (await run({ filter, ...options }, ["--compact-output"], context)).split("\n");
  return lines.filter((line) => line !== "").map((line) => JSON.parse(line) as unknown);
}

/** Compiled once in a process; every call after the first is fast. */
let engine: ReturnType<typeof loadJq> | undefined;

async function run(
  { filter, input, slurp, rawInput, sortKeys, variables = {} }: Query,
  printing: string[],
  { log }: ToolContext,
): Promise<string> {
  const flags = [
    ...printing,
    ...(input === undefined ? ["--null-input"] : []),
    ...(slurp ? ["--slurp"] : []),
    ...(rawInput ? ["--raw-input"] : []),
    ...(sortKeys ? ["--sort-keys"] : []),
    ...Object.entries(variables).flatMap(([name, value]) => ["--argjson", name, JSON.stringify(value)]),
    "--", // What follows is the filter, even where it begins with a minus.
  ];
  const text = typeof input === "string" ? input : JSON.stringify(input ?? null);

  const { stdout, stderr, exitCode } = (await (engine ??= loadJq())).raw(text, filter, flags);
  if (exitCode !== 0) throw new Error(stderr.trim() || `jq stopped with exit code ${exitCode}`);
  if (stderr !== "") log.debug(stderr.trim());
  return stdout;
}
