// The official MCP conformance suite against a Berth that hosts test/fixtures/conformance.ts: everything that applies to
// each revision, the frozen requirements of those that have them, and the extensions of tasks and skills. A failure or a
// warning of any check fails the run.
// `npm run conformance -- --scenario NAME [REVISION]` runs one scenario and prints the suite's whole output.
// With `--hosted` first, the Berth that is tested hosts the server of another Berth as an upstream.
// `--hosted-stdio` does the same with the other Berth as a program (`berth stdio`).
import { spawnSync } from "node:child_process";
import {
  copyFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { installFolder } from "../install-folder.mjs";
import { berth as command, makeImage, startBerth } from "../start-berth.mjs";

const REVISIONS = ["2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"];
const WITH_REQUIREMENTS = ["2025-11-25", "2026-07-28"];
const TASKS = [
  "tasks-lifecycle",
  "tasks-capability-negotiation",
  "tasks-wire-fields",
  "tasks-request-state-removal",
  "tasks-mrtr-input",
  "tasks-request-headers",
  "tasks-dispatch-and-envelope",
  "tasks-status-notifications",
  "tasks-required-task-error",
  "tasks-mrtr-composition",
];
const SKILLS = ["sep-2640-skills-enumeration", "sep-2640-skills-manifest", "sep-2640-skills-directory"];

installFolder("test/clients", (line) => console.log(line));
const clients = resolve("test/clients/node_modules");
const suite = join(clients, "@modelcontextprotocol/conformance/dist/index.js");
// The suite needs Node 22; the product does not.
const node = join(clients, ".bin/node");

const words = process.argv.slice(2);
const hosted = ["--hosted", "--hosted-stdio"].includes(words[0]) ? words.shift() : undefined;
const folder = mkdtempSync(join(tmpdir(), "berth-conformance-"));
const berths = await started();
const [berth] = berths;
let failed = false;
try {
  // The suite gives each scenario 30 s, and would count the start of a hosted program as part of the first one.
  command(["inspect", `${berth.url}/mcp/conformance`]);
  if (words[0] === "--scenario") one(words[1], words[2] ?? "2026-07-28");
  else everything();
} finally {
  for (const each of berths) await each.stop();
  rmSync(folder, { recursive: true, force: true });
}
process.exit(failed ? 1 : 0);

function everything() {
  for (const revision of REVISIONS) tell(revision, run(["--suite", "all", "--spec-version", revision]));
  tell("skills", ...SKILLS.map((scenario) => run(["--scenario", scenario])));
  requirementsAndTasks();
  console.log(failed ? "Conformance: something failed" : "Conformance: nothing failed");
}

function requirementsAndTasks() {
  for (const revision of WITH_REQUIREMENTS) tell(`requirements of ${revision}`, run(["--requirements", revision]));
  tell("tasks", ...TASKS.map((scenario) => run(["--scenario", scenario])));
}

function one(scenario, revision) {
  const { stdout, stderr, ok, faults } = run([
    "--scenario",
    scenario,
    "--spec-version",
    revision,
    "--force",
    "--verbose",
  ]);
  console.log(stdout, stderr, faults.join("\n"));
  failed = !ok;
}

/** Prints one line of figures per run; the suite's other output only where it failed or warned. */
function tell(what, ...runs) {
  const sum = (name) => runs.reduce((total, each) => total + each[name], 0);
  const figures = `${sum("passed")} checks passed, ${sum("failures")} failed, ${sum("warnings")} with a warning`;
  console.log(`${what}: ${figures}, in ${sum("scenarios")} scenarios`);
  for (const { ok, stdout, stderr, faults } of runs) {
    if (ok) continue;
    failed = true;
    console.log(stdout, stderr);
    for (const fault of faults) console.log(fault);
  }
}

function run(chosen) {
  const out = mkdtempSync(join(folder, "results-"));
  const args = [suite, "server", "--url", `${berth.url}/mcp/conformance`, "-o", out, ...chosen];
  // It is started twenty times.
  const env = { ...process.env, NODE_COMPILE_CACHE: join(folder, "compile-cache") };
  const { status, stdout, stderr } = spawnSync(node, args, { encoding: "utf8", maxBuffer: 64 * 1024 * 1024, env });
  const count = { scenarios: 0, passed: 0, failures: 0, warnings: 0, faults: [] };
  for (const scenario of readdirSync(out)) {
    const file = join(out, scenario, "checks.json");
    if (!existsSync(file)) continue;
    const checks = JSON.parse(readFileSync(file, "utf8"));
    count.scenarios += 1;
    count.passed += checks.filter((check) => check.status === "SUCCESS").length;
    count.failures += checks.filter((check) => check.status === "FAILURE").length;
    count.warnings += checks.filter((check) => check.status === "WARNING").length;
    for (const { status, id, description, errorMessage } of checks) {
      if (status === "FAILURE" || status === "WARNING")
        count.faults.push(`${status} ${scenario} ${id}: ${errorMessage ?? description}`);
    }
  }
  // The suite's exit code ignores warnings and checks that are not scored.
  return { ...count, stdout, stderr, ok: status === 0 && count.faults.length === 0 && count.scenarios > 0 };
}

/** The Berth that is tested, and those that it hosts. */
async function started() {
  const own = { definition: "conformance.ts" };
  if (hosted === "--hosted-stdio") {
    const { image, parent } = imageOf("own", own);
    const words = ["stdio", "conformance", "--image", image, "--data", join(parent, "data")];
    const query = words.map((word, at) => `${at === 0 ? "command" : "arg"}=${encodeURIComponent(word)}`).join("&");
    const upstream = `mcp+node://${resolve("dist/bin/berth.cjs")}?${query}`;
    return [await serve("hosted", { upstream }, { BERTH_UPSTREAM_PROGRAMS: "on" })];
  }
  const berth = await serve("own", own);
  if (hosted === undefined) return [berth];
  return [await serve("hosted", { upstream: `mcp+${berth.url}/mcp/conformance` }), berth];
}

/** Starts a Berth with one server of this entry, in a folder of its own. */
function serve(name, entry, env) {
  const { image, parent } = imageOf(name, entry);
  return startBerth(image, parent, env);
}

/** An image with one server of this entry, in a folder of its own. */
function imageOf(name, entry) {
  const parent = join(folder, name);
  const from = join(parent, "sources");
  mkdirSync(from, { recursive: true });
  copyFileSync("test/fixtures/conformance.ts", join(from, "conformance.ts"));
  cpSync("test/fixtures/conformance.skills", join(from, "conformance.skills"), { recursive: true });
  writeFileSync(join(from, "mcps.source.json"), JSON.stringify({ conformance: entry }));
  const boot = { servers: [], variables: [{ name: "mcps", definition: "GENERATED:mcps.json", enabled: true }] };
  for (const image of ["default", "readonly"])
    writeFileSync(join(from, `${image}.boot.source.json`), JSON.stringify(boot));
  return { image: makeImage(from, parent), parent };
}
