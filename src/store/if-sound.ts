import { BerthError } from "../lib/errors.ts";

/** Resolves with undefined where the bytes went bad on the disk or are gone, for callers that go on without. */
export async function ifSound<T>(reading: Promise<T>): Promise<T | undefined> {
  try {
    return await reading;
  } catch (error) {
    const { code } = error instanceof BerthError ? error : {};
    if (code === "content_corrupt" || code === "content_missing") return undefined;
    throw error;
  }
}
