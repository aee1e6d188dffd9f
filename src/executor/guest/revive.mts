import type { CallShape } from "../../discover/discovery.ts";
import type { Json } from "../../lib/json.ts";

type Path = readonly string[];

/** Replaces, in place, the texts that stand for `Date`s and `URL`s. Absent and null values stay as they are. */
export function revive(args: Json, { dates = [], urls = [] }: Pick<CallShape, "dates" | "urls">): void {
  for (const path of dates) replace(args, path, 0, dateOf);
  for (const path of urls) replace(args, path, 0, urlOf);
}

function replace(
  value: Json | undefined,
  path: Path,
  depth: number,
  made: (text: string, path: Path) => Date | URL,
): void {
  if (typeof value !== "object" || value === null) return;
  const holder = value as Record<string, Json>;
  const key = path[depth]!;
  const keys = key === "*" ? Object.keys(holder) : Object.hasOwn(holder, key) ? [key] : [];
  for (const key of keys) {
    if (depth + 1 < path.length) replace(holder[key], path, depth + 1, made);
    else if (typeof holder[key] === "string") holder[key] = made(holder[key], path) as unknown as Json;
  }
}

function dateOf(text: string, path: Path): Date {
  const date = new Date(text);
  if (Number.isNaN(date.getTime())) throw new TypeError(`"${text.slice(0, 100)}" at ${path.join(".")} is no date`);
  return date;
}

function urlOf(text: string, path: Path): URL {
  if (!URL.canParse(text)) throw new TypeError(`"${text.slice(0, 100)}" at ${path.join(".")} is no URL`);
  return new URL(text);
}
