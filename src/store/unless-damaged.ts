import { BerthError } from "../lib/errors.ts";

/** Resolves with undefined if the bytes are missing or damaged on disk, for callers that can continue without them. */
export async function unlessDamaged<T>(reading: Promise<T>): Promise<T | undefined> {
  try {
    return await reading;
  } catch (error) {
    const { code } = error instanceof BerthError ? error : {};
    if (code === "content_corrupt" || code === "content_missing") return undefined;
    throw error;
  }
}
