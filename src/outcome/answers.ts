import type { Json, JsonObject, JsonText } from "../lib/json.ts";
import { isConsentKey } from "./consent.ts";
import type { CallContext, CallerContext } from "./context.ts";
import { readAnswer, readQuestionKey } from "./question.ts";

/** The information about a call in addition to its arguments. */
interface CallInput {
  /** The client's answers, by the keys of its questions. */
  readonly answers?: JsonObject | undefined;
  readonly context?: CallerContext | undefined;
}

/** All answers so far by question id: those that the caller sent, overridden by those it gave when asked. */
export function answersById({ answers, context }: CallInput): JsonObject {
  const sent = context?.answers;
  return answers ? { ...sent, ...splitAnswers(answers).byId } : (sent ?? NOTHING);
}

/** The same for a function, which also gets the answers to its own questions (`context.elicit`), by its own keys. */
export function answersForFunction({ answers, context }: CallInput): JsonObject {
  if (!answers) return context?.answers ?? NOTHING;
  const { byId, others } = splitAnswers(answers);
  return { ...context?.answers, ...others, ...byId };
}

export function optionsFor({ context }: CallInput, configured: JsonObject): JsonObject {
  return context?.options ? { ...context.options, ...configured } : configured;
}

export function createCallContext(
  name: string,
  args: JsonObject | JsonText,
  input: CallInput,
  configured: JsonObject,
): CallContext {
  const { action = "run", root } = input.context ?? {};
  return {
    name,
    arguments: args,
    answers: answersById(input),
    options: optionsFor(input, configured),
    action,
    ...(root !== undefined && { root }),
  };
}

/** The result of a call that ends because the user declined to answer; undefined otherwise. */
export function refusal(tool: string, answers: JsonObject): string | undefined {
  for (const [key, answer] of Object.entries(answers)) {
    const question = readQuestionKey(key);
    const { kind } = question ? readAnswer(answer, question) : { kind: "none" };
    if (kind !== "declined" && kind !== "cancelled") continue;
    const what = kind === "declined" ? "declined to answer" : "cancelled the question";
    return `The tool "${tool}" stopped: the user ${what} "${question!.id}".`;
  }
  return undefined;
}

/**
 * Later answers override earlier ones to the same question and follow them, so the last ones are those of this round.
 */
export function joinAnswers(earlier: JsonObject | undefined, later: JsonObject): JsonObject {
  const unchanged = Object.entries(earlier ?? {}).filter(([key]) => !Object.hasOwn(later, key));
  return Object.fromEntries([...unchanged, ...Object.entries(later)]);
}

const NOTHING: JsonObject = {};

function splitAnswers(answers: JsonObject): { byId: JsonObject; others: JsonObject } {
  const byId: [string, Json][] = [];
  const others: [string, Json][] = [];
  for (const [key, answer] of Object.entries(answers)) {
    const question = readQuestionKey(key);
    const read = question && readAnswer(answer, question);
    // A consent is for Berth, not for the function.
    if (!read) {
      if (!isConsentKey(key)) others.push([key, answer]);
    } else if (read.kind === "given") byId.push([question.id, read.value]);
  }
  return { byId: Object.fromEntries(byId), others: Object.fromEntries(others) };
}
