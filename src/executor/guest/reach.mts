import type { Reach, ReachStep } from "../../discover/discovery.ts";
import type { Json } from "../../lib/json.ts";

/** Visits every value that a path leads to, as the object or list that holds it and the key there. */
export function eachAt(
  value: Json | undefined,
  path: Reach,
  visit: (holder: Record<string, Json>, key: string) => void,
  depth = 0,
): void {
  if (typeof value !== "object" || value === null) return;
  const holder = value as Record<string, Json>;
  for (const key of keysAt(holder, path[depth]!)) {
    if (depth + 1 < path.length) eachAt(holder[key], path, visit, depth + 1);
    else visit(holder, key);
  }
}

function keysAt(holder: Json[] | Record<string, Json>, step: ReachStep): string[] {
  if (typeof step === "string" && step !== "*") return Object.hasOwn(holder, step) ? [step] : [];
  const keys = Object.keys(holder);
  if (step === "*") return keys;
  if ("from" in step) return Array.isArray(holder) ? keys.slice(step.from) : [];
  if (Array.isArray(holder)) return [];
  const { match, unless } = step;
  const isMatch = RegExp(match ?? "", "u");
  const isOther = RegExp(unless ?? "(?!)", "u");
  return keys.filter((key) => isMatch.test(key) && !isOther.test(key));
}

export function written(path: Reach): string {
  return path.map((step) => (typeof step === "string" ? step : "*")).join(".");
}
