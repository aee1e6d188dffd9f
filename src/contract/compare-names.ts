import { isObject, type JsonSchema } from "../lib/json.ts";
import { quoted, shownJson, type Findings, type Walk } from "./compare-findings.ts";
import { demands, isNever, isSame, resolve } from "./compare-normal.ts";
import { spend, comparisonLimits } from "./compare-steps.ts";

/**
 * Things that have names: which ones of a list are gone, new or called otherwise now. Objects are compared here as well,
 * by their properties: removed, new, renamed, required or no longer required.
 */

/** Above this score two things count as the same; equal form alone is not enough where several share it. */
const ALIKE = 0.5;

interface Candidate {
  readonly from: string;
  readonly to: string;
  readonly score: number;
}

/**
 * Pairs of removed and added items that are the same, each in one pair at most. `formOf` is equal for items of the same
 * form. A pair counts only if no other one is as good. Undefined if there are too many pairs to look at.
 */
export function findRenamed<Item>(
  removed: ReadonlyMap<string, Item>,
  added: ReadonlyMap<string, Item>,
  formOf: (item: Item) => string,
  likeness: (before: Item, after: Item) => number = () => 0,
  pairsMax = comparisonLimits.renamePairs,
): ReadonlyMap<string, string> | undefined {
  if (removed.size * added.size > pairsMax) return undefined;
  if (removed.size * added.size === 0) return new Map();
  const isOnlyPair = removed.size === 1 && added.size === 1;
  const [old, now] = [removed, added].map((items) =>
    Array.from(items, ([name, item]) => ({ name, item, form: formOf(item), words: wordsOf(name) })),
  );
  const candidates: Candidate[] = [];
  for (const before of old!) {
    for (const after of now!) {
      spend(STEPS_OF_PAIR);
      const sameForm = before.form === after.form;
      const names = wordLikeness(before.words, after.words);
      if (!sameForm && names === 0 && !isOnlyPair) continue;
      const alike = likeness(before.item, after.item);
      // Without other candidates, one shared word is enough, and so are two spellings of one name.
      const bonus = names === 1 || (isOnlyPair && names > 0) ? 0.25 : 0;
      const score = sameForm ? 0.5 + names + alike / 2 : alike + names / 4 + bonus;
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
  const isRivalled = (group: readonly Candidate[], { from, to, score }: Candidate): boolean => {
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
    if (isRivalled(byFrom.get(from)!, candidate) || isRivalled(byTo.get(to)!, candidate)) continue;
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

export function wordsOf(name: string): ReadonlySet<string> {
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

function shapeOf(schema: JsonSchema): Shape {
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
  const [old, now] = [shapeOf(before), shapeOf(after)];
  const [gone, come] = [namedOnlyIn(old, now), namedOnlyIn(now, old)];
  const renamed = findRenamed(gone, come, ({ schema }) => demands(schema), propertyLikeness);
  if (!renamed) {
    const message = `${gone.size} of its names are gone and ${come.size} are new: too many to look for renamed ones.`;
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
    } else removed(name, old, now, at, findings, walk);
  }
  for (const name of come.keys()) {
    if (newNames.has(name)) continue;
    added(name, old, now, `${pointer}/properties/${escape(name)}`, findings, walk);
  }
  for (const name of now.required) {
    if (now.properties.has(name) || old.required.has(name)) continue;
    findings.narrowed(`${pointer}/required`, `required to have ${quoted(name)} now`);
  }
  for (const name of old.required) {
    if (old.properties.has(name) || now.required.has(name)) continue;
    findings.widened(`${pointer}/required`, `no longer required to have ${quoted(name)}`);
  }
  compareOthers(old, now, `${pointer}/additionalProperties`, findings, walk);
}

interface Named {
  readonly schema: unknown;
  readonly isRequired: boolean;
  /** The words of its description; filled on first use. */
  words?: ReadonlySet<string>;
}

function namedOnlyIn({ properties, required }: Shape, other: Shape): Map<string, Named> {
  const named = new Map<string, Named>();
  for (const [name, schema] of properties) {
    if (other.properties.has(name)) continue;
    spend(3);
    named.set(name, { schema, isRequired: required.has(name) });
  }
  return named;
}

/** How alike two properties are. Without shared words, only two required ones can be the same property. */
function propertyLikeness(before: Named, after: Named): number {
  const [old, now] = [before, after].map(({ schema }) => (isObject(schema) ? schema["description"] : undefined));
  const bothRequired = before.isRequired && after.isRequired ? 0.2 : 0;
  if (typeof old !== "string" || typeof now !== "string") return bothRequired;
  const likeness = wordLikeness((before.words ??= wordsOf(old)), (after.words ??= wordsOf(now)));
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
  const [was, is] = [old.required.has(before), now.required.has(name)];
  if (was === is) return;
  const { direction } = findings;
  if (was) {
    const message =
      direction === "sent"
        ? `${quoted(name)} may be left out now.`
        : `${quoted(name)} may be missing from results now.`;
    findings.add(pointer, direction === "sent" ? "compatible" : "breaking", message);
  } else if (direction === "read") {
    findings.add(pointer, "compatible", `${quoted(name)} is always there now.`);
  } else requiredNow(name, now, pointer, findings, walk, "is required now");
}

function requiredNow(name: string, now: Shape, pointer: string, findings: Findings, walk: Walk, is: string): void {
  const { schema } = resolve(now.properties.get(name), walk.after);
  const standsIn = schema["default"];
  if (standsIn === undefined) {
    findings.add(pointer, "breaking", `${quoted(name)} ${is}: calls without it are refused.`);
  } else if (walk.hasDefaults) {
    findings.add(
      pointer,
      "compatible",
      `${quoted(name)} ${is}, and has the default ${shownJson(standsIn)}: it may be left out.`,
    );
  } else {
    findings.add(
      pointer,
      "review",
      `${quoted(name)} ${is}, with a default inside an alternative, where it may not apply.`,
    );
  }
}

function compareRenamed(name: string, to: string, pointer: string, findings: Findings): void {
  const consequence =
    findings.direction === "sent"
      ? "calls that give it under its old name are refused or ignored"
      : "readers no longer find it";
  findings.add(pointer, "breaking", `${quoted(name)} is now called ${quoted(to)}: ${consequence}.`, to);
}

function removed(name: string, old: Shape, now: Shape, pointer: string, findings: Findings, walk: Walk): void {
  if (findings.direction === "read") {
    findings.add(pointer, "breaking", `${quoted(name)} is removed: readers no longer find it.`);
    return;
  }
  const others = resolve(now.others, walk.after).schema;
  if (isNever(others)) {
    // Servers with such a schema may drop unknown properties and accept the call.
    const consequence = now.hasPatterns
      ? "may be refused, unless a pattern of names accepts it"
      : "no longer fit the schema, and may be refused";
    findings.add(pointer, "breaking", `${quoted(name)} is removed: calls that give it ${consequence}.`);
    return;
  }
  if (old.required.has(name)) {
    findings.add(
      pointer,
      "breaking",
      `${quoted(name)} is removed: every call gives it, and it no longer does anything.`,
    );
  } else {
    const consequence = isObject(now.others)
      ? "calls may give it like any other name"
      : "calls that give it are accepted";
    findings.add(pointer, "review", `${quoted(name)} is removed: ${consequence}, and it no longer does anything.`);
  }
  if (isObject(now.others)) walk.compare(old.properties.get(name), now.others, pointer, findings, walk);
}

function added(name: string, old: Shape, now: Shape, pointer: string, findings: Findings, walk: Walk): void {
  if (findings.direction === "read") {
    findings.add(pointer, "compatible", `${quoted(name)} is new.`);
    return;
  }
  if (now.required.has(name)) requiredNow(name, now, pointer, findings, walk, "is new and required");
  else findings.add(pointer, "compatible", `${quoted(name)} is new, and may be left out.`);
  // A property that was allowed under any name may have a new schema under this one.
  if (old.others !== undefined && old.others !== false) {
    walk.compare(old.others, now.properties.get(name), pointer, findings, walk);
  } else if (old.hasPatterns) findings.unclear(pointer, "named now, where a pattern of names said what it may be");
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
