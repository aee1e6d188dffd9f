import type { InputRequests } from "../host/catalog.ts";
import { limitVariable } from "../limits.ts";

/** Of all answers of one call, of all its rounds together: they wait, and are read and written, with each round. */
export const ANSWERS_UNITS_MAX = 4 * 1024 * 1024;

/** The length of all questions that one call asks at once. */
export function bytesOf(inputRequests: InputRequests): number {
  return Buffer.byteLength(JSON.stringify(inputRequests));
}

/** Why questions of this length are put to no client; undefined when they may be. */
export function whyTooLong(bytes: number, questionBytes: number): string | undefined {
  if (bytes <= questionBytes) return undefined;
  return `it asks ${bytes} bytes at once, and the limit ${limitVariable("questionBytes")} is ${questionBytes}`;
}
