import type { Compiled, RequestedGrant } from "../discover/discovery.ts";
import { TSCONFIG } from "../discover/files/path-aliases.ts";
import { readSourceFields, serverNameProblem, variableNameProblem } from "../entry/fields.ts";
import { jsonBlock, rawBlock, type Block, type Cid } from "../lib/cid.ts";
import { BerthError } from "../lib/errors.ts";
import { parseJsonSource, problemAt, type JsonNode, type SourcePosition } from "../lib/json-source.ts";
import type { JsonObject } from "../lib/json.ts";
import { compareText, prettyJson } from "../lib/pretty-json.ts";
import { strictly, type Problem } from "../lib/problem.ts";
import { defaultLimits } from "../limits/limits.ts";
import type { HaveTarball } from "../packages/fetch-set.ts";
import { PACKAGES } from "../packages/package-set.ts";
import {
  compileAll,
  earlierResults,
  ungrantedIn,
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
  tarballsOfImage,
  type FetchPackages,
  type FolderPackages,
} from "./folder-packages.ts";
import {
  bootSource,
  cidFile,
  imageNames,
  listOfServers,
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
  /** The folder of the image; the previous image is read from it, nothing is written to it here. */
  readonly out: string;
  /** The most bytes of one source file. Default: `sourceBytes` of the limits. */
  readonly sourceBytes?: number;
  /**
   * The lock of the image in `out`, if Berth itself made it: its compiled results are reused. Without it everything is
   * compiled.
   */
  readonly earlier?: Lock | undefined;
  /** Type errors of definitions are errors. */
  readonly strict?: boolean;
  /**
   * An error of a server leaves that server out and not the image: the host refuses it, with its problem. Only a list of
   * servers that cannot be read keeps the image from being made.
   */
  readonly refusesServers?: boolean;
  /** A fault that keeps one tool from being offered is an error, also where the others of its definition are. */
  readonly toolErrors?: boolean;
  /** Finds problems of an entry with what its definition gives. Pointers begin with the server. */
  readonly checkOffer?: (server: string, entry: JsonObject, found: CompiledResult) => readonly Problem[];
  readonly onProgress?: (progress: CompileProgress) => void;
  readonly checkEntry?: CheckEntry;
  /** Tries if newly compiled bundles load; without it, the first call finds out. */
  readonly load?: Load;
  /** Fetches the tarballs of npm packages that the image in `out` does not hold. */
  readonly fetchPackages?: FetchPackages;
  /** The tarballs at hand. Default: those of the image in `out`. */
  readonly haveTarball?: HaveTarball;
  readonly registries?: () => Promise<readonly string[]>;
}

/** All bytes of an image. */
export interface GeneratedImage {
  /** The files beside `content/`, in the order in which they must be written. */
  readonly files: ReadonlyMap<string, Uint8Array>;
  readonly content: ReadonlyMap<Cid, Uint8Array>;
  /** The definitions and transforms that were compiled now. */
  readonly compiled: number;
  /** The bundle of each definition and transform, by its entry file. */
  readonly bundles: readonly BundleSize[];
}

/** How large a bundle is, and what each npm package of the set adds to it. */
export interface BundleSize {
  readonly entry: string;
  readonly bytes: number;
  /** The largest first; absent where there are none. */
  readonly packages?: Compiled["packages"];
}

export interface Generation {
  /** Absent when a problem is an error. */
  readonly image?: GeneratedImage;
  /** Every problem, by file, line and column. */
  readonly problems: readonly Problem[];
  /** The grants that the definition of a server requests and its entry does not give. */
  readonly ungrantedOf: (server: string) => readonly RequestedGrant[];
}

/**
 * Makes the image of a folder of sources. The same sources give the same bytes, wherever and whenever; nothing is
 * written, and nothing outside the two folders is read.
 */
export async function generateImage(options: GenerateOptions, compiling: Compiling): Promise<Generation> {
  const gathered = await gatherSources(options, compiling);
  const { packages, jobs, problems } = gathered;
  const { results, compiled } = await compileAll(jobs, {
    compiling,
    earlier: earlierResults(options.out, options.earlier),
    problems,
    onProgress: options.onProgress,
    load: options.load,
    tarballs: packages?.blocks,
    toolErrors: options.toolErrors,
  });
  if (options.checkOffer) problems.push(...offerProblems(gathered, results, options.checkOffer));

  const told = inOrder(options.strict ? strictly(problems) : problems);
  const isRefused = gathered.isUnreadable || !options.refusesServers;
  const ungrantedOf = (server: string): readonly RequestedGrant[] =>
    jobs
      .filter(({ reference }) => reference.kind === "definition" && reference.server === server)
      .flatMap((job) => ungrantedIn(job, results.get(job)!));
  if (isRefused && told.some(({ severity }) => severity === "error")) return { problems: told, ungrantedOf };
  const image = assemble({ ...gathered, results, warnings: told, compiling });
  return { image: { ...image, compiled }, problems: told, ungrantedOf };
}

/** A folder of sources, with all that it names read and nothing compiled. */
export interface GatheredSources {
  readonly folder: SourceFolder;
  readonly sources: Sources;
  readonly packages: FolderPackages | undefined;
  /** The definitions that could be found, each for the server that names it. */
  readonly jobs: readonly Job[];
  /** Those of what was read so far. */
  readonly problems: Problem[];
  /** The list of servers itself cannot be read, so that nothing is known of any. */
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
    have: options.haveTarball ?? tarballsOfImage(options.out),
    ...(options.registries && { registries: options.registries }),
  });
  if (packages) problems.push(...ownPackages(sources));

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

/** Problems of entries with what their definitions give, at their places. Transforms may give more, which only run at a host. */
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
  throw new BerthError("image_invalid", "its packages are not among those that the last image holds");
};

/** A boot source must not have another value for the variable that the packages of the folder become. */
function ownPackages({ boots }: Sources): Problem[] {
  const own = Object.values(boots).flatMap(({ variables }) => variables.filter(({ name }) => name === PACKAGES));
  const message = `The variable "${PACKAGES}" is made from the ${PACKAGE_JSON} beside this file: remove it here, and add packages there`;
  return own.map(({ at }) => problemAt(at, "generated-variable", message));
}

interface Sources {
  readonly mcps: McpsSource;
  readonly boots: Record<(typeof imageNames)[number], BootSource>;
}

/** `isUnreadable`: nothing is known of any server. */
function readSources(
  folder: SourceFolder,
  problems: Problem[],
  checkEntry: CheckEntry | undefined,
): Sources & { isUnreadable: boolean } {
  const list = listOfServers((name) => !isMissing(folder.read(name))) ?? MCPS_SOURCE;
  const ofFiles: Problem[] = [];
  folder.read(TSCONFIG); // It is a source where it exists.
  const root = readJson(folder, list, ofFiles);
  const boots = imageNames.map((name) => {
    if (list === MCPS_FILE) return [name, listAlone(root.at)] as const;
    return [name, readBootSource(readJson(folder, bootSource(name), ofFiles), folder)] as const;
  });
  const mcps = readMcpsSource(root, folder, checkEntry);
  problems.push(...ofFiles, ...mcps.problems, ...boots.flatMap(([, boot]) => boot.problems));
  const isUnreadable = !root.members || ofFiles.some(({ severity }) => severity === "error");
  return { mcps, boots: Object.fromEntries(boots) as Sources["boots"], isUnreadable };
}

function isMissing(file: ReturnType<SourceFolder["read"]>): boolean {
  return isFault(file) && file.code === "missing-file";
}

/** The source of an image that has a list of servers and nothing else. */
function listAlone(at: SourcePosition): BootSource {
  const variables = [{ name: "mcps", value: "generated", enabled: true, at }] as const;
  return { servers: [], variables, references: [], problems: [] };
}

/** The root of a source file. An unreadable one gets its problem and counts as an empty one. */
function readJson(folder: SourceFolder, path: string, problems: Problem[]): JsonNode {
  const nothing: JsonNode = {
    value: {},
    at: { file: path, text: "", line: 1, column: 1, pointer: "" },
    members: new Map(),
  };
  const file = folder.readText(path);
  if (isFault(file)) {
    problems.push({ ...file, severity: "error", file: path });
    return nothing;
  }
  const parsed = parseJsonSource(path, file.text);
  problems.push(...parsed.problems);
  return parsed.root ?? nothing;
}

/** Sorts problems by place and removes duplicates. */
function inOrder(problems: readonly Problem[]): Problem[] {
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
  const lasting: Record<string, Cid> = {};

  const mcpsNeeds = needsOf(sources.mcps.references, parts);
  const packages = packageBlocks(parts.packages);
  for (const name of imageNames) {
    const boot = sources.boots[name];
    const usesMcps = boot.variables.some(({ value }) => value === "generated");
    const values = boot.variables.map(({ value }) => (value === "generated" ? mcps : value));
    const needs = [needsOf(boot.references, parts), ...(usesMcps ? [mcpsNeeds] : [])];
    const blocks = [
      ...values,
      ...packages,
      ...(usesMcps ? generated.blocks : []),
      ...needs.flatMap(({ blocks }) => blocks),
    ];
    const results = needs.flatMap(({ results }) => results).filter(({ isPassing }) => !isPassing);

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
    // What does not load is tried again the next time.
    for (const { key, result, isUnloadable } of results) if (!isUnloadable) lasting[key] = result.cid;
    files.set(manifestFile(name), encode(prettyJson(manifest)));
    files.set(cidFile(name), encode(`${block.cid}\n`));
  }

  files.set(LOCK_FILE, encode(prettyJson(lockOf(parts, { files, content, results: lasting }))));
  return { files, content, bundles: sizesOf(parts) };
}

function sizesOf({ jobs, results }: Parts): BundleSize[] {
  const sizes = new Map<string, BundleSize>();
  for (const job of jobs) {
    const { result, bundle } = results.get(job)!;
    const { packages } = readCompiled(result.bytes);
    const { entry } = job.definition;
    if (bundle) sizes.set(entry, { entry, bytes: bundle.bytes.length, ...(packages && { packages }) });
  }
  return [...sizes.values()].sort((a, b) => compareText(a.entry, b.entry));
}

/** The blocks and results that the definitions behind some references bring into an image. */
function needsOf(
  references: readonly Reference[],
  { jobs, results }: Parts,
): { blocks: Block[]; results: CompileResult[] } {
  const named = new Set(references);
  const wanted = jobs.filter(({ reference }) => named.has(reference));
  const found = wanted.map((job) => results.get(job)!);
  const bundles = found.flatMap(({ bundle }) => bundle ?? []);
  return { blocks: [...wanted.flatMap(({ definition }) => definition.blocks), ...bundles], results: found };
}

function lockOf(
  { folder, jobs, warnings, compiling }: Parts,
  made: { files: ReadonlyMap<string, Uint8Array>; content: ReadonlyMap<Cid, Uint8Array>; results: Record<string, Cid> },
): Lock {
  const definitions = jobs.map(({ definition: { entry, cid, files } }) => [entry, { cid, files }] as const);
  return {
    version: LOCK_VERSION,
    compiler: compilerIdentity(compiling),
    sources: folder.cids(),
    definitions: Object.fromEntries(definitions),
    results: made.results,
    outputs: Object.fromEntries([...made.files].map(([file, bytes]) => [file, rawBlock(bytes).cid])),
    content: contentNames(made.content.keys()),
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

/** A variable's value is written out as `definition`, or stands in the file that `definition_cid` names. */
function readValue(
  node: JsonNode,
  { definition, definition_cid: file }: { definition?: JsonNode; definition_cid?: JsonNode },
  folder: SourceFolder,
  problems: Problem[],
): BootVariable["value"] | undefined {
  if (definition && file) {
    const message = `A variable needs either "definition", its value, or "definition_cid", the file that holds it`;
    problems.push(problemAt(file.at, "two-values", message));
    return undefined;
  }
  if (file) {
    const found = folder.read(file.value as string);
    if (!isFault(found)) return found.block;
    problems.push(problemAt(file.at, found.code, found.message));
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
  what: string,
  name: string,
  problems: Problem[],
): void {
  // A field of the wrong type already has its problem, and so does a node that is no object.
  if (field || !node.members || node.members.has(name)) return;
  problems.push(problemAt(node.at, "missing-field", `${what} needs the field "${name}"`));
}

function nameChecker(problems: Problem[]) {
  const seen = new Map<string, number>();
  return (kind: string, node: JsonNode, problemOf: (name: string) => string | undefined): void => {
    const name = node.value as string;
    const wrong = problemOf(name);
    if (wrong) problems.push(problemAt(node.at, "bad-name", wrong));
    const first = seen.get(`${kind}/${name}`);
    if (first === undefined) seen.set(`${kind}/${name}`, node.at.line);
    else {
      const message = `The ${kind} "${name}" appears twice; the first is on line ${first}`;
      problems.push(problemAt(node.at, "duplicate-name", message));
    }
  };
}
