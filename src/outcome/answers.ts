import type { Json, JsonObject, JsonText } from "../lib/json.ts";
import { isConsentKey } from "./consent.ts";
import type { CallContext, CallerContext } from "./context.ts";
import { readAnswer, readQuestionKey } from "./question.ts";

/** The information about a call besides its arguments. */
interface CallInput {
  /** The client's answers, by the keys of its questions. */
  readonly answers?: JsonObject | undefined;
  readonly context?: CallerContext | undefined;
}

/** All answers so far by question id: those that the caller brought, overridden by those it gave when asked. */
export function answersById({ answers, context }: CallInput): JsonObject {
  const brought = context?.answers;
  return answers ? { ...brought, ...splitAnswers(answers).byId } : (brought ?? NOTHING);
}

/** The same for a function, which also finds the answers to its own questions (`context.elicit`), by its own keys. */
export function answersForFunction({ answers, context }: CallInput): JsonObject {
  if (!answers) return context?.answers ?? NOTHING;
  const { byId, others } = splitAnswers(answers);
  return { ...context?.answers, ...others, ...byId };
}

/** A tool's configured options override those of the caller. */
export function optionsFor({ context }: CallInput, configured: JsonObject): JsonObject {
  return context?.options ? { ...context.options, ...configured } : configured;
}

/** The context of a call, the same for every kind of tool. */
export function contextOf(
  name: string,
  args: JsonObject | JsonText,
  given: CallInput,
  configured: JsonObject,
): CallContext {
  const { action = "run", root } = given.context ?? {};
  return {
    name,
    arguments: args,
    answers: answersById(given),
    options: optionsFor(given, configured),
    action,
    ...(root !== undefined && { root }),
  };
}

/** The result of a call that ends because a person declined to answer; undefined if nobody did. */
export function refusal(tool: string, answers: JsonObject): string | undefined {
  for (const [key, answer] of Object.entries(answers)) {
    const asked = readQuestionKey(key);
    const { kind } = asked ? readAnswer(answer, asked) : { kind: "none" };
    if (kind !== "declined" && kind !== "cancelled") continue;
    const what = kind === "declined" ? "declined to answer" : "cancelled the question";
    return `The tool "${tool}" stopped: the user ${what} "${asked!.id}".`;
  }
  return undefined;
}

/**
 * Later answers override earlier ones to the same question and follow them, so the last ones are those of this round.
 */
export function joinAnswers(earlier: JsonObject | undefined, later: JsonObject): JsonObject {
  const kept = Object.entries(earlier ?? {}).filter(([key]) => !Object.hasOwn(later, key));
  return Object.fromEntries([...kept, ...Object.entries(later)]);
}

const NOTHING: JsonObject = {};

function splitAnswers(answers: JsonObject): { byId: JsonObject; others: JsonObject } {
  const byId: [string, Json][] = [];
  const others: [string, Json][] = [];
  for (const [key, answer] of Object.entries(answers)) {
    const asked = readQuestionKey(key);
    const read = asked && readAnswer(answer, asked);
    // A consent is for Berth: a function has no use for it.
    if (!read) {
      if (!isConsentKey(key)) others.push([key, answer]);
    } else if (read.kind === "given") byId.push([asked.id, read.value]);
  }
  return { byId: Object.fromEntries(byId), others: Object.fromEntries(others) };
}
