/** Kills a process, and its group when it leads one. */
export function killGroup(pid: number): void {
  for (const target of [-pid, pid]) {
    try {
      process.kill(target, "SIGKILL");
    } catch {
      // It leads none, or has gone.
    }
  }
}
