// docs/requirements.md and the titles of tests tell the same: each id at the beginning or the end of a title is on the
// page, and each entry of the page links exactly the files whose tests carry its id, at least one of them in `npm test`,
// or says why there is no test. Each claim of docs/security.md names tests that exist, at least one of them in `npm test`.
// `--write` writes the links anew, as after a move of tests.
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";

const PAGE = "docs/requirements.md";
const ID = String.raw`(?:[CJPST]\d{1,2}(?:\.\d{1,2})?)`;
const IDS = String.raw`${ID}(?:(?:,| and)? ${ID})*`;
const TITLE = /\b(?:test|it|describe)(?:\.\w+)?\(\s*(["'`])((?:\\.|(?!\1)[^\\])*)\1/g;
/** Tests whose titles are made of a table have their ids there. */
const FIELD = new RegExp(String.raw`\bids?: (["'\`])(${IDS})\1`, "g");
const AT_END = new RegExp(String.raw`(?:^| )[([]?(${IDS})[)\]]?$`);
/** Any letter here: an id that the page does not know is a fault. At the end, `V8` may be a word. */
const AT_BEGINNING = new RegExp(String.raw`^(${IDS.replaceAll("[CJPST]", "[A-Z]")}) `);
const ENTRY = new RegExp(String.raw`^- \*\*(${ID})\*\* .+\n(?:  (Tests: .*|No test: .*)\n)?`, "gm");

const files = new Map();
for (const file of readdirSync("test", { recursive: true, encoding: "utf8" }).toSorted()) {
  if (!file.endsWith(".ts") || /(^|\/)(fixtures|node_modules)\//.test(file)) continue;
  const text = readFileSync(`test/${file}`, "utf8");
  const titles = [...text.matchAll(TITLE)].flatMap(([, , title]) => {
    const ids = AT_END.exec(title)?.[1] ?? AT_BEGINNING.exec(title)?.[1];
    return ids ? [ids] : [];
  });
  const fields = [...text.matchAll(FIELD)].map(([, , ids]) => ids);
  for (const id of [...titles, ...fields].flatMap((ids) => ids.match(/[A-Z][\d.]+/g))) {
    files.set(id, (files.get(id) ?? new Set()).add(file));
  }
}

const linksOf = (id) =>
  [...(files.get(id) ?? [])].map((file) => `[${file.replace(/(\.test)?\.ts$/, "")}](../test/${file})`).join(", ");

const page = readFileSync(PAGE, "utf8");
const faults = [];
const seen = new Set();
const written = page.replaceAll(ENTRY, (entry, id, tests) => {
  if (seen.has(id)) faults.push(`${id} has two entries`);
  seen.add(id);
  const links = linksOf(id);
  const first = entry.slice(0, entry.indexOf("\n") + 1);
  if (links) {
    if (![...files.get(id)].some((file) => !file.endsWith(".extended.test.ts")))
      faults.push(`${id} has only extended tests`);
    if (tests !== `Tests: ${links}`) faults.push(`${id} does not link just the tests that carry it: ${links}`);
    return `${first}  Tests: ${links}\n`;
  }
  if (tests?.startsWith("No test: ")) return entry;
  faults.push(`${id} has no test, and no line "No test: <reason>"`);
  return first;
});
for (const [id, of] of files)
  if (!seen.has(id)) faults.push(`${id} stands in ${[...of].join(", ")}, and not on the page`);

const SECURITY = "docs/security.md";
for (const [row] of readFileSync(SECURITY, "utf8").matchAll(/^\|.*\|$/gm)) {
  const [claim, , tests = ""] = row.slice(1, -1).split("|");
  if (claim.trim() === "claim" || /^ *-+ *$/.test(claim)) continue;
  const names = [...tests.matchAll(/`(support\/[\w.-]+|[\w./-]+\.test)`/g)].map(([, name]) => name);
  const missing = names.filter((name) => !existsSync(`test/${name}.ts`));
  if (missing.length === 0 && names.some((name) => /(?<!\.extended)\.test$/.test(name))) continue;
  console.error(`${SECURITY}, ${JSON.stringify(claim.trim())}: ${missing.join(", ") || "no test of npm test"}`);
  process.exitCode = 1;
}

if (process.argv.includes("--write")) {
  writeFileSync(PAGE, written);
} else if (faults.length > 0) {
  for (const fault of faults) console.error(fault);
  console.error(
    `${PAGE} does not fit the titles of tests: node scripts/check-requirements.mjs --write writes its links.`,
  );
  process.exitCode = 1;
} else {
  console.error(`${PAGE} links the tests of each of ${seen.size} ids.`);
}
