import { constants } from "node:os";
import type { Duplex } from "node:stream";
import type { ExitStatus, Spawn, SpawnedProcess, SpawnRequest } from "./spawn/spawn.ts";

/**
 * This folder owns processes: starting and stopping them (here and in spawn/), what they see of the host (sandbox,
 * own-program), and how much processor time they get (niceness, quota/). It knows nothing of what they are for: guests,
 * scripts, compilers and upstreams.
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
  /** How far it gives way to others from the beginning: 0 (not at all) to 19. */
  readonly niceness?: number;
  /** Likewise, until `setNiceness` says otherwise. */
  readonly nicenessForNow?: number;
  /** More arguments, for a program that reads them from descriptor 4, so that no process list shows them. */
  readonly hiddenArgs?: readonly string[];
  readonly given?: SpawnRequest["given"];
}

export interface Exit extends ExitStatus {
  /** The reason why it never ran. */
  readonly startError?: Error;
}

/** The longest wait for a pipe that others hold open after the process itself has gone. */
const PIPES_CLOSE_MS = 200;
/** The kernel ends guests before anything else when the machine runs out of memory. */
const OUT_OF_MEMORY_SCORE = 1000;

/** One process as the leader of its own process group, from the request to start it to the end of the group. */
export class ProcessGroup {
  readonly #listener: ProcessGroupListener;
  #started: SpawnedProcess | undefined;
  #isUnwanted = false;

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

  /** Ends the process, and everything it started in its group, at once, or as soon as it has been started. */
  kill(): void {
    this.#isUnwanted = true;
    if (!this.#started) return;
    try {
      process.kill(-this.#started.pid, "SIGKILL");
    } catch {
      // It has gone already.
    }
  }

  #begin(started: SpawnedProcess): void {
    this.#started = started;
    for (const pipe of pipesOf(started)) pipe.on("error", ignore);
    if (this.#isUnwanted) this.kill();
    else this.#listener.onStarted(started.pipes);
    void started.exited.then((exit) => this.#exited(started, exit));
  }

  #exited(started: SpawnedProcess, exit: ExitStatus): void {
    this.kill();
    const pipes = pipesOf(started).filter((pipe) => !pipe.closed);
    let open = pipes.length;
    let isTold = false;
    const tell = (): void => {
      if (isTold) return;
      isTold = true;
      clearTimeout(timer);
      this.#listener.onEnded(exit);
    };
    const timer = setTimeout(() => {
      for (const pipe of pipes) pipe.destroy();
      tell();
    }, PIPES_CLOSE_MS);
    if (open === 0) tell();
    for (const pipe of pipes) {
      pipe.once("close", () => {
        open -= 1;
        if (open === 0) tell();
      });
      pipe.resume();
    }
  }
}

export interface ProcessGroupListener {
  /** The pipes by descriptor. Called once, and never for a process that was to be ended before. */
  onStarted(pipes: readonly (Duplex | undefined)[]): void;
  /** Called once, when the process has ended and all that it wrote has been read, or when it could not be started. */
  onEnded(exit: Exit): void;
}

/** The signal that ended one of Berth's own programs; the sandbox reports a signal inside as a shell does. */
export function signalOf({ code, signal }: Pick<Exit, "code" | "signal">): string | undefined {
  if (signal || code === null || code <= 128) return signal ?? undefined;
  return Object.entries(constants.signals).find(([, number]) => number === code - 128)?.[0];
}

/** The signals that a program does not end itself with. */
export const FROM_OUTSIDE: ReadonlySet<string> = new Set(["SIGKILL", "SIGTERM", "SIGHUP", "SIGINT", "SIGQUIT"]);

/** Judges by the end of stderr. */
export function saysOutOfMemory(stderr: string): boolean {
  return /out of memory|cannot allocate memory|Allocation failed|bad_alloc|invalid (?:array|table) size/i.test(stderr);
}

function pipesOf({ pipes }: SpawnedProcess): Duplex[] {
  return pipes.filter((pipe) => pipe !== undefined);
}

function ignore(): void {}
