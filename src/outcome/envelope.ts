import { hasMoreValues, isObject, isStringArray, type Json, tryParseJson } from "../lib/json.ts";
import type { AnswerType, Outcome, Question } from "./outcome.ts";

/** Longer text is plain content; in UTF-16 code units. */
export const ENVELOPE_UNITS_MAX = 1024 * 1024;
/** JSON with more values is plain content, too. */
export const ENVELOPE_VALUES_MAX = 10_000;

/**
 * The outcome of an envelope; undefined for any other text, which is then plain content (P1). An envelope is one JSON
 * object with exactly the members of its type and nothing around it, so that text that only resembles one is left
 * unchanged.
 */
export function parseEnvelope(text: string): Outcome | undefined {
  // Most results are not JSON at all, and large ones are not parsed twice.
  if (text.length > ENVELOPE_UNITS_MAX || !/^\s*\{[^]*\}\s*$/.test(text)) return undefined;
  if (hasMoreValues(text, ENVELOPE_VALUES_MAX)) return undefined;
  return readOutcome(tryParseJson(text));
}

export function readOutcome(value: unknown): Outcome | undefined {
  if (!isObject(value)) return undefined;
  switch (value["type"]) {
    case "success": {
      const { content } = value;
      return hasOnly(value, ["type", "content"]) && typeof content === "string"
        ? { type: "success", content }
        : undefined;
    }
    case "error": {
      const { message, trace = [], transient = false } = value;
      const isValid = hasOnly(value, ["type", "message", "trace", "transient"]);
      if (!isValid || typeof message !== "string" || typeof transient !== "boolean") return undefined;
      return isStringArray(trace) ? { type: "error", message, trace, transient } : undefined;
    }
    case "needs_input": {
      const question = hasOnly(value, ["type", "question"]) ? readQuestion(value["question"]) : undefined;
      return question && { type: "needs_input", question };
    }
    default:
      return undefined;
  }
}

function readQuestion(value: unknown): Question | undefined {
  if (!isObject(value) || !hasOnly(value, ["id", "text", "answer_type", "default"])) return undefined;
  const { id, text, default: preset } = value;
  const answerType = readAnswerType(value["answer_type"]);
  if (typeof id !== "string" || id === "" || id.includes(".") || typeof text !== "string" || !answerType) {
    return undefined;
  }
  return { id, text, answerType, ...(preset !== undefined && preset !== null && { default: preset as Json }) };
}

/** Older tools write the type as a capitalized string instead of an object. */
function readAnswerType(value: unknown): AnswerType | undefined {
  if (value === "Boolean" || value === "Text") return { type: value === "Boolean" ? "boolean" : "text" };
  if (!isObject(value)) return undefined;
  const { type } = value;
  if ((type === "boolean" || type === "text") && hasOnly(value, ["type"])) return { type };
  const select = hasOnly(value, ["Select"]) && isObject(value["Select"]) ? value["Select"] : value;
  const isSelect =
    select === value ? type === "select" && hasOnly(value, ["type", "options"]) : hasOnly(select, ["options"]);
  const { options } = select;
  return isSelect && isStringArray(options) && options.length > 0 ? { type: "select", options } : undefined;
}

function hasOnly(value: Record<string, unknown>, names: readonly string[]): boolean {
  return Object.keys(value).every((name) => names.includes(name));
}
