import type { Json, JsonObject } from "../../lib/json.ts";
import { active, finish, type ActiveCall } from "./active.mts";
import { encodeJson, encodeQuestions } from "./values.mts";
import { nameUnitsMax, questionsMax } from "./wire.mts";

/**
 * A function's questions to the client. An existing answer is returned immediately. Without one, the call ends with all
 * questions of the same turn, its function is abandoned, and another call runs it from the start with the answers.
 */
type GuestMethod = "elicitation/create" | "sampling/createMessage" | "roots/list";

const keyPrefixes: Readonly<Record<GuestMethod, string>> = {
  "elicitation/create": "elicitation",
  "sampling/createMessage": "sampling",
  "roots/list": "roots",
};

/** An answer that does not fit its question counts as missing, and is requested again. */
export function ask(call: ActiveCall, method: GuestMethod, params: JsonObject, key?: unknown): Promise<Json> {
  try {
    const name = questionKey(call, method, key);
    const { answers } = call;
    const answer = answers && Object.hasOwn(answers, name) ? answers[name] : undefined;
    if (answer !== undefined && fits(method, params, answer)) return Promise.resolve(answer);
    addQuestion(call, name, `{"method":"${method}","params":${encodeJson(params)}}`);
  } catch (error) {
    return Promise.reject(error);
  }
  return never;
}

/** The promise that an abandoned function waits on. */
export const never = new Promise<never>(() => {});

/** The same on every run of a function that asks in the same order. */
function questionKey(call: ActiveCall, method: GuestMethod, key: unknown): string {
  if (key === undefined) {
    call.asked ??= {};
    const count = (call.asked[method] ?? 0) + 1;
    call.asked[method] = count;
    return `${keyPrefixes[method]}-${count}`;
  }
  if (typeof key !== "string" || key === "" || key.length > nameUnitsMax) {
    throw new TypeError(`A question's key must be a string of 1 to ${nameUnitsMax} characters`);
  }
  // These keys are the host's, for questions that are returned as results.
  if (key.startsWith("question.")) throw new TypeError('A question\'s key may not begin with "question."');
  return key;
}

function addQuestion(call: ActiveCall, key: string, question: string): void {
  if (active.get(call.id) !== call) return;
  if (!call.questions) {
    call.questions = new Map();
    // At the end of the turn, so that concurrent questions are sent together.
    setImmediate(suspend, call);
  }
  const existing = call.questions.get(key);
  if (existing !== undefined && existing !== question) throw new Error(`Two different questions have the key "${key}"`);
  if (call.questions.size >= questionsMax) throw new Error(`More than ${questionsMax} questions at a time`);
  call.questions.set(key, question);
}

function suspend(call: ActiveCall): void {
  // It may have ended or been cancelled without waiting for its own questions.
  if (active.get(call.id) !== call) return;
  const questions = [...call.questions!].map(([key, question]) => `${JSON.stringify(key)}:${question}`);
  finish(call, encodeQuestions(call.id, `{${questions.join(",")}}`));
  call.stopped = new DOMException("The call runs again when there are answers", "AbortError");
  call.controller?.abort(call.stopped);
}

/**
 * Returns true if a client's answer fits the question. Forms are flat and have few kinds of fields (2026-07-28
 * `schema.ts`, `PrimitiveSchemaDefinition`), so this is not a full JSON Schema validator.
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
  const values = content ?? {};
  if (!isObject(values)) return false;
  if (required?.some((name) => !Object.hasOwn(values, name))) return false;
  return Object.entries(properties ?? {}).every(
    ([name, field]) => !Object.hasOwn(values, name) || fitsField(field as Field, values[name]!),
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

function isWithin(value: number, min = -Infinity, max = Infinity): boolean {
  return value >= min && value <= max;
}

function isObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function isText(value: unknown): value is string {
  return typeof value === "string";
}
