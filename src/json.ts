/** Any value that JSON can carry. */
export type Json = null | boolean | number | string | Json[] | JsonObject;
export type JsonObject = { [key: string]: Json };

/** A JSON Schema 2020-12 document that is an object (the boolean forms are never produced by Berth). */
export type JsonSchema = { [keyword: string]: unknown };

/**
 * An object that is too long to be read by who serves: its JSON text, of which something is known that was found out
 * elsewhere.
 */
export class JsonText {
  text: string;
  /** Of its canonical JSON: the length in bytes, and the SHA-256 in base64url. */
  digest: JsonDigest;
  /** Of what it was before it was filled in with anything. */
  readonly givenDigest: JsonDigest;

  constructor(text: string, digest: JsonDigest) {
    this.text = text;
    this.digest = this.givenDigest = digest;
  }

  /** All of it, which takes a while. */
  read(): JsonObject {
    return JSON.parse(this.text) as JsonObject;
  }
}

export interface JsonDigest {
  readonly bytes: number;
  readonly sha256: string;
}

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Levels of lists and objects in what comes from outside: more would harm readers and writers that recurse. */
export const NESTING_MAX = 256;

/** Whether a value that was read from a text of `units` UTF-16 units has more levels than that. */
export function nestsTooDeep(value: unknown, units: number): boolean {
  // Each level takes two units at least, so that most texts are too short to be looked through.
  return units > 2 * NESTING_MAX && isDeeper(value, NESTING_MAX);
}

/** The recursion itself goes no deeper than `levels`. */
function isDeeper(value: unknown, levels: number): boolean {
  if (typeof value !== "object" || value === null) return false;
  if (levels === 0) return true;
  if (Array.isArray(value)) return value.some((element) => isDeeper(element, levels - 1));
  for (const key in value) if (isDeeper((value as Record<string, unknown>)[key], levels - 1)) return true;
  return false;
}

/** Whether both are written the same, members in the same order; never true of what nests too deep to be looked through. */
export function isSameJson(one: unknown, other: unknown, levels = NESTING_MAX): boolean {
  if (one === other) return true;
  if (typeof one !== "object" || typeof other !== "object" || one === null || other === null) return false;
  if (levels === 0 || Array.isArray(one) !== Array.isArray(other)) return false;
  const [keys, others] = [Object.keys(one), Object.keys(other)];
  return (
    keys.length === others.length &&
    keys.every(
      (key, index) =>
        key === others[index] &&
        isSameJson((one as Record<string, unknown>)[key], (other as Record<string, unknown>)[key], levels - 1),
    )
  );
}
