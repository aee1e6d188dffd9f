import { ChildProcess, spawn, type StdioOptions } from "node:child_process";
import { writeFileSync } from "node:fs";
import type { Readable, Writable } from "node:stream";

/** What to start, and as whom. */
export interface Command {
  readonly file: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly cwd: string;
  /** The user and group to become; only root may. */
  readonly uid?: number;
  readonly gid?: number;
  /** More arguments, for a program that reads them from descriptor 4: no list of processes shows those. */
  readonly hiddenArgs?: readonly string[];
}

/** How a process ended by itself or was ended. */
export interface Exit {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  /** It never ran: why. */
  readonly startError?: Error;
}

/** Whoever holds a pipe open after the process itself has gone is not waited for longer than this. */
const PIPES_CLOSE_MS = 200;
/** The kernel ends guests before anything else when the machine runs out of memory. */
const OUT_OF_MEMORY_SCORE = 1000;

/** Starts a command as the leader of a process group of its own. Failing to start is reported by `onceEnded`. */
export function startGroup(command: Command, stdio: StdioOptions): ChildProcess {
  const child = spawnOrFail(command, stdio);
  for (const stream of streamsOf(child)) stream.on("error", ignore);
  if (child.pid !== undefined && process.platform === "linux") {
    try {
      writeFileSync(`/proc/${child.pid}/oom_score_adj`, String(OUT_OF_MEMORY_SCORE));
    } catch {
      // Only a preference: some systems do not let us state it.
    }
  }
  return child;
}

/** Ends the process, and whatever it started in its group, at once. */
export function killGroup(child: ChildProcess): void {
  if (child.pid === undefined) return;
  try {
    process.kill(-child.pid, "SIGKILL");
  } catch {
    // It has gone already.
  }
}

/** Calls `listener` once, when the process has ended and all that it wrote has been read. */
export function onceEnded(child: ChildProcess, listener: (exit: Exit) => void): void {
  let told = false;
  const tell = (exit: Exit): void => {
    if (told) return;
    told = true;
    killGroup(child);
    listener(exit);
  };
  child.once("error", (startError) => {
    if (child.pid === undefined) tell({ code: null, signal: null, startError });
  });
  child.once("close", (code, signal) => tell({ code, signal }));
  child.once("exit", (code, signal) => {
    killGroup(child);
    setTimeout(() => {
      for (const stream of streamsOf(child)) stream.destroy();
      tell({ code, signal });
    }, PIPES_CLOSE_MS).unref();
  });
}

/** Its descriptor 3, or another one; undefined when it could not be started. */
export function pipeOf(child: ChildProcess, descriptor: 3 | 4 = 3): Readable | Writable | undefined {
  return (child.stdio as ChildProcess["stdio"] | undefined)?.[descriptor] ?? undefined;
}

/** Some reasons not to start are thrown and some are emitted; here all are emitted. */
function spawnOrFail({ file, args, cwd, env, uid, gid }: Command, stdio: StdioOptions): ChildProcess {
  const identity = { ...(uid !== undefined && { uid }), ...(gid !== undefined && { gid }) };
  try {
    return spawn(file, args, { stdio, detached: true, cwd, env: { ...env }, ...identity });
  } catch (error) {
    const child = new ChildProcess();
    process.nextTick(() => child.emit("error", error));
    return child;
  }
}

/** None at all when there were no descriptors left to make them of. */
function streamsOf(child: ChildProcess): (Readable | Writable)[] {
  const streams: readonly (Readable | Writable | null | undefined)[] = child.stdio ?? [];
  return streams.filter((stream) => stream != null);
}

function ignore(): void {}
