import { execFileSync } from "node:child_process";

/** The pages of the documentation. */
export const pages = execFileSync("git", ["ls-files"], { encoding: "utf8" })
  .split("\n")
  .filter((file) => /^docs\/.*\.md$|^(?:reference_templates\/)?README\.md$/.test(file));

/** Pages that scripts write as a whole. */
const GENERATED_PAGES = new Set(["docs/requirements.md", "docs/security-tests.md", "docs/packages-tried.md"]);
const GENERATED = /<!-- generated:[^]*?<!-- \/generated -->/g;

/** As `wc -w` counts them. @param {string} text */
export const words = (text) => text.split(/\s+/).filter(Boolean).length;

/** The words of a page that scripts write. @param {string} file @param {string} text */
export function generatedWords(file, text) {
  return words(GENERATED_PAGES.has(file) ? text : (text.match(GENERATED) ?? []).join(" "));
}
