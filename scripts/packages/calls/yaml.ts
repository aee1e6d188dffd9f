import YAML from "yaml";

/** Reads YAML, and writes it. */
export function document(): { value: unknown; text: string } {
  const value: unknown = YAML.parse("# a comment\nlist:\n  - &one 1\n  - *one\nwhen: 2001-12-15\n");
  return { value, text: YAML.stringify({ numbers: [3, 5], quoted: "yes: no" }) };
}
