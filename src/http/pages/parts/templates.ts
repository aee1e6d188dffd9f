import { readFileSync } from "node:fs";
import { join } from "node:path";
import { packageRoot } from "../../../config.ts";
import type { CurrentDraft, Draft } from "../../../lib/draft.ts";
import { indentedJson, type Json, type JsonObject } from "../../../lib/json.ts";

/** Something that a new server begins with; those with a file are examples (`examples/`). */
export interface ServerTemplate {
  readonly id: string;
  readonly label: string;
  readonly about: string;
  /** `code`: a definition to write. Others are servers that others wrote, named by an address or a package. */
  readonly kind: "code" | "remote" | "npm";
  readonly language?: "typescript" | "shell";
  readonly file?: string;
  /** Files that it names, with their endings: they stand beside the definition under the same names. */
  readonly beside?: readonly string[];
  /** npm packages of the tenant that it imports. */
  readonly packages?: readonly string[];
}

export const TEMPLATES: readonly ServerTemplate[] = [
  {
    id: "typescript",
    label: "Empty",
    about: "One TypeScript function: its types are the tool's schema.",
    kind: "code",
    language: "typescript",
  },
  {
    id: "shell",
    label: "Empty shell script",
    about: "One script is one tool; its comment says what it takes.",
    kind: "code",
    language: "shell",
  },
  {
    id: "api",
    label: "Fetch with a secret",
    about: "Asks an API with a key that no client sees, at the one host that it may reach.",
    kind: "code",
    file: "api",
  },
  {
    id: "ask",
    label: "Ask the user",
    about: "Asks the user with a form, and goes on with the answer.",
    kind: "code",
    file: "ask",
  },
  {
    id: "notes",
    label: "Notes with state",
    about: "Keeps notes from call to call, which are resources that clients can follow.",
    kind: "code",
    file: "notes",
  },
  {
    id: "loan",
    label: "App with a chart",
    about: "Shows its results in the conversation as a chart, with sliders that call the tool again.",
    kind: "code",
    file: "loan",
    beside: ["loan.html"],
  },
  {
    id: "postgres",
    label: "Database",
    about: "Reads a Postgres database in transactions that change nothing.",
    kind: "code",
    file: "postgres",
    packages: ["pg", "pg-cursor", "@types/pg", "@types/pg-cursor"],
  },
  { id: "remote", label: "Remote server", about: "An MCP server that runs elsewhere, at a URL.", kind: "remote" },
  { id: "npm", label: "npm server", about: "An MCP server from an npm package, which Berth starts.", kind: "npm" },
];

/** A definition to begin with. */
export interface Beginning extends Draft {
  readonly language: CurrentDraft["language"];
  readonly cid: null;
}

/** The definition of a new server, made of a template of code. */
export function beginningOf(server: string, { language, file, beside = [] }: ServerTemplate): Beginning {
  const isShell = language === "shell";
  const entry = `${server}.${isShell ? "sh" : "ts"}`;
  const text = file === undefined ? (isShell ? SHELL : typescript(identifierOf(server))) : exampleText(`${file}.ts`);
  const others = Object.fromEntries(beside.map((name) => [name, exampleText(name)]));
  return { entry, files: { [entry]: text, ...others }, language: isShell ? "shell" : "typescript", cid: null };
}

/** The fields of an entry in `mcps` that give a template what it needs, as JSON; undefined where it needs nothing. */
export function grantsOf({ file }: ServerTemplate): string | undefined {
  if (file === undefined) return undefined;
  const all = JSON.parse(exampleText("mcps.source.json")) as Readonly<Record<string, JsonObject>>;
  const { definition: _, description: __, ...grants } = all[file]!;
  if (Object.keys(grants).length === 0) return undefined;
  const fields = Object.entries(grants).map(([name, value]) => `  ${JSON.stringify(name)}: ${onOneLine(value)}`);
  return `{\n${fields.join(",\n")}\n}`;
}

/** A short list or object as people write it. */
function onOneLine(value: Json): string {
  return indentedJson(value)
    .replace(/\n\s*/g, " ")
    .replace(/^\[ (.*) \]$/, "[$1]");
}

/** Examples come with Berth, and are the same while it runs. */
const examples = new Map<string, string>();

function exampleText(file: string): string {
  let text = examples.get(file);
  if (text === undefined) examples.set(file, (text = readFileSync(join(packageRoot, "examples", file), "utf8")));
  return text;
}

const typescript = (name: string): string => `/**
 * Greets somebody. Every exported function is a tool; a model reads this comment.
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
# Greets somebody. The script is one tool; a model reads this comment.
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
