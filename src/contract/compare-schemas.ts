import { isObject, type JsonSchema } from "../lib/json.ts";
import { compareAlternatives, hasAlternatives } from "./compare-alternatives.ts";
import { Findings, quoted, shown, shownJson, subject, type Direction, type Finding } from "./compare-findings.ts";
import { compareLimits, limitKeywords } from "./compare-limits.ts";
import {
  canonical,
  coversType,
  demands,
  isAnnotation,
  isNever,
  isSame,
  resolve,
  typesOf,
  valuesOf,
} from "./compare-normal.ts";
import { compareObjects, objectKeywords } from "./compare-objects.ts";
import { spend, untilGivenUp } from "./compare-steps.ts";
import type { Walk } from "./compare-walk.ts";

/**
 * The differences between two schemas. `sent`: values that callers send, who use only properties that the schema names.
 * `read`: values that readers of results rely on. `pointer` leads to the schemas themselves.
 */
export function compareSchemas(
  before: JsonSchema,
  after: JsonSchema,
  direction: Direction,
  pointer: string,
): readonly Finding[] {
  const findings = new Findings(direction);
  untilGivenUp(
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
    if (!isNever(before) && isNever(after)) findings.narrowed(pointer, "not allowed any more");
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
      `The ${keyword}${ofSubject(pointer)} is ${verb(before[keyword], after[keyword])}.`,
    );
  }
  if (findings.direction === "read" || isSame(before["default"], after["default"])) return;
  const [old, now] = [shownJson(before["default"]), shownJson(after["default"])];
  findings.textual(
    `${pointer}/default`,
    `The default${ofSubject(pointer)} is ${now}, and was ${old}: calls that leave it out may do something else.`,
  );
}

function ofSubject(pointer: string): string {
  const name = subject(pointer);
  return name.startsWith('"') ? ` of ${name}` : "";
}

function verb(before: unknown, after: unknown): string {
  if (before === undefined) return "new";
  return after === undefined ? "removed" : "changed";
}

/** Compares two schemas without alternatives. */
function compareKeywords(before: JsonSchema, after: JsonSchema, pointer: string, findings: Findings, walk: Walk): void {
  compareTypes(before, after, pointer, findings);
  compareLimits(before, after, pointer, findings);
  const both = (type: string): boolean => coversType(typesOf(before), type) && coversType(typesOf(after), type);
  if (both("object")) compareObjects(before, after, pointer, findings, walk);
  if (both("array")) compareArrays(before, after, pointer, findings, walk);
  compareAll(before, after, pointer, findings, walk);
  compareUnknown(before, after, pointer, findings);
}

function compareTypes(before: JsonSchema, after: JsonSchema, pointer: string, findings: Findings): void {
  const [oldValues, nowValues] = [valuesOf(before), valuesOf(after)];
  const [oldTypes, nowTypes] = [typesOf(before), typesOf(after)];
  if (oldValues && nowValues) {
    const [old, now] = [oldValues, nowValues].map(
      (values) => new Map(values.map((value) => [canonical(value), value])),
    ) as [Map<string, unknown>, Map<string, unknown>];
    const gone = [...old.keys()].filter((key) => !now.has(key));
    const come = [...now.keys()].filter((key) => !old.has(key));
    if (gone.length > 0) findings.narrowed(`${pointer}/enum`, `without the value ${listed(gone)} now`);
    if (come.length > 0) findings.widened(`${pointer}/enum`, `extended by the value ${listed(come)}`);
    return;
  }
  spend((oldTypes.length * nowTypes.length) / 4);
  const lost = oldTypes.filter((type) => !coversType(nowTypes, type));
  const won = nowTypes.filter((type) => !coversType(oldTypes, type));
  if (nowValues && namesValues(after))
    findings.narrowed(`${pointer}/enum`, `one of ${listed(nowValues.map((value) => canonical(value)))} now`);
  else if (lost.length > 0)
    findings.narrowed(`${pointer}/type`, `no longer ${listed(lost, " or ")}, but ${listed(nowTypes, " or ")}`);
  if (oldValues && namesValues(before))
    findings.widened(`${pointer}/enum`, `no longer one of ${listed(oldValues.map((value) => canonical(value)))} only`);
  else if (won.length > 0)
    findings.widened(`${pointer}/type`, `${listed(won, " or ")} as well as ${listed(oldTypes, " or ")}`);
}

function listed(values: readonly string[], between = ", "): string {
  return shown(values.slice(0, LISTED_MAX).join(between)) + (values.length > LISTED_MAX ? "…" : "");
}

const LISTED_MAX = 100;

/** True when the schema lists its values; types with few values do not count. */
function namesValues(schema: JsonSchema): boolean {
  return "enum" in schema || "const" in schema;
}

function compareArrays(before: JsonSchema, after: JsonSchema, pointer: string, findings: Findings, walk: Walk): void {
  const isFree = [before, after].every(({ items, prefixItems }) => items === undefined && prefixItems === undefined);
  if (isFree) return;
  const [old, now] = [elementsOf(before), elementsOf(after)];
  for (let index = 0; index < Math.max(old.first.length, now.first.length); index++) {
    const at = `${pointer}/prefixItems/${index}`;
    walk.compare(old.first[index] ?? old.rest, now.first[index] ?? now.rest, at, findings, walk);
  }
  walk.compare(old.rest, now.rest, `${pointer}/items`, findings, walk);
}

function elementsOf({ items, prefixItems }: JsonSchema): { first: readonly unknown[]; rest: unknown } {
  return { first: Array.isArray(prefixItems) ? prefixItems : [], rest: items ?? true };
}

/** If each part of one fits a part of the other, the whole fits the whole. */
function compareAll(before: JsonSchema, after: JsonSchema, pointer: string, findings: Findings, walk: Walk): void {
  const [old, now] = [partsOf(before), partsOf(after)];
  if (old.length !== now.length) {
    findings.unclear(`${pointer}/allOf`, "made of other parts");
    return;
  }
  for (const [index, part] of old.entries())
    walk.compare(part, now[index], `${pointer}/allOf/${index}`, findings, walk);
}

function partsOf({ allOf }: JsonSchema): readonly unknown[] {
  return Array.isArray(allOf) ? allOf : [];
}

const KNOWN = new Set([
  ..."type enum const items prefixItems allOf anyOf oneOf".split(" "),
  ...limitKeywords,
  ...objectKeywords,
]);

/** Keywords that are not understood here, such as `if` and `patternProperties`: a person must judge any difference. */
function compareUnknown(before: JsonSchema, after: JsonSchema, pointer: string, findings: Findings): void {
  const keywords = new Set([...Object.keys(before), ...Object.keys(after)]);
  spend(keywords.size << 1);
  for (const keyword of [...keywords].sort()) {
    if (KNOWN.has(keyword) || isAnnotation(keyword)) continue;
    const [old, now] = [before[keyword], after[keyword]];
    const same = isObject(old) && isObject(now) ? demands(old) === demands(now) : isSame(old, now);
    if (!same) findings.unclear(`${pointer}/${keyword}`, `changed in ${quoted(keyword)}`);
  }
}
