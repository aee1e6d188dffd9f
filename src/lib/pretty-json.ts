import { createYielder } from "./event-loop.ts";
import { isObject } from "./json.ts";

/** JSON for people and for hashing: sorted keys, two spaces, a final newline. Equal values give equal text. */
export function prettyJson(value: unknown): string {
  return `${JSON.stringify(sortKeys(value), null, 2)}\n`;
}

/** Writes the same without the final newline, yielding between members of objects down to this many levels. */
export async function prettyJsonYielding(
  value: unknown,
  levels: number,
  yieldIfDue = createYielder(),
): Promise<string> {
  if (levels === 0 || !isObject(value) || Object.keys(value).length === 0) return prettyJson(value).slice(0, -1);
  const members: string[] = [];
  for (const name of Object.keys(value).sort(compareText)) {
    await yieldIfDue();
    if (value[name] === undefined) continue;
    const text = await prettyJsonYielding(value[name], levels - 1, yieldIfDue);
    members.push(`  ${JSON.stringify(name)}: ${text.replaceAll("\n", "\n  ")}`);
  }
  return `{\n${members.join(",\n")}\n}`;
}

function sortKeys(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sortKeys);
  if (typeof value !== "object" || value === null) return value;
  const entries = Object.entries(value).map(([key, inner]) => [key, sortKeys(inner)] as const);
  // fromEntries defines properties, so that a key such as `__proto__` stays plain data.
  return Object.fromEntries(entries.sort(([a], [b]) => compareText(a, b)));
}

/** Order by code unit: the same on every machine, regardless of locale. */
export function compareText(a: string, b: string): number {
  if (a === b) return 0;
  return a < b ? -1 : 1;
}
