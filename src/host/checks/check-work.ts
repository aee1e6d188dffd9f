import { compileFunction } from "node:vm";
import { fullFormats } from "ajv-formats/dist/formats.js";
import type { ErrorObject } from "ajv/dist/2020.js";
import ucs2length from "ajv/dist/runtime/ucs2length.js";
import { compilePattern } from "../../discover/pattern.ts";

/**
 * The functions that a validator's code calls, and the limits on its work at a stretch. All work that grows with the
 * value is counted, in steps of some 20 ns: each round of a loop, each function entered, and all that a pattern or a
 * format reads. So a check can be given up midway, since neither schema nor value tells its cost beforehand.
 */
let stepsLeft = Infinity;
let errorsLeft = Infinity;
let filledLeft = Infinity;

/** Thrown by a check that has used up its allowance. */
export const GAVE_UP = new Error("a check was given up");
/** Thrown by a check that has added more defaults than it is allowed. */
export const OVERFILLED = new Error("too many defaults were filled into a value");

export interface Allowance {
  readonly steps: number;
  readonly errors: number;
  /** How much longer the value may become by the defaults of its schema, in UTF-16 units of its JSON text. */
  readonly filled?: number;
}

/** Runs a check, and throws `GAVE_UP` or `OVERFILLED` when it exceeds its allowance. */
export function within<T>({ steps, errors, filled = Infinity }: Allowance, check: () => T): T {
  stepsLeft = steps;
  errorsLeft = errors;
  filledLeft = filled;
  try {
    return check();
  } finally {
    stepsLeft = errorsLeft = filledLeft = Infinity;
  }
}

export function spend(steps: number): void {
  stepsLeft -= steps;
  if (stepsLeft < 0) throw GAVE_UP;
}

/** The expressions by which a validator's code refers to members of `own`. */
export const OWN = {
  spend: "own.spend",
  error: "own.error",
  fill: "own.fill",
  get: "own.get",
  keys: "own.keys",
  pattern: "own.pattern",
} as const;

export const own = {
  spend,

  error(): void {
    if (--errorsLeft < 0) throw GAVE_UP;
  },

  /** Called before a default is added, with its units as JSON: making it takes about as many steps. */
  fill(units: number): void {
    spend(units);
    filledLeft -= units;
    if (filledLeft < 0) throw OVERFILLED;
  },

  /** For names that every object inherits. */
  get(value: object, name: string): unknown {
    return Object.hasOwn(value, name) ? (value as Record<string, unknown>)[name] : undefined;
  },

  keys(value: object): string[] {
    const keys = Object.keys(value);
    spend(keys.length);
    return keys;
  },

  /** The places of two equal items, the later one first. */
  duplicate(items: readonly unknown[]): readonly [number, number] | undefined {
    const places = new Map<string, number>();
    for (let place = 0; place < items.length; place++) {
      const key = keyOf(items[place]);
      const before = places.get(key);
      if (before !== undefined) return [place, before];
      places.set(key, place);
    }
    return undefined;
  },

  /** Like `compilePattern`, but compiles when it is first needed. */
  pattern(source: string): { test(text: string): boolean } {
    let compiled: ReturnType<typeof compilePattern> | undefined;
    return {
      test(text) {
        compiled ??= compilePattern(source);
        spend(compiled.instructions * (text.length + 1));
        return compiled.test(text);
      },
    };
  },

  formats: Object.fromEntries(
    Object.entries(fullFormats).map(([name, format]) => [name, name === "url" ? counted(isUrl) : counted(format)]),
  ),
};

const STEPS_OF_KEY = 8;

/** A key that is the same for equal values, and for no others. */
function keyOf(value: unknown): string {
  spend(STEPS_OF_KEY);
  if (typeof value === "string") {
    spend(value.length >> 2);
    return JSON.stringify(value);
  }
  if (typeof value !== "object" || value === null) return String(value);
  if (Array.isArray(value)) return `[${value.map(keyOf).join(",")}]`;
  const names = Object.keys(value).toSorted();
  return `{${names.map((name) => `${keyOf(name)}:${keyOf((value as Record<string, unknown>)[name])}`).join(",")}}`;
}

type Format = (typeof fullFormats)[keyof typeof fullFormats];
type Counted = boolean | { readonly type: "number" | "string"; readonly validate: (value: never) => boolean };

/** All formats of texts take linear time. */
function counted(format: Format | ((text: string) => boolean)): Counted {
  if (typeof format === "boolean") return format;
  const check = typeof format === "object" && "validate" in format ? format.validate : format;
  if (typeof format === "object" && "type" in format && format.type === "number") {
    return { type: "number", validate: check as (value: number) => boolean };
  }
  const test = check instanceof RegExp ? (text: string) => check.test(text) : (check as (text: string) => boolean);
  return {
    type: "string",
    validate(text: string) {
      spend(text.length);
      return test(text);
    },
  };
}

/**
 * Without white space, the user information (`user:password@`) ends at some "@"; the library's expression tries all
 * pairs.
 */
const URL_OF_LIBRARY = fullFormats.url as RegExp;
const URL_IN_LINE = new RegExp(
  URL_OF_LIBRARY.source.replace(String.raw`(?:\S+(?::\S*)?@)?`, String.raw`(?:\S+@)?`),
  "iu",
);

function isUrl(text: string): boolean {
  return !/\s/u.test(text) && URL_IN_LINE.test(text);
}

/**
 * Returns true when a value is right; otherwise `errors` has the first error, or all. The value is filled in on the
 * way.
 */
export type Check = ((value: unknown) => boolean) & { readonly errors?: readonly ErrorObject[] | null };

/** Evaluates a schema's code to a function that does nothing but check. */
export function evaluated(code: string): Check {
  const module = { exports: undefined as unknown };
  (compileFunction(code, ["own", "require", "module"]) as (...given: unknown[]) => void)(own, partOfLibrary, module);
  return module.exports as Check;
}

function partOfLibrary(name: string): { readonly default: unknown } {
  switch (name) {
    case "ajv/dist/runtime/equal":
      return { default: areEqual };
    case "ajv/dist/runtime/ucs2length":
      return { default: countedLength };
    default:
      throw new Error(`the code of a validator asks for ${name}`);
  }
}

/** For JSON values only: they may have members of any name, even those that the library's own comparison looks for. */
function areEqual(one: unknown, other: unknown): boolean {
  spend(1);
  if (typeof one !== "object" || typeof other !== "object" || one === null || other === null) {
    if (typeof one === "string" && typeof other === "string") spend(one.length >> 6);
    return one === other;
  }
  if (Array.isArray(one) !== Array.isArray(other)) return false;
  if (Array.isArray(one)) {
    const others = other as readonly unknown[];
    return one.length === others.length && one.every((item, place) => areEqual(item, others[place]));
  }
  const names = own.keys(one);
  const others = other as Record<string, unknown>;
  return (
    names.length === own.keys(other).length &&
    names.every((name) => Object.hasOwn(others, name) && areEqual((one as Record<string, unknown>)[name], others[name]))
  );
}

function countedLength(text: string): number {
  spend(text.length >> 2);
  return ucs2length.default(text);
}
