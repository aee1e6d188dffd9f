import type { InputRequests } from "../host/catalog.ts";
import { valuesIn, type Json } from "../lib/json.ts";
import { limitVariable } from "../limits/limits.ts";

/** The memory that a value takes besides its text. */
const VALUE_BYTES = 32;

/** What a value takes in memory, about; once its values alone take more than `most`, no more of it is looked at. */
export function heldBytes(value: Json, most: number, textUnits?: number): number {
  const bytes = VALUE_BYTES * valuesIn(value, most / VALUE_BYTES);
  return bytes > most ? bytes : bytes + (textUnits ?? JSON.stringify(value).length);
}

/** Why answers of this length are not taken, as the end of a sentence. */
export function tooManyAnswers(answerBytes: number): string {
  return `answers of more than ${answerBytes} bytes, with 32 for each value (${limitVariable("answerBytes")})`;
}

/** The length of all questions that one call asks at once. */
export function bytesOf(inputRequests: InputRequests): number {
  return Buffer.byteLength(JSON.stringify(inputRequests));
}

/** Why questions of this length are put to no client; undefined when they may be. */
export function whyTooLong(bytes: number, questionBytes: number): string | undefined {
  if (bytes <= questionBytes) return undefined;
  return `it asks ${bytes} bytes at once, and the limit ${limitVariable("questionBytes")} is ${questionBytes}`;
}
