import type { Readable, Writable } from "node:stream";
import { text as textOf } from "node:stream/consumers";
import { BerthError } from "../errors.ts";
import { isObject, type JsonObject } from "../json.ts";
import {
  callNative,
  inputSchemaOf,
  NativeCallError,
  NativeConnectionError,
  type NativeResult,
} from "../native/client.ts";
import { argumentsOf } from "./call-arguments.ts";

export interface CallOptions {
  readonly url: string;
  /** JSON text of `inputResponses`. */
  readonly answers?: string;
}

/** JSON-RPC codes that say that the call itself was wrong: no such tool, parameters, server. */
const USAGE_CODES: ReadonlySet<number> = new Set([-32600, -32601, -32602]);

/**
 * `berth call server.tool`: calls a tool of a running Berth and writes its events, then its result, as NDJSON.
 * Arguments are flags of their names, or one JSON object on standard input. Exit code 1 says that the tool failed or
 * asked something, 2 that it could not be called. Ctrl-C, and whoever stops reading, end the call.
 */
export async function call(method: string, flags: readonly string[], options: CallOptions): Promise<number> {
  if (!/[._]/.test(method)) throw new BerthError("invalid_params", `"${method}" names no tool; say server.tool`);
  const ending = new AbortController();
  const onSignal = (): void => ending.abort("SIGINT");
  process.once("SIGINT", onSignal).once("SIGTERM", onSignal);
  process.stdout.once("error", () => ending.abort("EPIPE"));
  try {
    const to = { url: options.url, method, signal: ending.signal };
    const args = flags.length > 0 ? argumentsOf(flags, await inputSchemaOf(to)) : await readInput(process.stdin);
    const inputResponses = options.answers === undefined ? undefined : objectOf(options.answers, "--answers");
    const events = callNative({ ...to, args, ...(inputResponses && { inputResponses }) });
    let next = await events.next();
    for (; !next.done; next = await events.next()) await writeLine(process.stdout, next.value);
    await writeLine(process.stdout, { type: "result", ...next.value });
    return exitCode(next.value);
  } catch (error) {
    if (ending.signal.aborted) return ending.signal.reason === "EPIPE" ? 0 : 130;
    return explain(error);
  } finally {
    process.off("SIGINT", onSignal).off("SIGTERM", onSignal);
  }
}

function exitCode(result: NativeResult): number {
  if ("inputRequests" in result) {
    console.error(`berth: the tool asks ${Object.keys(result.inputRequests).join(", ")}; call it again with --answers`);
    return 1;
  }
  return result.isError ? 1 : 0;
}

function explain(error: unknown): number {
  if (error instanceof NativeCallError) {
    console.error(`berth: ${error.message}`);
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

/** Waits for a slow reader, so that a tool gets no further ahead of it than what is on the way. */
async function writeLine(output: Writable, value: unknown): Promise<void> {
  if (output.write(`${JSON.stringify(value)}\n`) || output.destroyed) return;
  await new Promise<void>((resolve) => {
    const onRoom = (): void => {
      output.off("drain", onRoom).off("close", onRoom).off("error", onRoom);
      resolve();
    };
    output.on("drain", onRoom).on("close", onRoom).on("error", onRoom);
  });
}
