/**
 * Finds what a result would lose as JSON. `JSON.stringify` silently writes a map, an error or a promise as `{}`, and
 * NaN as null, so its output is examined if it contains either.
 */

/** A value that JSON would lose: its path, from the outside inwards, and its kind. */
interface Loss {
  readonly path: string[];
  readonly kind: string;
}

/** Finds what a result written as `json` has lost: values that JSON cannot represent or writes as null. */
export function findLoss(value: unknown, json: string): { readonly unwritable?: string; readonly nulled?: string } {
  if (!(json.includes("{}") || json.includes("null")) || !mayLose([value])) return nothingLost;
  const unwritable = describeUnwritable(value);
  if (unwritable !== undefined) return { unwritable };
  const nulled = find(value, classifyNulled);
  return nulled ? { nulled: `${pointer(nulled.path) || "the value"} is ${nulled.kind}` } : nothingLost;
}

const nothingLost = {};

/** A quick check: most results with a null or an empty object are correct. Errors and typed arrays were rejected. */
function mayLose(holder: object): boolean {
  try {
    return Array.isArray(holder)
      ? holder.some((element) => isSuspect(element) || isHole(element))
      : membersMayBeLost(holder);
  } catch {
    return true;
  }
}

function membersMayBeLost(holder: object): boolean {
  // This includes bytes, which would have a key for each byte.
  if (hasToJson(holder)) return false;
  const keys = Object.keys(holder);
  for (let index = 0; index < keys.length; index++) {
    if (isSuspect((holder as Record<string, unknown>)[keys[index]!])) return true;
  }
  return keys.length === 0 && !serializable.has(objectTag(holder));
}

function isSuspect(value: unknown): boolean {
  if (typeof value === "number") return !Number.isFinite(value);
  return typeof value === "object" && value !== null && mayLose(value);
}

function isHole(value: unknown): boolean {
  return value === undefined || typeof value === "function" || typeof value === "symbol";
}

/** Describes a value that JSON cannot represent, to complete "its result …"; undefined if there is none. */
export function describeUnwritable(value: unknown): string | undefined {
  const loss = find(value, classifyLost);
  return loss && formatLoss(loss);
}

function formatLoss({ path, kind: what }: Loss): string {
  const article = /^[AEIOU]/.test(what) ? "an" : "a";
  const where = path.length === 0 ? "" : ` at ${pointer(path)}`;
  return `${where ? "contains" : "is"} ${article} ${what}${where}, which JSON cannot represent; ${hintFor(what)}`;
}

/** The most of a path that is shown, in UTF-16 code units. */
const pathUnitsMax = 200;

function pointer(path: readonly string[]): string {
  const text = path.map((step) => `/${step.replaceAll("~", "~0").replaceAll("/", "~1")}`).join("");
  return text.length > pathUnitsMax ? `${text.slice(0, pathUnitsMax - 1)}…` : text;
}

type Classify = (value: unknown, isElement: boolean) => string | undefined;

function find(value: unknown, classify: Classify): Loss | undefined {
  const seen = new Set<object>();
  const visit = (current: unknown, isElement: boolean): Loss | undefined => {
    const kind = classify(current, isElement);
    if (kind !== undefined) return { path: [], kind: kind };
    if (typeof current !== "object" || current === null || seen.has(current) || hasToJson(current)) return undefined;
    seen.add(current);
    if (Array.isArray(current)) {
      for (let index = 0; index < current.length; index++) {
        const loss = visit(current[index], true);
        if (loss) return prependStep(String(index), loss);
      }
      return undefined;
    }
    for (const key of Object.keys(current)) {
      const loss = visit((current as Record<string, unknown>)[key], false);
      if (loss) return prependStep(key, loss);
    }
    return undefined;
  };
  try {
    return visit(value, true);
  } catch {
    // A value that resists a second inspection was still written once.
    return undefined;
  }
}

function prependStep(step: string, loss: Loss): Loss {
  loss.path.unshift(step);
  return loss;
}

function hasToJson(value: object): boolean {
  return typeof (value as { toJSON?: unknown }).toJSON === "function";
}

/** Classes that JSON writes completely. */
const serializable = new Set("Object Array Arguments String Number Boolean".split(" "));

function classifyLost(value: unknown, isElement: boolean): string | undefined {
  if (typeof value === "bigint") return "BigInt";
  const hole = holeKind(value, isElement);
  if (hole !== undefined) return hole;
  if (typeof value !== "object" || value === null || hasToJson(value)) return undefined;
  if (value instanceof Error) return "Error";
  const kind = objectTag(value);
  if (serializable.has(kind)) return undefined;
  return ArrayBuffer.isView(value) || Object.keys(value).length === 0 ? kind : undefined;
}

function objectTag(value: object): string {
  return Object.prototype.toString.call(value).slice("[object ".length, -1);
}

/** A member that is a function is omitted, as in JSON; as an element or as the whole result, it leaves a hole. */
function holeKind(value: unknown, isElement: boolean): string | undefined {
  return isElement && (typeof value === "function" || typeof value === "symbol") ? typeof value : undefined;
}

function classifyNulled(value: unknown, isElement: boolean): string | undefined {
  if (typeof value === "number") return Number.isFinite(value) ? undefined : String(value);
  return isElement && value === undefined ? "undefined" : undefined;
}

function hintFor(kind: string): string {
  return hints[kind] ?? (kind.endsWith("Array") ? "return Array.from(it)" : defaultHint(kind));
}

function defaultHint(kind: string): string {
  return /Iterator$|Generator$/.test(kind) ? "return a list of its values" : "return plain data";
}

const hints: Readonly<Record<string, string | undefined>> = Object.assign(Object.create(null), {
  BigInt: "return it as a string or a number",
  Error: "throw it, or return its message",
  Headers: "return Object.fromEntries(headers)",
  Map: "return Object.fromEntries(map) or [...map]",
  Promise: "await it",
  RegExp: "return its source",
  Request: "return its url, or its content",
  Response: "return it as the whole result, or await its text() or json()",
  Blob: "return it as the whole result, or await its text()",
  File: "return it as the whole result, or await its text()",
  Set: "return [...set]",
  URLSearchParams: "return its toString() or Object.fromEntries(it)",
  FormData: "return Object.fromEntries(it)",
  function: "call it, and return its result",
  symbol: "return its description",
});
