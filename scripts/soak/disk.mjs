import { spawnSync } from "node:child_process";
import { mkdirSync, statfsSync } from "node:fs";

const SIZE = "1g";
/** Free room above the present use, so that it is Berth that fills the disk. */
const LEFT_BYTES = 64 * 1024;

/**
 * A disk for `folder` that can be filled at any moment, and freed again. Root gets a disk in memory, which shrinks to
 * its present use; for others Berth's process may not extend any file for a while.
 *
 * @param {string} folder not there yet
 */
export function mountDisk(folder) {
  mkdirSync(folder, { mode: 0o700 });
  const isMounted = run("mount", ["-t", "tmpfs", "-o", `size=${SIZE},mode=700`, "tmpfs", folder]) === "";
  const resize = (size) => run("mount", ["-o", `remount,size=${size}`, folder]);
  return {
    kind: isMounted ? "a disk of its own" : "a limit of its files",

    /** Returns the function that frees it again. @param {number} pid of Berth */
    fill(pid) {
      const limit = (bytes) => run("prlimit", ["--pid", String(pid), `--fsize=${bytes}:unlimited`]);
      if (!isMounted) {
        must(limit(4096));
        return () => must(limit("unlimited"));
      }
      let problem;
      // Berth may use more between the two steps.
      for (let attempt = 1; attempt <= 50; attempt++) {
        const { blocks, bfree, bsize } = statfsSync(folder);
        problem = resize((blocks - bfree) * bsize + LEFT_BYTES);
        if (problem === "") break;
      }
      must(problem);
      return () => must(resize(SIZE));
    },

    unmount() {
      if (isMounted) must(run("umount", ["-l", folder]));
    },
  };
}

/** Empty on success. */
function run(command, args) {
  const { status, stderr, error } = spawnSync(command, args, { encoding: "utf8" });
  return status === 0 ? "" : `${command} ${args.join(" ")}: ${error?.message ?? stderr.trim()}`;
}

function must(problem) {
  if (problem !== "") throw new Error(problem);
}
