import { BerthError } from "./errors.ts";
import { isObject } from "./json.ts";

/** Sources by path. Everything except a definition of several files is a single source, whose path is its name. */
export interface Draft {
  /** The path of the main file. */
  readonly entry: string;
  readonly files: Readonly<Record<string, string>>;
}

/** The current version as a draft. */
export interface CurrentDraft extends Draft {
  /** CID of the current version: the ETag of its URL. */
  readonly cid: string;
  readonly language: "typescript" | "shell" | "json" | "text";
  /** Milliseconds since the epoch. */
  readonly changedAt: number;
  readonly by: string;
}

/** Parses a draft from JSON; null means that there is none. Throws `parse_error` or `invalid_params`. */
export function parseDraft(body: string): Draft | null {
  let draft: unknown;
  try {
    draft = JSON.parse(body);
  } catch (error) {
    throw new BerthError("parse_error", (error as Error).message);
  }
  if (draft === null) return null;
  if (!isDraft(draft)) {
    throw new BerthError("invalid_params", "send {entry, files} with texts by path, or a single text as text/plain");
  }
  const { entry, files } = draft;
  return { entry, files };
}

function isDraft(value: unknown): value is Draft {
  if (!isObject(value) || typeof value["entry"] !== "string" || !isObject(value["files"])) return false;
  return Object.values(value["files"]).every((text) => typeof text === "string");
}
