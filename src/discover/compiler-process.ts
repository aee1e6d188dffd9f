import type { Duplex } from "node:stream";
import { fileURLToPath } from "node:url";
import type { ExitStatus, Start, Started } from "../starter/starter.ts";
import { YieldingSession } from "../yielding-session.ts";
import type { CompileTask } from "./compile.ts";
import type { Compiled, DefinitionSource } from "./discovery.ts";
import { frame, FrameReader, FrameTooLarge } from "./frames.ts";

/** How a definition's compilation ended. After all but `result` and `failure` the process is gone. */
export type Ending =
  | { readonly kind: "result"; readonly result: Compiled }
  | { readonly kind: "failure" | "crash" | "output"; readonly detail: string }
  | { readonly kind: "timeout" | "memory" | "closed" };

/**
 * Whatever serves is beside it, and has not many cores: one thread helps its own, which is enough. It makes much and
 * ends soon, so that it begins with room for that. It takes a quarter less time for both.
 */
const nodeOptions = ["--v8-pool-size=1", "--min-semi-space-size=16"];
/** The bundler's threads. */
const childEnvironment = { GOMAXPROCS: "1" };
/** Who calls a tool waits for less than who saves one: half of the share that a process has otherwise. */
const NICENESS = 3;
/** How far its session gives way at first: more makes it later, and calls hardly any sooner. */
const SESSION_NICENESS = 7;
const childFile = fileURLToPath(new URL("./child.js", import.meta.url));
const frameBytesMax = 64 * 1024 * 1024;
const stderrCharsMax = 4_000;
const endMs = 500;

/** One compiler child. It is trusted to be Berth's own code, and not trusted to survive what it reads. */
export class CompilerProcess {
  isUsed = false;
  /** Resolves when the process is gone. */
  readonly ended: Promise<void>;
  readonly #reader = new FrameReader(frameBytesMax);
  readonly #session: YieldingSession | undefined;
  /** Undefined until the process has been started. */
  #child: Started | undefined;
  #unsent: string | undefined;
  #stderr = "";
  #finish: ((ending: Ending) => void) | undefined;
  #jobs = 0;
  #isUnwanted = false;
  #isGone = false;

  /** `givesWayMs`: for so long of each definition others go first, wherever they are. */
  constructor(start: Start, memoryMb: number, givesWayMs: number) {
    const pid = (): number | undefined => (this.#isGone ? undefined : this.#child?.pid);
    const session = { niceness: SESSION_NICENESS, forMs: givesWayMs, otherwise: NICENESS };
    this.#session = givesWayMs > 0 ? new YieldingSession(pid, session) : undefined;
    const starting = start({
      file: process.execPath,
      args: [...nodeOptions, `--max-old-space-size=${memoryMb}`, childFile],
      // No variable of the service reaches it: it needs none, and its environment could name secrets.
      env: childEnvironment,
      stdio: ["ignore", "ignore", "pipe", "pipe", "pipe"],
      group: true,
      niceness: NICENESS,
    });
    this.ended = starting.then(
      (child) => this.#begin(child),
      (error: Error) => this.#gone({ kind: "crash", detail: error.message }),
    );
  }

  /** One at a time; never rejects. */
  compile(task: CompileTask, source: DefinitionSource, timeoutMs: number): Promise<Ending> {
    return new Promise((resolve) => {
      if (this.#isGone) return resolve({ kind: "crash", detail: "its process could not be started" });
      this.#jobs += 1;
      const timer = setTimeout(() => {
        this.#finish?.({ kind: "timeout" });
        this.#kill();
      }, timeoutMs);
      this.#finish = (ending) => {
        clearTimeout(timer);
        this.#session?.end();
        this.#finish = undefined;
        this.isUsed = true;
        resolve(ending);
      };
      this.#session?.begin();
      const job = frame({ id: this.#jobs, task, source });
      if (this.#child) jobsPipe(this.#child).write(job);
      else this.#unsent = job;
    });
  }

  /** Lets it end by itself, and kills it when it does not or is still at work. */
  end(): void {
    if (this.#isGone) return;
    if (this.#finish || !this.#child) this.#kill();
    this.#finish?.({ kind: "closed" });
    if (this.#child) jobsPipe(this.#child).end();
    const timer = setTimeout(() => this.#kill(), endMs);
    void this.ended.then(() => clearTimeout(timer));
  }

  async #begin(child: Started): Promise<void> {
    this.#child = child;
    this.#session?.lower();
    const [, , stderr, jobs, answers] = child.pipes as readonly Duplex[];
    stderr!.on("data", (chunk: Buffer) => {
      if (this.#stderr.length < stderrCharsMax) this.#stderr += chunk.toString("utf8");
    });
    answers!.on("data", (chunk: Buffer) => this.#receive(chunk));
    for (const pipe of [stderr!, jobs!, answers!]) pipe.on("error", () => undefined);
    if (this.#isUnwanted) this.#kill();
    else if (this.#unsent) jobs!.write(this.#unsent);
    this.#unsent = undefined;
    const closed = [stderr!, answers!].map((pipe) => new Promise((resolve) => pipe.once("close", resolve)));
    const exit = await child.exited;
    jobs!.destroy();
    // What it wrote last says why.
    await Promise.all(closed);
    this.#gone(this.#endingOf(exit));
  }

  /** It and its bundler, as soon as it has been started. */
  #kill(): void {
    this.#isUnwanted = true;
    try {
      if (this.#child) process.kill(-this.#child.pid, "SIGKILL");
    } catch {
      // It has gone already.
    }
  }

  #receive(chunk: Buffer): void {
    try {
      for (const answer of this.#reader.push(chunk) as Answer[]) {
        if (answer.id !== this.#jobs) continue;
        if (answer.result) this.#finish?.({ kind: "result", result: answer.result });
        else this.#finish?.({ kind: "failure", detail: answer.failure ?? "it gave no answer" });
      }
    } catch (error) {
      const detail = (error as Error).message;
      this.#finish?.({ kind: error instanceof FrameTooLarge ? "output" : "crash", detail });
      this.#kill();
    }
  }

  #gone(ending: Ending): void {
    this.#isGone = true;
    this.#finish?.(ending);
  }

  #endingOf({ code, signal }: ExitStatus): Ending {
    if (/heap out of memory|Allocation failed|invalid (?:array|table) size/i.test(this.#stderr))
      return { kind: "memory" };
    return { kind: "crash", detail: `its process ended with ${signal ?? `exit code ${code}`}` };
  }
}

function jobsPipe({ pipes }: Started): Duplex {
  return pipes[3]!;
}

interface Answer {
  readonly id: number;
  readonly result?: Compiled;
  readonly failure?: string;
}
