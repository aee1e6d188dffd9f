// docs/requirements.md and the titles of tests tell the same: each id at the beginning or the end of a title is on the
// page, and each entry of the page links exactly the files whose tests carry its id, at least one of them in `npm test`,
// or says why there is no test. Each claim of docs/security.md has tests in scripts/security-tests.json, at least one of
// them in `npm test`, and docs/security-tests.md lists them. `--write` updates the links and that page.
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { format } from "oxfmt";

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
const SECURITY_TESTS = "docs/security-tests.md";
const CLAIM_TESTS = "scripts/security-tests.json";
/** A heading of a group of claims, or a claim with its id. */
const CLAIM = /^### .*$|^- `([\w-]+)` \*\*([^]*?)\*\*/gm;

const claims = readFileSync(SECURITY, "utf8").split("\n## What is not claimed\n")[0];
const claimTests = new Map(Object.entries(JSON.parse(readFileSync(CLAIM_TESTS, "utf8"))));
const securityFaults = [];
const linked = (name) => (name.startsWith("npm ") ? `\`${name}\`` : `[${name}](../test/${name}.ts)`);
const listed = Array.from(claims.matchAll(CLAIM), ([heading, id, claim]) => {
  if (id === undefined) return `\n${heading}\n`;
  const names = claimTests.get(id) ?? [];
  claimTests.delete(id);
  const missing = names.filter((name) => !name.startsWith("npm ") && !existsSync(`test/${name}.ts`));
  if (missing.length > 0) securityFaults.push(`${id} names tests that do not exist: ${missing.join(", ")}`);
  if (!names.some((name) => /(?<!\.extended)\.test$/.test(name))) securityFaults.push(`${id} has no test in npm test`);
  return `- \`${id}\` ${claim.replaceAll(/\s+/g, " ")}\n  Tests: ${names.map(linked).join(", ")}`;
});
for (const id of claimTests.keys()) securityFaults.push(`${id} is not a claim of ${SECURITY}`);
const options = JSON.parse(readFileSync(".oxfmtrc.json", "utf8"));
const { code: securityTests } = await format(
  SECURITY_TESTS,
  `# Security tests

The tests that attack each claim of the [threat model](security.md). Generated from \`${CLAIM_TESTS}\`: edit that file, then run
\`node scripts/check-requirements.mjs --write\`.
${listed.join("\n")}
`,
  options,
);
for (const fault of securityFaults) console.error(`${CLAIM_TESTS}: ${fault}`);
if (securityFaults.length > 0) process.exitCode = 1;
if (process.argv.includes("--write")) writeFileSync(SECURITY_TESTS, securityTests);
else if (!existsSync(SECURITY_TESTS) || readFileSync(SECURITY_TESTS, "utf8") !== securityTests) {
  console.error(`${SECURITY_TESTS} is out of date: run node scripts/check-requirements.mjs --write.`);
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
