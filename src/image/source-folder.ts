import { readFileSync, realpathSync, statSync } from "node:fs";
import { isAbsolute, join, posix, relative, sep } from "node:path";
import { rawBlock, type Block, type Cid } from "../lib/cid.ts";
import { DATA_FOLDER, isInDataFolder } from "../lib/data-folder.ts";

/** The folder of sources: the generator reads only through it, and it gives no access to anything outside. */
export interface SourceFolder {
  readonly root: string;
  /** A file of the folder by its path with forward slashes, or the problem with the path. */
  read(path: string): FolderFile | SourceFault;
  /** Like `read`; a file that is not UTF-8 text is also a problem. */
  readText(path: string): FolderText | SourceFault;
  /** The CID of every file that was read so far, by path. */
  cids(): Record<string, Cid>;
}

export interface FolderFile {
  /** Relative to the folder, without `.` and `..`. */
  readonly path: string;
  readonly block: Block;
  /** Undefined if the bytes are not UTF-8. */
  readonly text: string | undefined;
}

export type FolderText = FolderFile & { readonly text: string };

export interface SourceFault {
  readonly code: string;
  readonly message: string;
}

export function isFault(read: object): read is SourceFault {
  return "code" in read;
}

/** `bytesMax` applies to each file. */
export function openSourceFolder(root: string, bytesMax: number): SourceFolder {
  const files = new Map<string, FolderFile>();
  let realRoot: string | undefined;

  const read = (path: string): FolderFile | SourceFault => {
    const fault = findPathFault(path);
    if (fault) return fault;
    const normal = posix.normalize(path);
    const cached = files.get(normal);
    if (cached) return cached;
    try {
      realRoot ??= realpathSync(root);
      const real = realpathSync(join(root, normal));
      if (!isInside(realRoot, real)) {
        return { code: "outside", message: `"${path}" is a link that leads outside the folder of sources` };
      }
      if (isInDataFolder(relative(realRoot, real))) {
        const message = `"${path}" leads into the folder ${DATA_FOLDER}, where Berth stores its data`;
        return { code: "outside", message };
      }
      const stats = statSync(real);
      if (!stats.isFile()) return { code: "not-a-file", message: `"${path}" is not a file` };
      if (stats.size > bytesMax) {
        return {
          code: "too-large",
          message: `"${path}" has ${stats.size} bytes; a source file may have at most ${bytesMax}`,
        };
      }
      const block = rawBlock(readFileSync(real));
      const file = { path: normal, block, text: decode(block.bytes) };
      files.set(normal, file);
      return file;
    } catch (error) {
      return explainError(path, error as NodeJS.ErrnoException);
    }
  };

  return {
    root,
    read,
    readText(path) {
      const file = read(path);
      if (isFault(file)) return file;
      const { text } = file;
      if (text === undefined) return { code: "not-utf8", message: `"${file.path}" is not UTF-8 text` };
      return { ...file, text };
    },
    cids: () => Object.fromEntries([...files].map(([path, { block }]) => [path, block.cid])),
  };
}

function findPathFault(path: string): SourceFault | undefined {
  if (path === "") return { code: "bad-path", message: "The path is empty" };
  if (path.includes("\0")) return { code: "bad-path", message: "The path contains a NUL character" };
  if (path.includes("\\")) return { code: "bad-path", message: `Write "${path}" with forward slashes` };
  if (isAbsolute(path) || /^[A-Za-z]:/.test(path)) {
    return { code: "absolute-path", message: `"${path}" is absolute; write it relative to the folder of sources` };
  }
  const normal = posix.normalize(path);
  if (normal === ".." || normal.startsWith("../")) {
    return { code: "outside", message: `"${path}" leads outside the folder of sources` };
  }
  return undefined;
}

function isInside(folder: string, file: string): boolean {
  const path = relative(folder, file);
  return path !== ".." && !path.startsWith(`..${sep}`) && !isAbsolute(path);
}

function explainError(path: string, error: NodeJS.ErrnoException): SourceFault {
  if (error.code === "ENOENT" || error.code === "ENOTDIR") {
    return { code: "missing-file", message: `There is no file "${path}" in the folder of sources` };
  }
  if (error.code === "ELOOP") return { code: "cycle", message: `"${path}" is a link that leads back to itself` };
  return { code: "unreadable-file", message: `"${path}" cannot be read: ${error.code ?? error.message}` };
}

const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

function decode(bytes: Uint8Array): string | undefined {
  try {
    return decoder.decode(bytes);
  } catch {
    return undefined;
  }
}
