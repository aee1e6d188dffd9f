import { join } from "node:path";
import type { Duplex } from "node:stream";
import { fileURLToPath } from "node:url";
import type { Cid } from "../lib/cid.ts";
import { clock, type Timer } from "../lib/clock.ts";
import type { Problem } from "../lib/problem.ts";
import { fixed } from "../limits/fixed.ts";
import type { Limits } from "../limits/limits.ts";
import { SessionNiceness } from "../processes/niceness.ts";
import { BESIDES_HEAP_MB, OwnProgram, type Confinement, type OwnCommand, type Way } from "../processes/own-program.ts";
import {
  FROM_OUTSIDE,
  ProcessGroup,
  saysOutOfMemory,
  signalOf,
  type Command,
  type Exit,
} from "../processes/process-group.ts";
import { processorMsOf, residentMbOf, treeOf } from "../processes/process-tree.ts";
import type { NoSandbox } from "../processes/sandbox.ts";
import { spawnDirectly, type Spawn } from "../processes/spawn/spawn.ts";
import type { CompileTask } from "./compile.ts";
import { BUNDLER_ENDED, frame, CompilerFrameReader, FrameTooLarge } from "./compiler-frames.ts";
import { compilerPackages } from "./compiler-packages.ts";
import {
  nothingFound,
  type Bundling,
  type Compiled,
  type DefinitionSource,
  type DescribeSchemas,
  type Discovery,
  type SchemaRequest,
} from "./discovery.ts";

/** Time after which the machine is to blame if a definition is not compiled. */
const bounds = fixed({ compileElapsedMs: 120_000 });

/**
 * Compiles definitions in a child process that is started on demand, works on one at a time, and ends when there is
 * nothing to do. What an author wrote can make the compiler run for ever or out of memory: then the child is killed,
 * that definition gets a problem, and the next one a new child. This module loads no compiler itself.
 */
export interface Compiler {
  /** Tools, problems and the bundle. Never rejects, whatever the source is. */
  compile(source: DefinitionSource, help?: CompilerHelp): Promise<Compiled>;
  /** Tools and problems, those of bundling apart. Never rejects. */
  discover(source: DefinitionSource, help?: CompilerHelp): Promise<Discovery & Bundling>;
  /** Ends the child; definitions that are still waiting get a problem. */
  close(): Promise<void>;
}

/** Services that a definition may need in addition to its source. */
export interface CompilerHelp {
  /** Reads the tarballs of the packages that it reaches. */
  readonly tarballs?: ReadTarball | undefined;
  /** Evaluates its schemas. */
  readonly describe?: DescribeSchemas | undefined;
}

/** The bytes of a package's tarball; undefined where they are missing. */
export type ReadTarball = (cid: Cid) => Promise<Uint8Array | undefined>;

export type CompilerLimits = Pick<Limits, "bundleBytes" | "compileMemoryMb" | "compileMs" | "packageUnpackedBytes">;

interface CompilerOptions {
  readonly start?: Spawn;
  /**
   * For so long of each definition it gives way to whatever is served beside it, and ends soon after the last one. With 0,
   * the default, somebody waits for nothing else: it stays for the next save.
   */
  readonly givesWayMs?: number;
  readonly mode?: Confinement;
  /** Evaluates schemas, where a job does not say who does. */
  readonly describe?: DescribeSchemas;
  /** It works outside of the sandbox: why. Called once, before it first does. */
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
 * Whatever serves is beside it, and has not many cores: one thread helps its own, which is enough. It makes much and
 * ends soon, so that it begins with room for that. It takes a quarter less time for both. The bundler has one thread, and
 * begins to save memory before it has none left.
 */
export function compilerCommand(memoryMb: number, mode: Confinement): Promise<OwnCommand | NoSandbox> {
  const options = ["--v8-pool-size=1", "--min-semi-space-size=16", `--max-old-space-size=${memoryMb}`];
  const env = { GOMAXPROCS: "1", GOMEMLIMIT: `${memoryMb}MiB` };
  return program.command({ memoryMb: memoryMb + BESIDES_HEAP_MB, options, env }, mode);
}

export function openCompiler(limits: CompilerLimits, options: CompilerOptions = {}): Compiler {
  const open = (): Compiler => openOwnCompiler(limits, options);
  return substitute ? substitute(limits, open) : open();
}

let substitute: ((limits: CompilerLimits, open: () => Compiler) => Compiler) | undefined;

/** For tests: `openCompiler` returns what `by` does, which can open the compiler that it replaces. */
export function substituteCompiler(by: typeof substitute): void {
  substitute = by;
}

function openOwnCompiler(limits: CompilerLimits, options: CompilerOptions): Compiler {
  const { start = spawnDirectly, givesWayMs = 0, mode = "auto", onTrusted } = options;
  let child: Child | undefined;
  let isTold = false;
  let queue: Promise<unknown> = Promise.resolve();
  let waiting = 0;
  let idle: Timer | undefined;
  let isClosed = false;

  const run = (task: CompileTask, source: DefinitionSource, help: CompilerHelp = {}): Promise<Compiled> => {
    waiting += 1;
    idle?.clear();
    const { tarballs = noTarball, describe = options.describe ?? noSchemas } = help;
    const result = afterOthers(queue, { task, source, tarballs, describe });
    queue = result;
    return result;
  };

  const afterOthers = async (others: Promise<unknown>, job: CompileJob) => {
    await others;
    const compiled = await attempt(job);
    waiting -= 1;
    if (waiting === 0) idle = clock.after(givesWayMs > 0 ? IDLE_MS.served : IDLE_MS.awaited, endChild).unref();
    return compiled;
  };

  const attempt = async (job: CompileJob): Promise<Compiled> => {
    const { source } = job;
    for (;;) {
      const found = child ?? (await compilerCommand(limits.compileMemoryMb, mode));
      if (isClosed) return failed(source, { kind: "closed" }, limits);
      if (!("command" in found || "process" in found))
        return failed(source, { kind: "unavailable", detail: found.reason }, limits);
      const { process, way } = (child = "process" in found ? found : startChild(found));
      const { isUsed } = process;
      const ending = await process.compile(job);
      if (way && process.isReady) await program.works(way);
      if (ending.kind === "result") return ending.result;
      if (ending.kind !== "failure") endChild();
      if (way && ending.kind === "unready" && (await program.refused(way, ending))) continue;
      // A process that has worked before may have died of what it had kept: only a fresh one tells.
      const isUnfair = isUsed && (ending.kind === "memory" || ending.kind === "crash");
      if (!isUnfair || isClosed) return failed(source, ending, limits);
    }
  };

  const startChild = ({ command, way, reason }: OwnCommand): Child => {
    if (reason !== undefined && !isTold) onTrusted?.(reason);
    isTold ||= reason !== undefined;
    return { process: new CompilerProcess(start, command, limits, givesWayMs), ...(way && { way }) };
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
  /** In the sandbox: how. */
  readonly way?: Way;
}

type Failure = Exclude<CompilerEnding, { kind: "result" }>;

function failed(source: DefinitionSource, ending: Failure, limits: CompilerLimits): Compiled {
  const problem: Problem = { severity: "error", file: source.entry, ...explain(source, ending, limits) };
  return { ...nothingFound, problems: [problem] };
}

function explain(source: DefinitionSource, ending: Failure, limits: CompilerLimits): Pick<Problem, "code" | "message"> {
  const file = source.entry;
  const remedy = remedyFor(source);
  switch (ending.kind) {
    case "timeout":
      return {
        code: "compiler-timeout",
        message: `${file} took more than ${limits.compileMs} ms of processor time to compile (BERTH_COMPILE_MS); ${remedy}`,
      };
    case "memory":
      return {
        code: "compiler-memory",
        message: `${file} took more than ${limits.compileMemoryMb} MB to compile (BERTH_COMPILE_MEMORY_MB); ${remedy}`,
      };
    case "output":
      return { code: "compiler-output", message: `the output of ${file} is too large: ${ending.detail}; split it` };
    case "closed":
      return { code: "compiler-closed", message: `${file} was not compiled: the service is shutting down` };
    case "unready":
    case "unavailable": {
      const detail = ending.kind === "unready" ? `it did not start: ${howUnready(ending)}` : ending.detail;
      return {
        code: "compiler-unavailable",
        message: `${file} was not compiled: ${detail}; try again`,
      };
    }
    default:
      return { code: "compiler-crash", message: `the compiler failed on ${file}: ${ending.detail}; ${remedy}` };
  }
}

/** Code that was copied from a package as a whole is far longer than what anybody writes. */
const COPIED_UNITS = 200_000;

function remedyFor({ files }: DefinitionSource): string {
  const [longest] = Object.entries(files).sort(([, one], [, other]) => other.length - one.length);
  if (longest && longest[1].length > COPIED_UNITS)
    return `${longest[0]} has ${longest[1].length} characters: keep only the code that you need`;
  return "simplify its types (large unions, deeply computed or recursive generics), or write a plain type";
}

function howUnready({ said, exitCode }: { said: string; exitCode: number | null }): string {
  return said || `exit code ${exitCode}`;
}

/** How a definition's compilation ended. After all but `result` and `failure` the process is gone. */
type CompilerEnding =
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
class CompilerProcess {
  isUsed = false;
  /** It has begun to work. */
  isReady = false;
  /** Resolves when the process is gone. */
  readonly ended: Promise<void>;
  readonly #limits: CompilerLimits;
  readonly #reader = new CompilerFrameReader(frameBytesMax);
  readonly #session: SessionNiceness | undefined;
  readonly #group: ProcessGroup;
  /** Where jobs go; undefined until the process has been started. */
  #pipe: Duplex | undefined;
  #unsent: string | undefined;
  #stderr = "";
  #finish: ((ending: CompilerEnding) => void) | undefined;
  /** The packages of the job under way. */
  #tarballs: ReadTarball = noTarball;
  #describe: DescribeSchemas = noSchemas;
  #inReach: ReadonlySet<Cid | undefined> = new Set();
  #jobs = 0;
  #gone: CompilerEnding | undefined;

  /** `givesWayMs`: for so long of each definition others go first, wherever they are. */
  constructor(start: Spawn, command: Command, limits: CompilerLimits, givesWayMs: number) {
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
  compile({ task, source, tarballs, describe }: CompileJob): Promise<CompilerEnding> {
    return new Promise((resolve) => {
      if (this.#gone) return resolve(this.#gone);
      this.#tarballs = tarballs;
      this.#describe = describe;
      this.#inReach = new Set(Object.values(source.packages?.packages ?? {}).map(({ tarball }) => tarball));
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
    const { compileMs, compileMemoryMb } = this.#limits;
    const { compileElapsedMs } = bounds;
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
      looking = clock.after(nextLook(), look);
    };
    const nextLook = (): number => Math.max(LOOK_MS_MIN, Math.min(LOOK_MS, compileMs - usedMs));
    let looking = clock.after(nextLook(), look);
    const detail = (): string => `the machine has given it ${usedMs} ms of processor time in ${compileElapsedMs} ms`;
    const waiting = clock.after(compileElapsedMs, () => stop({ kind: "unavailable", detail: detail() }));
    return {
      end: () => {
        looking.clear();
        waiting.clear();
      },
    };
  }

  #receive(chunk: Buffer): void {
    try {
      for (const answer of this.#reader.push(chunk) as Answer[]) {
        if (answer.id === 0) this.isReady = true;
        if (answer.id !== this.#jobs) continue;
        if (answer.wants) void this.#send(answer.wants);
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

  /** One after the other: together they may be large. */
  async #send(wants: readonly Cid[]): Promise<void> {
    const job = this.#jobs;
    for (const tarball of wants) {
      // Nothing but packages of this definition: the child reads what others wrote.
      const isInReach = this.#inReach.has(tarball);
      const bytes = isInReach ? await this.#tarballs(tarball).catch(() => undefined) : undefined;
      if (this.#gone || job !== this.#jobs || !this.#pipe) return;
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
    if (!this.#gone && job === this.#jobs) this.#pipe?.write(frame({ described }));
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
    if (FROM_OUTSIDE.has(how)) return { kind: "unavailable", detail: `its process was killed from outside (${how})` };
    if (shortage.test(this.#stderr)) return { kind: "unavailable", detail: "the system let it start no more threads" };
    if (code === BUNDLER_ENDED && !/^(?:panic|fatal error):/m.test(this.#stderr))
      return { kind: "unavailable", detail: "its bundler was killed from outside" };
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
  /** The tarballs that it needs for the job. */
  readonly wants?: readonly Cid[];
  /** The schemas that it needs evaluated for the job. */
  readonly describe?: { readonly bundle: string; readonly request: SchemaRequest };
}
