import type { Json } from "../../json.ts";

type Path = readonly string[];

/** Replaces the texts at `paths` by `Date`s, in place. What is absent or null stays so. */
export function reviveDates(args: Json, paths: readonly Path[]): void {
  for (const path of paths) revive(args, path, 0);
}

function revive(value: Json | undefined, path: Path, depth: number): void {
  if (typeof value !== "object" || value === null) return;
  const holder = value as Record<string, Json>;
  const key = path[depth]!;
  const keys = key === "*" ? Object.keys(holder) : Object.hasOwn(holder, key) ? [key] : [];
  for (const key of keys) {
    if (depth + 1 < path.length) revive(holder[key], path, depth + 1);
    else if (typeof holder[key] === "string") holder[key] = dateOf(holder[key], path) as unknown as Json;
  }
}

function dateOf(text: string, path: Path): Date {
  const date = new Date(text);
  if (Number.isNaN(date.getTime())) throw new TypeError(`"${text.slice(0, 100)}" at ${path.join(".")} is no date`);
  return date;
}
