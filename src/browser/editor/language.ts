import { javascript } from "@codemirror/lang-javascript";
import { json } from "@codemirror/lang-json";
import { StreamLanguage } from "@codemirror/language";
import { shell } from "@codemirror/legacy-modes/mode/shell";
import { html } from "@codemirror/legacy-modes/mode/xml";
import type { Extension } from "@codemirror/state";

/** The language of a file, by its name, and otherwise that of the main file. */
export function languageOf(path: string, language: string): Extension {
  const ending = /\.(\w+)$/.exec(path)?.[1] ?? "";
  const kind = KINDS[ending.toLowerCase()] ?? language;
  if (kind === "typescript") return javascript({ typescript: true });
  if (kind === "json") return json();
  if (kind === "html") return StreamLanguage.define(html);
  return kind === "shell" ? StreamLanguage.define(shell) : [];
}

const KINDS: Readonly<Record<string, string>> = {
  ts: "typescript",
  mts: "typescript",
  js: "typescript",
  json: "json",
  html: "html",
  htm: "html",
  sh: "shell",
};
