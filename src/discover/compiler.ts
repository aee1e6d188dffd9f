import { join } from "node:path";
import type { Duplex } from "node:stream";
import { fileURLToPath } from "node:url";
import type { Cid } from "../lib/cid.ts";
import { clock, type Timer } from "../lib/clock.ts";
import type { Problem } from "../lib/problem.ts";
import { fixed } from "../limits/fixed.ts";
import type { Limits } from "../limits/limits.ts";
import { SessionNiceness } from "../processes/niceness.ts";
import {
  NON_HEAP_MB,
  OwnProgram,
  type Confinement,
  type OwnCommand,
  type SandboxVariant,
} from "../processes/own-program.ts";
import {
  EXTERNAL_SIGNALS,
  ProcessGroup,
  isOutOfMemory,
  exitSignal,
  type Command,
  type Exit,
} from "../processes/process-group.ts";
import { cpuMs, residentMb, processTree } from "../processes/process-tree.ts";
import type { NoSandbox } from "../processes/sandbox.ts";
import { spawnDirectly, type Spawn } from "../processes/spawn/spawn.ts";
import type { CompileTask } from "./compile.ts";
import { BUNDLER_ENDED, frame, CompilerFrameReader, FrameTooLarge } from "./compiler-frames.ts";
import { compilerPackages } from "./compiler-packages.ts";
import {
  emptyDiscovery,
  type Bundling,
  type Compiled,
  type DefinitionSource,
  type DescribeSchemas,
  type Discovery,
  type SchemaRequest,
} from "./discovery.ts";

/** Wall-clock time after which an unfinished compilation is blamed on the machine. */
const bounds = fixed({ compileElapsedMs: 120_000 });

/**
 * Compiles definitions in a child process that is started on demand, compiles one definition at a time, and exits when
 * idle. A source can make the compiler loop forever or run out of memory: then the child is killed, that definition
 * gets a problem, and the next one gets a new child. This module loads no compiler itself.
 */
export interface Compiler {
  /** Tools, problems and the bundle. Never rejects, whatever the source is. */
  compile(source: DefinitionSource, help?: CompilerHelp): Promise<Compiled>;
  /** Tools and problems, with those of bundling separate. Never rejects. */
  discover(source: DefinitionSource, help?: CompilerHelp): Promise<Discovery & Bundling>;
  /** Ends the child; definitions in the queue get a problem. */
  close(): Promise<void>;
}

/** Services that a definition may need in addition to its source. */
export interface CompilerHelp {
  /** Reads the tarballs of the packages that it reaches. */
  readonly tarballs?: ReadTarball | undefined;
  /** Evaluates its schemas. */
  readonly describe?: DescribeSchemas | undefined;
}

/** The bytes of a package's tarball; undefined if they are missing. */
export type ReadTarball = (cid: Cid) => Promise<Uint8Array | undefined>;

export type CompilerLimits = Pick<Limits, "bundleBytes" | "compileMemoryMb" | "compileMs" | "packageUnpackedBytes">;

interface CompilerOptions {
  readonly start?: Spawn;
  /**
   * For this long, the compilation of each definition has a lower priority than all other work, and the child exits
   * soon after the last one. With 0, the default, a user is waiting: the child stays for the next save.
   */
  readonly givesWayMs?: number;
  readonly mode?: Confinement;
  /** Evaluates schemas for jobs that bring no function of their own. */
  readonly describe?: DescribeSchemas;
  /** Called once with the reason, before the compiler first runs outside of the sandbox. */
  readonly onTrusted?: (reason: string) => void;
}

const IDLE_MS = { served: 1_000, awaited: 600_000 };

const program = new OwnProgram({
  name: "the compiler",
  program: fileURLToPath(new URL("./compiler-child.js", import.meta.url)),
  packages: compilerPackages,
  files: [join("reference_templates", "berth.d.ts")],
  startsPrograms: true,
});

/**
 * The serving process shares the machine, so V8 gets one helper thread. The compiler allocates much and exits soon, so
 * it starts with a large young generation. Both together take a quarter off its time. The bundler, a Go program, gets
 * one thread, and saves memory before it reaches the limit.
 */
export function compilerCommand(memoryMb: number, mode: Confinement): Promise<OwnCommand | NoSandbox> {
  const options = ["--v8-pool-size=1", "--min-semi-space-size=16", `--max-old-space-size=${memoryMb}`];
  const env = { GOMAXPROCS: "1", GOMEMLIMIT: `${memoryMb}MiB` };
  return program.command({ memoryMb: memoryMb + NON_HEAP_MB, options, env }, mode);
}

export function openCompiler(limits: CompilerLimits, options: CompilerOptions = {}): Compiler {
  const open = (): Compiler => openOwnCompiler(limits, options);
  return substitute ? substitute(limits, open) : open();
}

let substitute: ((limits: CompilerLimits, open: () => Compiler) => Compiler) | undefined;

/** For tests: `openCompiler` returns the result of `by`, which can open the compiler that it replaces. */
export function substituteCompiler(by: typeof substitute): void {
  substitute = by;
}

function openOwnCompiler(limits: CompilerLimits, options: CompilerOptions): Compiler {
  const { start = spawnDirectly, givesWayMs: lowPriorityMs = 0, mode = "auto", onTrusted } = options;
  let child: Child | undefined;
  let isTrustReported = false;
  let queue: Promise<unknown> = Promise.resolve();
  let waiting = 0;
  let idle: Timer | undefined;
  let isClosed = false;

  const run = (task: CompileTask, source: DefinitionSource, help: CompilerHelp = {}): Promise<Compiled> => {
    waiting += 1;
    idle?.clear();
    const { tarballs = noTarball, describe = options.describe ?? noSchemas } = help;
    const result = runAfter(queue, { task, source, tarballs, describe });
    queue = result;
    return result;
  };

  const runAfter = async (previous: Promise<unknown>, job: CompileJob) => {
    await previous;
    const compiled = await attempt(job);
    waiting -= 1;
    if (waiting === 0) idle = clock.after(lowPriorityMs > 0 ? IDLE_MS.served : IDLE_MS.awaited, endChild).unref();
    return compiled;
  };

  const attempt = async (job: CompileJob): Promise<Compiled> => {
    const { source } = job;
    for (;;) {
      const childOrCommand = child ?? (await compilerCommand(limits.compileMemoryMb, mode));
      if (isClosed) return failed(source, { kind: "closed" }, limits);
      if (!("command" in childOrCommand || "process" in childOrCommand))
        return failed(source, { kind: "unavailable", detail: childOrCommand.reason }, limits);
      const { process, way } = (child = "process" in childOrCommand ? childOrCommand : startChild(childOrCommand));
      const { isUsed } = process;
      const ending = await process.compile(job);
      if (way && process.isReady) await program.works(way);
      if (ending.kind === "result") return ending.result;
      if (ending.kind !== "failure") endChild();
      if (way && ending.kind === "unready" && (await program.refused(way, ending))) continue;
      // A used process may have died of accumulated state: retry in a new one before blaming the source.
      const isInconclusive = isUsed && (ending.kind === "memory" || ending.kind === "crash");
      if (!isInconclusive || isClosed) return failed(source, ending, limits);
    }
  };

  const startChild = ({ command, way, reason }: OwnCommand): Child => {
    if (reason !== undefined && !isTrustReported) onTrusted?.(reason);
    isTrustReported ||= reason !== undefined;
    return { process: new CompilerProcess(start, command, limits, lowPriorityMs), ...(way && { way }) };
  };

  const endChild = (): void => {
    child?.process.end();
    child = undefined;
  };

  return {
    compile: (source, help) => run("compile", source, help),
    discover: (source, help) => run("discover", source, help),
    close: async () => {
      isClosed = true;
      idle?.clear();
      const last = child;
      endChild();
      await Promise.all([queue, last?.process.ended]);
    },
  };
}

interface CompileJob {
  readonly task: CompileTask;
  readonly source: DefinitionSource;
  readonly tarballs: ReadTarball;
  readonly describe: DescribeSchemas;
}

const noTarball: ReadTarball = async () => undefined;
const noSchemas: DescribeSchemas = async () => ({ fault: "nothing can be evaluated here" });

interface Child {
  readonly process: CompilerProcess;
  /** How it is sandboxed; absent outside of the sandbox. */
  readonly way?: SandboxVariant;
}

type Failure = Exclude<CompilerEnding, { kind: "result" }>;

function failed(source: DefinitionSource, ending: Failure, limits: CompilerLimits): Compiled {
  const problem: Problem = { severity: "error", file: source.entry, ...explain(source, ending, limits) };
  return { ...emptyDiscovery, problems: [problem] };
}

function explain(source: DefinitionSource, ending: Failure, limits: CompilerLimits): Pick<Problem, "code" | "message"> {
  const file = source.entry;
  const hint = suggestFix(source);
  switch (ending.kind) {
    case "timeout":
      return {
        code: "compiler-timeout",
        message: `${file} took more than ${limits.compileMs} ms of CPU time to compile (BERTH_COMPILE_MS); ${hint}`,
      };
    case "memory":
      return {
        code: "compiler-memory",
        message: `${file} took more than ${limits.compileMemoryMb} MB to compile (BERTH_COMPILE_MEMORY_MB); ${hint}`,
      };
    case "output":
      return { code: "compiler-output", message: `the output of ${file} is too large: ${ending.detail}; split it` };
    case "closed":
      return { code: "compiler-closed", message: `${file} was not compiled: the service is shutting down` };
    case "unready":
    case "unavailable": {
      const detail = ending.kind === "unready" ? `it did not start: ${describeUnready(ending)}` : ending.detail;
      return {
        code: "compiler-unavailable",
        message: `${file} was not compiled: ${detail}; try again`,
      };
    }
    default:
      return { code: "compiler-crash", message: `the compiler failed on ${file}: ${ending.detail}; ${hint}` };
  }
}

/** Code of this length was copied from a package as a whole; nobody writes it by hand. In UTF-16 code units. */
const COPIED_UNITS = 200_000;

function suggestFix({ files }: DefinitionSource): string {
  const [longest] = Object.entries(files).sort(([, one], [, other]) => other.length - one.length);
  if (longest && longest[1].length > COPIED_UNITS)
    return `${longest[0]} has ${longest[1].length} characters: keep only the code that you need`;
  return "simplify its types (large unions, deeply computed or recursive generics), or write a plain type";
}

function describeUnready({ said, exitCode }: { said: string; exitCode: number | null }): string {
  return said || `exit code ${exitCode}`;
}

/** How a compilation ended. After anything but `result` and `failure`, the process has exited. */
type CompilerEnding =
  | { readonly kind: "result"; readonly result: Compiled }
  /** The compiler failed on the source. */
  | { readonly kind: "failure" | "crash"; readonly detail: string }
  /** The source exceeds a limit. */
  | { readonly kind: "output"; readonly detail: string }
  | { readonly kind: "timeout" | "memory" }
  /** The machine, or whoever ended the process, is at fault; the source is not. */
  | { readonly kind: "unavailable"; readonly detail: string }
  | { readonly kind: "closed" }
  /** The process exited before it could receive a job. */
  | { readonly kind: "unready"; readonly exitCode: number | null; readonly said: string };

/** Calls are more urgent than saves: this niceness leaves the compiler half of a normal process's CPU share. */
const NICENESS = 3;
/** The initial niceness of its session. A higher value delays compilation and hardly speeds up calls. */
const SESSION_NICENESS = 7;
/** A bundle as JSON, with a contract and problems. */
const frameBytesMax = 24 * 1024 * 1024;
const stderrCharsMax = 4_000;
const endMs = 500;
/** The interval between measurements of its resource use, and its minimum when little CPU time is left. */
const POLL_MS = 100;
const POLL_MS_MIN = 10;

/** One compiler child. It runs only Berth's own code, but may not survive the source that it reads. */
class CompilerProcess {
  isUsed = false;
  /** It has reported that it is running. */
  isReady = false;
  /** Resolves when the process has exited. */
  readonly ended: Promise<void>;
  readonly #limits: CompilerLimits;
  readonly #reader = new CompilerFrameReader(frameBytesMax);
  readonly #session: SessionNiceness | undefined;
  readonly #group: ProcessGroup;
  /** The pipe for jobs; undefined until the process has started. */
  #pipe: Duplex | undefined;
  #unsent: string | undefined;
  #stderr = "";
  #finish: ((ending: CompilerEnding) => void) | undefined;
  /** Reads the packages of the current job. */
  #tarballs: ReadTarball = noTarball;
  #describe: DescribeSchemas = noSchemas;
  #tarballCids: ReadonlySet<Cid | undefined> = new Set();
  #jobs = 0;
  #ending: CompilerEnding | undefined;

  /** For the first `lowPriorityMs` of each definition, every other process has priority. */
  constructor(start: Spawn, command: Command, limits: CompilerLimits, lowPriorityMs: number) {
    this.#limits = limits;
    const session = { niceness: SESSION_NICENESS, forMs: lowPriorityMs, otherwise: NICENESS };
    this.#session = lowPriorityMs > 0 ? new SessionNiceness(() => this.#pid, session) : undefined;
    let resolveEnded!: () => void;
    this.ended = new Promise((resolve) => (resolveEnded = resolve));
    const stdio = ["ignore", "ignore", "pipe", "pipe", "pipe"] as const;
    this.#group = new ProcessGroup(start, { ...command, niceness: NICENESS }, stdio, {
      onStarted: ([, , stderr, jobs, answers]) => this.#begin(stderr!, jobs!, answers!),
      onEnded: (exit) => {
        this.#ending = this.#classifyExit(exit);
        this.#finish?.(this.#ending);
        resolveEnded();
      },
    });
  }

  /** One at a time; never rejects. */
  compile({ task, source, tarballs, describe }: CompileJob): Promise<CompilerEnding> {
    return new Promise((resolve) => {
      if (this.#ending) return resolve(this.#ending);
      this.#tarballs = tarballs;
      this.#describe = describe;
      this.#tarballCids = new Set(Object.values(source.packages?.packages ?? {}).map(({ tarball }) => tarball));
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
      const { bundleBytes, packageUnpackedBytes } = this.#limits;
      const job = frame({ id: this.#jobs, task, source, bundleBytes, packageUnpackedBytes });
      if (this.#pipe) this.#pipe.write(job);
      else this.#unsent = job;
    });
  }

  /** Lets it exit on its own; kills it if it is busy or does not exit in time. */
  end(): void {
    if (this.#ending) return;
    if (this.#finish || !this.#pipe) this.#group.kill();
    this.#finish?.({ kind: "closed" });
    this.#pipe?.end();
    const timer = setTimeout(() => this.#group.kill(), endMs);
    void this.ended.then(() => clearTimeout(timer));
  }

  get #pid(): number | undefined {
    return this.#ending ? undefined : this.#group.pid;
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

  /** Polls the resource use of the process and its bundler until the job ends. */
  #watch(): { end(): void } {
    const { compileMs, compileMemoryMb } = this.#limits;
    const { compileElapsedMs } = bounds;
    const before = this.#pid === undefined ? 0 : cpuMs(processTree(this.#pid));
    let usedMs = 0;
    const stop = (ending: CompilerEnding): void => {
      this.#finish?.(ending);
      this.#group.kill();
    };
    const poll = (): void => {
      const pids = this.#pid === undefined ? [] : processTree(this.#pid);
      usedMs = Math.max(usedMs, cpuMs(pids) - before);
      if (usedMs > compileMs) return stop({ kind: "timeout" });
      if (residentMb(pids) > 2 * compileMemoryMb + NON_HEAP_MB) return stop({ kind: "memory" });
      pollTimer = clock.after(nextPollMs(), poll);
    };
    const nextPollMs = (): number => Math.max(POLL_MS_MIN, Math.min(POLL_MS, compileMs - usedMs));
    let pollTimer = clock.after(nextPollMs(), poll);
    const detail = (): string => `it got only ${usedMs} ms of CPU time in ${compileElapsedMs} ms`;
    const elapsedTimer = clock.after(compileElapsedMs, () => stop({ kind: "unavailable", detail: detail() }));
    return {
      end: () => {
        pollTimer.clear();
        elapsedTimer.clear();
      },
    };
  }

  #receive(chunk: Buffer): void {
    try {
      for (const answer of this.#reader.push(chunk) as Answer[]) {
        if (answer.id === 0) this.isReady = true;
        if (answer.id !== this.#jobs) continue;
        if (answer.wants) void this.#sendTarballs(answer.wants);
        else if (answer.describe) void this.#evaluate(answer.describe);
        else if (answer.result) this.#finish?.({ kind: "result", result: answer.result });
        else this.#finish?.({ kind: "failure", detail: answer.failure ?? "it did not answer" });
      }
    } catch (error) {
      const detail = (error as Error).message;
      this.#finish?.({ kind: error instanceof FrameTooLarge ? "output" : "crash", detail });
      this.#group.kill();
    }
  }

  /** Sequentially: together they may be large. */
  async #sendTarballs(wants: readonly Cid[]): Promise<void> {
    const job = this.#jobs;
    for (const tarball of wants) {
      // Only packages of this definition: the child processes untrusted input.
      const isReached = this.#tarballCids.has(tarball);
      const bytes = isReached ? await this.#tarballs(tarball).catch(() => undefined) : undefined;
      if (this.#ending || job !== this.#jobs || !this.#pipe) return;
      this.#pipe.write(frame({ tarball, ...(bytes && { bytes: bytes.length }) }));
      if (bytes) this.#pipe.write(bytes);
    }
  }

  async #evaluate({ bundle, request }: NonNullable<Answer["describe"]>): Promise<void> {
    const job = this.#jobs;
    const described = await this.#describe(bundle, request).catch((error: Error) => ({
      fault: error.message,
      isPassing: true,
    }));
    if (!this.#ending && job === this.#jobs) this.#pipe?.write(frame({ described }));
  }

  #classifyExit(exit: Exit): CompilerEnding {
    const { code, startError } = exit;
    if (startError) {
      const { code = "no reason given" } = startError as NodeJS.ErrnoException;
      if (noProgram.has(code)) return { kind: "unready", exitCode: 127, said: code };
      return { kind: "unavailable", detail: `its process could not be started (${code})` };
    }
    const how = exitSignal(exit) ?? `exit code ${code}`;
    if (!this.isReady && !EXTERNAL_SIGNALS.has(how)) {
      return { kind: "unready", exitCode: code, said: this.#stderr.trim().split("\n")[0]! };
    }
    if (isOutOfMemory(this.#stderr)) return { kind: "memory" };
    if (EXTERNAL_SIGNALS.has(how))
      return { kind: "unavailable", detail: `its process was killed from outside (${how})` };
    if (shortage.test(this.#stderr)) return { kind: "unavailable", detail: "the system refused to start more threads" };
    if (code === BUNDLER_ENDED && !/^(?:panic|fatal error):/m.test(this.#stderr))
      return { kind: "unavailable", detail: "its bundler was killed from outside" };
    return { kind: "crash", detail: `its process ended with ${how}` };
  }
}

const shortage = /Resource temporarily unavailable|failed to create new OS thread/;
/** The program does not exist, or cannot run as the intended user. */
const noProgram: ReadonlySet<string> = new Set(["ENOENT", "EACCES", "EPERM"]);

interface Answer {
  /** 0: the child is running. */
  readonly id: number;
  readonly result?: Compiled;
  readonly failure?: string;
  /** The tarballs that the job needs. */
  readonly wants?: readonly Cid[];
  /** The schemas that the job needs evaluated. */
  readonly describe?: { readonly bundle: string; readonly request: SchemaRequest };
}
