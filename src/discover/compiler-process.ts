import type { Duplex } from "node:stream";
import { processorMsOf, residentMbOf, treeOf } from "../processes/process-tree.ts";
import { BESIDES_HEAP_MB } from "../processes/own-program.ts";
import {
  FROM_OUTSIDE,
  ProcessGroup,
  saysOutOfMemory,
  signalOf,
  type Command,
  type Exit,
} from "../processes/process-group.ts";
import type { Spawn } from "../processes/spawn/spawn.ts";
import { SessionNiceness } from "../processes/session-niceness.ts";
import type { CompileTask } from "./compile.ts";
import type { Compiled, ContractLimits, DefinitionSource } from "./discovery.ts";
import { BUNDLER_ENDED, frame, CompilerFrameReader, FrameTooLarge } from "./compiler-frames.ts";

/** How a definition's compilation ended. After all but `result` and `failure` the process is gone. */
export type CompilerEnding =
  | { readonly kind: "result"; readonly result: Compiled }
  /** The compiler stumbled over the source. */
  | { readonly kind: "failure" | "crash"; readonly detail: string }
  /** The source is too much for a limit. */
  | { readonly kind: "output"; readonly detail: string }
  | { readonly kind: "timeout" | "memory" }
  /** The machine is at fault, or whoever ended the process; the source is not. */
  | { readonly kind: "unavailable"; readonly detail: string }
  | { readonly kind: "closed" }
  /** It ended before it could be given anything. */
  | { readonly kind: "unready"; readonly exitCode: number | null; readonly said: string };

export interface CompilerProcessLimits extends ContractLimits {
  readonly compileMs: number;
  readonly compileElapsedMs: number;
  readonly compileMemoryMb: number;
}

/** Who calls a tool waits for less than who saves one: half of the share that a process has otherwise. */
const NICENESS = 3;
/** How far its session gives way at first: more makes it later, and calls hardly any sooner. */
const SESSION_NICENESS = 7;
/** A bundle in JSON, with a contract and problems. */
const frameBytesMax = 24 * 1024 * 1024;
const stderrCharsMax = 4_000;
const endMs = 500;
/** Between two looks at what it uses, and the shortest time between them, when little is left. */
const LOOK_MS = 100;
const LOOK_MS_MIN = 10;

/** One compiler child. It is trusted to be Berth's own code, and not trusted to survive what it reads. */
export class CompilerProcess {
  isUsed = false;
  /** It has begun to work. */
  isReady = false;
  /** Resolves when the process is gone. */
  readonly ended: Promise<void>;
  readonly #limits: CompilerProcessLimits;
  readonly #reader = new CompilerFrameReader(frameBytesMax);
  readonly #session: SessionNiceness | undefined;
  readonly #group: ProcessGroup;
  /** Where jobs go; undefined until the process has been started. */
  #pipe: Duplex | undefined;
  #unsent: string | undefined;
  #stderr = "";
  #finish: ((ending: CompilerEnding) => void) | undefined;
  #jobs = 0;
  #gone: CompilerEnding | undefined;

  /** `givesWayMs`: for so long of each definition others go first, wherever they are. */
  constructor(start: Spawn, command: Command, limits: CompilerProcessLimits, givesWayMs: number) {
    this.#limits = limits;
    const session = { niceness: SESSION_NICENESS, forMs: givesWayMs, otherwise: NICENESS };
    this.#session = givesWayMs > 0 ? new SessionNiceness(() => this.#pid, session) : undefined;
    let over!: () => void;
    this.ended = new Promise((resolve) => (over = resolve));
    const stdio = ["ignore", "ignore", "pipe", "pipe", "pipe"] as const;
    this.#group = new ProcessGroup(start, { ...command, niceness: NICENESS }, stdio, {
      onStarted: ([, , stderr, jobs, answers]) => this.#begin(stderr!, jobs!, answers!),
      onEnded: (exit) => {
        this.#gone = this.#endingOf(exit);
        this.#finish?.(this.#gone);
        over();
      },
    });
  }

  /** One at a time; never rejects. */
  compile(task: CompileTask, source: DefinitionSource): Promise<CompilerEnding> {
    return new Promise((resolve) => {
      if (this.#gone) return resolve(this.#gone);
      this.#jobs += 1;
      const watch = this.#watch();
      this.#finish = (ending) => {
        watch.end();
        this.#session?.end();
        this.#finish = undefined;
        this.isUsed = true;
        resolve(ending);
      };
      this.#session?.begin();
      const { toolBytes, contractBytes, contractValues, bundleBytes } = this.#limits;
      const job = frame({
        id: this.#jobs,
        task,
        source,
        limits: { toolBytes, contractBytes, contractValues, bundleBytes },
      });
      if (this.#pipe) this.#pipe.write(job);
      else this.#unsent = job;
    });
  }

  /** Lets it end by itself, and kills it when it does not or is still at work. */
  end(): void {
    if (this.#gone) return;
    if (this.#finish || !this.#pipe) this.#group.kill();
    this.#finish?.({ kind: "closed" });
    this.#pipe?.end();
    const timer = setTimeout(() => this.#group.kill(), endMs);
    void this.ended.then(() => clearTimeout(timer));
  }

  get #pid(): number | undefined {
    return this.#gone ? undefined : this.#group.pid;
  }

  #begin(stderr: Duplex, jobs: Duplex, answers: Duplex): void {
    this.#pipe = jobs;
    this.#session?.lower();
    stderr.on("data", (chunk: Buffer) => {
      if (this.#stderr.length < stderrCharsMax) this.#stderr += chunk.toString("utf8");
    });
    answers.on("data", (chunk: Buffer) => this.#receive(chunk));
    if (this.#unsent) jobs.write(this.#unsent);
    this.#unsent = undefined;
  }

  /** Looks at what it and its bundler use, until the job is over. */
  #watch(): { end(): void } {
    const { compileMs, compileElapsedMs, compileMemoryMb } = this.#limits;
    const before = this.#pid === undefined ? 0 : processorMsOf(treeOf(this.#pid));
    let usedMs = 0;
    const stop = (ending: CompilerEnding): void => {
      this.#finish?.(ending);
      this.#group.kill();
    };
    const look = (): void => {
      const pids = this.#pid === undefined ? [] : treeOf(this.#pid);
      usedMs = Math.max(usedMs, processorMsOf(pids) - before);
      if (usedMs > compileMs) return stop({ kind: "timeout" });
      if (residentMbOf(pids) > 2 * compileMemoryMb + BESIDES_HEAP_MB) return stop({ kind: "memory" });
      looking = setTimeout(look, nextLook());
    };
    const nextLook = (): number => Math.max(LOOK_MS_MIN, Math.min(LOOK_MS, compileMs - usedMs));
    let looking = setTimeout(look, nextLook());
    const detail = (): string =>
      `the machine has given it ${usedMs} ms of processor time in ${compileElapsedMs} ms (BERTH_COMPILE_ELAPSED_MS)`;
    const waiting = setTimeout(() => stop({ kind: "unavailable", detail: detail() }), compileElapsedMs);
    return {
      end: () => {
        clearTimeout(looking);
        clearTimeout(waiting);
      },
    };
  }

  #receive(chunk: Buffer): void {
    try {
      for (const answer of this.#reader.push(chunk) as Answer[]) {
        if (answer.id === 0) this.isReady = true;
        if (answer.id !== this.#jobs) continue;
        if (answer.result) this.#finish?.({ kind: "result", result: answer.result });
        else this.#finish?.({ kind: "failure", detail: answer.failure ?? "it gave no answer" });
      }
    } catch (error) {
      const detail = (error as Error).message;
      this.#finish?.({ kind: error instanceof FrameTooLarge ? "output" : "crash", detail });
      this.#group.kill();
    }
  }

  #endingOf(exit: Exit): CompilerEnding {
    const { code, startError } = exit;
    if (startError) {
      const { code = "no reason given" } = startError as NodeJS.ErrnoException;
      if (noProgram.has(code)) return { kind: "unready", exitCode: 127, said: code };
      return { kind: "unavailable", detail: `its process could not be started (${code})` };
    }
    const how = signalOf(exit) ?? `exit code ${code}`;
    if (!this.isReady && !FROM_OUTSIDE.has(how)) {
      return { kind: "unready", exitCode: code, said: this.#stderr.trim().split("\n")[0]! };
    }
    if (saysOutOfMemory(this.#stderr)) return { kind: "memory" };
    if (FROM_OUTSIDE.has(how)) return { kind: "unavailable", detail: `its process was ended from outside (${how})` };
    if (shortage.test(this.#stderr)) return { kind: "unavailable", detail: "the system let it start no more threads" };
    if (code === BUNDLER_ENDED && !/^(?:panic|fatal error):/m.test(this.#stderr))
      return { kind: "unavailable", detail: "its bundler was ended from outside" };
    return { kind: "crash", detail: `its process ended with ${how}` };
  }
}

const shortage = /Resource temporarily unavailable|failed to create new OS thread/;
/** It is not there, or not for whom it should become. */
const noProgram: ReadonlySet<string> = new Set(["ENOENT", "EACCES", "EPERM"]);

interface Answer {
  /** 0: it has begun to work. */
  readonly id: number;
  readonly result?: Compiled;
  readonly failure?: string;
}
