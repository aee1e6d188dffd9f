import { spawn, type ChildProcess } from "node:child_process";
import type { Socket } from "node:net";
import { fileURLToPath } from "node:url";
import { Guard, guarded } from "./guard.ts";
import { killGroup, type ExitStatus, type SpawnedProcess, type Spawner, type SpawnRequest } from "./spawn.ts";

export interface SpawnHelperRequest {
  readonly id: number;
  readonly request: SpawnRequest;
}

/** Sent in this order for each `id`; the pipes come with the answers that name a descriptor. Number 0: it is ready. */
export interface SpawnHelperReply {
  readonly id: number;
  readonly pid?: number;
  readonly descriptor?: number;
  readonly isComplete?: boolean;
  readonly exit?: ExitStatus;
  readonly error?: { readonly message: string; readonly code?: string; readonly path?: string };
}

/** The pause before an ended spawn helper is replaced. */
const AGAIN_AFTER_MS = 10_000;
const END_MS = 1_000;
const childFile = fileURLToPath(new URL("./child.js", import.meta.url));
/** It never has much to do, or to keep. */
const nodeOptions = ["--v8-pool-size=1", "--max-semi-space-size=1", "--max-old-space-size=64"];

/** Receives the events of the spawn helper. */
export interface SpawnHelperOwner {
  onGone(exit: ExitStatus): void;
  /** Nothing is written while all is well. */
  onStderr(text: string): void;
}

/**
 * Starts processes from a small process beside this one, which keeps working meanwhile. Before that is ready, and
 * whenever it is gone, they are started directly. `quotaFolder` is the folder below `/proc` of the process whose quota
 * of processor time it keeps; its own by default.
 */
export function openSpawnHelper(owner: SpawnHelperOwner, quotaFolder?: string): Spawner {
  let helper: SpawnHelper | undefined;
  let guard = new Guard();
  let isClosed = false;

  const open = (): void => {
    if (!guard.isAlive) guard = new Guard();
    const opened = new SpawnHelper(owner, guard, quotaFolder);
    helper = opened;
    void opened.gone.then(reopen);
  };
  const reopen = (exit: ExitStatus): void => {
    if (isClosed) return;
    owner.onGone(exit);
    setTimeout(() => !isClosed && open(), AGAIN_AFTER_MS).unref();
  };
  const startHere = guarded(() => guard);
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
  #hasBegun = false;
  /** Resolves when the process and everything it started have ended. */
  readonly gone: Promise<ExitStatus>;
  readonly #child: ChildProcess;
  readonly #orders = new Map<number, Order>();
  readonly #guard: Guard;
  #ids = 0;

  constructor(owner: SpawnHelperOwner, guard: Guard, quotaFolder: string | undefined) {
    this.#guard = guard;
    // Not detached: processes that it starts without a group share the processors with the serving process, as if that
    // had started them.
    this.#child = spawn(
      process.execPath,
      [...nodeOptions, childFile, ...(quotaFolder === undefined ? [] : [quotaFolder])],
      {
        env: {},
        // With stderr of its own, Node would make it block again where it is a pipe.
        stdio: ["pipe", "ignore", "pipe", "ipc", guard.isAlive ? guard.pipe : "ignore"],
      },
    );
    const stderr = this.#child.stderr as Socket;
    stderr.setEncoding("utf8").on("data", (text: string) => owner.onStderr(text));
    stderr.on("error", () => {});
    stderr.unref();
    this.#child.on("message", (answer: SpawnHelperReply, pipe?: Socket) => this.#hear(answer, pipe));
    this.gone = new Promise((resolve) => {
      const over = (exit: ExitStatus): void => {
        this.#hasBegun = false;
        this.#abandonAll();
        resolve(exit);
      };
      this.#child.once("exit", (code, signal) => over({ code, signal }));
      this.#child.on("error", () => this.#child.pid === undefined && over({ code: null, signal: null }));
    });
    // Neither keeps an otherwise idle process alive.
    this.#child.unref();
    this.#child.channel?.unref();
    this.#lifeline.on("error", () => {});
    this.#lifeline.unref();
  }

  /** False as soon as it cannot be told anything, which is some time before it has ended. */
  get isReady(): boolean {
    return this.#hasBegun && this.#child.connected;
  }

  start(request: SpawnRequest): Promise<SpawnedProcess> {
    return new Promise((resolve, reject) => {
      const id = ++this.#ids;
      this.#orders.set(id, new Order(request, resolve, reject));
      // Until the process ends somebody waits for that.
      this.#child.channel?.ref();
      this.#child.send({ id, request } satisfies SpawnHelperRequest, (error) => {
        if (!error) return;
        this.#hasBegun = false;
        this.#child.kill("SIGKILL");
        this.#orders.get(id)?.abandon();
      });
    });
  }

  async end(): Promise<void> {
    this.#hasBegun = false;
    this.#abandonAll();
    this.#lifeline.destroy();
    this.#child.ref();
    const timer = setTimeout(() => this.#child.kill("SIGKILL"), END_MS);
    await this.gone;
    clearTimeout(timer);
  }

  /** Nothing is written to it: its end tells the helper that this process has ended, however it did. */
  get #lifeline(): Socket {
    return this.#child.stdin as Socket;
  }

  #abandonAll(): void {
    for (const order of this.#orders.values()) {
      order.abandon();
      // Nobody else reports it any more.
      if (order.pid !== undefined) this.#guard.ended(order.pid);
    }
    this.#orders.clear();
  }

  #hear(answer: SpawnHelperReply, pipe: Socket | undefined): void {
    if (answer.id === 0) {
      this.#hasBegun = true;
      return;
    }
    const order = this.#orders.get(answer.id);
    if (!order) pipe?.destroy();
    else if (order.hear(answer, pipe)) this.#orders.delete(answer.id);
    if (this.#orders.size === 0) this.#child.channel?.unref();
  }
}

/** One process, from the request to start it to its end. */
class Order {
  readonly #pipes: (Socket | undefined)[];
  readonly #wanted: number;
  readonly #resolve: (started: SpawnedProcess) => void;
  readonly #reject: (error: Error) => void;
  readonly #exited: Promise<ExitStatus>;
  #exit!: (exit: ExitStatus) => void;
  pid: number | undefined;

  constructor({ stdio }: SpawnRequest, resolve: (started: SpawnedProcess) => void, reject: (error: Error) => void) {
    this.#pipes = stdio.map(() => undefined);
    this.#wanted = stdio.filter((kind) => kind === "pipe").length;
    this.#resolve = resolve;
    this.#reject = reject;
    this.#exited = new Promise((exit) => (this.#exit = exit));
  }

  /** True when nothing more will come. */
  hear({ pid, descriptor, isComplete, exit, error }: SpawnHelperReply, pipe: Socket | undefined): boolean {
    if (pid !== undefined) this.pid = pid;
    if (descriptor !== undefined) this.#pipes[descriptor] = pipe;
    if (isComplete) this.#complete();
    if (error) this.#reject(Object.assign(new Error(error.message), error));
    if (exit) this.#exit(exit);
    return exit !== undefined || error !== undefined;
  }

  /** Nobody will say any more how it ends. */
  abandon(): void {
    if (this.pid !== undefined) killGroup(this.pid);
    for (const pipe of this.#pipes) pipe?.destroy();
    this.#reject(new Error("the spawn helper has ended"));
    this.#exit({ code: null, signal: "SIGKILL" });
  }

  /** A pipe is lost on its way where this process may open no more descriptors. */
  #complete(): void {
    const pipes = this.#pipes;
    if (pipes.filter(Boolean).length === this.#wanted) {
      this.#resolve({ pid: this.pid!, pipes, exited: this.#exited });
      return;
    }
    killGroup(this.pid!);
    for (const pipe of pipes) pipe?.destroy();
    this.#reject(Object.assign(new Error("no descriptor is left for its pipes"), { code: "EMFILE" }));
  }
}
