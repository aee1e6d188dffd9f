import type { Json, JsonObject } from "../../lib/json.ts";
import { active, finish, type ActiveCall } from "./active.mts";
import { encodeJson, encodeQuestions } from "./values.mts";
import { nameUnitsMax, questionsMax } from "./wire.mts";

/**
 * A function's questions to the client. An answer that is there is returned at once. Without it the call ends with all
 * questions of the same turn, its function is abandoned where it stands, and another call begins at the top with the
 * answers.
 */
type GuestMethod = "elicitation/create" | "sampling/createMessage" | "roots/list";

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
    throw new TypeError(`A question's key must be a string of 1 to ${nameUnitsMax} characters`);
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

/**
 * Tells if a client's answer fits the question. Forms are flat and have few kinds of fields (2026-07-28 `schema.ts`,
 * `PrimitiveSchemaDefinition`), so this is no JSON Schema validator.
 */
export function fits(method: string, params: JsonObject, answer: Json): boolean {
  if (!isObject(answer)) return false;
  switch (method) {
    case "roots/list":
      return Array.isArray(answer["roots"]) && answer["roots"].every((root) => isObject(root) && isText(root["uri"]));
    case "sampling/createMessage":
      return isText(answer["role"]) && typeof answer["content"] === "object" && answer["content"] !== null;
    default:
      return fitsForm(params, answer);
  }
}

function fitsForm(params: JsonObject, { action, content }: JsonObject): boolean {
  if (action === "decline" || action === "cancel") return true;
  if (action !== "accept") return false;
  if (params["mode"] === "url") return true;
  const { properties, required } = params["requestedSchema"] as { properties?: JsonObject; required?: string[] };
  const given = content ?? {};
  if (!isObject(given)) return false;
  if (required?.some((name) => !Object.hasOwn(given, name))) return false;
  return Object.entries(properties ?? {}).every(
    ([name, field]) => !Object.hasOwn(given, name) || fitsField(field as Field, given[name]!),
  );
}

interface Field {
  type?: string;
  enum?: Json[];
  oneOf?: { const: Json }[];
  anyOf?: { const: Json }[];
  items?: Field;
  minLength?: number;
  maxLength?: number;
  minimum?: number;
  maximum?: number;
  minItems?: number;
  maxItems?: number;
}

function fitsField(field: Field, value: Json): boolean {
  const choices = field.enum ?? (field.oneOf ?? field.anyOf)?.map((choice) => choice.const);
  if (choices && !choices.includes(value)) return false;
  switch (field.type) {
    case "string":
      return isText(value) && isWithin(Array.from(value).length, field.minLength, field.maxLength);
    case "integer":
      return Number.isInteger(value) && isWithin(value as number, field.minimum, field.maximum);
    case "number":
      return typeof value === "number" && isWithin(value, field.minimum, field.maximum);
    case "boolean":
      return typeof value === "boolean";
    case "array":
      return (
        Array.isArray(value) &&
        isWithin(value.length, field.minItems, field.maxItems) &&
        value.every((element) => fitsField(field.items ?? {}, element))
      );
    default:
      return true;
  }
}

function isWithin(value: number, least = -Infinity, most = Infinity): boolean {
  return value >= least && value <= most;
}

function isObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function isText(value: unknown): value is string {
  return typeof value === "string";
}
