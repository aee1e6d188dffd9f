import { pause, type CancelSignal } from "../lib/cancellation.ts";
import { isObject, type JsonObject } from "../lib/json.ts";
import { fixed } from "../limits/fixed.ts";
import { QUESTION_ROUNDS_MAX, type Limits } from "../limits/limits.ts";
import { joinAnswers } from "./answers.ts";
import { defaultAnswer, readQuestionKey } from "./question.ts";

export type RetryLimits = Pick<Limits, "retries">;

const bounds = fixed({
  /** The maximum delay before the first retry; it doubles with each further one. */
  retryMs: 200,
});

/** How to run one kind of tool and read its results. */
export interface Attempts<R, Options extends AttemptOptions> {
  readonly run: (options: Options) => Promise<R>;
  /** The message of a transient error; undefined for any other result. */
  readonly transientOf: (result: R) => string | undefined;
  readonly questionsOf: (result: R) => Requests | undefined;
}

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
  /** By the process's monotonic clock (`performance.now`): no attempt begins after it. */
  readonly deadlineAt: number;
  readonly limits: RetryLimits;
}

export interface FinalResult<R> {
  readonly result: R;
  readonly retries: number;
  /** Replaces the result: a sentence with the answers that a caller that cannot be asked would have to send. */
  readonly needs?: string;
}

/**
 * Continues after a result that is not final: retries after a transient error (P5), and answers a question with its
 * default if the client cannot be asked (P4). Any other result is final.
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
    const questions = unanswerable(attempts.questionsOf(result), options);
    const failure = questions ? undefined : attempts.transientOf(result);
    if (questions) {
      const defaults = ++rounds <= QUESTION_ROUNDS_MAX ? defaultAnswers(questions) : undefined;
      if (!defaults) return { result, retries, needs: describeNeeds(contract.name, questions) };
      answers = joinAnswers(answers, defaults);
    } else {
      if (failure === undefined || retries >= retriesMax) return { result, retries };
      // Full jitter: callers that failed together do not retry together.
      const waitMs = Math.random() * bounds.retryMs * 2 ** retries;
      if (performance.now() + waitMs >= deadlineAt) return { result, retries };
      retries += 1;
      logRetry(options, contract.name, failure, `${retries} of ${retriesMax}`, waitMs);
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

type Questions = readonly [key: string, request: Request][];

/** The questions that this caller cannot be asked; undefined if there are none, or if a function asks them itself. */
function unanswerable(requests: Requests | undefined, { client }: AttemptOptions): Questions | undefined {
  if (!requests || supportsForms(client?.capabilities["elicitation"])) return undefined;
  const questions = Object.entries(requests);
  return questions.every(([key]) => readQuestionKey(key)) ? questions : undefined;
}

/** As before modes were added, an elicitation capability without modes means forms. */
function supportsForms(elicitation: unknown): boolean {
  return isObject(elicitation) && (isObject(elicitation["form"]) || elicitation["url"] === undefined);
}

function defaultAnswers(questions: Questions): JsonObject | undefined {
  const answers = questions.map(([key, { params }]) => [key, defaultAnswer(params)] as const);
  const missing = answers.some(([, answer]) => !answer);
  return missing ? undefined : (Object.fromEntries(answers) as JsonObject);
}

function describeNeeds(tool: string, questions: Questions): string {
  const descriptions = questions.map(([key, { params }]) => {
    const { id, answerType } = readQuestionKey(key)!;
    const kind =
      answerType.type === "select"
        ? `one of ${answerType.options.map((option) => JSON.stringify(option)).join(", ")}`
        : answerType.type === "boolean"
          ? "true or false"
          : "a string";
    return `${JSON.stringify(params["message"])} ("${id}": ${kind})`;
  });
  return `The tool "${tool}" needs an answer, and this client cannot be asked: ${descriptions.join("; ")}`;
}

function logRetry({ onLog }: AttemptOptions, tool: string, failure: string, which: string, waitMs: number): void {
  const message = `The tool "${tool}" failed temporarily and is called again in ${Math.round(waitMs)} ms (${which}): ${failure}`;
  onLog?.({ level: "notice", message });
}
