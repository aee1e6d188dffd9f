// The weight of the project: settings, words to read, code to maintain. Counts tracked files only.
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import ts from "typescript";
import { generatedWords, pages, words } from "./doc-words.mjs";

const tracked = execFileSync("git", ["ls-files"], { encoding: "utf8", maxBuffer: 2 ** 24 })
  .split("\n")
  .filter(Boolean);
const read = (file) => readFileSync(file, "utf8");

/** Code files of a folder, with their lines that are neither blank nor comment, and their TypeScript tokens. */
function codeIn(folder) {
  const files = tracked.filter((file) => file.startsWith(`${folder}/`) && /\.(?:ts|tsx|mts)$/.test(file));
  let lines = 0;
  let tokens = 0;
  for (const file of files) {
    const text = read(file);
    lines += text.split("\n").filter((line) => !/^\s*(?:$|\/\/|\*|\/\*)/.test(line)).length;
    const variant = file.endsWith("x") ? ts.LanguageVariant.JSX : ts.LanguageVariant.Standard;
    const scanner = ts.createScanner(ts.ScriptTarget.Latest, true, variant, text);
    while (scanner.scan() !== ts.SyntaxKind.EndOfFileToken) tokens++;
  }
  return { files: files.length, lines, tokens };
}

const generated = pages.map((page) => generatedWords(page, read(page)));
const all = pages.map((page) => words(read(page)));
const sum = (numbers) => numbers.reduce((total, number) => total + number, 0);

// The first cells of the tables in docs/settings.md name each setting once; scripts/check-reference.mjs sees to it.
const settings = [...read("docs/settings.md").matchAll(/^\| (`BERTH_[^|]+)\|/gm)].flatMap(([, cell]) =>
  cell.match(/BERTH_[A-Z_]+/g),
);
const { dependencies, devDependencies } = JSON.parse(read("package.json"));

const rows = [["settings", settings.length]];
for (const folder of ["src", "test"]) {
  const { files, lines, tokens } = codeIn(folder);
  rows.push([`${folder}: files`, files], [`${folder}: code lines`, lines], [`${folder}: tokens`, tokens]);
}
rows.push(["docs: words", sum(all) - sum(generated)], ["docs: words in generated tables", sum(generated)]);
rows.push(["changelog: words", words(read("CHANGELOG.md"))]);
rows.push(["dependencies", Object.keys(dependencies).length]);
rows.push(["development dependencies", Object.keys(devDependencies).length]);
for (const [what, number] of rows) console.log(`${what.padEnd(32)}${number.toLocaleString("en-US").padStart(10)}`);
