import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Limits } from "../limits/limits.ts";
import type { Problem } from "../lib/problem.ts";
import { BESIDES_HEAP_MB, OwnProgram, type Confinement, type OwnCommand, type Way } from "../processes/own-program.ts";
import type { NoSandbox } from "../processes/sandbox.ts";
import { spawnDirectly, type Spawn } from "../processes/spawn/spawn.ts";
import type { CompileTask } from "./compile.ts";
import { CompilerProcess, type CompilerEnding } from "./compiler-process.ts";
import { compilerPackages, guestPackages } from "./packages.ts";
import { nothingFound, type Bundling, type Compiled, type DefinitionSource, type Discovery } from "./discovery.ts";

/**
 * Compiles definitions in a child process that is started on demand, works on one at a time, and ends when there is
 * nothing to do. What an author wrote can make the compiler run for ever or out of memory: then the child is killed,
 * that definition gets a problem, and the next one a new child. This module loads no compiler itself.
 */
export interface Compiler {
  /** Tools, problems and the bundle. Never rejects, whatever the source is. */
  compile(source: DefinitionSource): Promise<Compiled>;
  /** Tools and problems, those of bundling apart. Never rejects. */
  discover(source: DefinitionSource): Promise<Discovery & Bundling>;
  /** Ends the child; definitions that are still waiting get a problem. */
  close(): Promise<void>;
}

export type CompilerLimits = Pick<
  Limits,
  | "compileMs"
  | "compileElapsedMs"
  | "compileMemoryMb"
  | "toolBytes"
  | "contractBytes"
  | "contractValues"
  | "bundleBytes"
>;

export interface CompilerOptions {
  readonly start?: Spawn;
  /**
   * Who serves beside it lets it give way to whatever else there is to do for so long of each definition; somebody who
   * waits for nothing else does not.
   */
  readonly givesWayMs?: number;
  readonly mode?: Confinement;
  /** It works outside of the sandbox: why. Called once, before it first does. */
  readonly onTrusted?: (reason: string) => void;
}

const idleMs = 1_000;

const program = new OwnProgram({
  name: "the compiler",
  program: fileURLToPath(new URL("./compiler-child.js", import.meta.url)),
  packages: [...compilerPackages, ...guestPackages],
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
  const { start = spawnDirectly, givesWayMs = 0, mode = "auto", onTrusted } = options;
  let child: Child | undefined;
  let isTold = false;
  let queue: Promise<unknown> = Promise.resolve();
  let waiting = 0;
  let idle: NodeJS.Timeout | undefined;
  let isClosed = false;

  const run = (task: CompileTask, source: DefinitionSource): Promise<Compiled> => {
    waiting += 1;
    clearTimeout(idle);
    const result = afterOthers(queue, task, source);
    queue = result;
    return result;
  };

  const afterOthers = async (others: Promise<unknown>, task: CompileTask, source: DefinitionSource) => {
    await others;
    const compiled = await attempt(task, source);
    waiting -= 1;
    if (waiting === 0) idle = setTimeout(endChild, idleMs).unref();
    return compiled;
  };

  const attempt = async (task: CompileTask, source: DefinitionSource): Promise<Compiled> => {
    for (;;) {
      const found = child ?? (await compilerCommand(limits.compileMemoryMb, mode));
      if (isClosed) return failed(source, { kind: "closed" }, limits);
      if (!("command" in found || "process" in found))
        return failed(source, { kind: "unavailable", detail: found.reason }, limits);
      const { process, way } = (child = "process" in found ? found : startChild(found));
      const { isUsed } = process;
      const ending = await process.compile(task, source);
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
    compile: (source) => run("compile", source),
    discover: (source) => run("discover", source),
    close: async () => {
      isClosed = true;
      clearTimeout(idle);
      const last = child;
      endChild();
      await Promise.all([queue, last?.process.ended]);
    },
  };
}

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
      return { code: "compiler-output", message: `what was made of ${file} is too large: ${ending.detail}; split it` };
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
    return `${longest[0]} has ${longest[1].length} characters: keep just the code that is needed`;
  return "simplify its types (large unions, deeply computed or recursive generics), or write a plain type";
}

function howUnready({ said, exitCode }: { said: string; exitCode: number | null }): string {
  return said || `exit code ${exitCode}`;
}
