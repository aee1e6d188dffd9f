import { usageFailure } from "./failure.ts";
import { recordFormats, type RecordFormat } from "./output.ts";
import type { ReachOptions } from "./reach.ts";

export interface RecordOptions extends ReachOptions {
  readonly format?: string;
  /** The whole result, as the server sent it. */
  readonly raw?: boolean;
}

export interface CountOptions extends ReachOptions {
  readonly format?: string;
  /** How many records; 10 by default. */
  readonly lines?: string;
}

export function formatOf({ format }: { readonly format?: string }): RecordFormat {
  return oneOf("--format", format ?? "ndjson", recordFormats);
}

export function countOf({ lines }: CountOptions): number {
  return wholeNumber("-n", lines ?? "10", 0, 1_000_000);
}

export function oneOf<T extends string>(option: string, text: string, known: readonly T[]): T {
  const found = known.find((one) => one === text);
  if (found !== undefined) return found;
  throw usageFailure(`${option} must be one of ${known.join(", ")}, not "${text}".`);
}

export function wholeNumber(option: string, text: string, min: number, max: number): number {
  const value = Number(text);
  if (/^\d+$/.test(text) && value >= min && value <= max) return value;
  throw usageFailure(`${option} must be a whole number from ${min} to ${max}, not "${text}".`);
}
