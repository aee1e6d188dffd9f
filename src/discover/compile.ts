import { shortProblems, type Problem } from "../lib/problem.ts";
import { bundleDefinition } from "./bundle.ts";
import type { Bundling, Compiled, ContractLimits, DefinitionSource, Discovery } from "./discovery.ts";
import { discoverShell } from "./shell.ts";

/** Everything the compiler's child does with a definition. `discover` leaves out the bundle, and tells apart what is wrong with it. */
export type CompileTask = "compile" | "discover";

/**
 * Discovery and bundling of one definition, in this process. An import that cannot be bundled leaves no bundle, and
 * nothing of the definition can then run; the tools that its types describe are still told. Of its problems no more leave
 * this process than are ever shown.
 */
export async function compileDefinition(
  task: CompileTask,
  source: DefinitionSource,
  limits?: ContractLimits,
): Promise<Compiled & Bundling> {
  const found = await findAll(source, limits);
  if (found.problems.some(({ code }) => code === "syntax-error" || code === "nothing-exported")) {
    return { ...found, problems: shortProblems(found.problems) };
  }
  const bundled = await bundleDefinition(source, limits?.bundleBytes);
  if (task === "discover") {
    const bundling = distinct([...found.problems, ...bundled.problems]).slice(distinct(found.problems).length);
    return { ...found, problems: shortProblems(found.problems), bundling: shortProblems(bundling) };
  }
  return {
    ...found,
    problems: shortProblems(distinct([...found.problems, ...bundled.problems])),
    ...(bundled.bundle === undefined ? {} : { bundle: bundled.bundle }),
  };
}

/** The checker is loaded for what needs it. */
async function findAll(source: DefinitionSource, limits: ContractLimits | undefined): Promise<Discovery> {
  if (source.language === "shell") return discoverShell(source);
  const { discover } = await import("./discover.ts");
  return discover(source, limits);
}

function distinct(problems: readonly Problem[]): Problem[] {
  return [...new Map(problems.map((problem) => [JSON.stringify(problem), problem])).values()];
}
