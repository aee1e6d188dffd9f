import { once } from "node:events";
import { request, type IncomingMessage } from "node:http";
import { text } from "node:stream/consumers";
import type { CompileTask } from "../../src/discover/compile.ts";
import { substituteCompiler, type Compiler, type CompilerHelp } from "../../src/discover/compiler.ts";
import type { Bundling, Compiled, DefinitionSource } from "../../src/discover/discovery.ts";
import { QUICK_COMPILE_MS } from "../../src/host/catalog/compile-queue.ts";
import { defaultLimits } from "../../src/limits/limits.ts";

/**
 * Berth's compiler for tests that are not about its start: a test run has a warm one (`compiler-server.ts`), since each
 * process with a compiler of its own begins with a second of work.
 */
export function compile(source: DefinitionSource): Promise<Compiled> {
  return compileWarm("compile", source);
}

/** `isUnevaluated`: it has schemas, for which the warm compiler has no guests. */
type WarmlyCompiled = Compiled & Bundling & { readonly isUnevaluated?: true };

async function compileWarm(task: CompileTask, source: DefinitionSource): Promise<WarmlyCompiled> {
  const socketPath = process.env["TEST_COMPILER"];
  if (socketPath === undefined) return (await import("../../src/discover/compile.ts")).compileDefinition(task, source);
  const sent = request({ socketPath, method: "POST", path: `/${task}`, agent: false });
  sent.end(JSON.stringify(source));
  const [response] = (await once(sent, "response")) as [IncomingMessage];
  const body = await text(response);
  if (response.statusCode !== 200) throw new Error(`the compiler failed: ${body}`);
  return JSON.parse(body) as WarmlyCompiled;
}

/**
 * Has every Berth of this process use the warm compiler, except for packages and schemas and where a test lowers a limit. A test about
 * the compiler's process sets BERTH_TEST_OWN_COMPILER.
 */
export function shareCompiler(): void {
  substituteCompiler((limits, open) => {
    const { TEST_COMPILER, BERTH_TEST_OWN_COMPILER } = process.env;
    const { bundleBytes, compileMemoryMb } = defaultLimits;
    const isUsual =
      limits.compileMs >= QUICK_COMPILE_MS &&
      limits.bundleBytes === bundleBytes &&
      limits.compileMemoryMb === compileMemoryMb;
    if (!TEST_COMPILER || BERTH_TEST_OWN_COMPILER || !isUsual) return open();
    let own: Compiler | undefined;
    const run = async (
      task: CompileTask,
      source: DefinitionSource,
      help?: CompilerHelp,
    ): Promise<Compiled & Bundling> => {
      const compiled = source.packages ? undefined : await compileWarm(task, source);
      return compiled && !compiled.isUnevaluated ? compiled : (own ??= open())[task](source, help);
    };
    return {
      compile: (source, help) => run("compile", source, help),
      discover: (source, help) => run("discover", source, help),
      close: async () => own?.close(),
    };
  });
}
