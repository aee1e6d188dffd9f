import type { Limits } from "../limits.ts";
import type { Problem } from "../problem.ts";
import { startDirectly, type Start } from "../starter/starter.ts";
import type { CompileTask } from "./compile.ts";
import { CompilerProcess, type Ending } from "./compiler-process.ts";
import { nothingFound, type Compiled, type DefinitionSource, type Discovery } from "./discovery.ts";

/**
 * Compiles definitions in a child process that is started on demand, works on one at a time, and ends when there is
 * nothing to do. What an author wrote can make the compiler run for ever or out of memory: then the child is killed,
 * that definition gets a problem, and the next one a new child. This module loads no compiler itself.
 */
export interface Compiler {
  /** Tools, problems and the bundle. Never rejects, whatever the source is. */
  compile(source: DefinitionSource): Promise<Compiled>;
  /** Tools and problems alone: imports that only bodies use are not looked at. Never rejects. */
  discover(source: DefinitionSource): Promise<Discovery>;
  /** Ends the child; definitions that are still waiting get a problem. */
  close(): Promise<void>;
}

export type CompilerLimits = Pick<Limits, "compileMs" | "compileMemoryMb">;

const idleMs = 1_000;

/**
 * Who serves beside it lets it give way to whatever else there is to do for the first `givesWayMs` of each definition;
 * somebody who waits for nothing else does not.
 */
export function openCompiler(limits: CompilerLimits, start: Start = startDirectly, givesWayMs = 0): Compiler {
  let child: CompilerProcess | undefined;
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
      if (isClosed) return failed(source, { kind: "closed" }, limits);
      child ??= new CompilerProcess(start, limits.compileMemoryMb, givesWayMs);
      const { isUsed } = child;
      const ending = await child.compile(task, source, limits.compileMs);
      if (ending.kind === "result") return ending.result;
      if (ending.kind !== "failure") endChild();
      // A process that has worked before may have died of what it had kept: only a fresh one tells.
      const isUnfair = isUsed && (ending.kind === "memory" || ending.kind === "crash");
      if (!isUnfair || isClosed) return failed(source, ending, limits);
    }
  };

  const endChild = (): void => {
    child?.end();
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
      await Promise.all([queue, last?.ended]);
    },
  };
}

type Failure = Exclude<Ending, { kind: "result" }>;

function failed(source: DefinitionSource, ending: Failure, limits: CompilerLimits): Compiled {
  const problem: Problem = { severity: "error", file: source.entry, ...explain(source.entry, ending, limits) };
  return { ...nothingFound, problems: [problem] };
}

function explain(file: string, ending: Failure, limits: CompilerLimits): Pick<Problem, "code" | "message"> {
  const remedy = "simplify its types (large unions, deeply computed or recursive generics), or write a plain type";
  switch (ending.kind) {
    case "timeout":
      return {
        code: "compiler-timeout",
        message: `${file} took longer than ${limits.compileMs} ms to compile (BERTH_COMPILE_MS); ${remedy}`,
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
    default:
      return { code: "compiler-crash", message: `the compiler failed on ${file}: ${ending.detail}; ${remedy}` };
  }
}
