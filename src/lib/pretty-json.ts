import { turnTaker } from "./event-loop.ts";
import { isObject } from "./json.ts";

/** JSON for people and for hashing: sorted keys, two spaces, a final newline. Equal values give equal texts. */
export function prettyJson(value: unknown): string {
  return `${JSON.stringify(sorted(value), null, 2)}\n`;
}

/**
 * Writes the same text without the final newline. Other calls run between the members of objects down to this many
 * levels.
 */
export async function prettyJsonInTurns(value: unknown, levels: number, takeTurns = turnTaker()): Promise<string> {
  if (levels === 0 || !isObject(value) || Object.keys(value).length === 0) return prettyJson(value).slice(0, -1);
  const members: string[] = [];
  for (const name of Object.keys(value).sort(compareText)) {
    await takeTurns();
    if (value[name] === undefined) continue;
    const text = await prettyJsonInTurns(value[name], levels - 1, takeTurns);
    members.push(`  ${JSON.stringify(name)}: ${text.replaceAll("\n", "\n  ")}`);
  }
  return `{\n${members.join(",\n")}\n}`;
}

function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted);
  if (typeof value !== "object" || value === null) return value;
  const entries = Object.entries(value).map(([key, inner]) => [key, sorted(inner)] as const);
  // fromEntries defines properties, so that a key such as `__proto__` stays plain data.
  return Object.fromEntries(entries.sort(([a], [b]) => compareText(a, b)));
}

/** Order by code unit: the same on every machine, whatever its locale. */
export function compareText(a: string, b: string): number {
  if (a === b) return 0;
  return a < b ? -1 : 1;
}
