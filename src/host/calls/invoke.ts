import type { TaskSupport } from "../../discover/discovery.ts";
import type { GuestFailure, GuestLog } from "../../executor/executor.ts";
import { BerthError } from "../../lib/errors.ts";
import type { JsonObject, JsonText } from "../../lib/json.ts";
import { refusal } from "../../outcome/answers.ts";
import { type FinalResult, type RetryLimits, retryUntilFinal } from "../../outcome/retry.ts";
import type { Validator } from "../checks/checks.ts";
import type { ToolJournal } from "../journal/journal.ts";
import type { CallOutcome } from "../journal/record.ts";
import type { CallOptions, CallResult, InputRequired, Tool, ToolContract } from "../offers/catalog.ts";
import { failure } from "../offers/content.ts";
import type { Checked, Consent } from "./consent.ts";

/**
 * Creates a tool. Calls of definitions and of upstreams take the same path: validate arguments → ask for consent → admit
 * → run → read the result → retry, or ask the user → record → answer. The `Invocable` defines how to run and read.
 */
export function invocableTool<Returned>(invocable: Invocable<Returned>, task?: TaskSupport): Tool {
  const { contract, consent, journal, checkArguments } = invocable;
  return {
    contract,
    ...(task && { task }),
    ...(consent && { asksConsent: () => true }),
    async call(args, options) {
      const call: Invocation<Returned> = { tool: invocable, args, options, beganAt: performance.now() };
      journal.began(call);
      const checked = checkArguments?.(args);
      // Awaited only when necessary: most arguments are checked immediately.
      const invalid = checked === undefined ? undefined : await checked;
      if (invalid !== undefined) return refuseArguments(call, invalid);
      // A resumed task got consent when it started.
      return consent && !options.task ? executeWithConsent(call, consent) : execute(call);
    },
  };
}

/** Executes the call if the user has consented to it. */
async function executeWithConsent<Returned>(call: Invocation<Returned>, consent: Consent): Promise<Answer> {
  let checked: Checked;
  try {
    checked = await consent.check(call.args, call.options);
  } catch (error) {
    return record(call, rejectWith(error));
  }
  if (checked.asked) return record(call, { outcome: "asked", asked: checked.asked });
  if (checked.refused !== undefined) return record(call, { outcome: "error", result: failure(checked.refused) });
  const answer = await execute(call);
  // The repeated call with the answers must not ask for consent again.
  if ("inputRequests" in answer) await checked.waitsFor(Object.keys(answer.inputRequests));
  return answer;
}

async function execute<Returned>(call: Invocation<Returned>): Promise<Answer> {
  const { tool, args, options } = call;
  const refused = admit(call);
  if (refused !== undefined) return record(call, { outcome: "error", result: failure(refused) });
  let final: FinalResult<CallEnd>;
  try {
    const read = tool.read(await tool.run(args, options, tool.journal.onLine), options);
    // Awaited only when necessary, as above.
    const first = read instanceof Promise ? await read : read;
    // Most calls end immediately, with content or with an error that is not transient.
    const isFinal = first.transient === undefined && first.asked === undefined;
    final = isFinal ? { result: first, retries: 0 } : await retry(call, first);
  } catch (error) {
    return record(call, tool.readThrown(error, options));
  } finally {
    // Release the slot first: a redirect may call this server again.
    tool.journal.leave();
  }
  const { result: end, retries, needs } = final;
  return record(call, needs === undefined ? end : { outcome: "error", result: failure(needs) }, retries);
}

/** How one kind of tool is executed. */
export interface Invocable<Returned> {
  readonly contract: ToolContract;
  readonly journal: ToolJournal;
  readonly limits: RetryLimits;
  /** Default timeout of a call including its retries. */
  readonly callMs: number;
  /** Absent if calls need no consent. */
  readonly consent?: Consent | undefined;
  /** Absent if arguments are validated elsewhere. */
  readonly checkArguments?: Validator;
  /** Runs one attempt; `onLine` gets log lines before the caller does. */
  run(args: JsonObject | JsonText, options: CallOptions, onLine: OnLine | undefined): Promise<Returned>;
  /** The options for further attempts. */
  retryOptions(options: CallOptions): CallOptions;
  /** Interprets the value of `run`. */
  read(returned: Returned, options: CallOptions): CallEnd | Promise<CallEnd>;
  /** Interprets an error of `run`. */
  readThrown(error: unknown, options: CallOptions): CallEnd;
}

type OnLine = (line: GuestLog) => void;

/** How a call or an attempt ended: what to record, and the answer. */
export type CallEnd = {
  readonly outcome: CallOutcome;
  readonly failure?: GuestFailure | undefined;
  /** The message of a transient error. */
  readonly transient?: string | undefined;
  /** The message of the error that the call rejects with. */
  readonly rejection?: string;
} & (
  | { readonly result: CallResult; readonly asked?: undefined }
  | { readonly result?: undefined; readonly asked: InputRequired }
  /** Called after recording; returns the result of another function, or throws. */
  | { readonly result?: undefined; readonly asked?: undefined; readonly answer: () => Answer | Promise<Answer> }
);

type Answer = CallResult | InputRequired;

/** The end of a call that rejects. */
export function rejectWith(error: unknown, failure?: GuestFailure): CallEnd {
  const answer = (): never => {
    throw error;
  };
  return { outcome: "error", failure, rejection: (error as Error).message, answer };
}

interface Invocation<Returned> {
  readonly tool: Invocable<Returned>;
  readonly args: JsonObject | JsonText;
  readonly options: CallOptions;
  /** Milliseconds of `performance.now()`. */
  readonly beganAt: number;
}

function refuseArguments<Returned>(call: Invocation<Returned>, invalid: string): Answer | Promise<Answer> {
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

/** Admits the call until `journal.leave`, or returns why it is refused. */
function admit<Returned>({ tool, options }: Invocation<Returned>): string | undefined {
  const refused = options.answers && refusal(tool.contract.name, options.answers);
  return refused ?? tool.journal.enter();
}

function retry<Returned>(call: Invocation<Returned>, first: CallEnd): Promise<FinalResult<CallEnd>> {
  const { tool, args, options, beganAt } = call;
  const { contract, limits } = tool;
  const attempts = {
    run: async (again: CallOptions) => tool.read(await tool.run(args, again, undefined), options),
    transientOf: (end: CallEnd) => end.transient,
    questionsOf: (end: CallEnd) => end.asked?.inputRequests,
  };
  const deadlineAt = beganAt + (options.deadlineMs ?? tool.callMs);
  return retryUntilFinal(first, attempts, { contract, options: tool.retryOptions(options), deadlineAt, limits });
}

function record<Returned>(call: Invocation<Returned>, end: CallEnd, retries = 0): Answer | Promise<Answer> {
  call.tool.journal.record(call, end, retries);
  return end.result ?? end.asked ?? end.answer();
}
