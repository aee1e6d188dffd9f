import { codeFrame, positionAt } from "../lib/code-frame.ts";
import { distinctProblems, type Problem, shortProblems } from "../lib/problem.ts";
import { packageName } from "../packages/package-name.ts";
import { bundleDefinition } from "./bundle/bundle.ts";
import {
  emptyDiscovery,
  type Bundling,
  type Compiled,
  type DefinitionSource,
  type DescribeSchemas,
  type Discovery,
  type SchemaRequest,
} from "./discovery.ts";
import { parseImports, VALIBOT_CONVERTER } from "./files/imports.ts";
import { isCode, isDeclarations } from "./files/resolve.ts";
import { isSkillFile } from "./files/skill-files.ts";
import type { PackageFiles } from "./packages/package-files.ts";
import { discoverShell } from "./shell/shell.ts";
import { readDescribed, unavailableSchemas } from "./typescript/described-schemas.ts";
import type { FirstPass } from "./typescript/discover.ts";
import { HANDLERS } from "./typescript/handlers.ts";

/** The tasks of the compiler child. `discover` returns no bundle, and the problems of bundling separately. */
export type CompileTask = "compile" | "discover";

/**
 * Discovers and bundles one definition in this process. If an import cannot be bundled, there is no bundle and nothing
 * of the definition can run; the tools that its types describe are still returned. Returns no more problems than are
 * ever displayed. `packages` are the packages it reaches, or why they cannot be used.
 */
export async function compileDefinition(
  task: CompileTask,
  source: DefinitionSource,
  bundleBytes?: number,
  packages?: PackageFiles | string,
  describe?: DescribeSchemas,
): Promise<Compiled & Bundling> {
  if (typeof packages === "string") {
    const problem: Problem = { code: "package-refused", message: toSentence(packages), severity: "error" };
    return { ...emptyDiscovery, problems: [{ ...problem, file: source.entry, ...locateImport(packages, source) }] };
  }
  const program = withoutSkillCode(source);
  const firstPass = await startDiscovery(program, packages);
  const schemaRequest = firstPass.schemas?.request;
  if (!schemaRequest && firstPass.discovery.problems.some(({ code }) => UNBUNDLED.has(code))) {
    const discovery = await withSkills(source, firstPass.discovery);
    return { ...discovery, problems: shortProblems(discovery.problems) };
  }
  const request = schemaRequest && { ...schemaRequest, handlers: HANDLERS, converters: convertersIn(source) };
  const bundled = await bundleDefinition(
    request ? withSchemas(program, firstPass, request) : program,
    bundleBytes,
    packages,
  );
  const discovery = await withSkills(
    source,
    request ? await completeWithSchemas(firstPass, request, bundled, describe) : firstPass.discovery,
  );
  if (task === "discover") {
    const bundling = distinctProblems([...discovery.problems, ...bundled.problems]).slice(
      distinctProblems(discovery.problems).length,
    );
    return { ...discovery, problems: shortProblems(discovery.problems), bundling: shortProblems(bundling) };
  }
  return {
    ...discovery,
    problems: shortProblems(distinctProblems([...discovery.problems, ...bundled.problems])),
    ...(bundled.bundle === undefined ? {} : { bundle: bundled.bundle }),
    ...(bundled.packages && { packages: bundled.packages }),
  };
}

/** The position of the import of the package that `text` names as `name@version`. */
function locateImport(text: string, { files }: DefinitionSource): Partial<Problem> {
  for (const [file, code] of Object.entries(files).filter(([name]) => isCode(name))) {
    const match = parseImports(code).find(({ specifier }) => text.includes(` ${packageName(specifier)}@`));
    if (!match) continue;
    const { line, column, lineText } = positionAt(code, match.offset);
    return { file, line, column, frame: codeFrame(lineText, line, column, match.specifier.length + 2) };
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

/** Adds the exports by which its schemas can be evaluated, and converters for those that cannot describe themselves. */
function withSchemas(
  source: DefinitionSource,
  { schemas }: FirstPass,
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

/** Schemas of zod 4.2 and later describe themselves, except for zod/mini; before 3.25, nothing describes them. */
function convertersIn({ files, packages }: DefinitionSource): SchemaRequest["converters"] {
  const { zod, ...otherPackages } = packages?.dependencies ?? {};
  const isOldZod = zod !== undefined && /^(?:3\.(?:2[5-9]|[3-9]\d)|4\.[01])\./.test(zod);
  const isMini =
    zod !== undefined && Object.values(files).some((text) => /["']zod\/(?:v4[/-])?(?:mini|core)\b/.test(text));
  return {
    ...((isOldZod || isMini) && { zod: "__berth_zod" }),
    ...(VALIBOT_CONVERTER in otherPackages && { valibot: "__berth_valibot" }),
  };
}

/** Scripts of skills run on the hosts of clients: they are not part of the program, but can be imported as text. */
function withoutSkillCode(source: DefinitionSource): DefinitionSource {
  const files = Object.entries(source.files).filter(
    ([path]) => !(isSkillFile(path) && (isCode(path) || isDeclarations(path))),
  );
  return { ...source, files: Object.fromEntries(files) };
}

/** Loads the YAML reader only if it is needed. */
async function withSkills(source: DefinitionSource, discovery: Discovery): Promise<Discovery> {
  if (!Object.keys(source.files).some(isSkillFile)) return discovery;
  const { findSkills } = await import("./assets/skills.ts");
  const { skills, problems } = findSkills(source);
  return { ...discovery, problems: [...discovery.problems, ...problems], ...(skills.length > 0 && { skills }) };
}

/** Loads the type checker only if it is needed. */
async function startDiscovery(source: DefinitionSource, packages: PackageFiles | undefined): Promise<FirstPass> {
  if (source.language === "shell") return { discovery: discoverShell(source) };
  const { beginDiscovery } = await import("./typescript/discover.ts");
  return beginDiscovery(source, packages);
}

/** Completes the discovery with evaluated schemas. */
async function completeWithSchemas(
  { complete, discovery }: FirstPass,
  request: SchemaRequest,
  { bundle, problems }: Pick<Compiled, "bundle" | "problems">,
  describe: DescribeSchemas = async () => ({ fault: "nothing can be evaluated here" }),
): Promise<Discovery> {
  if (bundle === undefined) return complete!(unavailableSchemas(request, problems[0]?.message ?? "there is no bundle"));
  const answer = await describe(bundle, request);
  if (!("fault" in answer)) return complete!(readDescribed(answer, request));
  if (!answer.isPassing) return complete!(unavailableSchemas(request, answer.fault));
  const message = `its schemas were not evaluated: ${answer.fault}; try again`;
  return { ...discovery, problems: [{ severity: "error", code: "compiler-unavailable", message }] };
}

function toSentence(text: string): string {
  return `${text[0]!.toUpperCase()}${text.slice(1)}.`;
}
