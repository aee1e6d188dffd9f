// Runs the test suite with Node's own runner over dist/test, files side by side.
// Extra arguments choose files by a part of their name: `npm test -- discover store`. Exit code 0: every test passed,
// and nothing of the run was left behind.
import { once } from "node:events";
import { fork } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { availableParallelism, tmpdir } from "node:os";
import { join } from "node:path";
import { Readable } from "node:stream";
import { spec as Spec } from "node:test/reporters";
import { patientEnv } from "../dist/test/patience.js";
import { watchLeftovers } from "./test/leftovers.mjs";
import { inOneReport } from "./test/report.mjs";

/** A file that has not ended by then fails and is ended: several times what the longest one takes on a busy machine. */
const FILE_MS = 480_000;

const chosen = process.argv.slice(2);
const files = readdirSync("dist/test", { recursive: true, encoding: "utf8" })
  .filter((file) => file.endsWith(".test.js"))
  .filter((file) => chosen.length === 0 || chosen.some((part) => file.includes(part)))
  .map((file) => join("dist/test", file))
  .sort();

if (files.length === 0) {
  console.error(`No test file's name holds any of: ${chosen.join(", ")}`);
  process.exit(1);
}

const folder = mkdtempSync(join(tmpdir(), "berth-run-"));
process.on("exit", () => rmSync(folder, { recursive: true, force: true }));
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.on(signal, () => process.exit(130));

// All that the run writes outside of the project is in one folder, where it can be seen what stays.
process.env["TMPDIR"] = join(folder, "tmp");
mkdirSync(process.env["TMPDIR"]);
// One compiler that is warm, for all tests that are not about how it is started.
process.env["BERTH_TEST_COMPILER"] = join(folder, "compiler");
const compiler = fork("dist/test/compiler-server.js", [process.env["BERTH_TEST_COMPILER"]]);
await once(compiler, "message");
for (const [name, value] of Object.entries(patientEnv)) process.env[name] ??= value;
// Node hands its own options on to the processes of the files.
process.execArgv.push("--enable-source-maps");

const suite = { files, concurrency: availableParallelism(), timeout: FILE_MS };
const leftovers = watchLeftovers(process.cwd(), process.env["TMPDIR"]);
const lastly = async () => {
  compiler.disconnect();
  return { name: "the tests leave no process and no file behind", problem: await leftovers.find() };
};

async function* judged(events) {
  for await (const event of events) {
    if (event.type === "test:fail" && event.data.todo === undefined) process.exitCode = 1;
    yield event;
  }
}

Readable.from(judged(inOneReport(suite, lastly)))
  .compose(new Spec())
  .pipe(process.stdout);
