import type { InputRequests } from "../host/catalog/catalog.ts";
import { valuesIn, type Json } from "../lib/json.ts";

/** The memory that a value takes besides its text. */
const VALUE_BYTES = 32;

/** The approximate memory of a value; stops counting once its values alone take more than `most`. */
export function heldBytes(value: Json, most: number, textUnits?: number): number {
  const bytes = VALUE_BYTES * valuesIn(value, most / VALUE_BYTES);
  return bytes > most ? bytes : bytes + (textUnits ?? JSON.stringify(value).length);
}

/** The reason why answers of this length are refused, as the end of a sentence. */
export function tooManyAnswers(answerBytes: number): string {
  return `answers of more than ${answerBytes} bytes, with 32 for each value`;
}

/** The length of all questions that one call asks at once. */
export function bytesOf(inputRequests: InputRequests): number {
  return Buffer.byteLength(JSON.stringify(inputRequests));
}

/** The reason why questions of this length are not asked; undefined when they may be. */
export function whyTooLong(bytes: number, questionBytes: number): string | undefined {
  if (bytes <= questionBytes) return undefined;
  return `its questions have ${bytes} bytes together, and the limit is ${questionBytes}`;
}
