import { closeSync, readFileSync } from "node:fs";
import { listOr } from "./process-tree.ts";

/** `O_CLOEXEC` as `/proc/<pid>/fdinfo` shows it. */
const CLOSES_ON_EXEC = 0o2_000_000;

/**
 * Closes the descriptors that the parent process left open by mistake or for itself. Node keeps those below 16 from its
 * children; the others would reach every process started from here, including guests, with whatever they give access
 * to. Descriptors named on the command line stay (`<(…)` of a shell is `/dev/fd/63`). Must be called before anything
 * else is opened.
 */
export function closeInherited(argv: readonly string[]): void {
  // Other systems pass on only named descriptors.
  if (process.platform !== "linux") return;
  const given = new Set(argv.flatMap((text) => [...text.matchAll(/\/fd\/(\d+)/g)].map((found) => found[1])));
  // Without /proc there is no way to tell.
  for (const name of listOr("/proc/self/fd")) {
    if (Number(name) <= 2 || name === process.env["NODE_CHANNEL_FD"] || given.has(name)) continue;
    if (reachesChildren(name)) closeSync(Number(name));
  }
}

function reachesChildren(descriptor: string): boolean {
  try {
    const info = readFileSync(`/proc/self/fdinfo/${descriptor}`, "latin1");
    return (Number.parseInt(/^flags:\s*([0-7]+)$/m.exec(info)![1]!, 8) & CLOSES_ON_EXEC) === 0;
  } catch {
    // The listing's own descriptor, which is closed by now.
    return false;
  }
}
