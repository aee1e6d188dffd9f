import { isObject, type JsonSchema } from "../lib/json.ts";
import {
  Findings,
  quote,
  shorten,
  shortenJson,
  subject,
  type Direction,
  type Finding,
  type Walk,
  verb,
} from "./compare-findings.ts";
import { compareObjects, objectKeywords } from "./compare-names.ts";
import {
  canonical,
  coversType,
  constraintsText,
  isAnnotation,
  isNever,
  isSame,
  resolve,
  possibleTypes,
  possibleValues,
  declaredTypes,
} from "./compare-normal.ts";
import { spend, untilExhausted } from "./compare-steps.ts";

/**
 * Compares two schemas. `sent`: values that callers send, who use only properties that the schema names. `read`: values
 * that readers of results rely on. `pointer` is the position of the schemas themselves.
 */
export function compareSchemas(
  before: JsonSchema,
  after: JsonSchema,
  direction: Direction,
  pointer: string,
): readonly Finding[] {
  const findings = new Findings(direction);
  untilExhausted(
    () => {
      if (isSame(before, after)) return;
      const walk = { before, after, under: new Set<string>(), hasDefaults: true, level: 0, compare: compareNodes };
      compareNodes(before, after, pointer, findings, walk);
    },
    () => findings.cut(pointer),
  );
  return findings.all;
}

const LEVELS_MAX = 200;

function compareNodes(before: unknown, after: unknown, pointer: string, findings: Findings, walk: Walk): void {
  if (isFlat(before) && isSame(before, after)) return;
  spend(STEPS_OF_NODE);
  const [old, now] = [resolve(before, walk.before), resolve(after, walk.after)];
  const deeper = { ...walk, level: walk.level + 1 };
  if (walk.level > LEVELS_MAX) {
    spend(pointer.length);
    return findings.cut(pointer);
  }
  if (old.ref === undefined && now.ref === undefined)
    return compareResolved(old.schema, now.schema, pointer, findings, deeper);
  const pair = JSON.stringify([old.ref ?? canonical(old.schema), now.ref ?? canonical(now.schema)]);
  if (walk.under.has(pair)) return;
  walk.under.add(pair);
  compareResolved(old.schema, now.schema, pointer, findings, deeper);
  walk.under.delete(pair);
}

function compareResolved(before: JsonSchema, after: JsonSchema, pointer: string, findings: Findings, walk: Walk): void {
  compareTexts(before, after, pointer, findings);
  if (isNever(before) || isNever(after)) {
    if (isNever(before) && !isNever(after)) findings.widened(pointer, "allowed now");
    if (!isNever(before) && isNever(after)) findings.narrowed(pointer, "no longer allowed");
    return;
  }
  const compare = hasAlternatives(before) || hasAlternatives(after) ? compareAlternatives : compareKeywords;
  compare(before, after, pointer, findings, walk);
}

const STEPS_OF_NODE = 32;

/** True for a schema that contains no other schema and refers to none. */
function isFlat(schema: unknown): boolean {
  if (!isObject(schema)) return false;
  for (const keyword in schema) {
    if (typeof schema[keyword] === "object" || keyword === "$ref") return false;
  }
  return true;
}

/** Compares titles, descriptions and defaults. */
function compareTexts(before: JsonSchema, after: JsonSchema, pointer: string, findings: Findings): void {
  for (const keyword of ["title", "description", "deprecated"]) {
    if (isSame(before[keyword], after[keyword])) continue;
    findings.textual(
      `${pointer}/${keyword}`,
      `The ${keyword}${describeOwner(pointer)} is ${verb(before[keyword], after[keyword])}.`,
    );
  }
  if (findings.direction === "read" || isSame(before["default"], after["default"])) return;
  const [old, now] = [shortenJson(before["default"]), shortenJson(after["default"])];
  findings.textual(
    `${pointer}/default`,
    `The default${describeOwner(pointer)} is ${now}, and was ${old}: calls that leave it out may behave differently.`,
    // Stating an existing default for the first time changes nothing that callers relied on.
    before["default"] === undefined ? "text" : "default",
  );
}

function describeOwner(pointer: string): string {
  const name = subject(pointer);
  return name.startsWith('"') ? ` of ${name}` : "";
}

/** Compares two schemas without alternatives. */
function compareKeywords(before: JsonSchema, after: JsonSchema, pointer: string, findings: Findings, walk: Walk): void {
  compareTypes(before, after, pointer, findings);
  compareLimits(before, after, pointer, findings);
  const both = (type: string): boolean =>
    coversType(possibleTypes(before), type) && coversType(possibleTypes(after), type);
  if (both("object")) compareObjects(before, after, pointer, findings, walk);
  if (both("array")) compareArrays(before, after, pointer, findings, walk);
  compareAll(before, after, pointer, findings, walk);
  compareUnknown(before, after, pointer, findings);
}

function compareTypes(before: JsonSchema, after: JsonSchema, pointer: string, findings: Findings): void {
  const [oldValues, nowValues] = [possibleValues(before), possibleValues(after)];
  const [oldTypes, nowTypes] = [possibleTypes(before), possibleTypes(after)];
  if (oldValues && nowValues) {
    const [old, now] = [oldValues, nowValues].map(
      (values) => new Map(values.map((value) => [canonical(value), value])),
    ) as [Map<string, unknown>, Map<string, unknown>];
    const removed = [...old.keys()].filter((key) => !now.has(key));
    const added = [...now.keys()].filter((key) => !old.has(key));
    if (removed.length > 0) findings.narrowed(`${pointer}/enum`, `no longer allowed to be ${joinValues(removed)}`);
    if (added.length > 0) findings.widened(`${pointer}/enum`, `extended by the value ${joinValues(added)}`);
    return;
  }
  spend((oldTypes.length * nowTypes.length) / 4);
  const removedTypes = oldTypes.filter((type) => !coversType(nowTypes, type));
  const addedTypes = nowTypes.filter((type) => !coversType(oldTypes, type));
  if (nowValues && namesValues(after))
    findings.narrowed(`${pointer}/enum`, `one of ${joinValues(nowValues.map((value) => canonical(value)))} now`);
  else if (removedTypes.length > 0)
    findings.narrowed(
      `${pointer}/type`,
      `no longer ${joinValues(removedTypes, " or ")}, but ${joinValues(nowTypes, " or ")}`,
    );
  if (oldValues && namesValues(before))
    findings.widened(
      `${pointer}/enum`,
      `no longer one of ${joinValues(oldValues.map((value) => canonical(value)))} only`,
    );
  else if (addedTypes.length > 0)
    findings.widened(`${pointer}/type`, `${joinValues(addedTypes, " or ")} as well as ${joinValues(oldTypes, " or ")}`);
}

function joinValues(values: readonly string[], between = ", "): string {
  return shorten(values.slice(0, LISTED_MAX).join(between)) + (values.length > LISTED_MAX ? "…" : "");
}

const LISTED_MAX = 100;

/** True if the schema lists its values; types with few values do not count. */
function namesValues(schema: JsonSchema): boolean {
  return "enum" in schema || "const" in schema;
}

function compareArrays(before: JsonSchema, after: JsonSchema, pointer: string, findings: Findings, walk: Walk): void {
  const isFree = [before, after].every(({ items, prefixItems }) => items === undefined && prefixItems === undefined);
  if (isFree) return;
  const [old, now] = [readElements(before), readElements(after)];
  for (let index = 0; index < Math.max(old.first.length, now.first.length); index++) {
    const at = `${pointer}/prefixItems/${index}`;
    walk.compare(old.first[index] ?? old.rest, now.first[index] ?? now.rest, at, findings, walk);
  }
  walk.compare(old.rest, now.rest, `${pointer}/items`, findings, walk);
}

function readElements({ items, prefixItems }: JsonSchema): { first: readonly unknown[]; rest: unknown } {
  return { first: Array.isArray(prefixItems) ? prefixItems : [], rest: items ?? true };
}

/** If each part of one fits the same part of the other, the whole fits the whole. */
function compareAll(before: JsonSchema, after: JsonSchema, pointer: string, findings: Findings, walk: Walk): void {
  const [old, now] = [readParts(before), readParts(after)];
  if (old.length !== now.length) {
    findings.unclear(`${pointer}/allOf`, "composed of different parts");
    return;
  }
  for (const [index, part] of old.entries())
    walk.compare(part, now[index], `${pointer}/allOf/${index}`, findings, walk);
}

function readParts({ allOf }: JsonSchema): readonly unknown[] {
  return Array.isArray(allOf) ? allOf : [];
}

/** Compares the limits of types that both schemas accept; limits of other types have no effect. */
function compareLimits(before: JsonSchema, after: JsonSchema, pointer: string, findings: Findings): void {
  const applies = (type: string): boolean =>
    [before, after].every((schema) => acceptsType(possibleTypes(schema), type));
  if (applies("number")) {
    compareBound(before, after, pointer, findings, numeric("minimum", "exclusiveMinimum", 1));
    compareBound(before, after, pointer, findings, numeric("maximum", "exclusiveMaximum", -1));
    compareMultiple(before, after, pointer, findings);
  }
  for (const [type, least, most] of counts) {
    if (!applies(type)) continue;
    compareBound(before, after, pointer, findings, counted(least, 1));
    compareBound(before, after, pointer, findings, counted(most, -1));
  }
  if (applies("array")) compareUnique(before, after, pointer, findings);
  if (applies("string")) {
    compareForm("pattern", before, after, pointer, findings);
    compareForm("format", before, after, pointer, findings);
  }
}

function acceptsType(types: readonly string[], type: string): boolean {
  return types.includes(type) || (type === "number" && types.includes("integer"));
}

const limitKeywords = [
  ..."minimum exclusiveMinimum maximum exclusiveMaximum multipleOf minLength maxLength minItems maxItems".split(" "),
  ..."minProperties maxProperties uniqueItems pattern format".split(" "),
];

const counts = [
  ["string", "minLength", "maxLength"],
  ["array", "minItems", "maxItems"],
  ["object", "minProperties", "maxProperties"],
] as const;

interface Bound {
  readonly value: number;
  readonly exclusive: boolean;
}

interface BoundKind {
  readonly keyword: string;
  /** 1 for a minimum, -1 for a maximum. */
  readonly sign: 1 | -1;
  readonly read: (schema: JsonSchema) => Bound | undefined;
}

function numeric(keyword: string, exclusiveKeyword: string, sign: 1 | -1): BoundKind {
  return {
    keyword,
    sign,
    read(schema) {
      const [exclusiveValue, inclusiveValue] = [schema[exclusiveKeyword], schema[keyword]];
      const bounds: Bound[] = [];
      if (typeof inclusiveValue === "number") bounds.push({ value: inclusiveValue, exclusive: false });
      if (typeof exclusiveValue === "number") bounds.push({ value: exclusiveValue, exclusive: true });
      return bounds.sort((a, b) => -tightness(a, b, sign))[0];
    },
  };
}

function counted(keyword: string, sign: 1 | -1): BoundKind {
  return {
    keyword,
    sign,
    read(schema) {
      const value = schema[keyword];
      const isBound = typeof value === "number" && (sign === -1 || value > 0);
      return isBound ? { value, exclusive: false } : undefined;
    },
  };
}

/** Positive if `a` is stricter than `b`. */
function tightness(a: Bound, b: Bound, sign: 1 | -1): number {
  return (a.value - b.value) * sign || Number(a.exclusive) - Number(b.exclusive);
}

function compareBound(
  before: JsonSchema,
  after: JsonSchema,
  pointer: string,
  findings: Findings,
  { keyword, sign, read }: BoundKind,
): void {
  const [old, now] = [read(before), read(after)];
  const at = `${pointer}/${keyword}`;
  const word = sign === 1 ? "at least" : "at most";
  const describe = ({ value, exclusive }: Bound): string => {
    if (!exclusive) return `${word} ${value}`;
    return `${sign === 1 ? "more than" : "less than"} ${value}`;
  };
  if (old && now) {
    const change = tightness(now, old, sign);
    const sentence = `bounded by "${keyword}": ${describe(old)} before, ${describe(now)} now`;
    if (change > 0) findings.narrowed(at, sentence);
    if (change < 0) findings.widened(at, sentence);
  } else if (now) findings.narrowed(at, `bounded now by "${keyword}": ${describe(now)}`);
  else if (old) findings.widened(at, `no longer bounded by "${keyword}" (${describe(old)})`);
}

function compareMultiple(before: JsonSchema, after: JsonSchema, pointer: string, findings: Findings): void {
  const [old, now] = [before["multipleOf"], after["multipleOf"]];
  const at = `${pointer}/multipleOf`;
  if (old === now) return;
  if (typeof now !== "number") return findings.widened(at, `no longer restricted to multiples of ${shortenJson(old)}`);
  if (typeof old !== "number") return findings.narrowed(at, `restricted to multiples of ${now} now`);
  const isWhole = Number.isInteger(old) && Number.isInteger(now);
  const sentence = `restricted to multiples of ${now}, and of ${old} before`;
  if (isWhole && old % now === 0) findings.widened(at, sentence);
  else if (isWhole) findings.narrowed(at, sentence);
  else findings.unclear(at, sentence);
}

function compareUnique(before: JsonSchema, after: JsonSchema, pointer: string, findings: Findings): void {
  const [old, now] = [before["uniqueItems"] === true, after["uniqueItems"] === true];
  if (now && !old) findings.narrowed(`${pointer}/uniqueItems`, "required to have elements that are all different now");
  if (old && !now)
    findings.widened(`${pointer}/uniqueItems`, "no longer required to have elements that are all different");
}

function compareForm(
  keyword: "pattern" | "format",
  before: JsonSchema,
  after: JsonSchema,
  pointer: string,
  findings: Findings,
): void {
  const [old, now] = [before[keyword], after[keyword]];
  if (isSame(old, now)) return;
  const at = `${pointer}/${keyword}`;
  if (old === undefined) findings.narrowed(at, `restricted to the ${keyword} ${shortenJson(now)} now`);
  else if (now === undefined) findings.widened(at, `no longer restricted to the ${keyword} ${shortenJson(old)}`);
  else findings.unclear(at, `restricted to the ${keyword} ${shortenJson(now)}, and to ${shortenJson(old)} before`);
}

const KNOWN = new Set([
  ..."type enum const items prefixItems allOf anyOf oneOf".split(" "),
  ...limitKeywords,
  ...objectKeywords,
]);

/** Keywords that are not understood here, such as `if` and `patternProperties`: a person must review any difference. */
function compareUnknown(before: JsonSchema, after: JsonSchema, pointer: string, findings: Findings): void {
  const keywords = new Set([...Object.keys(before), ...Object.keys(after)]);
  spend(keywords.size << 1);
  for (const keyword of [...keywords].sort()) {
    if (KNOWN.has(keyword) || isAnnotation(keyword)) continue;
    const [old, now] = [before[keyword], after[keyword]];
    const same = isObject(old) && isObject(now) ? constraintsText(old) === constraintsText(now) : isSame(old, now);
    if (!same) findings.unclear(`${pointer}/${keyword}`, `changed in ${quote(keyword)}`);
  }
}

/** With `anyOf` or `oneOf`, an alternative of one schema must be accepted by an alternative of the other. */
function hasAlternatives({ anyOf, oneOf }: JsonSchema): boolean {
  return Array.isArray(anyOf) || Array.isArray(oneOf);
}

interface Alternative {
  readonly schema: JsonSchema;
  readonly pointer: string;
  /** From `oneOf`: a value that also fits another alternative is refused. */
  readonly isExclusive: boolean;
  /** The only string that it accepts, and those of its properties that accept only one. */
  readonly texts: OnlyTexts;
  /** The value of each property that allows exactly one; filled on first use. */
  kinds?: ReadonlyMap<string, string>;
}

interface OnlyTexts {
  readonly own: string | undefined;
  readonly ofProperties: ReadonlyMap<string, string>;
}

function compareAlternatives(
  before: JsonSchema,
  after: JsonSchema,
  pointer: string,
  findings: Findings,
  walk: Walk,
): void {
  const [old, now] = [listAlternatives(before, walk.before, pointer), listAlternatives(after, walk.after, pointer)];
  if (!old || !now) {
    if (constraintsText(before) !== constraintsText(after)) findings.unclear(pointer, "changed in its alternatives");
    return;
  }
  if (
    findings.direction === "sent" &&
    now.some(({ isExclusive }) => isExclusive) &&
    constraintsText(before) !== constraintsText(after)
  ) {
    if (!areDisjoint(now, walk)) {
      findings.unclear(`${pointer}/oneOf`, "changed, and a value may fit two of its alternatives, which is refused");
    }
  }
  const inside: Walk = { ...walk, hasDefaults: false };
  const fits = (one: Alternative, other: Alternative): Findings => {
    const result = new Findings(findings.direction);
    walk.compare(one.schema, other.schema, other.pointer, result, inside);
    return result;
  };
  // For sent values, a new alternative must accept each old one; for read values, an old one must accept each new one.
  const isSent = findings.direction === "sent";
  const [required, candidates] = isSent ? [old, now] : [now, old];
  const between = (one: Alternative, other: Alternative): Findings => (isSent ? fits(one, other) : fits(other, one));
  const used = new Set<Alternative>();
  const unmatched: Alternative[] = [];
  for (const one of required) {
    const matches = candidates
      .filter((other) => !isClearlyDifferent(one, other))
      .map((other) => ({ other, findings: between(one, other) }))
      .filter((match) => match.findings.isCompatible);
    const best = matches.sort((a, b) => a.findings.all.length - b.findings.all.length)[0];
    if (!best) unmatched.push(one);
    else {
      used.add(best.other);
      findings.all.push(...best.findings.all);
    }
  }
  for (const one of unmatched) {
    spend(candidates.length >> 2);
    const remaining = candidates.filter((other) => !used.has(other));
    const partner = findPartner(one, remaining, unmatched, walk);
    if (!partner) {
      const state = isSent ? "no longer accepted" : "now possible";
      findings.add(one.pointer, "breaking", `The alternative ${describeDemands(one.schema)} is ${state}.`);
      continue;
    }
    used.add(partner);
    findings.all.push(...between(one, partner).all);
  }
  for (const other of candidates) {
    if (used.has(other)) continue;
    findings.add(
      other.pointer,
      "compatible",
      `The alternative ${describeDemands(other.schema)} is ${isSent ? "new" : "gone"}.`,
    );
  }
}

/** The alternatives of a schema; undefined if they cannot be separated. */
function listAlternatives(
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
  if (depth > ALTERNATIVE_LEVELS_MAX) return undefined;
  spend(Object.keys(base).length);
  const constraints = Object.keys(base).filter((key) => !isAnnotation(key));
  const all: Alternative[] = [];
  for (const [index, branch] of branches.entries()) {
    const own = resolve(branch, root).schema;
    spend(8 + constraints.length + (Object.keys(own).length << 1));
    const overlaps = constraints.filter((key) => Object.hasOwn(own, key) && !isSame(own[key], base[key]));
    if (overlaps.length > 0) return undefined;
    const merged = { ...Object.fromEntries(constraints.map((key) => [key, base[key]])), ...own };
    const inner = listAlternatives(
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

const ALTERNATIVE_LEVELS_MAX = 8;

/** A list of types is also a choice. */
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

/** True if each side requires a different string in the same position: a cheap test that neither fits the other. */
function isClearlyDifferent({ texts: one }: Alternative, { texts: other }: Alternative): boolean {
  spend(1);
  if (one.own !== undefined && other.own !== undefined) return one.own !== other.own;
  for (const [name, text] of one.ofProperties) {
    spend(1);
    const otherText = other.ofProperties.get(name);
    if (otherText !== undefined && otherText !== text) return true;
  }
  return false;
}

const VALUES_MAX = 64;

/** The alternative that corresponds to this one: the only one of the same kind, or the only one that remains. */
function findPartner(
  one: Alternative,
  remaining: readonly Alternative[],
  unmatched: readonly Alternative[],
  walk: Walk,
): Alternative | undefined {
  const same = remaining.filter((other) => isSameKind(one, other, walk));
  if (same.length === 1) return same[0];
  return remaining.length === 1 && unmatched.length === 1 && sharesType(one.schema, remaining[0]!.schema)
    ? remaining[0]
    : undefined;
}

function sharesType(one: JsonSchema, other: JsonSchema): boolean {
  return possibleTypes(one).some((type) => coversType(possibleTypes(other), type));
}

/** True if a property that names the kind has the same value in both. */
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
      const values = possibleValues(resolve(schema, walk.after).schema);
      return values?.length === 1 ? [[name, canonical(values[0])] as const] : [];
    }),
  );
  return alternative.kinds;
}

/** True if no value fits two of them. */
function areDisjoint(all: readonly Alternative[], walk: Walk): boolean {
  return all.every((one, index) => all.slice(index + 1).every((other) => isDisjoint(one, other, walk)));
}

function isDisjoint(oneAlternative: Alternative, otherAlternative: Alternative, walk: Walk): boolean {
  spend(10);
  const [one, other] = [oneAlternative.schema, otherAlternative.schema];
  const overlaps = (a: readonly string[], b: readonly string[]): boolean => a.some((type) => coversType(b, type));
  const [a, b] = [possibleTypes(one), possibleTypes(other)];
  if (!overlaps(a, b) && !overlaps(b, a)) return true;
  const [oldValues, nowValues] = [possibleValues(one), possibleValues(other)];
  if (oldValues && nowValues) {
    const otherValues = new Set(nowValues.map((value) => canonical(value)));
    return !oldValues.some((value) => otherValues.has(canonical(value)));
  }
  const [kinds, otherKinds] = [namedKinds(oneAlternative, walk), namedKinds(otherAlternative, walk)];
  spend(kinds.size);
  const isRequired = (schema: JsonSchema, name: string): boolean =>
    Array.isArray(schema["required"]) && isIncluded(schema["required"], name);
  return [...kinds].some(
    ([name, value]) =>
      otherKinds.has(name) && otherKinds.get(name) !== value && isRequired(one, name) && isRequired(other, name),
  );
}

function isIncluded(names: readonly unknown[], name: string): boolean {
  spend(names.length >> 4);
  return names.includes(name);
}

function describeDemands(schema: JsonSchema): string {
  return shorten(canonical(schema, (key) => !isAnnotation(key)));
}
