/** A tag of a script's header, with everything that follows it up to the next one. */
export interface HeaderTag {
  /** Lower case, without the `@`. */
  readonly name: string;
  readonly text: string;
  /** Where its text begins, from 1. */
  readonly line: number;
  readonly column: number;
  /** Where the tag itself begins, from 1. */
  readonly tagColumn: number;
}

export interface Header {
  /** The first paragraph before any tag. */
  readonly summary: string;
  readonly tags: readonly HeaderTag[];
}

/**
 * The first block of `#` comments of a script, after its `#!` line. Lines for other tools (`# shellcheck …`) are no
 * part of it. Undefined when there is none.
 */
export function readHeader(lines: readonly string[]): Header | undefined {
  let at = lines[0]?.startsWith("#!") ? 1 : 0;
  while (at < lines.length && /^\s*$|^#+\s?shellcheck\s/.test(lines[at]!)) at += 1;
  const summary: string[] = [];
  const tags: { tag: HeaderTag; text: string[] }[] = [];
  let isSummary = true;

  for (; lines[at]?.startsWith("#"); at += 1) {
    const line = lines[at]!;
    const text = line.replace(/^#+\s?/, "");
    if (/^shellcheck\s/.test(text)) continue;
    const found = /^(#+\s*)@([A-Za-z]+)(\s*)(.*)$/.exec(line);
    if (found) {
      const [, before = "", name = "", gap = "", rest = ""] = found;
      const column = before.length + 1 + name.length + gap.length + 1;
      const tag = { name: name.toLowerCase(), text: "", line: at + 1, column, tagColumn: before.length + 1 };
      tags.push({ tag, text: [rest.trimEnd()] });
    } else if (tags.length > 0) tags.at(-1)!.text.push(text.trim());
    else if (text.trim() === "") isSummary = summary.length === 0;
    else if (isSummary) summary.push(text.trim());
  }
  if (summary.length === 0 && tags.length === 0) return undefined;
  return {
    summary: summary.join("\n"),
    tags: tags.map(({ tag, text }) => Object.assign(tag, { text: text.join("\n").trim() })),
  };
}
