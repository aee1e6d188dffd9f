import type { Current, Draft } from "../../edits/edits.ts";

export type StarterLanguage = "typescript" | "shell";

/** The definition that a new server begins with: it works as it is, and shows what makes a tool. */
export function starterOf(
  server: string,
  language: StarterLanguage,
): Draft & { language: Current["language"]; cid: null } {
  const entry = `${server}.${language === "shell" ? "sh" : "ts"}`;
  const text = language === "shell" ? SHELL : typescript(identifierOf(server));
  return { entry, files: { [entry]: text }, language, cid: null };
}

const typescript = (name: string): string => `/**
 * Greets somebody. Every exported function is a tool; this comment is what a model reads of it.
 *
 * @param who - Whom to greet.
 * @param times - How often.
 * @readOnly
 */
export function ${name}(who: string, times = 1): string {
  return Array.from({ length: times }, () => \`Hello, \${who}!\`).join(" ");
}
`;

const SHELL = `#!/bin/sh
# Greets somebody. The script is one tool; this comment is what a model reads of it.
#
# @param {string} who - Whom to greet.
# @readOnly

set -eu
printf 'Hello, %s!\\n' "$who"
`;

/** The function name for a server's name: `word-count` gives `wordCount`. */
function identifierOf(server: string): string {
  const words = server.split(/[^A-Za-z0-9]+/).filter(Boolean);
  const name = words.map((word, index) => (index === 0 ? word : word[0]!.toUpperCase() + word.slice(1))).join("");
  return /^[A-Za-z]/.test(name) && !RESERVED.has(name) ? name : "greet";
}

// Words that cannot name a function in a module.
const RESERVED = new Set(
  (
    "arguments await break case catch class const continue debugger default delete do else enum eval export extends " +
    "false finally for function if implements import in instanceof interface let new null package private protected " +
    "public return static super switch this throw true try typeof var void while with yield"
  ).split(" "),
);
