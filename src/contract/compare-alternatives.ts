import { isObject, type JsonSchema } from "../lib/json.ts";
import {
  canonical,
  declaredTypes,
  demands,
  isSame,
  isAnnotation,
  resolve,
  typesOf,
  valuesOf,
  coversType,
} from "./compare-normal.ts";
import { Findings, shown } from "./compare-findings.ts";
import { spend } from "./compare-steps.ts";
import type { Walk } from "./compare-walk.ts";

/** Schemas with `anyOf` or `oneOf`: an alternative of one must be accepted by an alternative of the other. */

export function hasAlternatives({ anyOf, oneOf }: JsonSchema): boolean {
  return Array.isArray(anyOf) || Array.isArray(oneOf);
}

interface Alternative {
  readonly schema: JsonSchema;
  readonly pointer: string;
  /** From `oneOf`: a value that also fits another alternative is refused. */
  readonly isExclusive: boolean;
  /** The only text that it accepts, and those of its properties that accept only one. */
  readonly texts: OnlyTexts;
  /** The value of each property that allows exactly one; filled on first use. */
  kinds?: ReadonlyMap<string, string>;
}

interface OnlyTexts {
  readonly own: string | undefined;
  readonly ofProperties: ReadonlyMap<string, string>;
}

export function compareAlternatives(
  before: JsonSchema,
  after: JsonSchema,
  pointer: string,
  findings: Findings,
  walk: Walk,
): void {
  const [old, now] = [alternativesOf(before, walk.before, pointer), alternativesOf(after, walk.after, pointer)];
  if (!old || !now) {
    if (demands(before) !== demands(after)) findings.unclear(pointer, "changed in its alternatives");
    return;
  }
  if (
    findings.direction === "sent" &&
    now.some(({ isExclusive }) => isExclusive) &&
    demands(before) !== demands(after)
  ) {
    if (!areApart(now, walk)) {
      findings.unclear(`${pointer}/oneOf`, "changed, and a value may fit two of its alternatives, which is refused");
    }
  }
  const inside: Walk = { ...walk, hasDefaults: false };
  const fits = (one: Alternative, other: Alternative): Findings => {
    const found = new Findings(findings.direction);
    walk.compare(one.schema, other.schema, other.pointer, found, inside);
    return found;
  };
  // For sent values, a new alternative must accept each old one; for read values, each new one must be known before.
  const isSent = findings.direction === "sent";
  const [asked, giving] = isSent ? [old, now] : [now, old];
  const between = (one: Alternative, other: Alternative): Findings => (isSent ? fits(one, other) : fits(other, one));
  const used = new Set<Alternative>();
  const open: Alternative[] = [];
  for (const one of asked) {
    const found = giving
      .filter((other) => !isPlainlyOther(one, other))
      .map((other) => ({ other, findings: between(one, other) }))
      .filter((each) => each.findings.isCompatible);
    const best = found.sort((a, b) => a.findings.all.length - b.findings.all.length)[0];
    if (!best) open.push(one);
    else {
      used.add(best.other);
      findings.all.push(...best.findings.all);
    }
  }
  for (const one of open) {
    spend(giving.length >> 2);
    const left = giving.filter((other) => !used.has(other));
    const partner = partnerOf(one, left, open, walk);
    if (!partner) {
      const is = isSent ? "no longer taken" : "possible now";
      findings.add(one.pointer, "breaking", `The alternative ${shownDemands(one.schema)} is ${is}.`);
      continue;
    }
    used.add(partner);
    findings.all.push(...between(one, partner).all);
  }
  for (const other of giving) {
    if (used.has(other)) continue;
    findings.add(
      other.pointer,
      "compatible",
      `The alternative ${shownDemands(other.schema)} is ${isSent ? "new" : "gone"}.`,
    );
  }
}

/** The alternatives of a schema; undefined if they cannot be separated. */
function alternativesOf(
  schema: JsonSchema,
  root: JsonSchema,
  pointer: string,
  depth = 0,
  isExclusive = false,
): Alternative[] | undefined {
  const { anyOf, oneOf, ...base } = schema;
  if (anyOf !== undefined && oneOf !== undefined) return undefined;
  const keyword = anyOf === undefined ? "oneOf" : "anyOf";
  const branches = anyOf ?? oneOf;
  if (!Array.isArray(branches)) return byType(schema, pointer, isExclusive);
  if (depth > LEVELS_MAX) return undefined;
  spend(Object.keys(base).length);
  const demanded = Object.keys(base).filter((key) => !isAnnotation(key));
  const all: Alternative[] = [];
  for (const [index, branch] of branches.entries()) {
    const own = resolve(branch, root).schema;
    spend(8 + demanded.length + (Object.keys(own).length << 1));
    const overlaps = demanded.filter((key) => Object.hasOwn(own, key) && !isSame(own[key], base[key]));
    if (overlaps.length > 0) return undefined;
    const merged = { ...Object.fromEntries(demanded.map((key) => [key, base[key]])), ...own };
    const inner = alternativesOf(
      merged,
      root,
      `${pointer}/${keyword}/${index}`,
      depth + 1,
      isExclusive || keyword === "oneOf",
    );
    if (!inner) return undefined;
    all.push(...inner);
  }
  return all;
}

const LEVELS_MAX = 8;

/** A list of types is a choice, too. */
function byType(schema: JsonSchema, pointer: string, isExclusive: boolean): Alternative[] {
  const types = declaredTypes(schema);
  const values = Array.isArray(schema["enum"]) ? schema["enum"] : undefined;
  if (values && values.length > 1 && values.length <= VALUES_MAX) {
    const { enum: _values, ...rest } = schema;
    return values.map((value) => alternative({ ...rest, const: value }, pointer, isExclusive));
  }
  if (!types || types.length < 2) return [alternative(schema, pointer, isExclusive)];
  return types.map((type) => alternative({ ...schema, type }, pointer, isExclusive));
}

function alternative(schema: JsonSchema, pointer: string, isExclusive: boolean): Alternative {
  const { type, properties } = schema;
  spend(Object.keys(schema).length);
  const isPlainObject =
    type === "object" && isObject(properties) && !["not", "$ref", "const", "enum"].some((key) => key in schema);
  const ofProperties = new Map<string, string>();
  if (isPlainObject) {
    for (const [name, inner] of Object.entries(properties)) {
      spend(1);
      const text = onlyText(inner);
      if (text !== undefined) ofProperties.set(name, text);
    }
  }
  return { schema, pointer, isExclusive, texts: { own: onlyText(schema), ofProperties } };
}

/** The one text that a schema accepts, if a single keyword decides it. */
function onlyText(schema: unknown): string | undefined {
  if (!isObject(schema) || ["not", "$ref", "anyOf", "oneOf"].some((key) => key in schema)) return undefined;
  const { const: value, type = "string" } = schema;
  return typeof value === "string" && type === "string" ? value : undefined;
}

/** True when each side demands a different text in the same place: a cheap way to see that neither fits the other. */
function isPlainlyOther({ texts: one }: Alternative, { texts: other }: Alternative): boolean {
  spend(1);
  if (one.own !== undefined && other.own !== undefined) return one.own !== other.own;
  for (const [name, text] of one.ofProperties) {
    spend(1);
    const its = other.ofProperties.get(name);
    if (its !== undefined && its !== text) return true;
  }
  return false;
}

const VALUES_MAX = 64;

/** The alternative that this one has become: the one of the same kind, or the only one left. */
function partnerOf(
  one: Alternative,
  left: readonly Alternative[],
  open: readonly Alternative[],
  walk: Walk,
): Alternative | undefined {
  const same = left.filter((other) => isSameKind(one, other, walk));
  if (same.length === 1) return same[0];
  return left.length === 1 && open.length === 1 && sharesType(one.schema, left[0]!.schema) ? left[0] : undefined;
}

function sharesType(one: JsonSchema, other: JsonSchema): boolean {
  return typesOf(one).some((type) => coversType(typesOf(other), type));
}

/** True when a property that names the kind has the same value in both. */
function isSameKind(one: Alternative, other: Alternative, walk: Walk): boolean {
  const [a, b] = [namedKinds(one, walk), namedKinds(other, walk)];
  spend(1 + a.size);
  for (const [name, value] of a) if (b.get(name) === value) return true;
  return false;
}

function namedKinds(alternative: Alternative, walk: Walk): ReadonlyMap<string, string> {
  const { properties } = alternative.schema;
  alternative.kinds ??= new Map(
    Object.entries(isObject(properties) ? properties : {}).flatMap(([name, schema]) => {
      spend(8);
      const values = valuesOf(resolve(schema, walk.after).schema);
      return values?.length === 1 ? [[name, canonical(values[0])] as const] : [];
    }),
  );
  return alternative.kinds;
}

/** True when no value fits two of them. */
function areApart(all: readonly Alternative[], walk: Walk): boolean {
  return all.every((one, index) => all.slice(index + 1).every((other) => isApart(one, other, walk)));
}

function isApart(oneAlternative: Alternative, otherAlternative: Alternative, walk: Walk): boolean {
  spend(10);
  const [one, other] = [oneAlternative.schema, otherAlternative.schema];
  const touches = (a: readonly string[], b: readonly string[]): boolean => a.some((type) => coversType(b, type));
  const [a, b] = [typesOf(one), typesOf(other)];
  if (!touches(a, b) && !touches(b, a)) return true;
  const [oldValues, nowValues] = [valuesOf(one), valuesOf(other)];
  if (oldValues && nowValues) {
    const known = new Set(nowValues.map((value) => canonical(value)));
    return !oldValues.some((value) => known.has(canonical(value)));
  }
  const [kinds, others] = [namedKinds(oneAlternative, walk), namedKinds(otherAlternative, walk)];
  spend(kinds.size);
  const isRequired = (schema: JsonSchema, name: string): boolean =>
    Array.isArray(schema["required"]) && isAmong(schema["required"], name);
  return [...kinds].some(
    ([name, value]) =>
      others.has(name) && others.get(name) !== value && isRequired(one, name) && isRequired(other, name),
  );
}

function isAmong(names: readonly unknown[], name: string): boolean {
  spend(names.length >> 4);
  return names.includes(name);
}

function shownDemands(schema: JsonSchema): string {
  return shown(canonical(schema, (key) => !isAnnotation(key)));
}
