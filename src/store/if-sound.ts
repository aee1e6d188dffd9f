import { BerthError } from "../errors.ts";
import { isObject, type JsonObject } from "../json.ts";

/** The object that a row holds as JSON; undefined where it went bad on the disk. */
export function soundObject(text: string): JsonObject | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return isObject(value) ? (value as JsonObject) : undefined;
  } catch {
    return undefined;
  }
}

/** What a read of the store gives, or undefined where the bytes went bad on the disk or are gone: for who goes on without. */
export async function ifSound<T>(reading: Promise<T>): Promise<T | undefined> {
  try {
    return await reading;
  } catch (error) {
    const { code } = error instanceof BerthError ? error : {};
    if (code === "content_corrupt" || code === "content_missing") return undefined;
    throw error;
  }
}
