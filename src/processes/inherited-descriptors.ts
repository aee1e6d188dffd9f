import { closeSync, readFileSync } from "node:fs";
import { listIfReadable } from "./process-tree.ts";

/** `O_CLOEXEC` as `/proc/<pid>/fdinfo` shows it. */
const CLOSES_ON_EXEC = 0o2_000_000;

/**
 * Closes descriptors that the parent process left open, by mistake or for itself. Node closes those below 16 in its
 * children; the others would reach every process started from here, including guests, with all the access they give.
 * Descriptors named on the command line stay open (`<(…)` of a shell is `/dev/fd/63`). Must be called before anything
 * else is opened.
 */
export function closeInherited(argv: readonly string[]): void {
  // Other systems only pass on named descriptors.
  if (process.platform !== "linux") return;
  const named = new Set(argv.flatMap((text) => [...text.matchAll(/\/fd\/(\d+)/g)].map((match) => match[1])));
  // Without /proc they cannot be listed.
  for (const name of listIfReadable("/proc/self/fd")) {
    if (Number(name) <= 2 || name === process.env["NODE_CHANNEL_FD"] || named.has(name)) continue;
    if (reachesChildren(name)) closeSync(Number(name));
  }
}

function reachesChildren(descriptor: string): boolean {
  try {
    const info = readFileSync(`/proc/self/fdinfo/${descriptor}`, "latin1");
    return (Number.parseInt(/^flags:\s*([0-7]+)$/m.exec(info)![1]!, 8) & CLOSES_ON_EXEC) === 0;
  } catch {
    // The descriptor of the listing itself, which is closed by now.
    return false;
  }
}
