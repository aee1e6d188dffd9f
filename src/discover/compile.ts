import { shortProblems, type Problem } from "../lib/problem.ts";
import { bundleDefinition } from "./bundle.ts";
import {
  nothingFound,
  type Bundling,
  type Compiled,
  type ContractLimits,
  type DefinitionSource,
  type Discovery,
} from "./discovery.ts";
import type { PackageFiles } from "./package-files.ts";
import { discoverShell } from "./shell.ts";

/** Everything the compiler's child does with a definition. `discover` leaves out the bundle, and tells apart what is wrong with it. */
export type CompileTask = "compile" | "discover";

/**
 * Discovery and bundling of one definition, in this process. An import that cannot be bundled leaves no bundle, and
 * nothing of the definition can then run; the tools that its types describe are still told. Of its problems no more leave
 * this process than are ever shown. `packages` are those that it reaches, or why they cannot be used.
 */
export async function compileDefinition(
  task: CompileTask,
  source: DefinitionSource,
  limits?: ContractLimits,
  packages?: PackageFiles | string,
): Promise<Compiled & Bundling> {
  if (typeof packages === "string") {
    const problem: Problem = { code: "package-refused", message: sentence(packages), severity: "error" };
    return { ...nothingFound, problems: [{ ...problem, file: source.entry }] };
  }
  const found = await findAll(source, limits, packages);
  if (found.problems.some(({ code }) => code === "syntax-error" || code === "nothing-exported")) {
    return { ...found, problems: shortProblems(found.problems) };
  }
  const bundled = await bundleDefinition(source, limits?.bundleBytes, packages);
  if (task === "discover") {
    const bundling = distinct([...found.problems, ...bundled.problems]).slice(distinct(found.problems).length);
    return { ...found, problems: shortProblems(found.problems), bundling: shortProblems(bundling) };
  }
  return {
    ...found,
    problems: shortProblems(distinct([...found.problems, ...bundled.problems])),
    ...(bundled.bundle === undefined ? {} : { bundle: bundled.bundle }),
    ...(bundled.packages && { packages: bundled.packages }),
  };
}

/** The checker is loaded for what needs it. */
async function findAll(
  source: DefinitionSource,
  limits: ContractLimits | undefined,
  packages: PackageFiles | undefined,
): Promise<Discovery> {
  if (source.language === "shell") return discoverShell(source);
  const { discover } = await import("./discover.ts");
  return discover(source, limits, packages);
}

function sentence(text: string): string {
  return `${text[0]!.toUpperCase()}${text.slice(1)}.`;
}

function distinct(problems: readonly Problem[]): Problem[] {
  return [...new Map(problems.map((problem) => [JSON.stringify(problem), problem])).values()];
}
