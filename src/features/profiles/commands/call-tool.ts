import { isObject, type Json, type JsonObject } from "../../../lib/json.ts";
import { printableJson } from "../../../lib/printable.ts";
import { answersById, joinAnswers, refusal } from "../../../outcome/answers.ts";
import { contextMeta } from "../../../outcome/context.ts";
import { formatError, type Outcome as Said } from "../../../outcome/outcome.ts";
import { toInputRequests } from "../../../outcome/question.ts";
import { retryUntilFinal, type Attempts, type AttemptOptions } from "../../../outcome/retry.ts";
import { unwrapResult } from "../../../outcome/unwrap.ts";
import type { ListedTool } from "../../../upstream/messages/lists.ts";
import type { UpstreamCallOptions } from "../../../upstream/messages/request.ts";
import { resultText } from "../../../upstream/messages/result-records.ts";
import { toolRecords } from "../../../upstream/messages/result-records.ts";
import type { ToolResult } from "../../../upstream/messages/results.ts";
import { CommandFailure, exitCodes } from "./failure.ts";
import type { Reached } from "./reach.ts";

/** The outcome of a reference: records for pipes, and the whole result as the server sent it. */
export interface CalledOutcome {
  readonly whole: Json;
  readonly records: Iterable<JsonObject>;
}

/**
 * Calls a tool until it finishes: the person at the terminal answers its questions, or defaults do if there is no
 * terminal; transient errors are retried. A tool that fails is a `CommandFailure`.
 */
export async function callTool(
  reached: Reached,
  tool: Pick<ListedTool, "name" | "annotations">,
  args: JsonObject,
  sent: UpstreamCallOptions,
): Promise<CalledOutcome> {
  const { ask, limits, signal, progress } = reached;
  const { name } = tool;
  const failed = (code: string, message: string, more: JsonObject = {}): CommandFailure =>
    new CommandFailure(code, message, exitCodes.tool, { tool: name, ...more });
  const onLog: AttemptOptions["onLog"] = ({ message }) => progress(message);
  const capabilities: JsonObject = ask ? { elicitation: {} } : {};
  let answers: JsonObject = {};
  const attempts: Attempts<Tried, AttemptOptions> = {
    run: (options) => callOnce(reached, name, args, options, sent),
    transientOf: ({ said }) => (said?.type === "error" && said.transient ? said.message : undefined),
    questionsOf: ({ said }) => (said?.type === "needs_input" ? toInputRequests(said.question) : undefined),
  };
  for (;;) {
    const options: AttemptOptions = { client: { capabilities }, signal, onLog, answers };
    const deadlineAt = performance.now() + limits.upstreamCallMs;
    const first = await attempts.run(options);
    const { result, needs } = await retryUntilFinal(first, attempts, {
      contract: hintsOf(tool),
      options,
      deadlineAt,
      limits,
    });
    if (needs !== undefined) throw failed("needs_input", needs);
    const { whole, said } = result;
    if (said?.type === "error")
      throw failed("tool_error", formatError(said), said.transient ? { transient: true } : {});
    if (said?.type !== "needs_input") {
      if (whole.isError) throw failed("tool_error", resultText(whole) || "The tool failed and did not say why.");
      const shown = said ? { content: [{ type: "text", text: said.content }] } : whole;
      return { whole: whole as unknown as Json, records: toolRecords(name, shown) };
    }
    for (const [key, request] of Object.entries(toInputRequests(said.question))) {
      answers = joinAnswers(answers, { [key]: await ask!(request, signal) });
    }
    signal.throwIfAborted();
    const refused = refusal(name, answers);
    if (refused !== undefined) throw failed("needs_input", refused);
  }
}

interface Tried {
  /** The result as the server sent it. */
  readonly whole: ToolResult;
  /** The message in the result about how the call ended. */
  readonly said: Said | undefined;
}

async function callOnce(
  { upstream, reference, ask, clock, limits, signal }: Reached,
  name: string,
  args: JsonObject,
  given: AttemptOptions,
  sent: UpstreamCallOptions,
): Promise<Tried> {
  const { options = {} } = reference;
  const meta = contextMeta({ name, arguments: args, answers: answersById(given), options, action: "run" });
  const { deadlineMs = limits.upstreamCallMs } = given;
  const call = (signal: AbortSignal, timeoutMs: number): Promise<ToolResult> =>
    upstream.callTool(name, args, { ...sent, signal, timeoutMs, ...(Object.keys(meta).length > 0 && { meta }) });
  const whole = await (ask
    ? clock.within(deadlineMs, signal, (either) => call(either, LONGEST_MS))
    : call(signal, deadlineMs));
  const warn = (warning: string): void => void process.stderr.write(`${printableJson(JSON.stringify({ warning }))}\n`);
  return { whole, said: unwrapResult(whole as ToolResult & { content: JsonObject[] }, warn) };
}

/** Annotations are untrusted claims of the server. */
function hintsOf({ name, annotations }: Pick<ListedTool, "name" | "annotations">) {
  const hints: Record<string, unknown> = isObject(annotations) ? annotations : {};
  const { destructiveHint, idempotentHint } = hints;
  return {
    name,
    annotations: { destructiveHint: destructiveHint === true, idempotentHint: idempotentHint === true },
  };
}

/** The call's clock measures its time, excluding answers; this one must never end it. */
const LONGEST_MS = 2 ** 31 - 1;
