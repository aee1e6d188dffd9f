/**
 * Finds what JSON would lose of a result. `JSON.stringify` silently writes a map, an error or a promise as `{}`, and
 * NaN as null; so its output is examined where it may have done that.
 */

/** A value in a result: its path, from the outside inwards, and its kind. */
interface Found {
  readonly path: string[];
  readonly what: string;
}

/**
 * Finds the losses in a result that was written as `json`: values that JSON cannot express, and those written as null
 * instead.
 */
export function lossIn(value: unknown, json: string): { readonly unwritable?: string; readonly nulled?: string } {
  if (!(json.includes("{}") || json.includes("null")) || !mayLose([value])) return nothingLost;
  const unwritable = unwritableIn(value);
  if (unwritable !== undefined) return { unwritable };
  const nulled = find(value, kindNulled);
  return nulled ? { nulled: `${pointer(nulled.path) || "the value"} is ${nulled.what}` } : nothingLost;
}

const nothingLost = {};

/** Quick, since most results with a null or an empty object are correct. Errors and views have been refused. */
function mayLose(holder: object): boolean {
  try {
    return Array.isArray(holder) ? holder.some((it) => isSuspect(it) || isHole(it)) : membersMayBeLost(holder);
  } catch {
    return true;
  }
}

function membersMayBeLost(holder: object): boolean {
  // Bytes as well, which have a key for each byte.
  if (writesItself(holder)) return false;
  const keys = Object.keys(holder);
  for (let index = 0; index < keys.length; index++) {
    if (isSuspect((holder as Record<string, unknown>)[keys[index]!])) return true;
  }
  return keys.length === 0 && !carried.has(kindOfObject(holder));
}

function isSuspect(value: unknown): boolean {
  if (typeof value === "number") return !Number.isFinite(value);
  return typeof value === "object" && value !== null && mayLose(value);
}

function isHole(value: unknown): boolean {
  return value === undefined || typeof value === "function" || typeof value === "symbol";
}

/**
 * Describes a value that JSON cannot express, as the end of the sentence "its result …"; undefined if there is none.
 */
export function unwritableIn(value: unknown): string | undefined {
  const found = find(value, kindLost);
  return found && said(found);
}

function said({ path, what }: Found): string {
  const article = /^[AEIOU]/.test(what) ? "an" : "a";
  const where = path.length === 0 ? "" : ` at ${pointer(path)}`;
  return `${where ? "holds" : "is"} ${article} ${what}${where}, which JSON cannot carry; ${insteadOf(what)}`;
}

/** The most of a path that is shown. */
const pathUnitsMax = 200;

function pointer(path: readonly string[]): string {
  const text = path.map((step) => `/${step.replaceAll("~", "~0").replaceAll("/", "~1")}`).join("");
  return text.length > pathUnitsMax ? `${text.slice(0, pathUnitsMax - 1)}…` : text;
}

type KindOf = (value: unknown, isElement: boolean) => string | undefined;

function find(value: unknown, kindOf: KindOf): Found | undefined {
  const seen = new Set<object>();
  const visit = (it: unknown, isElement: boolean): Found | undefined => {
    const what = kindOf(it, isElement);
    if (what !== undefined) return { path: [], what };
    if (typeof it !== "object" || it === null || seen.has(it) || writesItself(it)) return undefined;
    seen.add(it);
    if (Array.isArray(it)) {
      for (let index = 0; index < it.length; index++) {
        const found = visit(it[index], true);
        if (found) return inside(String(index), found);
      }
      return undefined;
    }
    for (const key of Object.keys(it)) {
      const found = visit((it as Record<string, unknown>)[key], false);
      if (found) return inside(key, found);
    }
    return undefined;
  };
  try {
    return visit(value, true);
  } catch {
    // A value that resists a second look was still written once.
    return undefined;
  }
}

function inside(step: string, found: Found): Found {
  found.path.unshift(step);
  return found;
}

function writesItself(value: object): boolean {
  return typeof (value as { toJSON?: unknown }).toJSON === "function";
}

/** Classes that JSON writes with all that they hold. */
const carried = new Set("Object Array Arguments String Number Boolean".split(" "));

function kindLost(value: unknown, isElement: boolean): string | undefined {
  if (typeof value === "bigint") return "BigInt";
  const hole = kindOfHole(value, isElement);
  if (hole !== undefined) return hole;
  if (typeof value !== "object" || value === null || writesItself(value)) return undefined;
  if (value instanceof Error) return "Error";
  const kind = kindOfObject(value);
  if (carried.has(kind)) return undefined;
  return ArrayBuffer.isView(value) || Object.keys(value).length === 0 ? kind : undefined;
}

function kindOfObject(value: object): string {
  return Object.prototype.toString.call(value).slice("[object ".length, -1);
}

/** A member that is a function is left out, as in JSON; as an element or the whole result it leaves a hole. */
function kindOfHole(value: unknown, isElement: boolean): string | undefined {
  return isElement && (typeof value === "function" || typeof value === "symbol") ? typeof value : undefined;
}

function kindNulled(value: unknown, isElement: boolean): string | undefined {
  if (typeof value === "number") return Number.isFinite(value) ? undefined : String(value);
  return isElement && value === undefined ? "undefined" : undefined;
}

function insteadOf(kind: string): string {
  return instead[kind] ?? (kind.endsWith("Array") ? "return Array.from(it)" : otherwise(kind));
}

function otherwise(kind: string): string {
  return /Iterator$|Generator$/.test(kind) ? "return a list of its values" : "return plain data";
}

const instead: Readonly<Record<string, string | undefined>> = Object.assign(Object.create(null), {
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
