import { randomUUID } from "node:crypto";
import type { Start } from "./starter.ts";

/**
 * In the environment of a program that may start others, and so of all that it starts: by its value they are found, be they
 * in a session of their own.
 */
export const MARK = "BERTH_PROGRAM";
/** Begins the marks of all programs that this process has started. */
export const ownMark = randomUUID();

export function newMark(): string {
  return `${ownMark}/${randomUUID()}`;
}

/**
 * Of a shell: ends all processes that have "$1" in their environment. One may start another while it is being ended, so
 * that it looks again until there is none, and not without end.
 */
export const endMarkedScript = `tries=0
while found=$(grep -lsFe "$1" /proc/[0-9]*/environ); [ -n "$found" ] && [ $tries -lt 50 ]; do
  for file in $found; do pid=\${file#/proc/}; kill -s KILL "\${pid%/environ}"; done
  tries=$((tries + 1))
done 2>/dev/null`;

/** The programs of that script are looked for as this process's are. */
export function shellEnvironment(): Record<string, string> {
  const { PATH } = process.env;
  return PATH === undefined ? {} : { PATH };
}

/** Ends what a program has left behind, with a process of its own: to read of another process may take without end. */
export async function endMarked(start: Start, mark: string): Promise<void> {
  if (process.platform !== "linux") return;
  const args = ["-c", endMarkedScript, "sh", mark];
  const stdio = ["ignore", "ignore", "ignore"] as const;
  try {
    const { exited } = await start({ file: "/bin/sh", args, env: shellEnvironment(), cwd: "/", stdio, group: true });
    await exited;
  } catch {
    // It cannot be started now: the guard ends what is left together with this process.
  }
}
