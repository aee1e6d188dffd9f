const LONG_UNITS = 65_536;

/** Where Berth's own code in this process parses, or writes, a longer JSON text than who serves may, while `use` runs. */
export async function longJsonIn(use: () => Promise<void>): Promise<string[]> {
  const { parse, stringify } = JSON;
  const seen: string[] = [];
  const note = (text: unknown): void => {
    if (typeof text !== "string" || text.length <= LONG_UNITS) return;
    const by = /\/dist\/src\/\S+/.exec(new Error().stack!)?.[0];
    if (by !== undefined) seen.push(by);
  };
  JSON.parse = (text: string, ...more) => {
    note(text);
    return parse(text, ...more) as unknown;
  };
  JSON.stringify = ((...given: Parameters<typeof stringify>) => {
    const text = stringify(...given);
    note(text);
    return text;
  }) as typeof stringify;
  try {
    await use();
  } finally {
    Object.assign(JSON, { parse, stringify });
  }
  return seen;
}
