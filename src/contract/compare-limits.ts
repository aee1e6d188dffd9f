import type { JsonSchema } from "../lib/json.ts";
import { isSame, typesOf } from "./compare-normal.ts";
import { shownJson, type Findings } from "./compare-findings.ts";

/** Keywords that bound values of one type: number, length, size and format. */

/** Compares the limits of types that both schemas accept; limits of other types have no effect. */
export function compareLimits(before: JsonSchema, after: JsonSchema, pointer: string, findings: Findings): void {
  const applies = (type: string): boolean => [before, after].every((schema) => takes(typesOf(schema), type));
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

function takes(types: readonly string[], type: string): boolean {
  return types.includes(type) || (type === "number" && types.includes("integer"));
}

export const limitKeywords = [
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
      const [open, shut] = [schema[exclusiveKeyword], schema[keyword]];
      const bounds: Bound[] = [];
      if (typeof shut === "number") bounds.push({ value: shut, exclusive: false });
      if (typeof open === "number") bounds.push({ value: open, exclusive: true });
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

/** Above 0 when `a` is stricter than `b`. */
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
  const what = sign === 1 ? "at least" : "at most";
  const said = ({ value, exclusive }: Bound): string => {
    if (!exclusive) return `${what} ${value}`;
    return `${sign === 1 ? "more than" : "less than"} ${value}`;
  };
  if (old && now) {
    const change = tightness(now, old, sign);
    const sentence = `bounded by "${keyword}": ${said(old)} before, ${said(now)} now`;
    if (change > 0) findings.narrowed(at, sentence);
    if (change < 0) findings.widened(at, sentence);
  } else if (now) findings.narrowed(at, `bounded now by "${keyword}": ${said(now)}`);
  else if (old) findings.widened(at, `no longer bounded by "${keyword}" (${said(old)})`);
}

function compareMultiple(before: JsonSchema, after: JsonSchema, pointer: string, findings: Findings): void {
  const [old, now] = [before["multipleOf"], after["multipleOf"]];
  const at = `${pointer}/multipleOf`;
  if (old === now) return;
  if (typeof now !== "number") return findings.widened(at, `no longer bound to multiples of ${shownJson(old)}`);
  if (typeof old !== "number") return findings.narrowed(at, `bound to multiples of ${now} now`);
  const isWhole = Number.isInteger(old) && Number.isInteger(now);
  const sentence = `bound to multiples of ${now}, and of ${old} before`;
  if (isWhole && old % now === 0) findings.widened(at, sentence);
  else if (isWhole) findings.narrowed(at, sentence);
  else findings.unclear(at, sentence);
}

function compareUnique(before: JsonSchema, after: JsonSchema, pointer: string, findings: Findings): void {
  const [old, now] = [before["uniqueItems"] === true, after["uniqueItems"] === true];
  if (now && !old) findings.narrowed(`${pointer}/uniqueItems`, "bound to elements that are all different now");
  if (old && !now) findings.widened(`${pointer}/uniqueItems`, "no longer bound to elements that are all different");
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
  if (old === undefined) findings.narrowed(at, `bound to the ${keyword} ${shownJson(now)} now`);
  else if (now === undefined) findings.widened(at, `no longer bound to the ${keyword} ${shownJson(old)}`);
  else findings.unclear(at, `bound to the ${keyword} ${shownJson(now)}, and to ${shownJson(old)} before`);
}
