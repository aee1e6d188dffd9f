import { codeFrame, positionAt } from "../lib/code-frame.ts";
import { distinctProblems, type Problem, shortProblems } from "../lib/problem.ts";
import { packageName } from "../packages/package-name.ts";
import { bundleDefinition } from "./bundle/bundle.ts";
import {
  nothingFound,
  type Bundling,
  type Compiled,
  type DefinitionSource,
  type DescribeSchemas,
  type Discovery,
  type SchemaRequest,
} from "./discovery.ts";
import { importsIn, VALIBOT_CONVERTER } from "./files/imports.ts";
import { isCode, isDeclarations } from "./files/resolve.ts";
import { isSkillFile } from "./files/skill-files.ts";
import type { PackageFiles } from "./packages/package-files.ts";
import { discoverShell } from "./shell/shell.ts";
import { readDescribed, undescribed } from "./typescript/described-schemas.ts";
import type { BegunDiscovery } from "./typescript/discover.ts";
import { HANDLERS } from "./typescript/handlers.ts";

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
  describe?: DescribeSchemas,
): Promise<Compiled & Bundling> {
  if (typeof packages === "string") {
    const problem: Problem = { code: "package-refused", message: sentence(packages), severity: "error" };
    return { ...nothingFound, problems: [{ ...problem, file: source.entry, ...importNamedIn(packages, source) }] };
  }
  const program = withoutSkillCode(source);
  const begun = await beginAll(program, packages);
  const asked = begun.schemas?.request;
  if (!asked && begun.discovery.problems.some(({ code }) => UNBUNDLED.has(code))) {
    const found = await withSkills(source, begun.discovery);
    return { ...found, problems: shortProblems(found.problems) };
  }
  const request = asked && { ...asked, handlers: HANDLERS, converters: convertersIn(source) };
  const bundled = await bundleDefinition(
    request ? withSchemas(program, begun, request) : program,
    bundleBytes,
    packages,
  );
  const found = await withSkills(
    source,
    request ? await findBySchemas(begun, request, bundled, describe) : begun.discovery,
  );
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

/**
 * The definition with the exports by which its schemas can be evaluated, and those of its packages that do so for
 * libraries whose schemas do not describe themselves.
 */
function withSchemas(
  source: DefinitionSource,
  { schemas }: BegunDiscovery,
  { converters }: SchemaRequest,
): DefinitionSource {
  const { entry } = source;
  const files = { ...source.files };
  for (const [file, text] of schemas!.exportsIn(entry)) files[file] += text;
  const { zod, valibot } = converters;
  if (zod) files[entry] += `\nexport { toJSONSchema as ${zod} } from "zod/v4/core";`;
  if (valibot) files[entry] += `\nexport { toJsonSchema as ${valibot} } from "${VALIBOT_CONVERTER}";`;
  return { ...source, files };
}

/** From 4.2 on zod's schemas describe themselves, but for those of zod/mini; before 3.25 nothing does. */
function convertersIn({ files, packages }: DefinitionSource): SchemaRequest["converters"] {
  const { zod, ...others } = packages?.dependencies ?? {};
  const isOldZod = zod !== undefined && /^(?:3\.(?:2[5-9]|[3-9]\d)|4\.[01])\./.test(zod);
  const isMini =
    zod !== undefined && Object.values(files).some((text) => /["']zod\/(?:v4[/-])?(?:mini|core)\b/.test(text));
  return {
    ...((isOldZod || isMini) && { zod: "__berth_zod" }),
    ...(VALIBOT_CONVERTER in others && { valibot: "__berth_valibot" }),
  };
}

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
  const { findSkills } = await import("./assets/skills.ts");
  const { skills, problems } = findSkills(source);
  return { ...found, problems: [...found.problems, ...problems], ...(skills.length > 0 && { skills }) };
}

/** The checker is loaded for what needs it. */
async function beginAll(source: DefinitionSource, packages: PackageFiles | undefined): Promise<BegunDiscovery> {
  if (source.language === "shell") return { discovery: discoverShell(source) };
  const { beginDiscovery } = await import("./typescript/discover.ts");
  return beginDiscovery(source, packages);
}

/** The discovery with evaluated schemas. */
async function findBySchemas(
  { find, discovery }: BegunDiscovery,
  request: SchemaRequest,
  { bundle, problems }: Pick<Compiled, "bundle" | "problems">,
  describe: DescribeSchemas = async () => ({ fault: "nothing can be evaluated here" }),
): Promise<Discovery> {
  if (bundle === undefined) return find!(undescribed(request, problems[0]?.message ?? "there is no bundle"));
  const answer = await describe(bundle, request);
  if (!("fault" in answer)) return find!(readDescribed(answer, request));
  if (!answer.isPassing) return find!(undescribed(request, answer.fault));
  const message = `its schemas were not evaluated: ${answer.fault}; try again`;
  return { ...discovery, problems: [{ severity: "error", code: "compiler-unavailable", message }] };
}

function sentence(text: string): string {
  return `${text[0]!.toUpperCase()}${text.slice(1)}.`;
}
