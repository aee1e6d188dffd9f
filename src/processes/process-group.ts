import { constants } from "node:os";
import type { Duplex } from "node:stream";
import type { ExitStatus, Spawn, SpawnedProcess, SpawnRequest } from "./spawn/spawn.ts";

/**
 * This folder owns processes: starting and stopping them (here and in spawn/), what they see of the host (sandbox,
 * own-program), and how much CPU time they get (niceness, quota/). It does not know their purpose: guests, scripts,
 * compilers or upstreams.
 */

/** The command line to start, and its user. */
export interface Command {
  readonly file: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly cwd: string;
  /** The user and group to become; only root may. */
  readonly uid?: number;
  readonly gid?: number;
  /** The niceness from the start: 0 (the priority of the service) to 19 (the lowest). */
  readonly niceness?: number;
  /** The same, until `setNiceness` changes it. */
  readonly nicenessForNow?: number;
  /** Further arguments, for a program that reads them from descriptor 4, so that no process list shows them. */
  readonly hiddenArgs?: readonly string[];
  readonly given?: SpawnRequest["given"];
}

export interface Exit extends ExitStatus {
  /** Why it never ran. */
  readonly startError?: Error;
}

/** The longest wait for pipes that other processes hold open after the process itself has exited. */
const PIPES_CLOSE_MS = 200;
/** When the machine runs out of memory, the kernel ends guests before anything else. */
const OUT_OF_MEMORY_SCORE = 1000;

/** One process as the leader of its own process group, from the request to start it to the end of the group. */
export class ProcessGroup {
  readonly #listener: ProcessGroupListener;
  #started: SpawnedProcess | undefined;
  #isKilled = false;

  constructor(start: Spawn, command: Command, stdio: SpawnRequest["stdio"], listener: ProcessGroupListener) {
    this.#listener = listener;
    const { hiddenArgs: _, ...request } = command;
    start({ ...request, stdio, group: true, outOfMemoryScore: OUT_OF_MEMORY_SCORE }).then(
      (started) => this.#begin(started),
      (startError: Error) => listener.onEnded({ code: null, signal: null, startError }),
    );
  }

  /** Undefined until it has been started. */
  get pid(): number | undefined {
    return this.#started?.pid;
  }

  /** Ends the process and everything it started in its group, immediately or as soon as it has started. */
  kill(): void {
    this.#isKilled = true;
    if (!this.#started) return;
    try {
      process.kill(-this.#started.pid, "SIGKILL");
    } catch {
      // It has already ended.
    }
  }

  #begin(started: SpawnedProcess): void {
    this.#started = started;
    for (const pipe of openPipes(started)) pipe.on("error", ignore);
    if (this.#isKilled) this.kill();
    else this.#listener.onStarted(started.pipes);
    void started.exited.then((exit) => this.#exited(started, exit));
  }

  #exited(started: SpawnedProcess, exit: ExitStatus): void {
    this.kill();
    const pipes = openPipes(started).filter((pipe) => !pipe.closed);
    let open = pipes.length;
    let isReported = false;
    const report = (): void => {
      if (isReported) return;
      isReported = true;
      clearTimeout(timer);
      this.#listener.onEnded(exit);
    };
    const timer = setTimeout(() => {
      for (const pipe of pipes) pipe.destroy();
      report();
    }, PIPES_CLOSE_MS);
    if (open === 0) report();
    for (const pipe of pipes) {
      pipe.once("close", () => {
        open -= 1;
        if (open === 0) report();
      });
      pipe.resume();
    }
  }
}

export interface ProcessGroupListener {
  /** The pipes by descriptor. Called once, and never for a process that was killed before it started. */
  onStarted(pipes: readonly (Duplex | undefined)[]): void;
  /** Called once, when the process has ended and all its output has been read, or when it could not be started. */
  onEnded(exit: Exit): void;
}

/** The signal that ended one of Berth's own programs; the sandbox reports it by exit code, like a shell. */
export function exitSignal({ code, signal }: Pick<Exit, "code" | "signal">): string | undefined {
  if (signal || code === null || code <= 128) return signal ?? undefined;
  return Object.entries(constants.signals).find(([, number]) => number === code - 128)?.[0];
}

/** Signals that a program does not end itself with. */
export const EXTERNAL_SIGNALS: ReadonlySet<string> = new Set(["SIGKILL", "SIGTERM", "SIGHUP", "SIGINT", "SIGQUIT"]);

/** Decides by the tail of stderr. */
export function isOutOfMemory(stderr: string): boolean {
  return /out of memory|cannot allocate memory|Allocation failed|bad_alloc|invalid (?:array|table) size/i.test(stderr);
}

function openPipes({ pipes }: SpawnedProcess): Duplex[] {
  return pipes.filter((pipe) => pipe !== undefined);
}

function ignore(): void {}
