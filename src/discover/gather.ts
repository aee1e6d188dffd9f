import { constants } from "node:fs";
import { lstat, readdir, realpath, open, type FileHandle } from "node:fs/promises";
import { isAbsolute, join, posix, resolve, relative, sep } from "node:path";
import { codeFrame, positionAt } from "../lib/code-frame.ts";
import { DATA_FOLDER, isInDataFolder } from "../lib/data-folder.ts";
import type { Problem } from "../lib/problem.ts";
import { defaultLimits, type Limits, limitVariable } from "../limits/limits.ts";
import { findUiFiles } from "./assets/app-files.ts";
import { findIconFiles } from "./assets/icon-files.ts";
import { sourceBounds } from "./discovery.ts";
import { findImports, parseImports } from "./files/imports.ts";
import { type PathAliases, readPathAliases, TSCONFIG } from "./files/path-aliases.ts";
import {
  declarationFile,
  isBinary,
  isCode,
  isDeclarations,
  isRelative,
  selectLoader,
  type OwnFile,
  resolveOwnFile,
  resolveTagFile,
} from "./files/resolve.ts";
import { isHiddenName, isSkillFile, skillsFolder } from "./files/skill-files.ts";

/**
 * Reads a definition's files from the disk: the entry, its imports by relative path or alias, files named with `@ui`,
 * and its skills. Symbolic links are resolved before a path is checked, so nothing outside of `root` is read. Types may
 * be in `.d.ts` files: next to the JavaScript that they describe, or next to the entry for all files. Knows nothing of
 * compilers.
 *
 * Binary files are base64. Keys of `files` are normalized, relative to `root`, with forward slashes, and sorted. Never
 * throws on what it finds: returns all readable files together with every problem.
 */
export async function gatherDefinition(
  root: string,
  entry: string,
  limits: Pick<Limits, "sourceFileBytes" | "sourceBytes"> = defaultLimits,
): Promise<{ readonly files: Record<string, string>; readonly problems: Problem[] }> {
  const realRoot = await realpath(resolve(root)).catch(() => resolve(root));
  const files = new Map<string, string>();
  const problems: Problem[] = [];
  const tsconfig = await readSourceFile(realRoot, TSCONFIG, limits.sourceFileBytes);
  const aliases = readPathAliases(tsconfig.ok ? { [TSCONFIG]: tsconfig.text } : {});
  const pending: PendingFile[] = [{ specifier: entry, found: entryFile(entry) }];
  let areSkillsAdded = false;

  const seen = new Set<string>();
  let bytes = 0;
  for (let index = 0; ; index += 1) {
    if (index === pending.length)
      pending.push(...(await findAmbientDeclarations(realRoot, entry, files, seen, limits)));
    if (index === pending.length && !areSkillsAdded) {
      areSkillsAdded = true;
      const skills = await listSkillFiles(realRoot, entry);
      problems.push(...skills.problems);
      pending.push(...skills.files.map((path): PendingFile => ({ specifier: path, found: { kind: "file", path } })));
    }
    if (index === pending.length) break;
    const { specifier, found, origin } = pending[index]!;
    if (found.kind === "outside") problems.push(outside(specifier, origin));
    if (found.kind === "missing") problems.push(missing(specifier, found.tried, origin));
    if (found.kind !== "file" || seen.has(found.path)) continue;
    seen.add(found.path);
    if (files.size >= sourceBounds.sourceFiles) {
      const message = `The definition has more than ${sourceBounds.sourceFiles} files; further ones are not read.`;
      problems.push(problem("too-large", message, origin));
      break;
    }
    const read = await readSourceFile(realRoot, found.path, limits.sourceFileBytes);
    if (!read.ok) {
      problems.push(problem(read.code, read.message, origin));
      continue;
    }
    bytes += read.bytes;
    if (bytes > limits.sourceBytes) {
      const message = `With "${found.path}", the definition has ${bytes} bytes; all its files together may have ${limits.sourceBytes} (${limitVariable("sourceBytes")}).`;
      problems.push(problem("too-large", message, origin));
      break;
    }
    files.set(found.path, read.text);
    // The loop continues with the files added here; the limit of files also bounds a chain of imports.
    pending.push(...(await collectImports(realRoot, found.path, read.text, aliases)));
  }
  return { files: Object.fromEntries([...files].sort(([left], [right]) => (left < right ? -1 : 1))), problems };
}

/**
 * Declaration files in the entry's folder that nothing imports, such as a project's `globals.d.ts`. Only those that
 * declare a name or a module that the definition uses, so that unrelated files in the folder do not change it.
 */
async function findAmbientDeclarations(
  root: string,
  entry: string,
  files: ReadonlyMap<string, string>,
  seen: ReadonlySet<string>,
  { sourceFileBytes }: Pick<Limits, "sourceFileBytes">,
): Promise<PendingFile[]> {
  if (selectLoader(entry) === undefined) return [];
  const folder = posix.dirname(posix.normalize(entry));
  const names = await readdir(join(root, folder)).catch(() => []);
  const declarations = names.filter((name) => isDeclarations(name) && name !== "berth.d.ts").sort();
  const paths = declarations.slice(0, sourceBounds.sourceFiles).map((name) => posix.join(folder, name));
  const unseen = paths.filter((path) => !seen.has(path));
  if (unseen.length === 0) return [];
  const code = Array.from(files).flatMap(([path, text]) => (isCode(path) ? [text] : []));
  const usedNames = new Set(code.flatMap((text) => text.match(/[\w$]+|"[^"\n]*"|'[^'\n]*'/g) ?? []));
  const pending: PendingFile[] = [];
  for (const path of unseen) {
    const read = await readSourceFile(root, path, sourceFileBytes);
    if (!read.ok || !declaredNames(read.text).some((name) => usedNames.has(name))) continue;
    pending.push({ specifier: path, found: { kind: "file", path } });
  }
  return pending;
}

/** Lists the files and folders of a definition's skills, up to the limit. Does not follow symbolic links. */
export async function listSkillFiles(
  root: string,
  entry: string,
): Promise<{
  readonly files: readonly string[];
  readonly folders: readonly string[];
  readonly problems: readonly Problem[];
}> {
  const files: string[] = [];
  const problems: Problem[] = [];
  const folders = [skillsFolder(posix.normalize(entry))];
  const stat = await lstat(join(root, folders[0]!)).catch(() => undefined);
  if (!stat?.isDirectory()) {
    if (stat?.isSymbolicLink()) problems.push(linkInSkills(folders[0]!));
    return { files, folders: [], problems };
  }
  for (const folder of folders) {
    const dirents = await readdir(join(root, folder), { withFileTypes: true }).catch(() => []);
    for (const dirent of dirents.toSorted((one, other) => (one.name < other.name ? -1 : 1))) {
      const path = posix.join(folder, dirent.name);
      if (isHiddenName(dirent.name)) continue;
      if (dirent.isSymbolicLink()) problems.push(linkInSkills(path));
      else if (dirent.isDirectory()) folders.push(path);
      else files.push(path);
      if (files.length + folders.length + problems.length > sourceBounds.sourceFiles + 1)
        return { files, folders, problems };
    }
  }
  return { files, folders, problems };
}

function linkInSkills(path: string): Problem {
  const message = `"${path}" is a link, and skills cannot contain links: put the file itself there.`;
  return { ...problem("outside", message), file: path };
}

/** Names that a file declares for all others: everything in a file without imports and exports, and quoted modules. */
function declaredNames(text: string): string[] {
  const isModule = /^(?:import|export)\b/m.test(text);
  if (isModule && !/\bdeclare\s+(?:global|module)\b/.test(text)) return [];
  const declared = /\b(?:interface|type|class|enum|namespace|function|const|let|var)\s+([\w$]+)/g;
  const modules = /\bdeclare\s+module\s+["']([^"'\n]+)["']/g;
  return [
    ...[...text.matchAll(declared)].map((match) => match[1]!),
    ...[...text.matchAll(modules)].flatMap((match) => [`"${match[1]}"`, `'${match[1]}'`]),
  ];
}

function entryFile(entry: string): OwnFile {
  const path = posix.normalize(entry);
  const outside = isAbsolute(entry) || path === ".." || path.startsWith("../") || /[\\\0]/.test(entry);
  return outside ? { kind: "outside" } : { kind: "file", path };
}

interface PendingFile {
  readonly specifier: string;
  readonly found: OwnFile;
  /** Position of the import; absent for the entry. */
  readonly origin?: Origin;
}

type Origin = Pick<Problem, "file" | "line" | "column" | "frame">;

/**
 * The relative imports and the aliases of a file, each once; the bundler checks all others, and aliases that cannot be
 * resolved. If an import may be an alias, the file that defines the aliases is part of the definition.
 */
async function collectImports(root: string, path: string, text: string, aliases: PathAliases): Promise<PendingFile[]> {
  if (path.endsWith(".sh") && !isSkillFile(path)) return collectIcons(root, path, text);
  if (!isCode(path) || isSkillFile(path)) return [];
  const offsets = new Map<string, number>();
  for (const { specifier, offset } of aliases.mayMatch ? parseImports(text) : findImports(text)) {
    const isOwn = isRelative(specifier) || aliases.mayMatch?.(specifier);
    if (isOwn && !offsets.has(specifier)) offsets.set(specifier, offset);
  }
  const pending: PendingFile[] = [];
  const { sourceFiles: importsMax } = sourceBounds;
  // One more than can be read, so that the excess is reported.
  for (const [specifier, offset] of [...offsets].slice(0, importsMax + 1)) {
    const { line, column, lineText } = positionAt(text, offset);
    const origin = { file: path, line, column, frame: codeFrame(lineText, line, column, specifier.length + 2) };
    const own = await resolveOnDisk(root, path, specifier, aliases.resolve);
    if (!isRelative(specifier)) pending.push({ specifier: TSCONFIG, found: { kind: "file", path: TSCONFIG }, origin });
    if (isRelative(specifier) || own.kind === "file") pending.push({ specifier, found: own, origin });
    const declarations = own.kind === "file" ? declarationFile(own.path) : undefined;
    if (declarations === undefined || (await locate(root, declarations)) === "missing") continue;
    pending.push({ specifier, found: { kind: "file", path: declarations }, origin });
  }
  for (const { file, offset } of findUiFiles(text).slice(0, importsMax + 1)) {
    const { line, column, lineText } = positionAt(text, offset);
    const origin = { file: path, line, column, frame: codeFrame(lineText, line, column, file.length) };
    pending.push({ specifier: file, found: await resolveOnDisk(root, path, file, resolveTagFile), origin });
  }
  return [...pending, ...(await collectIcons(root, path, text))];
}

async function collectIcons(root: string, path: string, text: string): Promise<PendingFile[]> {
  return Promise.all(
    findIconFiles(text)
      .slice(0, ICONS_IN_FILE_MAX)
      .map(async ({ file, offset }) => {
        const { line, column, lineText } = positionAt(text, offset);
        const origin = { file: path, line, column, frame: codeFrame(lineText, line, column, file.length) };
        return { specifier: file, found: await resolveOnDisk(root, path, file, resolveTagFile), origin };
      }),
  );
}

/** More than the number of files that a definition may have. */
const ICONS_IN_FILE_MAX = 1_000;

async function resolveOnDisk(
  root: string,
  importer: string,
  specifier: string,
  resolveFile: typeof resolveOwnFile,
): Promise<OwnFile> {
  const possible = resolveFile(importer, specifier, () => false);
  if (possible.kind !== "missing") return possible;
  const present = new Set<string>();
  for (const path of possible.tried) {
    if ((await locate(root, path)) !== "missing") present.add(path);
  }
  return resolveFile(importer, specifier, (path) => present.has(path));
}

function outside(specifier: string, origin?: Origin): Problem {
  const message = `"${specifier}" is outside the folder of sources: move the file into it, and write a relative path.`;
  return problem("outside", message, origin);
}

function missing(specifier: string, tried: readonly string[], origin?: Origin): Problem {
  return problem("missing-file", `"${specifier}" names no file (looked for ${tried.join(", ")}).`, origin);
}

function problem(code: string, message: string, origin: Origin = {}): Problem {
  return { code, message, severity: "error", ...origin };
}

/** A file below a folder, read within limits; `message` is for people. */
type SourceFile =
  | { readonly ok: true; readonly text: string; readonly bytes: number }
  | {
      readonly ok: false;
      readonly code: "missing-file" | "outside" | "unreadable-file" | "too-large";
      readonly message: string;
    };

/** Resolves a path, following symbolic links. `root` is a real path. */
async function locate(
  root: string,
  path: string,
): Promise<"missing" | "outside" | "data" | { readonly realPath: string }> {
  const realPath = await realpath(join(root, path)).catch(() => undefined);
  if (realPath === undefined) return "missing";
  const inside = relative(root, realPath);
  if (inside === ".." || inside.startsWith(`..${sep}`) || isAbsolute(inside)) return "outside";
  return isInDataFolder(inside) ? "data" : { realPath };
}

async function readSourceFile(root: string, path: string, bytesMax: number): Promise<SourceFile> {
  const location = await locate(root, path);
  if (location === "missing") return fail("missing-file", `There is no file "${path}" in the folder of sources.`);
  if (location === "outside") {
    return fail("outside", `"${path}" is a link that leads outside the folder of sources: put the file itself there.`);
  }
  if (location === "data") {
    return fail(
      "outside",
      `"${path}" leads into the folder ${DATA_FOLDER}, where Berth stores its data: move the file elsewhere.`,
    );
  }
  let file: FileHandle | undefined;
  try {
    // Non-blocking: opening a named pipe without a writer would otherwise wait forever.
    file = await open(location.realPath, constants.O_RDONLY | constants.O_NONBLOCK);
    const stat = await file.stat();
    if (!stat.isFile()) return fail("unreadable-file", `"${path}" is not a plain file.`);
    if (stat.size > bytesMax) {
      return fail("too-large", `"${path}" has ${stat.size} bytes; a source file may have at most ${bytesMax}.`);
    }
    const bytes = await readAtMost(file, bytesMax + 1);
    if (bytes.length > bytesMax) return fail("too-large", `"${path}" grew beyond ${bytesMax} bytes while it was read.`);
    const text = isBinary(path)
      ? Buffer.from(bytes).toString("base64")
      : new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
    return { ok: true, text, bytes: bytes.length };
  } catch (cause) {
    if (cause instanceof TypeError) return fail("unreadable-file", `"${path}" is not UTF-8 text.`);
    const code = cause instanceof Error && "code" in cause ? String(cause.code) : String(cause);
    return fail("unreadable-file", `"${path}" cannot be read (${code}).`);
  } finally {
    await file?.close();
  }
}

async function readAtMost(file: FileHandle, bytesMax: number): Promise<Uint8Array> {
  const chunks: Uint8Array[] = [];
  let length = 0;
  for await (const chunk of file.createReadStream({ end: bytesMax - 1, autoClose: false })) {
    chunks.push(chunk as Uint8Array);
    length += (chunk as Uint8Array).length;
  }
  return Buffer.concat(chunks, length);
}

function fail(code: Extract<SourceFile, { ok: false }>["code"], message: string): SourceFile {
  return { ok: false, code, message };
}
