import { spawnSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";

/** Other Berths of this checkout may run on this machine; their soaks have other process ids. */
const MARK = String(process.pid % 800_000);

/**
 * Marks all processes that this one starts from now on, directly or through others. Guests get no environment and a
 * session of their own, and a process whose parent has ended gets another parent, but each process inherits its resource
 * limits. The mark is one that nothing here uses: the bytes of POSIX message queues.
 */
export function markDescendants() {
  const args = ["--pid", String(process.pid), `--msgqueue=${MARK}:${MARK}`];
  const { status, stderr, error } = spawnSync("prlimit", args, { encoding: "utf8" });
  if (status !== 0) throw new Error(`prlimit ${args.join(" ")}: ${error?.message ?? stderr.trim()}`);
}

/**
 * The running processes with the mark, with their command lines.
 *
 * @param {ReadonlySet<number>} [without] these and their descendants are left out
 * @returns {Map<number, string>}
 */
export function descendants(without = new Set()) {
  const found = new Map();
  const parents = new Map();
  for (const name of readdirSync("/proc")) {
    if (!/^\d+$/.test(name) || Number(name) === process.pid) continue;
    try {
      const read = (file) => readFileSync(`/proc/${name}/${file}`, "utf8");
      if (/^Max msgqueue size +(\d+)/m.exec(read("limits"))?.[1] !== MARK) continue;
      const [, state, parent] = /^State:\s+(\S)[^]*^PPid:\s+(\d+)/m.exec(read("status"));
      if (state === "Z") continue;
      parents.set(Number(name), Number(parent));
      found.set(Number(name), read("cmdline").replaceAll("\0", " ").trim());
    } catch {
      // It has ended meanwhile.
    }
  }
  for (const pid of parents.keys()) {
    for (let each = pid; each !== undefined; each = parents.get(each)) if (without.has(each)) found.delete(pid);
  }
  return found;
}
