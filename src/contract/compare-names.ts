import { isObject, type JsonSchema } from "../lib/json.ts";
import { quote, shortenJson, type Findings, type Walk } from "./compare-findings.ts";
import { constraintsText, isNever, isSame, resolve } from "./compare-normal.ts";
import { spend, comparisonLimits } from "./compare-steps.ts";

/** Compares named items, such as the properties of objects: removed, added or renamed, required or not. */

/** From this score on, two items count as the same; equal form alone is not enough if several items share it. */
const ALIKE = 0.5;

interface Candidate {
  readonly from: string;
  readonly to: string;
  readonly score: number;
}

/**
 * Pairs of removed and added items that are the same item, each in at most one pair. `toForm` returns equal texts for
 * items of the same form. A pair counts only if no other pair is as good. Undefined if there are too many pairs to
 * compare.
 */
export function findRenamed<Item>(
  removed: ReadonlyMap<string, Item>,
  added: ReadonlyMap<string, Item>,
  toForm: (item: Item) => string,
  likeness: (before: Item, after: Item) => number = () => 0,
  pairsMax = comparisonLimits.renamePairs,
): ReadonlyMap<string, string> | undefined {
  if (removed.size * added.size > pairsMax) return undefined;
  if (removed.size * added.size === 0) return new Map();
  const isOnlyPair = removed.size === 1 && added.size === 1;
  const [old, now] = [removed, added].map((items) =>
    Array.from(items, ([name, item]) => ({ name, item, form: toForm(item), words: splitWords(name) })),
  );
  const candidates: Candidate[] = [];
  for (const before of old!) {
    for (const after of now!) {
      spend(STEPS_OF_PAIR);
      const sameForm = before.form === after.form;
      const names = wordLikeness(before.words, after.words);
      if (!sameForm && names === 0 && !isOnlyPair) continue;
      const similarity = likeness(before.item, after.item);
      // Without other candidates, one shared word is enough, and so are two spellings of one name.
      const bonus = names === 1 || (isOnlyPair && names > 0) ? 0.25 : 0;
      const score = sameForm ? 0.5 + names + similarity / 2 : similarity + names / 4 + bonus;
      if (score >= ALIKE) candidates.push({ from: before.name, to: after.name, score });
    }
  }
  return bestPairs(candidates.sort((a, b) => b.score - a.score));
}

const STEPS_OF_PAIR = 8;

/** Expects the candidates sorted, best first. */
function bestPairs(candidates: readonly Candidate[]): Map<string, string> {
  const byFrom = new Map<string, Candidate[]>();
  const byTo = new Map<string, Candidate[]>();
  for (const candidate of candidates) {
    for (const [groups, name] of [[byFrom, candidate.from] as const, [byTo, candidate.to] as const]) {
      const group = groups.get(name);
      if (group) group.push(candidate);
      else groups.set(name, [candidate]);
    }
  }
  const renamed = new Map<string, string>();
  const taken = new Set<string>();
  const hasRival = (group: readonly Candidate[], { from, to, score }: Candidate): boolean => {
    for (const other of group) {
      spend(1);
      if (other.score < score) return false;
      const isOther = other.from !== from || other.to !== to;
      if (isOther && !renamed.has(other.from) && !taken.has(other.to)) return true;
    }
    return false;
  };
  for (const candidate of candidates) {
    const { from, to } = candidate;
    if (renamed.has(from) || taken.has(to)) continue;
    if (hasRival(byFrom.get(from)!, candidate) || hasRival(byTo.get(to)!, candidate)) continue;
    renamed.set(from, to);
    taken.add(to);
  }
  return renamed;
}

/** From 0 to 1: the share of words that two names or texts have in common. */
export function wordLikeness(one: ReadonlySet<string>, other: ReadonlySet<string>): number {
  const [few, many] = one.size < other.size ? [one, other] : [other, one];
  spend(few.size);
  let shared = 0;
  for (const word of few) if (many.has(word)) shared += 1;
  return (2 * shared) / (one.size + other.size || 1);
}

export function splitWords(name: string): ReadonlySet<string> {
  spend(name.length >> 1);
  const spaced = name.replaceAll(/([a-z0-9])([A-Z])/g, "$1 $2").toLowerCase();
  return new Set(spaced.split(/[^a-z0-9]+/).filter(Boolean));
}

export const objectKeywords = ["properties", "required", "additionalProperties"];

interface Shape {
  readonly properties: ReadonlyMap<string, unknown>;
  readonly required: ReadonlySet<string>;
  /** The schema for unnamed properties; undefined if the schema does not mention them. */
  readonly others: unknown;
  readonly hasPatterns: boolean;
}

function readShape(schema: JsonSchema): Shape {
  const { properties, required, additionalProperties, patternProperties } = schema;
  const [named, needed] = [
    isObject(properties) ? Object.entries(properties) : [],
    Array.isArray(required) ? (required as string[]) : [],
  ];
  spend((named.length + needed.length) * 3);
  return {
    properties: new Map(named),
    required: new Set(needed),
    others: additionalProperties,
    hasPatterns: patternProperties !== undefined,
  };
}

export function compareObjects(
  before: JsonSchema,
  after: JsonSchema,
  pointer: string,
  findings: Findings,
  walk: Walk,
): void {
  const [old, now] = [readShape(before), readShape(after)];
  const [missing, extra] = [propertiesOnlyIn(old, now), propertiesOnlyIn(now, old)];
  const renamed = findRenamed(missing, extra, ({ schema }) => constraintsText(schema), propertyLikeness);
  if (!renamed) {
    const message = `${missing.size} of its names were removed and ${extra.size} were added: too many to detect renames.`;
    findings.add(`${pointer}/properties`, "review", message);
  }
  const newNames = new Set(renamed?.values());

  for (const [name, schema] of old.properties) {
    const at = `${pointer}/properties/${escape(name)}`;
    if (now.properties.has(name)) {
      walk.compare(schema, now.properties.get(name), at, findings, walk);
      compareRequired(name, name, old, now, at, findings, walk);
    } else if (renamed?.has(name)) {
      const to = renamed.get(name)!;
      compareRenamed(name, to, at, findings);
      walk.compare(schema, now.properties.get(to), at, findings, walk);
      compareRequired(name, to, old, now, at, findings, walk);
    } else compareRemoved(name, old, now, at, findings, walk);
  }
  for (const name of extra.keys()) {
    if (newNames.has(name)) continue;
    compareAdded(name, old, now, `${pointer}/properties/${escape(name)}`, findings, walk);
  }
  for (const name of now.required) {
    if (now.properties.has(name) || old.required.has(name)) continue;
    findings.narrowed(`${pointer}/required`, `required to have ${quote(name)} now`);
  }
  for (const name of old.required) {
    if (old.properties.has(name) || now.required.has(name)) continue;
    findings.widened(`${pointer}/required`, `no longer required to have ${quote(name)}`);
  }
  compareOthers(old, now, `${pointer}/additionalProperties`, findings, walk);
}

interface Named {
  readonly schema: unknown;
  readonly isRequired: boolean;
  /** The words of its description; filled on first use. */
  words?: ReadonlySet<string>;
}

function propertiesOnlyIn({ properties, required }: Shape, other: Shape): Map<string, Named> {
  const named = new Map<string, Named>();
  for (const [name, schema] of properties) {
    if (other.properties.has(name)) continue;
    spend(3);
    named.set(name, { schema, isRequired: required.has(name) });
  }
  return named;
}

/** The similarity of two properties. Without shared words, only two required ones can be the same property. */
function propertyLikeness(before: Named, after: Named): number {
  const [old, now] = [before, after].map(({ schema }) => (isObject(schema) ? schema["description"] : undefined));
  const bothRequired = before.isRequired && after.isRequired ? 0.2 : 0;
  if (typeof old !== "string" || typeof now !== "string") return bothRequired;
  const likeness = wordLikeness((before.words ??= splitWords(old)), (after.words ??= splitWords(now)));
  if (likeness >= SAME_WORDS) return likeness;
  return bothRequired || -0.5;
}

const SAME_WORDS = 0.3;

function compareRequired(
  before: string,
  name: string,
  old: Shape,
  now: Shape,
  pointer: string,
  findings: Findings,
  walk: Walk,
): void {
  const [wasRequired, isRequired] = [old.required.has(before), now.required.has(name)];
  if (wasRequired === isRequired) return;
  const { direction } = findings;
  if (wasRequired) {
    const message =
      direction === "sent" ? `${quote(name)} may be left out now.` : `${quote(name)} may be missing from results now.`;
    findings.add(pointer, direction === "sent" ? "compatible" : "breaking", message);
  } else if (direction === "read") {
    findings.add(pointer, "compatible", `${quote(name)} is always present now.`);
  } else reportRequired(name, now, pointer, findings, walk, "is required now");
}

function reportRequired(
  name: string,
  now: Shape,
  pointer: string,
  findings: Findings,
  walk: Walk,
  predicate: string,
): void {
  const { schema } = resolve(now.properties.get(name), walk.after);
  const fallback = schema["default"];
  if (fallback === undefined) {
    findings.add(pointer, "breaking", `${quote(name)} ${predicate}: calls without it are refused.`);
  } else if (walk.hasDefaults) {
    findings.add(
      pointer,
      "compatible",
      `${quote(name)} ${predicate}, and has the default ${shortenJson(fallback)}: it may be left out.`,
    );
  } else {
    findings.add(
      pointer,
      "review",
      `${quote(name)} ${predicate}, with a default inside an alternative, where it may not apply.`,
    );
  }
}

function compareRenamed(name: string, to: string, pointer: string, findings: Findings): void {
  const consequence =
    findings.direction === "sent" ? "calls that use its old name are refused or ignored" : "readers no longer find it";
  findings.add(pointer, "breaking", `${quote(name)} is now called ${quote(to)}: ${consequence}.`, to);
}

function compareRemoved(name: string, old: Shape, now: Shape, pointer: string, findings: Findings, walk: Walk): void {
  if (findings.direction === "read") {
    findings.add(pointer, "breaking", `${quote(name)} is removed: readers no longer find it.`);
    return;
  }
  const others = resolve(now.others, walk.after).schema;
  if (isNever(others)) {
    // Servers with such a schema may drop unknown properties and accept the call.
    const consequence = now.hasPatterns
      ? "may be refused, unless a name pattern accepts it"
      : "no longer fit the schema, and may be refused";
    findings.add(pointer, "breaking", `${quote(name)} is removed: calls that pass it ${consequence}.`);
    return;
  }
  if (old.required.has(name)) {
    findings.add(
      pointer,
      "breaking",
      `${quote(name)} is removed: every call passes it, and it no longer has any effect.`,
    );
  } else {
    const consequence = isObject(now.others)
      ? "calls may still pass it like any other name"
      : "calls that pass it are accepted";
    findings.add(pointer, "review", `${quote(name)} is removed: ${consequence}, and it no longer has any effect.`);
  }
  if (isObject(now.others)) walk.compare(old.properties.get(name), now.others, pointer, findings, walk);
}

function compareAdded(name: string, old: Shape, now: Shape, pointer: string, findings: Findings, walk: Walk): void {
  if (findings.direction === "read") {
    findings.add(pointer, "compatible", `${quote(name)} is new.`);
    return;
  }
  if (now.required.has(name)) reportRequired(name, now, pointer, findings, walk, "is new and required");
  else findings.add(pointer, "compatible", `${quote(name)} is new, and may be left out.`);
  // A property that was allowed under any name may have a new schema under this one.
  if (old.others !== undefined && old.others !== false) {
    walk.compare(old.others, now.properties.get(name), pointer, findings, walk);
  } else if (old.hasPatterns) findings.unclear(pointer, "now named, while before a name pattern defined it");
}

function compareOthers(old: Shape, now: Shape, pointer: string, findings: Findings, walk: Walk): void {
  if (!isObject(old.others) && isSame(old.others, now.others)) return;
  if (old.others === undefined || now.others === undefined) {
    if (old.others === undefined && now.others === true) return;
    if (old.others === true && now.others === undefined) return;
    if (old.others !== undefined && findings.direction === "sent") {
      findings.add(pointer, "compatible", "Properties that are not named are now accepted.");
      return;
    }
    const message =
      old.others === undefined
        ? "Properties that are not named are now restricted."
        : "Properties that are not named are no longer restricted.";
    findings.add(pointer, "review", message);
    return;
  }
  if (old.others === false && findings.direction === "read") {
    findings.add(pointer, "review", "Properties that are not named are now possible.");
    return;
  }
  walk.compare(old.others, now.others, pointer, findings, walk);
}

function escape(name: string): string {
  return name.replaceAll("~", "~0").replaceAll("/", "~1");
}
