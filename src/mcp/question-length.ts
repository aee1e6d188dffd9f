import type { InputRequests } from "../host/offers/catalog.ts";
import { valuesIn, type Json } from "../lib/json.ts";
import { QUESTION_BYTES } from "../outcome/question.ts";

/**
 * The memory of all answers to the questions of one call: each round reads and writes them. Also that of what a task
 * keeps of its "_meta".
 */
export const ANSWER_BYTES = 1024 * 1024;
/** The memory that a value takes besides its text. */
const VALUE_BYTES = 32;

/** The approximate memory of a value; stops counting once its values alone take more than `most`. */
export function heldBytes(value: Json, most = ANSWER_BYTES, textUnits?: number): number {
  const bytes = VALUE_BYTES * valuesIn(value, most / VALUE_BYTES);
  return bytes > most ? bytes : bytes + (textUnits ?? JSON.stringify(value).length);
}

/** The reason why answers of this length are refused, as the end of a sentence. */
export const TOO_MANY_ANSWERS = `answers of more than ${ANSWER_BYTES} bytes, with ${VALUE_BYTES} for each value`;

/** The length of all questions that one call asks at once. */
export function bytesOf(inputRequests: InputRequests): number {
  return Buffer.byteLength(JSON.stringify(inputRequests));
}

/** The reason why questions of this length are not asked; undefined when they may be. */
export function whyTooLong(bytes: number): string | undefined {
  if (bytes <= QUESTION_BYTES) return undefined;
  return `its questions have ${bytes} bytes together, and the limit is ${QUESTION_BYTES}`;
}
