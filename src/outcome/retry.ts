import { pause, type CancelSignal } from "../lib/cancellation.ts";
import { isObject, type JsonObject } from "../lib/json.ts";
import { fixed } from "../limits/fixed.ts";
import { QUESTION_ROUNDS_MAX, type Limits } from "../limits/limits.ts";
import { joinAnswers } from "./answers.ts";
import { defaultAnswer, readQuestionKey } from "./question.ts";

export type RetryLimits = Pick<Limits, "retries">;

const bounds = fixed({
  /** The longest delay before the first retry; it doubles with each further one. */
  retryMs: 200,
});

/** How to run one kind of tool and read its results. */
export interface Attempts<R, Options extends AttemptOptions> {
  readonly run: (options: Options) => Promise<R>;
  /** The message of a transient error; undefined for any other result. */
  readonly transientOf: (result: R) => string | undefined;
  readonly questionsOf: (result: R) => Requests | undefined;
}

/** The options of a call that matter here. */
export interface AttemptOptions {
  readonly signal?: CancelSignal | undefined;
  readonly answers?: JsonObject | undefined;
  readonly client?: { readonly capabilities: JsonObject } | undefined;
  readonly deadlineMs?: number | undefined;
  readonly onLog?: ((line: { readonly level: "notice"; readonly message: string }) => void) | undefined;
}

type Requests = Readonly<Record<string, Request>>;

interface Request {
  readonly method: string;
  readonly params: JsonObject;
}

export interface RetriedCall<Options extends AttemptOptions> {
  readonly contract: {
    readonly name: string;
    readonly annotations?: { readonly destructiveHint?: boolean; readonly idempotentHint?: boolean };
  };
  readonly options: Options;
  /** On the process's clock (`performance.now`): no try begins after it. */
  readonly deadlineAt: number;
  readonly limits: RetryLimits;
}

export interface FinalResult<R> {
  readonly result: R;
  readonly retries: number;
  /** Replaces the result: the answers that a caller that cannot be asked would have to send, as a sentence. */
  readonly needs?: string;
}

/**
 * Continues after a result that is not final: retries a transient error (P5), and answers a question with its default
 * if nobody can be asked (P4). Any other result is final.
 */
export async function retryUntilFinal<R, Options extends AttemptOptions>(
  first: R,
  attempts: Attempts<R, Options>,
  call: RetriedCall<Options>,
): Promise<FinalResult<R>> {
  const { contract, deadlineAt, limits } = call;
  const retriesMax = mayRepeat(contract) ? limits.retries : 0;
  const { options } = call;
  let { answers } = options;
  let result = first;
  let retries = 0;
  for (let rounds = 0; ;) {
    const asked = unanswerable(attempts.questionsOf(result), options);
    const failure = asked ? undefined : attempts.transientOf(result);
    if (asked) {
      const defaults = ++rounds <= QUESTION_ROUNDS_MAX ? defaultsOf(asked) : undefined;
      if (!defaults) return { result, retries, needs: sayNeeds(contract.name, asked) };
      answers = joinAnswers(answers, defaults);
    } else {
      if (failure === undefined || retries >= retriesMax) return { result, retries };
      // Full jitter: callers that failed together do not retry together.
      const waitMs = Math.random() * bounds.retryMs * 2 ** retries;
      if (performance.now() + waitMs >= deadlineAt) return { result, retries };
      retries += 1;
      tell(options, contract.name, failure, `${retries} of ${retriesMax}`, waitMs);
      await pause(waitMs, options.signal);
    }
    if (options.signal?.aborted) return { result, retries };
    result = await attempts.run({
      ...options,
      ...(answers && { answers }),
      deadlineMs: Math.max(1, deadlineAt - performance.now()),
    });
  }
}

/** False for a destructive tool, unless it is idempotent. */
function mayRepeat({ annotations }: RetriedCall<AttemptOptions>["contract"]): boolean {
  return annotations?.destructiveHint !== true || annotations.idempotentHint === true;
}

type Asked = readonly [key: string, request: Request][];

/** The questions that this caller cannot be asked; undefined if there are none, or if a function made them itself. */
function unanswerable(requests: Requests | undefined, { client }: AttemptOptions): Asked | undefined {
  if (!requests || takesForms(client?.capabilities["elicitation"])) return undefined;
  const asked = Object.entries(requests);
  return asked.every(([key]) => readQuestionKey(key)) ? asked : undefined;
}

/** An elicitation capability without modes means forms, as it did before there were modes. */
function takesForms(elicitation: unknown): boolean {
  return isObject(elicitation) && (isObject(elicitation["form"]) || elicitation["url"] === undefined);
}

function defaultsOf(asked: Asked): JsonObject | undefined {
  const answers = asked.map(([key, { params }]) => [key, defaultAnswer(params)] as const);
  const missing = answers.some(([, answer]) => !answer);
  return missing ? undefined : (Object.fromEntries(answers) as JsonObject);
}

function sayNeeds(tool: string, asked: Asked): string {
  const said = asked.map(([key, { params }]) => {
    const { id, answerType } = readQuestionKey(key)!;
    const kind =
      answerType.type === "select"
        ? `one of ${answerType.options.map((option) => JSON.stringify(option)).join(", ")}`
        : answerType.type === "boolean"
          ? "true or false"
          : "a string";
    return `${JSON.stringify(params["message"])} ("${id}": ${kind})`;
  });
  return `The tool "${tool}" needs an answer, and this client cannot be asked: ${said.join("; ")}`;
}

function tell({ onLog }: AttemptOptions, tool: string, failure: string, which: string, waitMs: number): void {
  const message = `The tool "${tool}" failed temporarily and is called again in ${Math.round(waitMs)} ms (${which}): ${failure}`;
  onLog?.({ level: "notice", message });
}
