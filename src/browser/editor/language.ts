import { javascript } from "@codemirror/lang-javascript";
import { json } from "@codemirror/lang-json";
import { StreamLanguage } from "@codemirror/language";
import { shell } from "@codemirror/legacy-modes/mode/shell";
import type { Extension } from "@codemirror/state";

/** What a file is written in, by its name, and else by what its main file is written in. */
export function languageOf(path: string, language: string): Extension {
  const ending = /\.(\w+)$/.exec(path)?.[1] ?? "";
  const kind = { ts: "typescript", mts: "typescript", js: "typescript", json: "json", sh: "shell" }[ending] ?? language;
  if (kind === "typescript") return javascript({ typescript: true });
  if (kind === "json") return json();
  return kind === "shell" ? StreamLanguage.define(shell) : [];
}
