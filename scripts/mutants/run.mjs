// Tests the tests: makes one small mistake at a time in a copy of the product, and expects the named tests to report it.
// `npm run mutants` tries every mutant of mutants.mjs; arguments select mutants by part of their file's path. `--trust`
// skips the run of the tests on the unchanged product.
import { spawn, spawnSync } from "node:child_process";
import { chmodSync, cpSync, existsSync, mkdtempSync, readFileSync, realpathSync, rmSync, symlinkSync } from "node:fs";
import { writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { parseArgs } from "node:util";
import { mutants } from "./mutants.mjs";

/** Several times the duration of the slowest named test. */
const RUN_MS = 180_000;
const END_MS = 10_000;
const NOT_COPIED = new Set([".berth", ".git", "screens"]);
const BUILD = [["transpile.mjs"], ["bundle-commands.mjs"], ["bundle-browser.mjs", "--quick"]];
/** A failed test. A file that fails without one, for example while it is loaded, is reported by its path. */
const FAILED = /^ *✖ (?!\S+\.test\.m?js \()(.+) \([\d.]+ms\)$/m;
/** Two or more: one that always passes is about the run itself. */
const PASSED = /^ℹ pass (?!1$)/m;

const { values, positionals } = parseArgs({ options: { trust: { type: "boolean" } }, allowPositionals: true });
/** The process group of the running tests. */
let group;
process.exitCode = await run();

/** @returns {Promise<number>} exit code */
async function run() {
  const problems = mutants.flatMap(problemsOf);
  if (problems.length > 0) throw new Error(problems.join("\n"));
  const isChosen = ({ file }) => positionals.length === 0 || positionals.some((part) => file.includes(part));
  const chosen = mutants.filter(isChosen);
  if (chosen.length === 0) throw new Error(`No mutant's path contains any of: ${positionals.join(", ")}`);
  const copy = copyProject();
  if (!values.trust) for (const test of new Set(chosen.flatMap(({ tests }) => tests))) await checkPasses(copy, test);
  let caught = 0;
  for (const mutant of chosen) if (await isCaught(copy, mutant)) caught++;
  console.log(`${chosen.length} mutants, ${caught} caught`);
  return caught === chosen.length ? 0 : 1;
}

/** @param {import("./mutants.mjs").Mutant} mutant */
function problemsOf({ file, find, replace, tests }) {
  const count = readFileSync(file, "utf8").split(find).length - 1;
  const missing = tests.filter((test) => test.includes(".extended.") || !existsSync(test));
  return [
    ...(count === 1 ? [] : [`${file} contains this ${count} times instead of once: ${find}`]),
    ...(find === replace ? [`The mutant of ${file} changes nothing: ${find}`] : []),
    ...(tests.length === 0 ? [`The mutant of ${file} names no test: ${find}`] : []),
    ...missing.map((test) => `The mutant of ${file} names ${test}, which is not a test of npm test`),
  ];
}

/** Copies what tests need, so that neither the build of the project nor an interrupted run is affected. */
function copyProject() {
  const copy = mkdtempSync(join(tmpdir(), "berth-mutants-"));
  process.on("exit", () => {
    endGroup("SIGTERM");
    rmSync(copy, { recursive: true, force: true });
  });
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.on(signal, () => process.exit(130));
  // As root, guests run as another user.
  chmodSync(copy, 0o755);
  const packages = [];
  const filter = (source) => {
    if (basename(source) === "node_modules") packages.push(source);
    return basename(source) !== "node_modules" && !NOT_COPIED.has(source);
  };
  cpSync(".", copy, { recursive: true, preserveTimestamps: true, filter });
  for (const folder of packages) symlinkSync(realpathSync(folder), join(copy, folder));
  return copy;
}

async function checkPasses(copy, test) {
  const { code, report } = await runTests(copy, [test]);
  if (code !== 0 || !PASSED.test(report)) throw new Error(`${test} does not pass without a mutant:\n${report}`);
}

async function isCaught(copy, { file, find, replace, tests }) {
  const path = join(copy, file);
  const source = readFileSync(path, "utf8");
  const started = performance.now();
  writeFileSync(
    path,
    source.replace(find, () => replace),
  );
  build(copy);
  const { code, report } = await runTests(copy, tests);
  // The next build compiles it again.
  writeFileSync(path, source);
  const [, title] = FAILED.exec(report) ?? [];
  const isFailed = code !== 0 && title !== undefined;
  const seconds = ((performance.now() - started) / 1_000).toFixed(1).padStart(5);
  if (isFailed) console.log(`caught    ${seconds} s  ${file}  by "${title}"`);
  else
    console.log(`SURVIVED  ${seconds} s  ${file}\n  ${find}\n  → ${replace}\n  ${tests.join(", ")}: exit code ${code}`);
  return isFailed;
}

function build(copy) {
  for (const [script, ...args] of BUILD) {
    const command = [join("scripts", script), ...args];
    const { status, stderr } = spawnSync(process.execPath, command, { cwd: copy, encoding: "utf8" });
    if (status !== 0) throw new Error(`scripts/${script} failed:\n${stderr}`);
  }
}

/** Bounded in time: a mutant that makes tests hang counts only if one of them reports it. */
async function runTests(copy, tests) {
  const env = { ...process.env, FORCE_COLOR: undefined, NODE_TEST_CONTEXT: undefined };
  const child = spawn(process.execPath, ["scripts/test.mjs", ...tests], { cwd: copy, env, detached: true });
  group = child.pid;
  let report = "";
  for (const stream of [child.stdout, child.stderr]) stream.setEncoding("utf8").on("data", (text) => (report += text));
  const timers = [
    setTimeout(() => endGroup("SIGTERM"), RUN_MS),
    setTimeout(() => endGroup("SIGKILL"), RUN_MS + END_MS),
  ];
  const code = await new Promise((done) => child.once("close", done));
  timers.forEach(clearTimeout);
  group = undefined;
  return { code, report };
}

function endGroup(signal) {
  try {
    if (group !== undefined) process.kill(-group, signal);
  } catch {
    // It has ended already.
  }
}
