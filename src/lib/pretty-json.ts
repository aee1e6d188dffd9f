/** JSON for people and for hashing: sorted keys, two spaces, a final newline. Equal values give equal texts. */
export function prettyJson(value: unknown): string {
  return `${JSON.stringify(sorted(value), null, 2)}\n`;
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
