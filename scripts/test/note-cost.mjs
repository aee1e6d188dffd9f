// Loaded into the process of each test file before the file: at its end, writes the processor time of the process and
// of all children that it waited for to the file that BERTH_TEST_COSTS names.
import { appendFileSync, readFileSync } from "node:fs";
import { isMainThread } from "node:worker_threads";

/** The unit of times in `/proc/<pid>/stat` (`proc(5)`). */
const TICK_MS = 10;

// Processes that a test starts with Node's options of this process are part of it, and so are its threads.
if (isMainThread && process.ppid === Number(process.env["BERTH_TEST_RUN"]) && process.platform === "linux") {
  process.on("exit", () => {
    const stat = readFileSync("/proc/self/stat", "utf8");
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    const ms = fields.slice(11, 15).reduce((sum, ticks) => sum + Number(ticks) * TICK_MS, 0);
    const file = (process.argv[1] ?? "").replace(/^.*?\/(?:dist\/test|processes)\//, "");
    appendFileSync(process.env["BERTH_TEST_COSTS"], `${JSON.stringify([file, ms])}\n`);
  });
}
