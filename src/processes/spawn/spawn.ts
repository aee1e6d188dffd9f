import { spawn } from "node:child_process";
import { writeFileSync } from "node:fs";
import type { Socket } from "node:net";
import type { Duplex } from "node:stream";
import { setNiceness, setRevocableNiceness } from "../niceness.ts";

/**
 * Starts processes: guests, scripts, the compiler, upstream programs. A start blocks its process for some milliseconds,
 * more of them when the machine is busy. A serving process leaves that to a separate process, the spawn helper (spawn-helper.ts); all
 * others start processes directly. This folder knows nothing about the processes it starts.
 */
export type Spawn = (request: SpawnRequest) => Promise<SpawnedProcess>;

/** Starts processes, and lives as long as any of them runs. */
export interface Spawner {
  readonly start: Spawn;
  /** All processes should have ended by now; the rest is ended. */
  close(): Promise<void>;
}

export interface SpawnRequest {
  readonly file: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly cwd?: string;
  /** `cwd` was made for it alone: where nobody else is left to do so, whoever started it removes it after its end. */
  readonly hasOwnFolder?: boolean;
  /** The user and group to become; only root may. */
  readonly uid?: number;
  readonly gid?: number;
  /** The kind of each descriptor, from 0 on; the others are closed. */
  readonly stdio: readonly ("pipe" | "ignore")[];
  /** Its input on one more descriptor, in base64: whoever starts it writes it there and closes it. */
  readonly given?: { readonly descriptor: number; readonly base64: string };
  /**
   * The process leads a group and a session of its own: where Linux distributes time by session
   * (sched_autogroup_enabled), it then takes none of its parent's.
   */
  readonly group?: boolean;
  /** How far it and its group give way where processor time is short: 0 (not at all) to 19. */
  readonly niceness?: number;
  /** Likewise, as far as that can be undone. */
  readonly nicenessForNow?: number;
  /** The order in which the kernel ends processes when memory is short: 0 to 1000, the highest first. */
  readonly outOfMemoryScore?: number;
}

export interface SpawnedProcess {
  readonly pid: number;
  /** The pipes by descriptor; undefined for those that are no pipes. */
  readonly pipes: readonly (Duplex | undefined)[];
  /** Never rejects. Output of the process may still be on its way. */
  readonly exited: Promise<ExitStatus>;
}

/** How a process ended by itself or was ended. */
export interface ExitStatus {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

/** Starts it from this process, at once. Rejects when it cannot be started. */
export const spawnDirectly: Spawn = async (request) => {
  const { file, args, env, cwd, uid, gid, stdio, given, group = false } = request;
  const identity = { ...(uid !== undefined && { uid }), ...(gid !== undefined && { gid }) };
  const child = spawn(file, args, {
    env: { ...env },
    // Node makes pipes of the first three descriptors unless they are named.
    stdio: Array.from({ length: Math.max(3, stdio.length, (given?.descriptor ?? 0) + 1) }, (_, descriptor) =>
      descriptor === given?.descriptor ? "pipe" : (stdio[descriptor] ?? "ignore"),
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
  prefer(pid, request);
  const pipes = (child.stdio as readonly (Socket | null)[]).map((pipe) => pipe ?? undefined);
  if (given) give(pipes[given.descriptor]!, given.base64);
  if (pipes[0]) noticeEnd(pipes[0]);
  return {
    pid,
    pipes: pipes.slice(0, stdio.length),
    exited: new Promise((resolve) => child.once("exit", (code, signal) => resolve({ code, signal }))),
  };
};

/** Node never reads a child's stdin, so it would not notice that the child closes it. */
function noticeEnd(stdin: Socket): void {
  const { _handle: handle } = stdin as { _handle?: { onread: (bytes?: ArrayBuffer) => void; readStart(): void } };
  if (!handle) return;
  handle.onread = (bytes) => void (bytes ?? stdin.destroy());
  handle.readStart();
}

function give(pipe: Socket, base64: string): void {
  // It may end without reading it.
  pipe.on("error", () => {});
  pipe.write(Buffer.from(base64, "base64"));
  pipe.destroySoon();
}

/** Preferences: some systems do not let us state them, and the process may have ended already. */
function prefer(pid: number, { niceness = 0, nicenessForNow = 0, outOfMemoryScore }: SpawnRequest): void {
  // Before it has threads, which inherit its present values.
  if (niceness > 0) setNiceness(pid, niceness);
  else if (nicenessForNow > 0) setRevocableNiceness(pid, nicenessForNow);
  if (outOfMemoryScore === undefined || process.platform !== "linux") return;
  try {
    writeFileSync(`/proc/${pid}/oom_score_adj`, String(outOfMemoryScore));
  } catch {}
}

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
