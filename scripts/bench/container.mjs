import { existsSync, mkdirSync, readFileSync, rmdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

/**
 * A control group with a quota of processor time, as a container has one (`docker run --cpus`, a pod's limit).
 *
 * @typedef {{ inside: (command: string[]) => string[], remove: () => Promise<void> }} Container
 * `inside` words a command that runs there.
 */

const PERIOD_US = 100_000;

/**
 * @param {number} processors
 * @returns {Container} Throws, saying why, where none can be made: that takes root and the controller of processors.
 */
export function makeContainer(processors) {
  const parents = groupsOf("cpu").map((group) => join(group, `berth-bench-${process.pid}`));
  try {
    for (const folder of parents) mkdirSync(folder, { recursive: true });
    limit(parents[0], processors * PERIOD_US);
  } catch (error) {
    removeAll(parents);
    throw new Error(`no control group with a quota could be made: ${error.message}`, { cause: error });
  }
  const enter = parents.map((folder) => `echo $$ > '${folder}/cgroup.procs' && `).join("");
  return {
    inside: (command) => ["/bin/sh", "-c", `${enter}exec "$@"`, "sh", ...command],
    async remove() {
      // Processes in it may still be about to end.
      for (let tries = 0; tries < 50 && !removeAll(parents); tries++) await sleep(100);
    },
  };
}

function limit(folder, quotaUs) {
  if (existsSync(join(folder, "cpu.cfs_quota_us"))) {
    writeFileSync(join(folder, "cpu.cfs_period_us"), String(PERIOD_US));
    writeFileSync(join(folder, "cpu.cfs_quota_us"), String(quotaUs));
  } else {
    writeFileSync(join(folder, "cpu.max"), `${quotaUs} ${PERIOD_US}`);
  }
}

/** Where processors are limited, and, if that is elsewhere, where their time is accounted for. */
function groupsOf(controller) {
  const mounts = readFileSync("/proc/self/mountinfo", "utf8").split("\n").filter(Boolean);
  const mounted = mounts.map((line) => {
    const [before, after] = line.split(" - ");
    const [type, , options] = after.split(" ");
    return { type, options: options.split(","), point: before.split(" ")[4] };
  });
  const legacy = (name) => mounted.find(({ type, options }) => type === "cgroup" && options.includes(name))?.point;
  if (legacy(controller)) return [...new Set([legacy(controller), legacy("cpuacct")])];
  const unified = mounted.find(({ type }) => type === "cgroup2")?.point;
  if (!unified) throw new Error("this system has no control groups");
  return [unified];
}

/** Removes the folders; true when none is left. */
function removeAll(folders) {
  for (const folder of folders) {
    try {
      rmdirSync(folder);
    } catch {}
  }
  return !folders.some((folder) => existsSync(folder));
}
