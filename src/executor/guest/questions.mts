import type { Json, JsonObject } from "../../lib/json.ts";
import { active, finish, type ActiveCall } from "./active.mts";
import { fits } from "./answers.mts";
import { encodeJson, encodeQuestions } from "./values.mts";
import { nameUnitsMax, questionsMax } from "./wire.mts";

/**
 * A function's questions to the client. An answer that is there is returned at once. Without it the call ends with all
 * questions of the same turn, its function is abandoned where it stands, and another call begins at the top with the
 * answers.
 */
export type GuestMethod = "elicitation/create" | "sampling/createMessage" | "roots/list";

const kinds: Readonly<Record<GuestMethod, string>> = {
  "elicitation/create": "elicitation",
  "sampling/createMessage": "sampling",
  "roots/list": "roots",
};

/** An answer that does not fit the question counts as missing, and is asked for again. */
export function ask(call: ActiveCall, method: GuestMethod, params: JsonObject, key?: unknown): Promise<Json> {
  try {
    const name = keyOf(call, method, key);
    const { answers } = call;
    const answer = answers && Object.hasOwn(answers, name) ? answers[name] : undefined;
    if (answer !== undefined && fits(method, params, answer)) return Promise.resolve(answer);
    note(call, name, `{"method":"${method}","params":${encodeJson(params)}}`);
  } catch (error) {
    return Promise.reject(error);
  }
  return never;
}

/** The promise that an abandoned function waits on. */
export const never = new Promise<never>(() => {});

/** Equal in each run of a function that asks in the same order. */
function keyOf(call: ActiveCall, method: GuestMethod, key: unknown): string {
  if (key === undefined) {
    call.asked ??= {};
    const count = (call.asked[method] ?? 0) + 1;
    call.asked[method] = count;
    return `${kinds[method]}-${count}`;
  }
  if (typeof key !== "string" || key === "" || key.length > nameUnitsMax) {
    throw new TypeError(`A question's key is a text of 1 to ${nameUnitsMax} characters`);
  }
  // These keys are the host's, for questions that are results.
  if (key.startsWith("question.")) throw new TypeError('A question\'s key may not begin with "question."');
  return key;
}

function note(call: ActiveCall, key: string, question: string): void {
  if (active.get(call.id) !== call) return;
  if (!call.questions) {
    call.questions = new Map();
    // At the end of the turn: questions asked side by side go out together.
    setImmediate(suspend, call);
  }
  const known = call.questions.get(key);
  if (known !== undefined && known !== question) throw new Error(`Two different questions have the key "${key}"`);
  if (call.questions.size >= questionsMax) throw new Error(`More than ${questionsMax} questions at a time`);
  call.questions.set(key, question);
}

function suspend(call: ActiveCall): void {
  // It may have ended, or have been cancelled, without waiting for its own questions.
  if (active.get(call.id) !== call) return;
  const questions = [...call.questions!].map(([key, question]) => `${JSON.stringify(key)}:${question}`);
  finish(call, encodeQuestions(call.id, `{${questions.join(",")}}`));
  call.stopped = new DOMException("The call is made again when there are answers", "AbortError");
  call.controller?.abort(call.stopped);
}
