// The official MCP conformance suite against a Berth that hosts test/fixtures/conformance.ts, once a revision.
// `npm run conformance -- 2026-07-28` runs one revision; `--scenario NAME` one scenario, with the suite's full output.
// A scenario that fails must stand in expected-failures.yml, and one that stands there must fail.
import { spawnSync } from "node:child_process";
import { copyFileSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { installFolder } from "../install-folder.mjs";
import { startBerth } from "./start-berth.mjs";

const REVISIONS = ["2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"];
installFolder("test/clients", (line) => console.log(line));
const clients = resolve("test/clients/node_modules");
const suite = join(clients, "@modelcontextprotocol/conformance/dist/index.js");
// The suite needs Node 22; the product does not.
const node = join(clients, ".bin/node");

const words = process.argv.slice(2);
const scenarioAt = words.indexOf("--scenario");
const scenario = scenarioAt < 0 ? undefined : words.splice(scenarioAt, 2)[1];
const revisions = words.length > 0 ? words : REVISIONS;

const folder = mkdtempSync(join(tmpdir(), "berth-conformance-"));
const berth = await startBerth(writeSources(folder), folder);
let failed = false;
try {
  for (const revision of revisions) {
    const out = join(folder, revision);
    const { status, stdout, stderr } = runSuite(revision, out);
    const passed = countPassed(out);
    console.log(
      `${revision}: ${passed.checks} checks passed, ${passed.failed} failed, in ${passed.scenarios} scenarios`,
    );
    if (status !== 0 || scenario) {
      console.log(stdout, stderr);
      failed ||= status !== 0;
    }
  }
} finally {
  await berth.stop();
  rmSync(folder, { recursive: true, force: true });
}
console.log(failed ? "Conformance: not as expected" : "Conformance: as expected");
process.exit(failed ? 1 : 0);

function writeSources(parent) {
  const from = join(parent, "sources");
  mkdirSync(from);
  copyFileSync("test/fixtures/conformance.ts", join(from, "conformance.ts"));
  writeFileSync(join(from, "mcps.source.json"), JSON.stringify({ conformance: { definition: "conformance.ts" } }));
  const boot = { servers: [], variables: [{ name: "mcps", definition: "GENERATED:mcps.json", enabled: true }] };
  for (const image of ["default", "readonly"])
    writeFileSync(join(from, `${image}.boot.source.json`), JSON.stringify(boot));
  return from;
}

function runSuite(revision, out) {
  const chosen = scenario ? ["--scenario", scenario] : ["--suite", "all", "--expected-failures", baselineOf(revision)];
  const args = [
    suite,
    "server",
    "--url",
    `${berth.url}/mcp/conformance`,
    "--spec-version",
    revision,
    "-o",
    out,
    ...chosen,
  ];
  return spawnSync(node, args, { encoding: "utf8", maxBuffer: 64 * 1024 * 1024 });
}

/** The suite takes one list a run, and a scenario can fail in one revision only. */
function baselineOf(revision) {
  const text = readFileSync("scripts/conformance/expected-failures.yml", "utf8");
  const section = new RegExp(`^"${revision}":\\n((?:  .*\\n)*)`, "m").exec(text)?.[1] ?? "";
  const file = join(folder, `${revision}.yml`);
  writeFileSync(file, `server:${section === "" ? " []" : ""}\n${section}`);
  return file;
}

function countPassed(out) {
  const count = { scenarios: 0, checks: 0, failed: 0 };
  for (const run of readdirSync(out)) {
    const checks = JSON.parse(readFileSync(join(out, run, "checks.json"), "utf8"));
    count.scenarios += 1;
    count.checks += checks.filter((check) => check.status === "SUCCESS").length;
    count.failed += checks.filter((check) => check.status === "FAILURE").length;
  }
  return count;
}
