import type { Readable, Writable } from "node:stream";
import { text as textOf } from "node:stream/consumers";
import { ownUrl, tokenFor, tokenIfOwn } from "../../../commands/own-berth.ts";
import { ownFolderHere } from "../../../commands/own-folder.ts";
import { runningDev } from "../../../commands/running-dev.ts";
import { askPerson, Terminal } from "../../../commands/terminal.ts";
import { BerthError } from "../../../lib/errors.ts";
import type { JsonObject, JsonSchema } from "../../../lib/json.ts";
import { nearNames } from "../../../lib/near-names.ts";
import { printable, printableJson, printableLine, printableText } from "../../../lib/printable.ts";
import { joinAnswers } from "../../../outcome/answers.ts";
import { isConsentKey } from "../../../outcome/consent.ts";
import { defaultAnswer, readQuestionKey } from "../../../outcome/question.ts";
import {
  callNative,
  listTools,
  NativeCallError,
  NativeConnectionError,
  nativeName,
  type NativeEvent,
  type NativeResult,
} from "../client.ts";
import { answerForm } from "./answer-form.ts";
import { argumentsOf, checkNames, objectOf, usageOf } from "./call-arguments.ts";
import { textOfEvent, textOfResult, type CallText } from "./call-text.ts";

export interface CallCommandOptions {
  /** The URL of a running Berth; by default `BERTH_URL`, or the `berth dev` of the working folder. */
  readonly url?: string;
  /** JSON text of `inputResponses`. */
  readonly answers?: string;
  /** Writes the events and the exact result as NDJSON. */
  readonly json?: boolean;
}

/** JSON-RPC codes that mean that the call itself was wrong: no such tool, parameters, server. */
const USAGE_CODES: ReadonlySet<number> = new Set([-32600, -32601, -32602]);
const METHOD_NOT_FOUND = -32601;

/**
 * `berth call server.tool`: calls a tool of a running Berth and prints what it gives; with `json`, its events and its
 * result, as NDJSON. Arguments are `name=value`, flags of their names, JSON, or one JSON object on standard input. The
 * person at the terminal answers its questions; without one, the default of a question counts as its answer. Exit code 1
 * means that the tool failed or asked something that nobody answered, 2 that it could not be called. Ctrl-C and a closed
 * output end the call.
 */
export async function call(method: string, words: readonly string[], options: CallCommandOptions): Promise<number> {
  const { url, token } = await addressed(options.url);
  const ending = new AbortController();
  const onSignal = (): void => ending.abort("SIGINT");
  process.once("SIGINT", onSignal).once("SIGTERM", onSignal);
  process.stdout.once("error", () => ending.abort("EPIPE"));
  const terminal = Terminal.open();
  const show = options.json ? asJson : asText;
  const headers: Record<string, string> = token === undefined ? {} : { Authorization: `Bearer ${token}` };
  const to = { url, method, headers, signal: ending.signal };
  try {
    if (!/[._]/.test(method)) throw new BerthError("invalid_params", await whichTool(to));
    const args = words.length > 0 ? await typedArguments(words, to) : await readInput(process.stdin);
    let answers = options.answers === undefined ? {} : objectOf(options.answers, "--answers");
    for (let round = 1; ; round++) {
      const events = callNative({ ...to, args, ...(Object.keys(answers).length > 0 && { inputResponses: answers }) });
      let next = await events.next();
      for (; !next.done; next = await events.next()) await show(next.value);
      const result = next.value;
      const given =
        "inputRequests" in result && round <= ROUNDS_MAX ? await answer(result, terminal, ending.signal) : {};
      if (Object.keys(given).length > 0) answers = joinAnswers(answers, given);
      else {
        await show({ type: "result", ...result });
        if (!options.json && isOfArguments(result)) await tellUsage(to);
        return exitCode(result, answers);
      }
    }
  } catch (error) {
    if (ending.signal.aborted) return ending.signal.reason === "EPIPE" ? 0 : 130;
    return await explain(error, to);
  } finally {
    terminal?.close();
    process.off("SIGINT", onSignal).off("SIGTERM", onSignal);
  }
}

/** The user's token is sent to an address from a folder's record only if it is the user's own address. */
async function addressed(named: string | undefined): Promise<{ url: string; token: string | undefined }> {
  const url = named ?? (process.env["BERTH_URL"] || undefined);
  if (url !== undefined) return { url, token: tokenFor(url) };
  const folder = ownFolderHere();
  const running = folder && (await runningDev(folder));
  const reason = running ? "where berth dev serves this folder" : "the default; --url or BERTH_URL names another";
  console.error(`Calling ${running ?? ownUrl()} (${reason})`);
  return running === undefined
    ? { url: ownUrl(), token: tokenFor(ownUrl()) }
    : { url: running, token: tokenIfOwn(running) };
}

type Shown = NativeEvent | ({ readonly type: "result" } & NativeResult);
type Addressed = Parameters<typeof listTools>[0];

async function asJson(shown: Shown): Promise<void> {
  const json = JSON.stringify(shown);
  await write(process.stdout, `${process.stdout.isTTY ? printableJson(json) : json}\n`);
}

async function asText(shown: Shown): Promise<void> {
  const { out, aside } = shown.type === "result" ? textOfFinal(shown) : textOfEvent(shown);
  if (aside !== "") process.stderr.write(printableText(aside));
  if (out !== "") await write(process.stdout, process.stdout.isTTY ? printableText(out) : out);
}

/** Questions that nobody answered are told with the exit code. */
function textOfFinal(result: NativeResult): CallText {
  return "inputRequests" in result ? { out: "", aside: "" } : textOfResult(result);
}

async function typedArguments(words: readonly string[], to: Addressed): Promise<JsonObject> {
  const schema = await inputSchemaOf(to);
  const args = argumentsOf(words, schema);
  checkNames(to.method, args, schema);
  return args;
}

async function inputSchemaOf(to: Addressed): Promise<JsonSchema | undefined> {
  const wanted = nativeName(to.method);
  for await (const { method, inputSchema } of listTools(to)) if (nativeName(method) === wanted) return inputSchema;
  return undefined;
}

/** Says how the tool is called, after it has refused its arguments. */
async function tellUsage(to: Addressed): Promise<void> {
  const schema = await inputSchemaOf(to).catch(() => undefined);
  if (schema) process.stderr.write(`${usageOf(to.method, schema)}\n`);
}

function isOfArguments(result: NativeResult): boolean {
  if ("inputRequests" in result || !result.isError) return false;
  const text = result.content[0]?.["text"];
  return typeof text === "string" && text.startsWith("Invalid arguments for the tool ");
}

/** Explains a name without a tool: that of a server, or of a tool alone. */
async function whichTool(to: Addressed): Promise<string> {
  const { method: word } = to;
  const said = `"${word}" names no tool; write server.tool`;
  const methods = await methodsOf(to);
  const own = methods.filter((method) => method.startsWith(`${word}.`));
  const alike = methods.filter((method) => method.endsWith(`.${word}`));
  if (own.length > 0) return `${said}: ${listed(own)}`;
  return alike.length > 0 ? `${said}; did you mean ${listed(alike)}?` : said;
}

/** Names that a caller may have meant; empty where there is none, or nobody can be asked. */
async function meant(to: Addressed): Promise<string> {
  const near = await nearNames(to.method, await methodsOf(to));
  return near.length === 0 ? "" : `; did you mean ${listed(near)}?`;
}

/** All methods that the caller may use; none where nobody can be asked. */
async function methodsOf(to: Addressed): Promise<string[]> {
  const methods: string[] = [];
  try {
    for await (const { method } of listTools(to)) methods.push(method);
  } catch (error) {
    if (!(error instanceof NativeCallError || error instanceof NativeConnectionError)) throw error;
  }
  return methods;
}

function listed(names: readonly string[]): string {
  const shown = names.slice(0, LISTED_MAX).map(printableLine).join(", ");
  return names.length > LISTED_MAX ? `${shown}, and ${names.length - LISTED_MAX} more` : shown;
}

const LISTED_MAX = 8;

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

function exitCode(result: NativeResult, answers: JsonObject): number {
  if ("inputRequests" in result) {
    const keys = Object.keys(result.inputRequests);
    if (keys.some(isConsentKey)) {
      console.error("berth: this call needs the consent of the user; run it in a terminal, which asks");
      return 1;
    }
    const asked = printableLine(keys.join(", "));
    const form = answerForm(result.inputRequests, answers);
    const how = form === undefined ? "" : `, with your values in place of these:\n${form}`;
    console.error(`berth: the tool asks ${asked}; call it again with --answers${how}`);
    return 1;
  }
  return result.isError ? 1 : 0;
}

async function explain(error: unknown, to: Addressed): Promise<number> {
  if (error instanceof NativeCallError) {
    const isUnknown = error.code === METHOD_NOT_FOUND && !error.message.includes("did you mean");
    console.error(`berth: ${printable(error.message)}${isUnknown ? await meant(to) : ""}`);
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

/** Waits for a slow reader, so that a tool gets ahead of it only by what is on the way. */
async function write(output: Writable, text: string): Promise<void> {
  if (output.write(text) || output.destroyed) return;
  await new Promise<void>((resolve) => {
    const onRoom = (): void => {
      output.off("drain", onRoom).off("close", onRoom).off("error", onRoom);
      resolve();
    };
    output.on("drain", onRoom).on("close", onRoom).on("error", onRoom);
  });
}
