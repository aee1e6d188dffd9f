import { isObject, type Json, type JsonObject, tryParseJson } from "../lib/json.ts";
import type { AnswerType, Question } from "./outcome.ts";

/** The size of the questions of one call at a time; sampling includes texts and pictures. */
export const QUESTION_BYTES = 1024 * 1024;
/** How long a modern client may take to return with the answers. */
export const REQUEST_STATE_MS = 1_800_000;

const FIELD = "answer";

/** A question as the parameters of `elicitation/create` (2026-07-28 `client/elicitation`). */
export function toElicitation({ text, answerType, default: preset }: Question): JsonObject {
  const field: JsonObject = { ...answerSchema(answerType), title: "Answer" };
  if (preset !== undefined && fitsQuestion(preset, answerType)) field["default"] = preset;
  return {
    mode: "form",
    message: text,
    requestedSchema: { type: "object", properties: { [FIELD]: field }, required: [FIELD] },
  };
}

export function toInputRequests(
  question: Question,
): Record<string, { method: "elicitation/create"; params: JsonObject }> {
  return { [questionKey(question)]: { method: "elicitation/create", params: toElicitation(question) } };
}

/**
 * The key under which the question is sent, so that its answer can be read wherever it returns: its id, which has no
 * dots, and the type of its answer.
 */
export function questionKey({ id, answerType }: Pick<Question, "id" | "answerType">): string {
  const options = answerType.type === "select" ? JSON.stringify(answerType.options) : "";
  // With too many options to include, the tool checks the answer.
  const kind = options.length > KEY_OPTIONS_UNITS_MAX ? "text" : `${answerType.type}${options}`;
  return `${KEY_PREFIX}${id}.${kind}`;
}

export function readQuestionKey(key: string): Pick<Question, "id" | "answerType"> | undefined {
  if (!key.startsWith(KEY_PREFIX)) return undefined;
  const [, id, type, options] = /^([^.]+)\.(boolean|text|select)(\[[^]*\])?$/.exec(key.slice(KEY_PREFIX.length)) ?? [];
  if (id === undefined || (options ?? "").length > KEY_OPTIONS_UNITS_MAX) return undefined;
  if (type !== "select") return { id, answerType: { type: type as "boolean" | "text" } };
  const list = tryParseJson(options ?? "") as string[] | undefined;
  return list && { id, answerType: { type, options: list } };
}

const KEY_PREFIX = "question.";
const KEY_OPTIONS_UNITS_MAX = 2_000;

/** The answer of a client that accepts the default in an elicitation; undefined without a default. */
export function defaultAnswer({ requestedSchema }: JsonObject): JsonObject | undefined {
  const properties = isObject(requestedSchema) ? requestedSchema["properties"] : undefined;
  const field = isObject(properties) ? properties[FIELD] : undefined;
  const value = isObject(field) ? field["default"] : undefined;
  return value === undefined ? undefined : { action: "accept", content: { [FIELD]: value } };
}

/** The result of asking. `none`: no valid answer, so the question must be asked again. */
export type QuestionAnswer =
  | { readonly kind: "given"; readonly value: Json }
  | { readonly kind: "declined" | "cancelled" | "none" };

/** Reads a client's answer to the question. */
export function readAnswer(result: unknown, { answerType }: Pick<Question, "answerType">): QuestionAnswer {
  if (!isObject(result)) return { kind: "none" };
  if (result["action"] === "decline") return { kind: "declined" };
  if (result["action"] === "cancel") return { kind: "cancelled" };
  const value = isObject(result["content"]) ? result["content"][FIELD] : undefined;
  return result["action"] === "accept" && fitsQuestion(value, answerType)
    ? { kind: "given", value: value as Json }
    : { kind: "none" };
}

export function fitsQuestion(value: unknown, answerType: AnswerType): boolean {
  if (answerType.type === "boolean") return typeof value === "boolean";
  if (typeof value !== "string") return false;
  return answerType.type === "text" || answerType.options.includes(value);
}

function answerSchema(answerType: AnswerType): JsonObject {
  if (answerType.type === "select") return { type: "string", enum: [...answerType.options] };
  return { type: answerType.type === "boolean" ? "boolean" : "string" };
}
