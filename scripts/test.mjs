import { fork } from "node:child_process";
// Runs the test suite with Node's own runner over dist/test, files side by side.
// Without arguments it leaves out `*.extended.test.ts`, which `--extended` alone runs: what repeats a behaviour that is proved
// elsewhere, with another store, node, client or version of Node. Arguments choose files of both kinds by a part of their
// path: `npm test -- discover store/backup`; a JavaScript file is taken as it is. `--nodes 2` has tests of one Berth reach two processes on its data folder in turn; `--postgres` puts the store of each
// on a Postgres. Exit code 0: every test passed, and nothing of the run was left behind. SIGUSR2 has it say where each file is.
import { once } from "node:events";
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync } from "node:fs";
import { availableParallelism, tmpdir } from "node:os";
import { join } from "node:path";
import { Readable } from "node:stream";
import { spec as Spec } from "node:test/reporters";
import { parseArgs } from "node:util";
import { TestFiles } from "./test/files.mjs";
import { watchLeftovers } from "./test/leftovers.mjs";
import { inOneReport } from "./test/report.mjs";
import { inProcesses } from "./test/together.mjs";

/** A file that has not ended after this long fails and is ended: several times the longest one on a busy machine. */
const FILE_MS = Number(process.env["BERTH_TEST_FILE_MS"] ?? 1_200_000);
/** The time after which a file's process is asked where it is. */
const LATE_MS = 600_000;
const DEAREST = 10;

const { values, positionals: chosen } = parseArgs({
  options: { extended: { type: "boolean" }, nodes: { type: "string" }, postgres: { type: "boolean" } },
  allowPositionals: true,
});
if (![undefined, "1", "2"].includes(values.nodes)) throw new Error("--nodes must be 1 or 2");
if (values.nodes === "2") process.env["BERTH_TEST_NODES"] = "2";
if (values.postgres) process.env["BERTH_TEST_STORE"] = "postgres";
const compiled = readdirSync("dist/test", { recursive: true, encoding: "utf8" })
  .filter((file) => file.endsWith(".test.js"))
  .filter((file) =>
    chosen.length === 0
      ? file.endsWith(".extended.test.js") === Boolean(values.extended)
      : chosen.some((part) => `test/${file}`.includes(part.replace(/\.ts$/, ".js"))),
  )
  .map((file) => join("dist/test", file));
const files = [...compiled, ...chosen.filter((file) => /\.m?js$/.test(file) && existsSync(file))].sort();

if (files.length === 0) {
  console.error(`No test file's path holds any of: ${chosen.join(", ")}`);
  process.exit(1);
}

const folder = mkdtempSync(join(tmpdir(), "berth-run-"));
// Root's guests are nobody, and some tests have them start a program in there.
chmodSync(folder, 0o711);
process.on("exit", () => rmSync(folder, { recursive: true, force: true }));
const processes = inProcesses(files, join(folder, "processes"));
const running = new TestFiles(processes, { lateMs: LATE_MS, endMs: FILE_MS }, (text) => process.stderr.write(text));
process.on("SIGUSR2", () => void running.sayAll());
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) {
  process.on(signal, () => {
    running.endAll();
    process.exit(130);
  });
}

// All files that the run writes outside the project are in one folder, which shows what stays behind.
process.env["TMPDIR"] = join(folder, "tmp");
mkdirSync(process.env["TMPDIR"]);
// One warm compiler for all tests that are not about how it is started; a test's own run uses that of its run. Berth warns of
// unknown variables that begin with BERTH_.
let compiler;
if (!process.env["TEST_COMPILER"]) {
  process.env["TEST_COMPILER"] = join(folder, "compiler");
  compiler = fork("dist/test/support/compiler-server.js", [process.env["TEST_COMPILER"]]);
  await once(compiler, "message");
}
// A test's own run leaves to this one what nobody can tell apart.
const isNested = process.env["BERTH_TEST_RUN"] !== undefined;
const costs = join(folder, "costs");
Object.assign(process.env, { BERTH_TEST_RUN: String(process.pid), BERTH_TEST_COSTS: costs });
// For programs on a Node that has a compile cache; ours may be older.
process.env["BERTH_TEST_COMPILE_CACHE"] ??= join(folder, "compile-cache");
const noteCost = new URL("test/note-cost.mjs", import.meta.url).href;
// Node passes its own options on to the processes of the files. Their inspectors may open at any port.
process.execArgv.push("--enable-source-maps", "--inspect-port=0", `--import=${noteCost}`);

const suite = { files: [...processes.keys()], concurrency: availableParallelism() };
const leftovers = watchLeftovers(isNested ? undefined : process.cwd(), process.env["TMPDIR"]);
const lastly = async () => {
  compiler?.disconnect();
  return { name: "the tests leave no process and no file behind", problem: await leftovers.find() };
};

async function* judged(events) {
  for await (const event of events) {
    running.note(event);
    if (event.type === "test:fail" && event.data.todo === undefined) process.exitCode = 1;
    yield event;
  }
}

Readable.from(judged(inOneReport(suite, lastly)))
  .compose(new Spec())
  .on("end", () => tellCosts())
  .pipe(process.stdout);

/** The processor time of the files, of those whose processes ended by themselves. */
function tellCosts() {
  const told = existsSync(costs) ? readFileSync(costs, "utf8").trim().split("\n").map(JSON.parse) : [];
  const seconds = (all) => (all.reduce((sum, [, ms]) => sum + ms, 0) / 1_000).toFixed(1);
  const dearest = told.sort(([, one], [, other]) => other - one).slice(0, DEAREST);
  console.error(`${seconds(told)} s of processor time in ${told.length} processes of tests, most in:`);
  for (const cost of dearest) console.error(`  ${seconds([cost]).padStart(6)} s  ${cost[0]}`);
}
