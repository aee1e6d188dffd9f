import { BerthError } from "../../lib/errors.ts";
import type { JsonObject, JsonText } from "../../lib/json.ts";
import { refusal } from "../../outcome/answers.ts";
import type { GuestFailure, GuestLog } from "../../executor/executor.ts";
import { retryUntilFinal, type FinalResult, type RetryLimits } from "../../outcome/retry.ts";
import type { CallOptions, CallResult, InputRequired, InputRequests, ToolContract } from "../catalog/catalog.ts";
import type { Validator } from "../checks/checks.ts";
import type { CallOutcome } from "./activity.ts";
import { failure } from "./content.ts";
import type { CallNotes } from "./observe.ts";

/**
 * The way of every tool call, of definitions and of upstreams alike: check the arguments → admit → run → retry, or ask →
 * record → answer. It knows neither guests nor upstreams: each kind of tool says how it runs, and how to read what came
 * back.
 */
export async function invoke<Outcome>(
  tool: Invocable<Outcome>,
  args: JsonObject | JsonText,
  options: CallOptions,
): Promise<CallResult | InputRequired> {
  const call: Invocation<Outcome> = { tool, args, options, beganAt: performance.now() };
  const checked = tool.checkArguments?.(args);
  // Awaited only when necessary: most arguments are checked at once.
  const invalid = checked === undefined ? undefined : await checked;
  if (invalid !== undefined) return refuseArguments(call, invalid);
  const refused = admit(call);
  if (refused !== undefined) return record(call, { outcome: "error", result: failure(refused) });
  let final: FinalResult<Outcome>;
  try {
    final = await runUntilFinal(call);
  } catch (error) {
    return record(call, tool.readThrown(error, options));
  } finally {
    // Before the result is read: a redirect may lead to another call of this server.
    tool.notes.left();
  }
  const { result, retries, needs } = final;
  if (needs !== undefined) return record(call, { outcome: "error", result: failure(needs) }, retries);
  const end = tool.read(result, options);
  return record(call, end instanceof Promise ? await end : end, retries);
}

/** How one kind of tool is carried out. */
export interface Invocable<Outcome> {
  readonly contract: ToolContract;
  readonly notes: CallNotes;
  readonly limits: RetryLimits;
  /** The time for a call with all of its retries, unless its options give another. */
  readonly callMs: number;
  /** Absent where the arguments are checked elsewhere. */
  readonly checkArguments?: Validator;
  /** Makes one attempt; `onLine` hears its lines before the caller does. */
  run(args: JsonObject | JsonText, options: CallOptions, onLine: OnLine | undefined): Promise<Outcome>;
  /** The options for further attempts. */
  optionsToRetry(options: CallOptions): CallOptions;
  /** The message of a transient error; undefined for any other outcome. */
  transientOf(outcome: Outcome): string | undefined;
  questionsOf(outcome: Outcome): InputRequests | undefined;
  read(outcome: Outcome, options: CallOptions): CallEnd | Promise<CallEnd>;
  /** Reads what `run` threw. */
  readThrown(error: unknown, options: CallOptions): CallEnd;
}

type OnLine = (line: GuestLog) => void;

/** The end of a call: the record of it, and the answer for its caller. */
export type CallEnd = {
  readonly outcome: CallOutcome;
  readonly failure?: GuestFailure | undefined;
} & (
  | { readonly result: CallResult }
  /** Answers the caller once the call is recorded: with something else than a result of this tool, or by throwing. */
  | { readonly result?: undefined; readonly answer: () => Answer | Promise<Answer> }
);

type Answer = CallResult | InputRequired;

/** The end of a call that rejects. */
export function rejectWith(error: unknown, failure?: GuestFailure): CallEnd {
  const answer = (): never => {
    throw error;
  };
  return { outcome: "error", failure, answer };
}

interface Invocation<Outcome> {
  readonly tool: Invocable<Outcome>;
  readonly args: JsonObject | JsonText;
  readonly options: CallOptions;
  /** On the process's clock (`performance.now`). */
  readonly beganAt: number;
}

function refuseArguments<Outcome>(call: Invocation<Outcome>, invalid: string): Answer | Promise<Answer> {
  const { name } = call.tool.contract;
  if (!call.options.invalidRejects) {
    return record(call, {
      outcome: "invalid",
      result: failure(`Invalid arguments for the tool "${name}": ${invalid}`),
    });
  }
  const error = new BerthError("invalid_params", `the tool "${name}": ${invalid}`);
  return record(call, { ...rejectWith(error), outcome: "invalid" });
}

/** Begins the call, which lasts until `notes.left`; or returns why it is refused. */
function admit<Outcome>({ tool, options }: Invocation<Outcome>): string | undefined {
  const refused = options.answers && refusal(tool.contract.name, options.answers);
  return refused ?? tool.notes.enter();
}

async function runUntilFinal<Outcome>(call: Invocation<Outcome>): Promise<FinalResult<Outcome>> {
  const { tool, args, options, beganAt } = call;
  const { contract, notes, limits } = tool;
  const first = await tool.run(args, options, notes.onLine);
  // Most calls end at once, with content or with an error that is not transient.
  if (isFinal(tool, first)) return { result: first, retries: 0 };
  const attempts = {
    run: (again: CallOptions) => tool.run(args, again, undefined),
    transientOf: (outcome: Outcome) => tool.transientOf(outcome),
    questionsOf: (outcome: Outcome) => tool.questionsOf(outcome),
  };
  const deadlineAt = beganAt + (options.deadlineMs ?? tool.callMs);
  return retryUntilFinal(first, attempts, { contract, options: tool.optionsToRetry(options), deadlineAt, limits });
}

function isFinal<Outcome>(tool: Invocable<Outcome>, outcome: Outcome): boolean {
  return tool.transientOf(outcome) === undefined && tool.questionsOf(outcome) === undefined;
}

function record<Outcome>(
  { tool, args, options, beganAt }: Invocation<Outcome>,
  end: CallEnd,
  retries = 0,
): Answer | Promise<Answer> {
  tool.notes.ended(end.outcome, beganAt, args, options, end.result, retries, end.failure);
  return end.result ?? end.answer();
}
