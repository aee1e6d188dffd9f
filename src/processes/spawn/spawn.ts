import { spawn } from "node:child_process";
import { writeFileSync } from "node:fs";
import type { Socket } from "node:net";
import type { Duplex } from "node:stream";
import { setNiceness, setRevocableNiceness } from "../niceness.ts";

/**
 * Starts processes: guests, scripts, the compiler, upstream programs. A start blocks the starting process for some
 * milliseconds, longer on a busy machine. A serving process leaves that to a separate process, the spawn helper
 * (spawn-helper.ts); all others start processes directly. This folder knows nothing about the processes it starts.
 */
export type Spawn = (request: SpawnRequest) => Promise<SpawnedProcess>;

/** Starts processes, and must stay open as long as any of them runs. */
export interface Spawner {
  readonly start: Spawn;
  /** All processes should have ended by now; remaining ones are killed. */
  close(): Promise<void>;
}

export interface SpawnRequest {
  readonly file: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly cwd?: string;
  /** `cwd` was created for it alone; the starting process removes it if no other process is left to do so. */
  readonly hasOwnFolder?: boolean;
  /** The user and group to become; only root may. */
  readonly uid?: number;
  readonly gid?: number;
  /** The kind of each descriptor, from 0 on; others are closed. */
  readonly stdio: readonly ("pipe" | "ignore")[];
  /** Input on a further descriptor, in base64: the starting process writes it there and closes the descriptor. */
  readonly given?: { readonly descriptor: number; readonly base64: string };
  /**
   * The process leads a group and a session of its own: where Linux distributes CPU time by session
   * (sched_autogroup_enabled), it then takes none of its parent's.
   */
  readonly group?: boolean;
  /** The niceness of the process and its group: 0 (the priority of the service) to 19 (the lowest). */
  readonly niceness?: number;
  /** The same, as far as it can be undone. */
  readonly nicenessForNow?: number;
  /** Decides which processes the kernel ends when memory is short: 0 to 1000, the highest first. */
  readonly outOfMemoryScore?: number;
}

export interface SpawnedProcess {
  readonly pid: number;
  /** The pipes by descriptor; undefined for descriptors without a pipe. */
  readonly pipes: readonly (Duplex | undefined)[];
  /** Never rejects. Output of the process may still be in transit. */
  readonly exited: Promise<ExitStatus>;
}

/** How a process ended or was ended. */
export interface ExitStatus {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

/** Starts it from this process, immediately. Rejects if it cannot be started. */
export const spawnDirectly: Spawn = async (request) => {
  const { file, args, env, cwd, uid, gid, stdio, given: input, group = false } = request;
  const identity = { ...(uid !== undefined && { uid }), ...(gid !== undefined && { gid }) };
  const child = spawn(file, args, {
    env: { ...env },
    // Node creates pipes for the first three descriptors unless they are named.
    stdio: Array.from({ length: Math.max(3, stdio.length, (input?.descriptor ?? 0) + 1) }, (_, descriptor) =>
      descriptor === input?.descriptor ? "pipe" : (stdio[descriptor] ?? "ignore"),
    ),
    detached: group,
    ...(cwd !== undefined && { cwd }),
    ...identity,
  });
  const { pid } = child;
  if (pid === undefined) {
    const error = await new Promise<Error>((resolve) => child.once("error", resolve));
    throw error;
  }
  child.on("error", () => {});
  applyPreferences(pid, request);
  const pipes = (child.stdio as readonly (Socket | null)[]).map((pipe) => pipe ?? undefined);
  if (input) writeInput(pipes[input.descriptor]!, input.base64);
  if (pipes[0]) destroyOnEnd(pipes[0]);
  return {
    pid,
    pipes: pipes.slice(0, stdio.length),
    exited: new Promise((resolve) => child.once("exit", (code, signal) => resolve({ code, signal }))),
  };
};

/** Node never reads a child's stdin, so it would not notice that the child closes it. */
function destroyOnEnd(stdin: Socket): void {
  const { _handle: handle } = stdin as { _handle?: { onread: (bytes?: ArrayBuffer) => void; readStart(): void } };
  if (!handle) return;
  handle.onread = (bytes) => void (bytes ?? stdin.destroy());
  handle.readStart();
}

function writeInput(pipe: Socket, base64: string): void {
  // The process may end without reading it.
  pipe.on("error", () => {});
  pipe.write(Buffer.from(base64, "base64"));
  pipe.destroySoon();
}

/** Best effort: some systems do not allow these, and the process may have ended already. */
function applyPreferences(pid: number, { niceness = 0, nicenessForNow = 0, outOfMemoryScore }: SpawnRequest): void {
  // Before it has threads, which inherit its current values.
  if (niceness > 0) setNiceness(pid, niceness);
  else if (nicenessForNow > 0) setRevocableNiceness(pid, nicenessForNow);
  if (outOfMemoryScore === undefined || process.platform !== "linux") return;
  try {
    writeFileSync(`/proc/${pid}/oom_score_adj`, String(outOfMemoryScore));
  } catch {}
}

/** Kills a process, and its group if it leads one. */
export function killGroup(pid: number): void {
  for (const target of [-pid, pid]) {
    try {
      process.kill(target, "SIGKILL");
    } catch {
      // It leads no group, or has ended.
    }
  }
}
