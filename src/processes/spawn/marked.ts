import { randomUUID } from "node:crypto";
import type { Spawn } from "./spawn.ts";

/**
 * An environment variable of a program that may start others, inherited by all its descendants: its value finds them,
 * even in a session of their own.
 */
export const MARK = "BERTH_PROGRAM";
/** Prefix of the marks of all programs that this process has started. */
export const ownMark = randomUUID();

export function newMark(): string {
  return `${ownMark}/${randomUUID()}`;
}

/**
 * A shell script that ends all processes with "$1" in their environment. A process may start another while it is being
 * ended, so the search repeats until it finds none, up to a limit.
 */
export const endMarkedScript = `tries=0
while found=$(grep -lsFe "$1" /proc/[0-9]*/environ); [ -n "$found" ] && [ $tries -lt 50 ]; do
  for file in $found; do pid=\${file#/proc/}; kill -s KILL "\${pid%/environ}"; done
  tries=$((tries + 1))
done 2>/dev/null`;

/** Lets the script find programs by this process's PATH. */
export function shellEnvironment(): Record<string, string> {
  const { PATH } = process.env;
  return PATH === undefined ? {} : { PATH };
}

/** Ends what a program has left behind, in a separate process: reading others' files may block indefinitely. */
export async function endMarked(start: Spawn, mark: string): Promise<void> {
  if (process.platform !== "linux") return;
  const args = ["-c", endMarkedScript, "sh", mark];
  const stdio = ["ignore", "ignore", "ignore"] as const;
  try {
    const { exited } = await start({ file: "/bin/sh", args, env: shellEnvironment(), cwd: "/", stdio, group: true });
    await exited;
  } catch {
    // It cannot be started now; the guard ends the rest together with this process.
  }
}
