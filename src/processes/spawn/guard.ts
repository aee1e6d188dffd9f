import { spawn, type ChildProcess } from "node:child_process";
import type { Socket } from "node:net";
import { endMarkedScript, MARK, ownMark, shellEnvironment } from "./marked.ts";
import { spawnDirectly, type Spawn, type Spawner, type SpawnRequest } from "./spawn.ts";

/**
 * Ends started processes when no other process is left to do so. It is a shell that only reads from a pipe, which no
 * processes but those that start others hold open: which processes run, which have ended, and which are marked. When
 * the pipe ends, all of its writers are dead, and the shell kills what still runs and what marked processes have left
 * behind. Unlike the end of its input, no process can ignore that.
 */
const script = `trap '' HUP INT TERM
running=' '
marked=
while read -r sign pid; do
  case $sign$running in
    m*) marked=1 ;;
    +*) running="$running$pid " ;;
    -*" $pid "*) running="\${running%%" $pid "*} \${running#*" $pid "}" ;;
  esac
done
for pid in $running; do kill -s KILL -- "-$pid" "$pid"; done 2>/dev/null
[ "$marked" ] || exit
${endMarkedScript}`;
const END_MS = 5_000;

export class Guard {
  readonly #shell: ChildProcess;
  readonly #exited: Promise<void>;
  isAlive: boolean;

  constructor() {
    // In a session of its own, so that signals of a terminal to all of its processes do not reach it.
    this.#shell = spawn("/bin/sh", ["-c", script, "sh", ownMark], {
      env: shellEnvironment(),
      stdio: ["pipe", "ignore", "ignore"],
      detached: true,
    });
    this.isAlive = this.#shell.pid !== undefined;
    this.#exited = new Promise((resolve) => {
      const onExit = (): void => {
        this.isAlive = false;
        resolve();
      };
      this.#shell.once("exit", onExit);
      // If no shell can be started, started processes are left to end on their own.
      this.#shell.once("error", () => this.#shell.pid === undefined && onExit());
    });
    this.#shell.unref();
    this.pipe.on("error", () => {});
    this.pipe.unref();
  }

  /** For another process that starts some: it writes lines of `guardLine` there. */
  get pipe(): Socket {
    return this.#shell.stdin as Socket;
  }

  started(pid: number, request: SpawnRequest): void {
    for (const sign of signsOf(request)) this.#write(sign, pid);
  }

  ended(pid: number): void {
    this.#write("-", pid);
  }

  async close(): Promise<void> {
    if (!this.isAlive) return;
    this.#shell.ref();
    this.pipe.destroy();
    const timer = setTimeout(() => this.#shell.kill("SIGKILL"), END_MS);
    await this.#exited;
    clearTimeout(timer);
  }

  #write(sign: Sign, pid: number): void {
    if (this.isAlive) this.pipe.write(wordOf(sign, pid));
  }
}

type Sign = "+" | "-" | "m";

/** The signs for the guard about a process that was started. */
export function signsOf({ env }: SpawnRequest): Sign[] {
  return MARK in env ? ["+", "m"] : ["+"];
}

/** Short enough for one atomic write, so that several processes may write. */
export function wordOf(sign: Sign, pid: number): string {
  return `${sign} ${pid}\n`;
}

/** Starts processes directly, and registers each with the guard. */
export function spawnGuarded(guard: () => Guard): Spawn {
  return async (request) => {
    const current = guard();
    const started = await spawnDirectly(request);
    current.started(started.pid, request);
    void started.exited.then(() => current.ended(started.pid));
    return started;
  };
}

/** Starts processes directly, without a spawn helper. */
export function openGuarded(): Spawner {
  const guard = new Guard();
  return { start: spawnGuarded(() => guard), close: () => guard.close() };
}
