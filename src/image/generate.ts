import type { Compiled, RequestedGrant } from "../discover/discovery.ts";
import { TSCONFIG } from "../discover/files/path-aliases.ts";
import { readSourceFields, serverNameProblem, variableNameProblem } from "../entry/fields.ts";
import { jsonBlock, rawBlock, type Block, type Cid } from "../lib/cid.ts";
import { BerthError } from "../lib/errors.ts";
import { parseJsonSource, problemAt, type JsonNode, type SourcePosition } from "../lib/json-source.ts";
import type { JsonObject } from "../lib/json.ts";
import { compareText, prettyJson } from "../lib/pretty-json.ts";
import { withTypeErrors, type Problem } from "../lib/problem.ts";
import { defaultLimits } from "../limits/limits.ts";
import type { HaveTarball } from "../packages/fetch-set.ts";
import { PACKAGES } from "../packages/package-set.ts";
import {
  compileAll,
  openEarlierResults,
  listUngranted,
  type Load,
  type Job,
  type CompileProgress,
  type CompileResult,
} from "./compile-all.ts";
import { readCompiled, type CompiledResult } from "./compiled.ts";
import { compilerIdentity, type Compiling } from "./compiling.ts";
import { definitionFinder } from "./definitions.ts";
import {
  packageBlocks,
  readFolderPackages,
  openImageTarballs,
  type FetchPackages,
  type FolderPackages,
} from "./folder-packages.ts";
import {
  bootSource,
  cidFile,
  imageNames,
  findServerList,
  LOCK_FILE,
  manifestFile,
  MCPS_FILE,
  MCPS_SOURCE,
  PACKAGE_JSON,
  type Manifest,
} from "./image.ts";
import { contentNames, LOCK_VERSION, type Lock } from "./lock.ts";
import { readMcpsSource, type CheckEntry, type McpsSource, type Reference } from "./mcps-source.ts";
import { isFault, openSourceFolder, type SourceFolder } from "./source-folder.ts";

export interface GenerateOptions {
  /** The folder of sources. */
  readonly from: string;
  /** The folder of the image. The previous image is read from it; nothing is written to it here. */
  readonly out: string;
  /** The maximum size of one source file, in bytes. Default: `sourceBytes` of the limits. */
  readonly sourceBytes?: number;
  /** The lock of the image in `out`, if Berth itself wrote it: its compiled results are reused. */
  readonly earlier?: Lock | undefined;
  /** Type errors of definitions are errors. */
  readonly strict?: boolean;
  /** An error of a server leaves out that server; only an unreadable list of servers fails. */
  readonly refusesServers?: boolean;
  /** A fault that prevents one tool from being offered is an error, even if others of its definition are offered. */
  readonly toolErrors?: boolean;
  /** Finds problems of an entry together with its definition. Pointers begin with the server. */
  readonly checkOffer?: (server: string, entry: JsonObject, compiled: CompiledResult) => readonly Problem[];
  readonly onProgress?: (progress: CompileProgress) => void;
  readonly checkEntry?: CheckEntry;
  /** Checks that newly compiled bundles load; without it, the first call finds out. */
  readonly load?: Load;
  /** Fetches the tarballs of npm packages that the image in `out` does not contain. */
  readonly fetchPackages?: FetchPackages;
  /** The available tarballs. Default: those of the image in `out`. */
  readonly haveTarball?: HaveTarball;
  readonly registries?: () => Promise<readonly string[]>;
}

/** All bytes of an image. */
export interface GeneratedImage {
  /** The files next to `content/`, in the order in which they must be written. */
  readonly files: ReadonlyMap<string, Uint8Array>;
  readonly content: ReadonlyMap<Cid, Uint8Array>;
  /** The number of definitions and transforms that were compiled now. */
  readonly compiled: number;
  /** The bundle of each definition and transform, by its entry file. */
  readonly bundles: readonly BundleSize[];
}

/** The size of a bundle, and the part of it that comes from each npm package of the set. */
export interface BundleSize {
  readonly entry: string;
  readonly bytes: number;
  /** Largest first; absent if there are none. */
  readonly packages?: Compiled["packages"];
}

export interface Generation {
  /** Absent if a problem is an error. */
  readonly image?: GeneratedImage;
  /** Every problem, by file, line and column. */
  readonly problems: readonly Problem[];
  /** The grants that the definition of a server requests and its entry does not give. */
  readonly ungrantedOf: (server: string) => readonly RequestedGrant[];
}

/** Generates the image of a folder of sources: the same bytes on any machine. Writes nothing. */
export async function generateImage(options: GenerateOptions, compiling: Compiling): Promise<Generation> {
  const gathered = await gatherSources(options, compiling);
  const { packages, jobs, problems } = gathered;
  const { results, compiled } = await compileAll(jobs, {
    compiling,
    earlier: openEarlierResults(options.out, options.earlier),
    problems,
    onProgress: options.onProgress,
    load: options.load,
    tarballs: packages?.blocks,
    toolErrors: options.toolErrors,
  });
  if (options.checkOffer) problems.push(...offerProblems(gathered, results, options.checkOffer));

  const sortedProblems = sortProblems(options.strict ? withTypeErrors(problems) : problems);
  const failsOnErrors = gathered.isUnreadable || !options.refusesServers;
  const ungrantedOf = (server: string): readonly RequestedGrant[] =>
    jobs
      .filter(({ reference }) => reference.kind === "definition" && reference.server === server)
      .flatMap((job) => listUngranted(job, results.get(job)!));
  if (failsOnErrors && sortedProblems.some(({ severity }) => severity === "error"))
    return { problems: sortedProblems, ungrantedOf };
  const image = assemble({ ...gathered, results, warnings: sortedProblems, compiling });
  return { image: { ...image, compiled }, problems: sortedProblems, ungrantedOf };
}

/** A folder of sources, with everything that it names read and nothing compiled. */
export interface GatheredSources {
  readonly folder: SourceFolder;
  readonly sources: Sources;
  readonly packages: FolderPackages | undefined;
  /** The definitions that were found, each for the server that names it. */
  readonly jobs: readonly Job[];
  /** The problems of everything read so far. */
  readonly problems: Problem[];
  /** The list of servers itself is unreadable, so that nothing is known about any server. */
  readonly isUnreadable: boolean;
}

/** Reads the sources of an image, and follows what they name. */
export async function gatherSources(
  options: Omit<GenerateOptions, "onProgress" | "load" | "strict" | "toolErrors" | "checkOffer">,
  compiling: Pick<Compiling, "gather">,
): Promise<GatheredSources> {
  const folder = openSourceFolder(options.from, options.sourceBytes ?? defaultLimits.sourceBytes);
  const problems: Problem[] = [];
  const { isUnreadable, ...sources } = readSources(folder, problems, options.checkEntry);
  const packages = await readFolderPackages(folder, problems, {
    fetch: options.fetchPackages ?? refuseToFetch,
    have: options.haveTarball ?? openImageTarballs(options.out),
    ...(options.registries && { registries: options.registries }),
  });
  if (packages) problems.push(...packagesProblems(sources));

  const references = [...sources.mcps.references, ...Object.values(sources.boots).flatMap((boot) => boot.references)];
  const find = definitionFinder({
    folder,
    compiling,
    lock: options.earlier,
    packages: packages?.set,
    incomplete: options.refusesServers ?? false,
  });
  const jobs: Job[] = [];
  for (const reference of references) {
    const definition = await find(reference, problems);
    if (definition) jobs.push({ reference, definition });
  }
  return { folder, sources, packages, jobs, problems, isUnreadable };
}

/** Problems of entries together with their definitions. Skips transforms, which run only on a host. */
function offerProblems(
  { sources: { mcps }, jobs }: GatheredSources,
  results: ReadonlyMap<Job, CompileResult>,
  checkOffer: NonNullable<GenerateOptions["checkOffer"]>,
): Problem[] {
  const transformed = new Set(mcps.references.flatMap(({ kind, server }) => (kind === "transform" ? [server] : [])));
  return jobs.flatMap((job) => {
    const { kind, server, entry } = job.reference;
    const { result, bundle } = results.get(job)!;
    if (kind === "transform" || !entry || !bundle || transformed.has(server)) return [];
    return entry.place(checkOffer(server, entry.value, readCompiled(result.bytes)));
  });
}

const refuseToFetch: FetchPackages = () => {
  throw new BerthError("image_invalid", "its packages are not in the last image");
};

/** A boot source must not set the variable that is generated from the packages of the folder. */
function packagesProblems({ boots }: Sources): Problem[] {
  const own = Object.values(boots).flatMap(({ variables }) => variables.filter(({ name }) => name === PACKAGES));
  const message = `The variable "${PACKAGES}" is generated from the ${PACKAGE_JSON} next to this file: remove it here, and add packages there`;
  return own.map(({ at }) => problemAt(at, "generated-variable", message));
}

interface Sources {
  readonly mcps: McpsSource;
  readonly boots: Record<(typeof imageNames)[number], BootSource>;
}

/** `isUnreadable`: nothing is known about any server. */
function readSources(
  folder: SourceFolder,
  problems: Problem[],
  checkEntry: CheckEntry | undefined,
): Sources & { isUnreadable: boolean } {
  const list = findServerList((name) => !isMissing(folder.read(name))) ?? MCPS_SOURCE;
  const fileProblems: Problem[] = [];
  folder.read(TSCONFIG); // It is a source if it exists.
  const root = readJson(folder, list, fileProblems);
  const boots = imageNames.map((name) => {
    if (list === MCPS_FILE) return [name, sourceForList(root.at)] as const;
    return [name, readBootSource(readJson(folder, bootSource(name), fileProblems), folder)] as const;
  });
  const mcps = readMcpsSource(root, folder, checkEntry);
  problems.push(...fileProblems, ...mcps.problems, ...boots.flatMap(([, boot]) => boot.problems));
  const isUnreadable = !root.members || fileProblems.some(({ severity }) => severity === "error");
  return { mcps, boots: Object.fromEntries(boots) as Sources["boots"], isUnreadable };
}

function isMissing(file: ReturnType<SourceFolder["read"]>): boolean {
  return isFault(file) && file.code === "missing-file";
}

/** The boot source of an image that consists only of a list of servers. */
function sourceForList(at: SourcePosition): BootSource {
  const variables = [{ name: "mcps", value: "generated", enabled: true, at }] as const;
  return { servers: [], variables, references: [], problems: [] };
}

/** The root of a source file. An unreadable one is reported and counts as empty. */
function readJson(folder: SourceFolder, path: string, problems: Problem[]): JsonNode {
  const emptyRoot: JsonNode = {
    value: {},
    at: { file: path, text: "", line: 1, column: 1, pointer: "" },
    members: new Map(),
  };
  const file = folder.readText(path);
  if (isFault(file)) {
    problems.push({ ...file, severity: "error", file: path });
    return emptyRoot;
  }
  const parsed = parseJsonSource(path, file.text);
  problems.push(...parsed.problems);
  return parsed.root ?? emptyRoot;
}

/** Sorts problems by position and removes duplicates. */
function sortProblems(problems: readonly Problem[]): Problem[] {
  const identity = ({ file, line, column, code, message }: Problem) =>
    JSON.stringify([file, line, column, code, message]);
  const unique = new Map(problems.map((problem) => [identity(problem), problem]));
  return [...unique.values()].sort(
    (a, b) =>
      compareText(a.file ?? "", b.file ?? "") ||
      (a.line ?? 0) - (b.line ?? 0) ||
      (a.column ?? 0) - (b.column ?? 0) ||
      compareText(a.message, b.message),
  );
}

interface Parts extends GatheredSources {
  readonly results: ReadonlyMap<Job, CompileResult>;
  readonly warnings: readonly Problem[];
  readonly compiling: Compiling;
}

function assemble(parts: Parts): Omit<GeneratedImage, "compiled"> {
  const { sources, jobs } = parts;
  const definitionCids = new Map(jobs.map(({ reference, definition }) => [reference.target, definition.cid]));
  const generated = sources.mcps.generate((target) => definitionCids.get(target));
  const mcps = rawBlock(prettyJson(generated.value));
  const files = new Map([[MCPS_FILE, mcps.bytes]]);
  const content = new Map<Cid, Uint8Array>();
  const reusable: Record<string, Cid> = {};

  const mcpsNeeds = collectNeeds(sources.mcps.references, parts);
  const packages = packageBlocks(parts.packages);
  for (const name of imageNames) {
    const boot = sources.boots[name];
    const usesMcps = boot.variables.some(({ value }) => value === "generated");
    const values = boot.variables.map(({ value }) => (value === "generated" ? mcps : value));
    const needs = [collectNeeds(boot.references, parts), ...(usesMcps ? [mcpsNeeds] : [])];
    const blocks = [
      ...values,
      ...packages,
      ...(usesMcps ? generated.blocks : []),
      ...needs.flatMap(({ blocks }) => blocks),
    ];
    const results = needs.flatMap(({ results }) => results).filter(({ isTransient }) => !isTransient);

    const manifest: Manifest = {
      servers: boot.servers
        .flatMap(({ name, target, enabled }) => {
          const definition_cid = definitionCids.get(target);
          return definition_cid === undefined ? [] : { name, definition_cid, enabled };
        })
        .sort((a, b) => compareText(a.name, b.name)),
      variables: [
        ...boot.variables.map((variable) => ({
          name: variable.name,
          definition_cid: variable.value === "generated" ? mcps.cid : variable.value.cid,
          enabled: variable.enabled,
        })),
        ...packages.slice(0, 1).map(({ cid }) => ({ name: PACKAGES, definition_cid: cid, enabled: true })),
      ].sort((a, b) => compareText(a.name, b.name)),
      content: [...new Set(blocks.map(({ cid }) => cid))].sort(compareText),
      derived: Object.fromEntries(results.map(({ key, result }) => [key, result.cid])),
    };
    const block = jsonBlock(manifest);
    for (const { cid, bytes } of [block, ...blocks, ...results.map(({ result }) => result)]) content.set(cid, bytes);
    // Bundles that do not load are compiled again the next time.
    for (const { key, result, isUnloadable } of results) if (!isUnloadable) reusable[key] = result.cid;
    files.set(manifestFile(name), encode(prettyJson(manifest)));
    files.set(cidFile(name), encode(`${block.cid}\n`));
  }

  files.set(LOCK_FILE, encode(prettyJson(buildLock(parts, { files, content, results: reusable }))));
  return { files, content, bundles: measureBundles(parts) };
}

function measureBundles({ jobs, results }: Parts): BundleSize[] {
  const sizes = new Map<string, BundleSize>();
  for (const job of jobs) {
    const { result, bundle } = results.get(job)!;
    const { packages } = readCompiled(result.bytes);
    const { entry } = job.definition;
    if (bundle) sizes.set(entry, { entry, bytes: bundle.bytes.length, ...(packages && { packages }) });
  }
  return [...sizes.values()].sort((a, b) => compareText(a.entry, b.entry));
}

/** The blocks and results that the definitions of some references add to an image. */
function collectNeeds(
  references: readonly Reference[],
  { jobs, results }: Parts,
): { blocks: Block[]; results: CompileResult[] } {
  const referenceSet = new Set(references);
  const neededJobs = jobs.filter(({ reference }) => referenceSet.has(reference));
  const jobResults = neededJobs.map((job) => results.get(job)!);
  const bundles = jobResults.flatMap(({ bundle }) => bundle ?? []);
  return { blocks: [...neededJobs.flatMap(({ definition }) => definition.blocks), ...bundles], results: jobResults };
}

function buildLock(
  { folder, jobs, warnings, compiling }: Parts,
  output: {
    files: ReadonlyMap<string, Uint8Array>;
    content: ReadonlyMap<Cid, Uint8Array>;
    results: Record<string, Cid>;
  },
): Lock {
  const definitions = jobs.map(({ definition: { entry, cid, files } }) => [entry, { cid, files }] as const);
  return {
    version: LOCK_VERSION,
    compiler: compilerIdentity(compiling),
    sources: folder.cids(),
    definitions: Object.fromEntries(definitions),
    results: output.results,
    outputs: Object.fromEntries([...output.files].map(([file, bytes]) => [file, rawBlock(bytes).cid])),
    content: contentNames(output.content.keys()),
    warnings,
  };
}

const encode = (text: string): Uint8Array => new TextEncoder().encode(text);

const GENERATED = "GENERATED:";

/** A `<name>.boot.source.json`: the servers and variables that an image starts with. */
interface BootSource {
  readonly servers: readonly BootServer[];
  readonly variables: readonly BootVariable[];
  readonly references: readonly Reference[];
  readonly problems: readonly Problem[];
}

interface BootServer {
  readonly name: string;
  /** As written: a path in the folder of sources, or a CID. */
  readonly target: string;
  readonly enabled: boolean;
}

interface BootVariable {
  readonly name: string;
  /** The value's bytes; `generated` stands for the generated `mcps.json`. */
  readonly value: Block | "generated";
  readonly enabled: boolean;
  readonly at: SourcePosition;
}

function readBootSource(root: JsonNode, folder: SourceFolder): BootSource {
  const problems: Problem[] = [];
  const fields = readSourceFields(root, { servers: "list", variables: "list" }, "A boot source", problems);
  const serverNodes = fields.servers?.elements ?? [];
  const variableNodes = fields.variables?.elements ?? [];

  const checkName = nameChecker(problems);
  const references: Reference[] = [];
  const servers = serverNodes.flatMap((node): BootServer[] => {
    const types = { name: "text", definition_cid: "text", enabled: "boolean" } as const;
    const { name, definition_cid: definition, enabled } = readSourceFields(node, types, "A server", problems);
    requireField(node, name, "A server", "name", problems);
    requireField(node, definition, "A server", "definition_cid", problems);
    if (name) checkName("server", name, serverNameProblem);
    if (!name || !definition) return [];
    const [server, target] = [name.value as string, definition.value as string];
    references.push({ kind: "definition", server, target, at: definition.at });
    return [{ name: server, target, enabled: enabled?.value !== false }];
  });

  const variables = variableNodes.flatMap((node): BootVariable[] => {
    const types = { name: "text", definition: "text", definition_cid: "text", enabled: "boolean" } as const;
    const read = readSourceFields(node, types, "A variable", problems);
    requireField(node, read.name, "A variable", "name", problems);
    if (read.name) checkName("variable", read.name, variableNameProblem);
    const value = readValue(node, read, folder, problems);
    if (!read.name || !value) return [];
    return [{ name: read.name.value as string, value, enabled: read.enabled?.value !== false, at: read.name.at }];
  });
  return { servers, variables, references, problems };
}

/** A variable's value is either written as `definition`, or in the file that `definition_cid` names. */
function readValue(
  node: JsonNode,
  { definition, definition_cid: file }: { definition?: JsonNode; definition_cid?: JsonNode },
  folder: SourceFolder,
  problems: Problem[],
): BootVariable["value"] | undefined {
  if (definition && file) {
    const message = `A variable needs either "definition", its value, or "definition_cid", the file that contains it`;
    problems.push(problemAt(file.at, "two-values", message));
    return undefined;
  }
  if (file) {
    const content = folder.read(file.value as string);
    if (!isFault(content)) return content.block;
    problems.push(problemAt(file.at, content.code, content.message));
    return undefined;
  }
  if (!definition) {
    requireField(node, definition, "A variable", "definition", problems);
    return undefined;
  }
  const text = definition.value as string;
  if (!text.startsWith(GENERATED)) return rawBlock(text);
  if (text === GENERATED + MCPS_FILE) return "generated";
  const message = `"${text}" is not generated; the only such value is "${GENERATED}${MCPS_FILE}"`;
  problems.push(problemAt(definition.at, "unknown-generated", message));
  return undefined;
}

function requireField(
  node: JsonNode,
  field: JsonNode | undefined,
  subject: string,
  name: string,
  problems: Problem[],
): void {
  // A field of the wrong type already has its problem, and so does a node that is not an object.
  if (field || !node.members || node.members.has(name)) return;
  problems.push(problemAt(node.at, "missing-field", `${subject} needs the field "${name}"`));
}

function nameChecker(problems: Problem[]) {
  const seen = new Map<string, number>();
  return (kind: string, node: JsonNode, findProblem: (name: string) => string | undefined): void => {
    const name = node.value as string;
    const fault = findProblem(name);
    if (fault) problems.push(problemAt(node.at, "bad-name", fault));
    const first = seen.get(`${kind}/${name}`);
    if (first === undefined) seen.set(`${kind}/${name}`, node.at.line);
    else {
      const message = `The ${kind} "${name}" appears twice; the first is on line ${first}`;
      problems.push(problemAt(node.at, "duplicate-name", message));
    }
  };
}
