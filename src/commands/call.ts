import type { Readable, Writable } from "node:stream";
import { text as textOf } from "node:stream/consumers";
import { lazyValidator } from "../host/calls/arguments.ts";
import { BerthError } from "../lib/errors.ts";
import { isObject, type Json, type JsonObject, type JsonSchema } from "../lib/json.ts";
import { printable, printableJson, printableLine } from "../lib/printable.ts";
import {
  callNative,
  inputSchemaOf,
  NativeCallError,
  NativeConnectionError,
  type NativeResult,
} from "../native/client.ts";
import { joinAnswers } from "../outcome/answers.ts";
import { defaultAnswer, readQuestionKey } from "../outcome/question.ts";
import { ownUrl, tokenFor } from "./own-berth.ts";
import { askPerson, Terminal } from "./terminal.ts";

export interface CallCommandOptions {
  /** The URL of a running Berth; by default the one of the environment. */
  readonly url?: string;
  /** JSON text of `inputResponses`. */
  readonly answers?: string;
}

/** JSON-RPC codes that mean that the call itself was wrong: no such tool, parameters, server. */
const USAGE_CODES: ReadonlySet<number> = new Set([-32600, -32601, -32602]);

/**
 * `berth call server.tool`: calls a tool of a running Berth and writes its events, then its result, as NDJSON.
 * Arguments are flags of their names, or one JSON object on standard input. The person at the terminal answers its
 * questions; without one, the default of a question counts as its answer. Exit code 1 means that the tool failed or
 * asked something that nobody answered, 2 that it could not be called. Ctrl-C and a closed output end the call.
 */
export async function call(method: string, flags: readonly string[], options: CallCommandOptions): Promise<number> {
  if (!/[._]/.test(method)) throw new BerthError("invalid_params", `"${method}" names no tool; write server.tool`);
  const url = options.url ?? ownUrl();
  const token = tokenFor(url);
  const ending = new AbortController();
  const onSignal = (): void => ending.abort("SIGINT");
  process.once("SIGINT", onSignal).once("SIGTERM", onSignal);
  process.stdout.once("error", () => ending.abort("EPIPE"));
  const terminal = Terminal.open();
  try {
    const headers: Record<string, string> = token === undefined ? {} : { Authorization: `Bearer ${token}` };
    const to = { url, method, headers, signal: ending.signal };
    const args = flags.length > 0 ? argumentsOf(flags, await inputSchemaOf(to)) : await readInput(process.stdin);
    let answers = options.answers === undefined ? {} : objectOf(options.answers, "--answers");
    for (let round = 1; ; round++) {
      const events = callNative({ ...to, args, ...(Object.keys(answers).length > 0 && { inputResponses: answers }) });
      let next = await events.next();
      for (; !next.done; next = await events.next()) await writeLine(process.stdout, next.value);
      const result = next.value;
      const given =
        "inputRequests" in result && round <= ROUNDS_MAX ? await answer(result, terminal, ending.signal) : {};
      if (Object.keys(given).length > 0) answers = joinAnswers(answers, given);
      else {
        await writeLine(process.stdout, { type: "result", ...result });
        return exitCode(result);
      }
    }
  } catch (error) {
    if (ending.signal.aborted) return ending.signal.reason === "EPIPE" ? 0 : 130;
    return explain(error);
  } finally {
    terminal?.close();
    process.off("SIGINT", onSignal).off("SIGTERM", onSignal);
  }
}

/** The answers to all questions; empty when one of them is missing. */
async function answer(
  { inputRequests }: { readonly inputRequests: JsonObject },
  terminal: Terminal | undefined,
  signal: AbortSignal,
): Promise<JsonObject> {
  const answers: [string, JsonObject][] = [];
  for (const [key, request] of Object.entries(inputRequests)) {
    const { method, params } = request as { method: string; params: JsonObject };
    if (method !== "elicitation/create") return {};
    const given = terminal
      ? await askPerson(terminal, { method, params }, signal)
      : readQuestionKey(key) && defaultAnswer(params);
    signal.throwIfAborted();
    if (!given) return {};
    answers.push([key, given]);
  }
  return Object.fromEntries(answers);
}

/** The most rounds of questions of one call, for a tool that never has enough. */
const ROUNDS_MAX = 20;

function exitCode(result: NativeResult): number {
  if ("inputRequests" in result) {
    const asked = printableLine(Object.keys(result.inputRequests).join(", "));
    console.error(`berth: the tool asks ${asked}; call it again with --answers`);
    return 1;
  }
  return result.isError ? 1 : 0;
}

function explain(error: unknown): number {
  if (error instanceof NativeCallError) {
    console.error(`berth: ${printable(error.message)}`);
    return USAGE_CODES.has(error.code) ? 2 : 1;
  }
  if (!(error instanceof NativeConnectionError)) throw error;
  const hint = error.message.startsWith("nothing") ? '; start one with "berth serve", or name another with --url' : "";
  console.error(`berth: ${error.message}${hint}`);
  return 2;
}

/** One JSON object, or nothing at all. A terminal is not waited for. */
async function readInput(input: Readable & { readonly isTTY?: boolean }): Promise<JsonObject> {
  if (input.isTTY) return {};
  const given = await textOf(input);
  return given.trim() === "" ? {} : objectOf(given, "standard input");
}

function objectOf(given: string, where: string): JsonObject {
  let value: unknown;
  try {
    value = JSON.parse(given);
  } catch (error) {
    throw new BerthError("invalid_params", `${where} is not JSON: ${(error as Error).message}`);
  }
  if (!isObject(value)) throw new BerthError("invalid_params", `${where} must be a JSON object`);
  return value as JsonObject;
}

/** Waits for a slow reader, so that a tool gets ahead of it only by what is on the way. */
async function writeLine(output: Writable & { readonly isTTY?: boolean }, value: unknown): Promise<void> {
  const json = JSON.stringify(value);
  if (output.write(`${output.isTTY ? printableJson(json) : json}\n`) || output.destroyed) return;
  await new Promise<void>((resolve) => {
    const onRoom = (): void => {
      output.off("drain", onRoom).off("close", onRoom).off("error", onRoom);
      resolve();
    };
    output.on("drain", onRoom).on("close", onRoom).on("error", onRoom);
  });
}

/**
 * Arguments given as flags: `--message hi --times=3 --loud`. A flag without a value is `true`, and a repeated one makes
 * a list. The tool's schema decides how a text is read: as itself where that is allowed, else as JSON. Throws
 * `invalid_params` for anything that is no flag.
 */
export function argumentsOf(flags: readonly string[], schema: JsonSchema | undefined): JsonObject {
  const texts = new Map<string, string[]>();
  for (let index = 0; index < flags.length; index++) {
    const [, name, joined] = /^--([^=]+)(?:=([\s\S]*))?$/.exec(flags[index]!) ?? [];
    if (name === undefined) {
      throw new BerthError("invalid_params", `"${flags[index]}" has no name; give arguments as --name value`);
    }
    const next = flags[index + 1];
    const isNext = joined === undefined && next !== undefined && !next.startsWith("--");
    texts.set(name, [...(texts.get(name) ?? []), joined ?? (isNext ? next : "true")]);
    if (isNext) index++;
  }
  return Object.fromEntries([...texts].map(([name, given]) => [name, valueOf(given, propertyOf(schema, name))]));
}

function valueOf(texts: readonly string[], schema: JsonSchema | undefined): Json {
  const values = texts.map(readJson);
  const single: Json[] = texts.length === 1 ? [texts[0]!, values[0]!] : [];
  const isRight = schema && lazyValidator(schema);
  // The validator fills in defaults, so it gets a copy.
  const right = [...single, [...texts], values].find((value) => isRight?.(structuredClone(value)).length === 0);
  return right ?? (values.length === 1 ? values[0]! : values);
}

function readJson(text: string): Json {
  try {
    return JSON.parse(text) as Json;
  } catch {
    return text;
  }
}

function propertyOf(schema: JsonSchema | undefined, name: string): JsonSchema | undefined {
  const properties = schema?.["properties"];
  if (!isObject(properties) || !Object.hasOwn(properties, name)) return undefined;
  const property = properties[name];
  if (!isObject(property)) return undefined;
  return { ...property, ...(schema?.["$defs"] !== undefined && { $defs: schema["$defs"] }) };
}
