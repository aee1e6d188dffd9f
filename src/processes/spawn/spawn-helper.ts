import { spawn, type ChildProcess } from "node:child_process";
import type { Socket } from "node:net";
import { fileURLToPath } from "node:url";
import { Guard, spawnGuarded } from "./guard.ts";
import { killGroup, type ExitStatus, type SpawnedProcess, type Spawner, type SpawnRequest } from "./spawn.ts";

export interface SpawnHelperRequest {
  readonly id: number;
  readonly request: SpawnRequest;
}

/** Sent in this order for each `id`; replies that name a descriptor come with its pipe. Id 0: it is ready. */
export interface SpawnHelperReply {
  readonly id: number;
  readonly pid?: number;
  readonly descriptor?: number;
  readonly isComplete?: boolean;
  readonly exit?: ExitStatus;
  readonly error?: { readonly message: string; readonly code?: string; readonly path?: string };
}

/** The pause before a spawn helper that ended is replaced. */
const RESTART_MS = 10_000;
const END_MS = 1_000;
const childFile = fileURLToPath(new URL("./child.js", import.meta.url));
/** It never has much to do or to store. */
const nodeOptions = ["--v8-pool-size=1", "--max-semi-space-size=1", "--max-old-space-size=64"];

/** Receives the events of the spawn helper. */
export interface SpawnHelperOwner {
  onGone(exit: ExitStatus): void;
  /** Nothing is written unless something is wrong. */
  onStderr(text: string): void;
}

/**
 * Starts processes from a small process, while this one keeps working. Before the small one is ready, and whenever it
 * has ended, processes are started directly. `quotaFolder` is the folder below `/proc` of the process whose CPU quota
 * is kept; its own by default.
 */
export function openSpawnHelper(owner: SpawnHelperOwner, quotaFolder?: string): Spawner {
  let helper: SpawnHelper | undefined;
  let guard = new Guard();
  let isClosed = false;

  const open = (): void => {
    if (!guard.isAlive) guard = new Guard();
    const opened = new SpawnHelper(owner, guard, quotaFolder);
    helper = opened;
    void opened.exited.then(reopen);
  };
  const reopen = (exit: ExitStatus): void => {
    if (isClosed) return;
    owner.onGone(exit);
    setTimeout(() => !isClosed && open(), RESTART_MS).unref();
  };
  const startHere = spawnGuarded(() => guard);
  open();

  return {
    start: (request) => (helper?.isReady ? helper.start(request) : startHere(request)),
    async close() {
      isClosed = true;
      await helper?.end();
      await guard.close();
    },
  };
}

class SpawnHelper {
  #isReady = false;
  /** Resolves when the process and everything it started have ended. */
  readonly exited: Promise<ExitStatus>;
  readonly #child: ChildProcess;
  readonly #pending = new Map<number, PendingSpawn>();
  readonly #guard: Guard;
  #ids = 0;

  constructor(owner: SpawnHelperOwner, guard: Guard, quotaFolder: string | undefined) {
    this.#guard = guard;
    // Not detached: processes that it starts without a group then share CPU time with the serving process, as if that
    // had started them.
    this.#child = spawn(
      process.execPath,
      [...nodeOptions, childFile, ...(quotaFolder === undefined ? [] : [quotaFolder])],
      {
        env: {},
        // With the serving process's stderr, Node would make that blocking again if it is a pipe.
        stdio: ["pipe", "ignore", "pipe", "ipc", guard.isAlive ? guard.pipe : "ignore"],
      },
    );
    const stderr = this.#child.stderr as Socket;
    stderr.setEncoding("utf8").on("data", (text: string) => owner.onStderr(text));
    stderr.on("error", () => {});
    stderr.unref();
    this.#child.on("message", (reply: SpawnHelperReply, pipe?: Socket) => this.#onReply(reply, pipe));
    this.exited = new Promise((resolve) => {
      const onExit = (exit: ExitStatus): void => {
        this.#isReady = false;
        this.#abandonAll();
        resolve(exit);
      };
      this.#child.once("exit", (code, signal) => onExit({ code, signal }));
      this.#child.on("error", () => this.#child.pid === undefined && onExit({ code: null, signal: null }));
    });
    // Neither keeps an otherwise idle process alive.
    this.#child.unref();
    this.#child.channel?.unref();
    this.#lifeline.on("error", () => {});
    this.#lifeline.unref();
  }

  /** False as soon as it is unreachable, which is some time before it has ended. */
  get isReady(): boolean {
    return this.#isReady && this.#child.connected;
  }

  start(request: SpawnRequest): Promise<SpawnedProcess> {
    return new Promise((resolve, reject) => {
      const id = ++this.#ids;
      this.#pending.set(id, new PendingSpawn(request, resolve, reject));
      // The end of the process has to be reported.
      this.#child.channel?.ref();
      this.#child.send({ id, request } satisfies SpawnHelperRequest, (error) => {
        if (!error) return;
        this.#isReady = false;
        this.#child.kill("SIGKILL");
        this.#pending.get(id)?.abandon();
      });
    });
  }

  async end(): Promise<void> {
    this.#isReady = false;
    this.#abandonAll();
    this.#lifeline.destroy();
    this.#child.ref();
    const timer = setTimeout(() => this.#child.kill("SIGKILL"), END_MS);
    await this.exited;
    clearTimeout(timer);
  }

  /** Nothing is written to it: its end tells the helper that this process has ended, in whatever way. */
  get #lifeline(): Socket {
    return this.#child.stdin as Socket;
  }

  #abandonAll(): void {
    for (const spawn of this.#pending.values()) {
      spawn.abandon();
      // No other process reports it now.
      if (spawn.pid !== undefined) this.#guard.ended(spawn.pid);
    }
    this.#pending.clear();
  }

  #onReply(reply: SpawnHelperReply, pipe: Socket | undefined): void {
    if (reply.id === 0) {
      this.#isReady = true;
      return;
    }
    const spawn = this.#pending.get(reply.id);
    if (!spawn) pipe?.destroy();
    else if (spawn.onReply(reply, pipe)) this.#pending.delete(reply.id);
    if (this.#pending.size === 0) this.#child.channel?.unref();
  }
}

/** One process, from the request to start it to its end. */
class PendingSpawn {
  readonly #pipes: (Socket | undefined)[];
  readonly #pipeCount: number;
  readonly #resolve: (started: SpawnedProcess) => void;
  readonly #reject: (error: Error) => void;
  readonly #exited: Promise<ExitStatus>;
  #exit!: (exit: ExitStatus) => void;
  pid: number | undefined;

  constructor({ stdio }: SpawnRequest, resolve: (started: SpawnedProcess) => void, reject: (error: Error) => void) {
    this.#pipes = stdio.map(() => undefined);
    this.#pipeCount = stdio.filter((kind) => kind === "pipe").length;
    this.#resolve = resolve;
    this.#reject = reject;
    this.#exited = new Promise((exit) => (this.#exit = exit));
  }

  /** Returns true if no further reply is expected. */
  onReply({ pid, descriptor, isComplete, exit, error }: SpawnHelperReply, pipe: Socket | undefined): boolean {
    if (pid !== undefined) this.pid = pid;
    if (descriptor !== undefined) this.#pipes[descriptor] = pipe;
    if (isComplete) this.#complete();
    if (error) this.#reject(Object.assign(new Error(error.message), error));
    if (exit) this.#exit(exit);
    return exit !== undefined || error !== undefined;
  }

  /** Its end will no longer be reported. */
  abandon(): void {
    if (this.pid !== undefined) killGroup(this.pid);
    for (const pipe of this.#pipes) pipe?.destroy();
    this.#reject(new Error("the spawn helper has ended"));
    this.#exit({ code: null, signal: "SIGKILL" });
  }

  /** A pipe is lost in transit if this process may open no more descriptors. */
  #complete(): void {
    const pipes = this.#pipes;
    if (pipes.filter(Boolean).length === this.#pipeCount) {
      this.#resolve({ pid: this.pid!, pipes, exited: this.#exited });
      return;
    }
    killGroup(this.pid!);
    for (const pipe of pipes) pipe?.destroy();
    this.#reject(Object.assign(new Error("no file descriptors are left for its pipes"), { code: "EMFILE" }));
  }
}
