import type { InputRequests } from "../host/offers/catalog.ts";
import { countValues, type Json } from "../lib/json.ts";
import { QUESTION_BYTES } from "../outcome/question.ts";

/**
 * Limits the memory of all answers to the questions of a call, which each round reads and writes, and of the `_meta`
 * that a task stores.
 */
export const ANSWER_BYTES = 1024 * 1024;
const VALUE_BYTES = 32;

/** Estimates the memory of a value; stops counting when its values alone exceed `most`. */
export function memoryBytes(value: Json, most = ANSWER_BYTES, textUnits?: number): number {
  const bytes = VALUE_BYTES * countValues(value, most / VALUE_BYTES);
  return bytes > most ? bytes : bytes + (textUnits ?? JSON.stringify(value).length);
}

/** The reason for rejecting longer answers, as the end of a sentence. */
export const TOO_MANY_ANSWERS = `answers of more than ${ANSWER_BYTES} bytes, counting ${VALUE_BYTES} for each value`;

export function questionBytes(inputRequests: InputRequests): number {
  return Buffer.byteLength(JSON.stringify(inputRequests));
}

/** The reason for rejecting questions of this length; undefined when they are allowed. */
export function questionsTooLong(bytes: number): string | undefined {
  if (bytes <= QUESTION_BYTES) return undefined;
  return `its questions have ${bytes} bytes in total, and the limit is ${QUESTION_BYTES}`;
}
