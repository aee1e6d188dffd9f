// The documentation: every link to a file or heading leads somewhere, every `berth` command in a shell block has a known
// name and known options, no page has more words than a reader takes in at once, and all pages together stay within bounds.
import { execFileSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import GithubSlugger from "github-slugger";
import { generatedWords, pages, words } from "./doc-words.mjs";

const PAGE_WORDS = 1_500;
/** 35,000, and what later issues added. */
const ALL_WORDS = 35_928;
/** Pages to look things up in, which may be longer. */
const LONGER = { "docs/security.md": 4_500, "docs/settings.md": 1_700, "reference_templates/README.md": 2_100 };

const faults = [];
const tracked = execFileSync("git", ["ls-files", "*.md"], { encoding: "utf8" }).split("\n").filter(Boolean);

const anchors = new Map();
function findAnchors(file) {
  if (!anchors.has(file)) {
    const slugger = new GithubSlugger();
    const text = readFileSync(file, "utf8").replaceAll(/^```.*?^```/gms, "");
    const headings = [...text.matchAll(/^#{1,6} (.*)$/gm)].map(([, heading]) =>
      heading.replaceAll(/\[([^\]]*)\]\([^)]*\)/g, "$1"),
    );
    anchors.set(file, new Set(headings.map((heading) => slugger.slug(heading.replaceAll("`", "")))));
  }
  return anchors.get(file);
}

for (const file of tracked.filter((name) => !name.startsWith("test/fixtures/"))) {
  const text = readFileSync(file, "utf8")
    .replaceAll(/^```.*?^```/gms, "")
    .replaceAll(/`[^`\n]*`/g, "");
  for (const [, target] of text.matchAll(/\]\(([^)\s]+)\)/g)) {
    if (/^[a-z]+:/.test(target)) continue;
    const [path, anchor] = target.split("#");
    const to = path === "" ? file : join(dirname(file), path);
    if (!existsSync(to)) faults.push(`${file}: ${target} does not exist`);
    else if (anchor !== undefined && statSync(to).isFile() && !findAnchors(to).has(anchor))
      faults.push(`${file}: ${target} names no heading`);
  }
}

const sources = readdirSync("src", { recursive: true, encoding: "utf8" })
  .filter((name) => name === "cli.ts" || /^features\/.*\.ts$/.test(name))
  .map((name) => readFileSync(join("src", name), "utf8"))
  .join("\n");
const commands = new Set(Array.from(sources.matchAll(/(?:\.command\(|\badd\(\w+,)\s*"([\w-]+)/g), ([, name]) => name));
const options = new Set(Array.from(sources.matchAll(/"(?:-\w, )?(--[\w-]+)/g), ([, name]) => name));
for (const file of pages) {
  for (const [, block] of readFileSync(file, "utf8").matchAll(/^ *```sh\n(.*?)^ *```/gms)) {
    for (const [, name, rest] of block
      .replaceAll("\\\n", " ")
      .matchAll(/(?:^|[;&|(] *|=\S+ )berth ([\w-]+)([^#\n|;&]*)/gm)) {
      if (!commands.has(name)) faults.push(`${file}: there is no command "berth ${name}"`);
      const flags = name === "call" ? [] : (rest.match(/(?<=\s)--[a-z][\w-]*/g) ?? []);
      for (const flag of flags) if (!options.has(flag)) faults.push(`${file}: no command has the option ${flag}`);
    }
  }
}

// `private` of package.json says whether Berth is published to npm.
const isPublished = JSON.parse(readFileSync("package.json", "utf8")).private !== true;
for (const file of ["README.md", "docs/getting-started.md"]) {
  const text = readFileSync(file, "utf8");
  if (isPublished === text.includes("Berth is not published to npm"))
    faults.push(
      `${file} must ${isPublished ? "not " : ""}say that Berth is not published to npm (private in package.json)`,
    );
}
for (const file of pages) {
  const blocks = readFileSync(file, "utf8").match(/^ *```sh\n.*?^ *```/gms) ?? [];
  if (!isPublished && blocks.some((block) => /\b(npx|npm (i|install|exec)\b.*) berth(-mcp)?\b/.test(block)))
    faults.push(`${file} installs Berth from npm, where it is not published (private in package.json)`);
}

let all = 0;
for (const file of pages) {
  const text = readFileSync(file, "utf8");
  const count = words(text) - generatedWords(file, text);
  all += count;
  const most = LONGER[file] ?? PAGE_WORDS;
  if (count > most) faults.push(`${file} has ${count} words: cut or split it, the limit is ${most}`);
}
if (all > ALL_WORDS)
  faults.push(`the documentation has ${all} words without generated ones: the limit is ${ALL_WORDS}`);

for (const fault of faults) console.error(fault);
if (faults.length > 0) process.exitCode = 1;
else console.error(`${tracked.length} pages link to what exists; the documentation has ${all} words.`);
