import { codeFrame, positionAt } from "../lib/code-frame.ts";
import { distinctProblems, type Problem, shortProblems } from "../lib/problem.ts";
import { packageName } from "../packages/package-name.ts";
import { bundleDefinition } from "./bundle.ts";
import { nothingFound, type Bundling, type Compiled, type DefinitionSource, type Discovery } from "./discovery.ts";
import { importsIn } from "./imports.ts";
import type { PackageFiles } from "./package-files.ts";
import { isCode, isDeclarations } from "./resolve.ts";
import { discoverShell } from "./shell.ts";
import { isSkillFile } from "./skill-files.ts";

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
  bundleBytes?: number,
  packages?: PackageFiles | string,
): Promise<Compiled & Bundling> {
  if (typeof packages === "string") {
    const problem: Problem = { code: "package-refused", message: sentence(packages), severity: "error" };
    return { ...nothingFound, problems: [{ ...problem, file: source.entry, ...importNamedIn(packages, source) }] };
  }
  const found = await withSkills(source, await findAll(withoutSkillCode(source), packages));
  if (found.problems.some(({ code }) => UNBUNDLED.has(code))) {
    return { ...found, problems: shortProblems(found.problems) };
  }
  const bundled = await bundleDefinition(withoutSkillCode(source), bundleBytes, packages);
  if (task === "discover") {
    const bundling = distinctProblems([...found.problems, ...bundled.problems]).slice(
      distinctProblems(found.problems).length,
    );
    return { ...found, problems: shortProblems(found.problems), bundling: shortProblems(bundling) };
  }
  return {
    ...found,
    problems: shortProblems(distinctProblems([...found.problems, ...bundled.problems])),
    ...(bundled.bundle === undefined ? {} : { bundle: bundled.bundle }),
    ...(bundled.packages && { packages: bundled.packages }),
  };
}

/** The place of the import of a package that a text names as `name@version`. */
function importNamedIn(text: string, { files }: DefinitionSource): Partial<Problem> {
  for (const [file, code] of Object.entries(files).filter(([name]) => isCode(name))) {
    const found = importsIn(code).find(({ specifier }) => text.includes(` ${packageName(specifier)}@`));
    if (!found) continue;
    const { line, column, lineText } = positionAt(code, found.offset);
    return { file, line, column, frame: codeFrame(lineText, line, column, found.specifier.length + 2) };
  }
  return {};
}

/** Problems after which the bundler would report nothing new. */
const UNBUNDLED: ReadonlySet<string> = new Set([
  "nothing-exported",
  "repeated-declaration",
  "syntax-error",
  "too-many-declarations",
]);

/** Scripts of skills are for the hosts of clients: no part of the program, and of other rules. Their texts can be imported. */
function withoutSkillCode(source: DefinitionSource): DefinitionSource {
  const files = Object.entries(source.files).filter(
    ([path]) => !(isSkillFile(path) && (isCode(path) || isDeclarations(path))),
  );
  return { ...source, files: Object.fromEntries(files) };
}

/** The reader of YAML is loaded for what needs it. */
async function withSkills(source: DefinitionSource, found: Discovery): Promise<Discovery> {
  if (!Object.keys(source.files).some(isSkillFile)) return found;
  const { findSkills } = await import("./skills.ts");
  const { skills, problems } = findSkills(source);
  return { ...found, problems: [...found.problems, ...problems], ...(skills.length > 0 && { skills }) };
}

/** The checker is loaded for what needs it. */
async function findAll(source: DefinitionSource, packages: PackageFiles | undefined): Promise<Discovery> {
  if (source.language === "shell") return discoverShell(source);
  const { discover } = await import("./discover.ts");
  return discover(source, packages);
}

function sentence(text: string): string {
  return `${text[0]!.toUpperCase()}${text.slice(1)}.`;
}
