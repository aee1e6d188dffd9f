import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { arch, cpus, loadavg, release, totalmem } from "node:os";

/**
 * The machine of the bench: which core serves, which one generates load, and with what. The server and the load
 * generator never share a core where there are two.
 */

const cores = allowedCores();
const taskset = find("taskset");

export const machine = {
  /** Undefined where nothing can be pinned. */
  serverCore: taskset && cores.length > 1 ? cores[0] : undefined,
  generatorCore: taskset && cores.length > 1 ? cores[1] : undefined,
  cores,
  wrk: "",
};

/** The command with its core, as `taskset` wants it. @param {number | undefined} core @param {string[]} command */
export function pinned(core, command) {
  return core === undefined ? command : [taskset, "-c", String(core), ...command];
}

/** Finds wrk or installs it. Throws, saying what to do, where neither works. @param {(line: string) => void} say */
export function requireWrk(say) {
  machine.wrk = find("wrk") ?? install(say) ?? "";
  if (!machine.wrk) {
    throw new Error(
      "the load generator wrk was not found and could not be installed with apt-get; " +
        "install it (Debian, Ubuntu: apt-get install wrk; others: https://github.com/wg/wrk) and run the bench again",
    );
  }
  if (machine.serverCore === undefined) {
    say("Nothing is pinned: that needs two cores and taskset (util-linux). Figures will vary more.");
  }
}

/** For the head of the report. */
export function describeMachine() {
  return {
    date: new Date().toISOString(),
    cpu: cpus()[0]?.model ?? "unknown",
    cores: cores.length,
    memoryGb: Math.round(totalmem() / 2 ** 30),
    kernel: `${release()} ${arch()}`,
    node: process.version,
    serverCore: machine.serverCore ?? null,
    generatorCore: machine.generatorCore ?? null,
    loadAverage: Number(loadavg()[0].toFixed(2)),
  };
}

function install(say) {
  const aptGet = find("apt-get");
  if (!aptGet) return undefined;
  const sudo = process.getuid?.() === 0 ? [] : ["sudo", "-n"];
  say("Installing wrk with apt-get, once.");
  const attempt = (...args) => {
    const [file, ...rest] = [...sudo, aptGet, ...args];
    return spawnSync(file, rest, { stdio: "ignore", env: { ...process.env, DEBIAN_FRONTEND: "noninteractive" } })
      .status;
  };
  if (attempt("install", "-y", "wrk") !== 0 && attempt("update") === 0) attempt("install", "-y", "wrk");
  return find("wrk");
}

function find(program) {
  const { status, stdout } = spawnSync("sh", ["-c", `command -v ${program}`], { encoding: "utf8" });
  return status === 0 ? stdout.trim() : undefined;
}

/** `0-1,4` → [0, 1, 4] */
function allowedCores() {
  try {
    const list = /^Cpus_allowed_list:\s*(.+)$/m.exec(readFileSync("/proc/self/status", "utf8"))[1];
    return list.split(",").flatMap((range) => {
      const [first, last = first] = range.split("-").map(Number);
      return Array.from({ length: last - first + 1 }, (_, index) => first + index);
    });
  } catch {
    return [];
  }
}
