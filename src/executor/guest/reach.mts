import type { Reach, ReachCondition, ReachStep } from "../../discover/discovery.ts";
import type { Json } from "../../lib/json.ts";

/**
 * Visits every value that a path leads to, as the object or list that contains it and its key; with `absent`, also a
 * missing property.
 */
export function visitAt(
  value: Json | undefined,
  path: Reach,
  visit: (holder: Record<string, Json>, key: string) => unknown,
  absent = false,
  depth = 0,
): void {
  if (typeof value !== "object" || value === null) return;
  const holder = value as Record<string, Json>;
  for (const key of matchingKeys(holder, path[depth]!, absent && depth === path.length - 1)) {
    let next = depth + 1;
    while (isCondition(path[next]) && holds(holder[key], path[next] as ReachCondition)) next += 1;
    if (isCondition(path[next])) continue;
    if (next < path.length) visitAt(holder[key], path, visit, absent, next);
    else visit(holder, key);
  }
}

function isCondition(step: ReachStep | undefined): step is ReachCondition {
  return typeof step === "object" && ("not" in step || "is" in step);
}

function holds(value: Json | undefined, condition: ReachCondition): boolean {
  if ("not" in condition) return !condition.not.includes(value);
  const { property, is } = condition;
  if (typeof value !== "object" || value === null || !Object.hasOwn(value, property)) return false;
  return is.includes((value as Record<string, Json>)[property]);
}

function matchingKeys(holder: Json[] | Record<string, Json>, step: ReachStep, absent: boolean): string[] {
  if (typeof step === "string" && step !== "*") return absent || Object.hasOwn(holder, step) ? [step] : [];
  const keys = Object.keys(holder);
  if (step === "*") return keys;
  if ("from" in step) return Array.isArray(holder) ? keys.slice(step.from) : [];
  if (Array.isArray(holder) || isCondition(step)) return [];
  const { match, unless } = step;
  const isMatch = RegExp(match ?? "", "u");
  const isExcluded = RegExp(unless ?? "(?!)", "u");
  return keys.filter((key) => isMatch.test(key) && !isExcluded.test(key));
}

export function formatPath(path: Reach): string {
  const steps = path.filter((step) => !isCondition(step));
  return steps.map((step) => (typeof step === "string" ? step : "*")).join(".");
}
