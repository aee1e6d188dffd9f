// Tries every package that `package.json` in this folder names: `npm run packages`. Each is imported by a definition of
// its own in `calls/`, compiled as any definition is, loaded in a guest, and called; what its function returns must be
// what `expected.json` says. Those that need the network are given a server: see `network.mjs`. Those that cannot work have a reason in `reasons.json`, and are tried as well.
import { readFileSync, writeFileSync } from "node:fs";
import { parseArgs } from "node:util";
import { openCompiler } from "../../dist/src/discover/compiler.js";
import { createSchemaDescriber } from "../../dist/src/executor/describe-schemas.js";
import { defaultLimits } from "../../dist/src/limits/limits.js";
import { attempt, openGuests } from "./attempt.mjs";
import { openServers } from "./network.mjs";
import { openSet } from "./set.mjs";
import { kilobytes, tableOf } from "./table.mjs";

const HELP = `Usage: npm run packages -- [options]

  --only NAME[,NAME]  these alone
  --trusted           in a plain child process, and not in the sandbox
  --write             write the results to docs/packages-tried.md
  --json              one object on standard output
  --help              this text
`;

const { values } = parseArgs({
  options: {
    only: { type: "string" },
    trusted: { type: "boolean", default: false },
    write: { type: "boolean", default: false },
    json: { type: "boolean", default: false },
    help: { type: "boolean", default: false },
  },
});

/** @type {Record<string, unknown>} */
const expected = readJson("expected.json");
/** @type {Record<string, { reason: string, instead: string }>} */
const reasons = readJson("reasons.json");

if (values.help) process.stdout.write(HELP);
else process.exitCode = await run();

/** @returns {Promise<number>} exit code */
async function run() {
  const all = [...Object.keys(expected), ...Object.keys(reasons)].sort();
  const names = values.only?.split(",").map((name) => name.trim()) ?? all;
  const unknown = names.find((name) => !all.includes(name));
  if (unknown !== undefined) throw new Error(`${unknown} has no line in expected.json or reasons.json`);
  const { set, tarball } = await openSet();
  const executor = await openGuests(values.trusted ? "trusted" : "sandboxed");
  const describe = createSchemaDescriber((program) => executor.load(program), "default");
  const compiler = openCompiler(defaultLimits, { describe });
  const servers = openServers();
  const results = [];
  try {
    for (const name of names) {
      const result = await attempt(name, expected[name], { set, tarball, compiler, executor, servers });
      results.push(result);
      if (!values.json) process.stdout.write(lineOf(result));
    }
  } finally {
    await servers.close();
    await executor.close();
    await compiler.close();
  }
  const works = results.filter(({ failures }) => failures.length === 0);
  const broken = results.filter(({ name, failures }) => failures.length > 0 && !Object.hasOwn(reasons, name));
  const recovered = works.filter(({ name }) => Object.hasOwn(reasons, name));
  if (values.json) process.stdout.write(`${JSON.stringify(results, null, 2)}\n`);
  else process.stdout.write(`${works.length} of ${results.length} packages work in a ${executor.isolation} guest.\n`);
  for (const { name } of recovered) process.stdout.write(`${name} works now: take it out of reasons.json.\n`);
  if (values.write) writeFileSync(new URL("../../docs/packages-tried.md", import.meta.url), tableOf(results, reasons));
  return broken.length > 0 || recovered.length > 0 ? 1 : 0;
}

/** @param {import("./attempt.mjs").Attempt} result */
function lineOf({ name, version, bundleBytes, compileMs, callMs, failures }) {
  const verdict = failures.length === 0 ? "works" : Object.hasOwn(reasons, name) ? "reason" : "FAILS";
  const figures = `${kilobytes(bundleBytes)} KB, compiled in ${Math.round(compileMs)} ms, called in ${Math.round(callMs)} ms`;
  const why = failures.map(({ stage, why }) => `       ${stage}: ${why.slice(0, 600)}\n`).join("");
  return `${verdict.padEnd(6)} ${name}@${version}  ${figures}\n${why}`;
}

function readJson(name) {
  return JSON.parse(readFileSync(new URL(name, import.meta.url), "utf8"));
}
