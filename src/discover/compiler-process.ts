import { spawn, type ChildProcess } from "node:child_process";
import type { Readable, Writable } from "node:stream";
import { fileURLToPath } from "node:url";
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
const childFile = fileURLToPath(new URL("./child.js", import.meta.url));
const frameBytesMax = 64 * 1024 * 1024;
const stderrCharsMax = 4_000;
const endMs = 500;

/** One compiler child. It is trusted to be Berth's own code, and not trusted to survive what it reads. */
export class CompilerProcess {
  isUsed = false;
  /** Resolves when the process is gone. */
  readonly ended: Promise<void>;
  readonly #child: ChildProcess;
  readonly #reader = new FrameReader(frameBytesMax);
  #stderr = "";
  #finish: ((ending: Ending) => void) | undefined;
  #jobs = 0;
  #isGone = false;

  constructor(memoryMb: number) {
    // No variable of the service reaches it: it needs none, and its environment could name secrets.
    this.#child = spawn(process.execPath, [...nodeOptions, `--max-old-space-size=${memoryMb}`, childFile], {
      env: childEnvironment,
      stdio: ["ignore", "ignore", "pipe", "pipe", "pipe"],
    });
    this.ended = new Promise((resolve) => {
      this.#child.once("error", (error) => this.#gone({ kind: "crash", detail: error.message }, resolve));
      this.#child.once("close", (code, signal) => this.#gone(this.#endingOf(code, signal), resolve));
    });
    this.#child.stderr!.on("data", (chunk: Buffer) => {
      if (this.#stderr.length < stderrCharsMax) this.#stderr += chunk.toString("utf8");
    });
    this.#jobsPipe.on("error", () => undefined);
    (this.#child.stdio[4] as Readable).on("data", (chunk: Buffer) => this.#receive(chunk)).on("error", () => undefined);
  }

  /** One at a time; never rejects. */
  compile(task: CompileTask, source: DefinitionSource, timeoutMs: number): Promise<Ending> {
    return new Promise((resolve) => {
      if (this.#isGone) return resolve({ kind: "crash", detail: "its process could not be started" });
      this.#jobs += 1;
      const timer = setTimeout(() => {
        this.#finish?.({ kind: "timeout" });
        this.#child.kill("SIGKILL");
      }, timeoutMs);
      this.#finish = (ending) => {
        clearTimeout(timer);
        this.#finish = undefined;
        this.isUsed = true;
        resolve(ending);
      };
      this.#jobsPipe.write(frame({ id: this.#jobs, task, source }));
    });
  }

  /** Lets it end by itself, and kills it when it does not or is still at work. */
  end(): void {
    if (this.#isGone) return;
    if (this.#finish) this.#child.kill("SIGKILL");
    this.#finish?.({ kind: "closed" });
    this.#jobsPipe.end();
    const timer = setTimeout(() => this.#child.kill("SIGKILL"), endMs);
    void this.ended.then(() => clearTimeout(timer));
  }

  get #jobsPipe(): Writable {
    return this.#child.stdio[3] as Writable;
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
      this.#child.kill("SIGKILL");
    }
  }

  #gone(ending: Ending, resolve: () => void): void {
    this.#isGone = true;
    this.#finish?.(ending);
    resolve();
  }

  #endingOf(code: number | null, signal: NodeJS.Signals | null): Ending {
    if (/heap out of memory|Allocation failed|invalid (?:array|table) size/i.test(this.#stderr))
      return { kind: "memory" };
    return { kind: "crash", detail: `its process ended with ${signal ?? `exit code ${code}`}` };
  }
}

interface Answer {
  readonly id: number;
  readonly result?: Compiled;
  readonly failure?: string;
}
