import { isObject, type Json, type JsonObject } from "../json.ts";
import type { AnswerType, Question } from "./outcome.ts";

/** The one field of the form that a question is. */
const FIELD = "answer";

/** A question as the protocol asks it: the parameters of `elicitation/create` (2026-07-28 `client/elicitation`). */
export function elicitationOf({ text, answerType, default: otherwise }: Question): JsonObject {
  const field: JsonObject = { ...schemaOf(answerType), title: "Answer" };
  if (otherwise !== undefined && fitsQuestion(otherwise, answerType)) field["default"] = otherwise;
  return {
    mode: "form",
    message: text,
    requestedSchema: { type: "object", properties: { [FIELD]: field }, required: [FIELD] },
  };
}

/** What came of asking. `none`: nothing that answers the question, so it is to be asked again. */
export type Answer =
  | { readonly kind: "given"; readonly value: Json }
  | { readonly kind: "declined" | "cancelled" | "none" };

/** Reads what a client answered to `elicitationOf` the question. */
export function readAnswer(result: unknown, { answerType }: Pick<Question, "answerType">): Answer {
  if (!isObject(result)) return { kind: "none" };
  if (result["action"] === "decline") return { kind: "declined" };
  if (result["action"] === "cancel") return { kind: "cancelled" };
  const value = isObject(result["content"]) ? result["content"][FIELD] : undefined;
  return result["action"] === "accept" && fitsQuestion(value, answerType)
    ? { kind: "given", value: value as Json }
    : { kind: "none" };
}

/** Whether a value is an answer that the question allows. */
export function fitsQuestion(value: unknown, answerType: AnswerType): boolean {
  if (answerType.type === "boolean") return typeof value === "boolean";
  if (typeof value !== "string") return false;
  return answerType.type === "text" || answerType.options.includes(value);
}

function schemaOf(answerType: AnswerType): JsonObject {
  if (answerType.type === "select") return { type: "string", enum: [...answerType.options] };
  return { type: answerType.type === "boolean" ? "boolean" : "string" };
}
