import { closeSync, readdirSync, readFileSync } from "node:fs";

/** `O_CLOEXEC` as `/proc/<pid>/fdinfo` has it. */
const CLOSES_ON_EXEC = 0o2_000_000;

/**
 * Closes the descriptors that whoever started this process left open by mistake or for itself. Node keeps those below 16
 * from its children; the others would reach every process that is started from here, guests among them, with whatever
 * they give access to. Those that the command line names stay (`<(…)` of a shell is `/dev/fd/63`). To be called before
 * anything else is opened.
 */
export function closeInherited(argv: readonly string[]): void {
  // Elsewhere the system hands on nothing but what is named.
  if (process.platform !== "linux") return;
  const given = new Set(argv.flatMap((text) => [...text.matchAll(/\/fd\/(\d+)/g)].map((found) => found[1])));
  for (const name of listOr("/proc/self/fd")) {
    if (Number(name) <= 2 || name === process.env["NODE_CHANNEL_FD"] || given.has(name)) continue;
    if (reachesChildren(name)) closeSync(Number(name));
  }
}

function listOr(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    // Without a /proc nothing tells.
    return [];
  }
}

function reachesChildren(descriptor: string): boolean {
  try {
    const info = readFileSync(`/proc/self/fdinfo/${descriptor}`, "latin1");
    return (Number.parseInt(/^flags:\s*([0-7]+)$/m.exec(info)![1]!, 8) & CLOSES_ON_EXEC) === 0;
  } catch {
    // That of the listing itself, which is closed by now.
    return false;
  }
}
