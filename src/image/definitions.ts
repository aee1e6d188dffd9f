import { lstatSync } from "node:fs";
import { join } from "node:path";
import type { DefinitionSource } from "../discover/discovery.ts";
import { TSCONFIG } from "../discover/files/path-aliases.ts";
import { isBinary } from "../discover/files/resolve.ts";
import { skillsFolder } from "../discover/files/skill-files.ts";
import { isCid, isStructure, matches, type Block, type Cid } from "../lib/cid.ts";
import { BerthError } from "../lib/errors.ts";
import { problemAt } from "../lib/json-source.ts";
import type { Problem } from "../lib/problem.ts";
import type { PackageSet } from "../packages/package-set.ts";
import { interpreterProblem } from "../processes/interpreter.ts";
import type { Compiling } from "./compiling.ts";
import { detectLanguage, loadDefinition, packDefinition } from "./definition.ts";
import { withPackages } from "./folder-packages.ts";
import { CONTENT_FOLDER } from "./image.ts";
import type { Lock } from "./lock.ts";
import type { Reference } from "./mcps-source.ts";
import { isFault, type FolderFile, type FolderText, type SourceFolder } from "./source-folder.ts";

/** A definition or transform of the sources, with all its files. */
export interface GatheredDefinition {
  /** The path of its entry file, or the CID by which the source names it. */
  readonly entry: string;
  readonly cid: Cid;
  readonly blocks: readonly Block[];
  /** Path → CID of its own files; empty for a definition that is named by CID. */
  readonly files: Readonly<Record<string, Cid>>;
  /** The definition for a server, with its packages, in the compiler's form, which does not depend on its origin. */
  source(server: string): Promise<DefinitionSource>;
}

/** Finds the definitions that sources name, and gathers each file once. Undefined for unusable ones. */
export function definitionFinder(parts: DefinitionsParts) {
  const { folder, packages } = parts;
  const gathered = new Map<string, Promise<GatheredDefinition | undefined>>();

  return async (reference: Reference, problems: Problem[]): Promise<GatheredDefinition | undefined> => {
    const { kind, target, at } = reference;
    const addProblem = (code: string, message: string) => void problems.push(problemAt(at, code, message));

    if (kind === "definition" && isCid(target)) return findByCid(target, folder, packages, addProblem);
    const file = folder.readText(target);
    if (isFault(file)) return addProblem(file.code === "not-utf8" ? "unknown-kind" : file.code, file.message);
    const kindFault = kindProblem(kind, file);
    if (kindFault) return addProblem("unknown-kind", kindFault);

    let definition = gathered.get(file.path);
    if (!definition) {
      const problem = file.path.endsWith(".sh") ? interpreterProblem(file.path, file.text) : undefined;
      if (problem) problems.push(problem);
      definition = gather(file, parts, problems);
      gathered.set(file.path, definition);
    }
    return definition;
  };
}

interface DefinitionsParts {
  readonly folder: SourceFolder;
  readonly compiling: Pick<Compiling, "gather">;
  readonly lock: Lock | undefined;
  readonly packages: PackageSet | undefined;
  /** Also finds definitions with missing files: the compiler reports them. */
  readonly incomplete?: boolean;
}

function kindProblem(kind: Reference["kind"], { path, text }: FolderText): string | undefined {
  const isShell = detectLanguage(text) === "shell";
  if (path.endsWith(".ts") && isShell) return `"${path}" starts with #!, which marks a shell definition; name it .sh`;
  if (path.endsWith(".ts")) return undefined;
  if (kind === "transform") return `A transform must be a TypeScript module, but "${path}" is not named .ts`;
  if (!path.endsWith(".sh")) return `A definition must be a .ts or a .sh file, and "${path}" is neither`;
  return isShell ? undefined : `"${path}" must start with #! and its interpreter, such as #!/bin/bash`;
}

async function gather(
  file: FolderFile,
  { folder, compiling, lock, packages, incomplete = false }: DefinitionsParts,
  problems: Problem[],
): Promise<GatheredDefinition | undefined> {
  const paths =
    (hasSkills(folder, file.path) ? undefined : filesFromLock(file, folder, lock)) ??
    (await gatherPaths(file, { folder, compiling, incomplete }, problems));
  if (!paths) return undefined;

  const files: Record<string, string> = {};
  const cids: Record<string, Cid> = {};
  for (const path of paths) {
    const content = isBinary(path) ? folder.read(path) : folder.readText(path);
    if (isFault(content)) {
      problems.push({ ...content, severity: "error", file: file.path });
      return undefined;
    }
    files[path] = isBinary(path) ? Buffer.from(content.block.bytes).toString("base64") : content.text!;
    cids[path] = content.block.cid;
  }
  const packed = packDefinition(file.path, files);
  return { entry: file.path, ...packed, files: cids, source: createLoader(packed.cid, packed.blocks, packages) };
}

/** A file without imports still has none; the target of an import can change with the files next to it. */
function filesFromLock(file: FolderFile, folder: SourceFolder, lock: Lock | undefined): string[] | undefined {
  if (lock?.sources[TSCONFIG] !== folder.cids()[TSCONFIG]) return undefined;
  const lockedFiles = lock && Object.hasOwn(lock.definitions, file.path) ? lock.definitions[file.path]!.files : {};
  return Object.keys(lockedFiles).length === 1 && lockedFiles[file.path] === file.block.cid ? [file.path] : undefined;
}

function hasSkills({ root }: SourceFolder, entry: string): boolean {
  return lstatSync(join(root, skillsFolder(entry)), { throwIfNoEntry: false }) !== undefined;
}

async function gatherPaths(
  file: FolderFile,
  { folder, compiling, incomplete }: Required<Pick<DefinitionsParts, "folder" | "compiling" | "incomplete">>,
  problems: Problem[],
): Promise<string[] | undefined> {
  const result = await compiling.gather(folder.root, file.path);
  if (incomplete && Object.hasOwn(result.files, file.path)) {
    // The bundler also reports imports that cannot be resolved.
    problems.push(...result.problems.filter(({ code }) => code !== "missing-file" && code !== "outside"));
    return Object.keys(result.files).sort();
  }
  problems.push(...result.problems);
  if (result.problems.some(({ severity }) => severity === "error")) return undefined;
  return Object.keys(result.files).sort();
}

/** A definition that a source names by CID: its bytes are in `content/<cid>` of the sources. */
async function findByCid(
  cid: Cid,
  folder: SourceFolder,
  packages: PackageSet | undefined,
  addProblem: (code: string, message: string) => undefined,
): Promise<GatheredDefinition | undefined> {
  const blocks = new Map<Cid, Block>();
  const read = async (part: Cid): Promise<Uint8Array | undefined> => {
    const file = folder.read(`${CONTENT_FOLDER}/${part}`);
    if (isFault(file)) return undefined;
    if (!matches(part, file.block.bytes)) throw new BerthError("content_corrupt", `${CONTENT_FOLDER}/${part}`);
    blocks.set(part, { cid: part, bytes: file.block.bytes });
    return file.block.bytes;
  };
  try {
    const { language, entry, files } = await loadDefinition(read, cid, "any");
    const problem = language === "shell" ? interpreterProblem(cid, files[entry]!) : undefined;
    if (problem) addProblem(problem.code, problem.message);
    const parts = [...blocks.values()];
    return { entry: cid, cid, blocks: parts, files: {}, source: createLoader(cid, parts, packages) };
  } catch (error) {
    if (!(error instanceof BerthError)) throw error;
    const hint = `put the content into the folder ${CONTENT_FOLDER}/ of the sources, in a file named after its CID`;
    return addProblem(error.code.replaceAll("_", "-"), `${error.message} (${hint})`);
  }
}

function createLoader(
  cid: Cid,
  blocks: readonly Block[],
  packages: PackageSet | undefined,
): GatheredDefinition["source"] {
  const bytes = new Map(blocks.map((block) => [block.cid, block.bytes]));
  return async (server) => withPackages(await loadDefinition(async (part) => bytes.get(part), cid, server), packages);
}

/** The path under which a person finds a definition's file: a single file is compiled under another name. */
export function originalPath({ cid, entry }: GatheredDefinition, compiledAs: string | undefined): string | undefined {
  return isStructure(cid) || compiledAs === undefined ? compiledAs : entry;
}
