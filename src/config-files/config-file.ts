import { randomBytes } from "node:crypto";
import { existsSync, lstatSync, mkdirSync, readFileSync, readlinkSync, statSync, unlinkSync } from "node:fs";
import { open, rename, rm } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { isDeepStrictEqual } from "node:util";
import { structuredPatch } from "diff";
import { BerthError } from "../lib/errors.ts";
import { isObject } from "../lib/json.ts";
import { printableText } from "../lib/printable.ts";
import { valueAt, type FileFormat, type FilePart } from "./file-part.ts";

/** A configuration file that people and other programs also edit, as it was read. */
export interface ConfigFile {
  /** May be a symbolic link. */
  readonly path: string;
  /** The file itself, at the end of all links. */
  readonly target: string;
  /** Undefined if there is no file. */
  readonly text: string | undefined;
  readonly format: FileFormat;
}

export function readConfigFile(path: string, format: FileFormat): ConfigFile {
  const target = resolveTarget(path);
  try {
    const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(readFileSync(target));
    return { path, target, text, format };
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "ENOENT") return { path, target, text: undefined, format };
    const reason = code === "ERR_ENCODING_INVALID_ENCODED_DATA" ? "it is not UTF-8" : `it cannot be read: ${code}`;
    throw new BerthError("client_file_invalid", `${path}: ${reason}`);
  }
}

const LINKS_MAX = 40;

/** Follows links, even to a file that does not exist yet. */
export function resolveTarget(path: string): string {
  let target = path;
  for (let links = 0; lstatSync(target, { throwIfNoEntry: false })?.isSymbolicLink(); links++) {
    if (links === LINKS_MAX) throw new BerthError("client_file_invalid", `${path}: its symbolic links form a loop`);
    target = resolve(dirname(target), readlinkSync(target));
  }
  return target;
}

/** The value at a path in the file; undefined if there is none. */
export function readValue(file: ConfigFile, path: readonly string[]): unknown {
  return valueAt(file.format.value(file.path, withoutBom(file)), path);
}

type Kind = "add" | "remove";

/** The text of the file with parts added or removed; "" for no file. */
export function editedText(file: ConfigFile, parts: readonly FilePart[], kind: Kind): string {
  const { path, format } = file;
  const before = withoutBom(file);
  const after = parts.reduce((text, part) => format[kind](path, text, part), before);
  checkOnlyParts(format.value(path, before), after === "" ? {} : format.value(path, after), parts, kind, path);
  return after === "" ? "" : BOM.exec(file.text ?? "")![0] + after;
}

/** Refuses an edit that would change anything else. */
function checkOnlyParts(before: unknown, after: unknown, parts: readonly FilePart[], kind: Kind, path: string): void {
  const isApplied = parts.every((part) => hasPart(after, part) === (kind === "add"));
  if (isApplied && isDeepStrictEqual(withoutParts(before, parts), withoutParts(after, parts))) return;
  throw new BerthError("client_file_invalid", `${path}: it cannot be edited automatically; edit it yourself`);
}

/** True if it contains the part; a server may have further settings there, added by others. */
function hasPart(value: unknown, part: FilePart): boolean {
  const current = valueAt(value, part.path);
  if ("element" in part) return Array.isArray(current) && current.some((item) => isDeepStrictEqual(item, part.element));
  return (
    isObject(current) && Object.entries(part.value).every(([name, item]) => isDeepStrictEqual(current[name], item))
  );
}

/** The value without the parts, and without objects and lists that become empty. */
function withoutParts(value: unknown, parts: readonly FilePart[]): unknown {
  const copy = structuredClone(value);
  for (const part of parts) {
    for (let depth = part.path.length; depth > 0; depth--) {
      const parent = valueAt(copy, part.path.slice(0, depth - 1));
      if (!isObject(parent)) continue;
      const name = part.path[depth - 1]!;
      const current = parent[name];
      const isWhole = depth === part.path.length && !("element" in part);
      if (depth === part.path.length && "element" in part && Array.isArray(current)) {
        parent[name] = current.filter((item) => !isDeepStrictEqual(item, part.element));
      }
      if (isWhole || Object.keys(parent[name] ?? {}).length === 0) delete parent[name];
    }
  }
  return copy;
}

const BOM = /^\ufeff?/;

function withoutBom({ text = "" }: ConfigFile): string {
  return text.replace(BOM, "");
}

/**
 * Replaces the file atomically; "" removes it. `isSecret` hides a new file from other users. Throws
 * `client_file_invalid` if it has changed since it was read.
 */
export async function writeConfigFile(
  file: ConfigFile,
  text: string,
  isSecret = text.includes("<token>"),
): Promise<void> {
  const { path, target } = file;
  const temporary = join(dirname(target), `.berth-${randomBytes(6).toString("hex")}.tmp`);
  try {
    if (text === "" && target === path) {
      checkUnchanged(file);
      return unlinkSync(target);
    }
    mkdirSync(dirname(target), { recursive: true });
    const { mode, uid, gid } = existsSync(target)
      ? statSync(target)
      : { mode: undefined, uid: undefined, gid: undefined };
    const handle = await open(temporary, "wx", mode ?? (isSecret ? 0o600 : 0o666));
    try {
      if (mode !== undefined) await handle.chmod(mode & 0o7777);
      // Only root may change the owner, and only for root can it differ.
      if (uid !== undefined && uid !== process.getuid?.()) await handle.chown(uid, gid);
      await handle.writeFile(text || file.format.empty);
      await handle.sync();
    } finally {
      await handle.close();
    }
    checkUnchanged(file);
    await rename(temporary, target);
  } catch (error) {
    if (error instanceof BerthError) throw error;
    const { code } = error as NodeJS.ErrnoException;
    throw new BerthError("client_file_invalid", `${path}: it cannot be written: ${code}`, { cause: error });
  } finally {
    await rm(temporary, { force: true });
  }
}

/** Other programs write these files as well. */
function checkUnchanged({ path, target, text }: ConfigFile): void {
  const current = existsSync(target) ? readFileSync(target, "utf8") : undefined;
  if (current !== text)
    throw new BerthError("client_file_invalid", `${path}: it was changed in the meantime; try again`);
}

/** The change in the format of `diff -u`. Strings outside of the edit, which may be tokens, are shown as "…". */
export function renderDiff(file: ConfigFile, after: string, parts: readonly FilePart[]): string {
  const own = new Set(parts.flatMap((part) => collectStrings("element" in part ? part.element : part.value)));
  const redact = (text: string): string => {
    let output = "";
    let end = 0;
    for (const [from, to] of text === "" ? [] : file.format.strings(file.path, text)) {
      if (own.has(text.slice(from, to))) continue;
      output += `${text.slice(end, from)}"…"`;
      end = to;
    }
    return output + text.slice(end);
  };
  const before = withoutBom(file);
  const { hunks } = structuredPatch("", "", redact(before), redact(after.replace(BOM, "")), "", "", { context: 2 });
  let output = "";
  for (const { oldStart, oldLines, newStart, newLines, lines } of hunks) {
    output += `@@ -${oldStart},${oldLines} +${newStart},${newLines} @@\n`;
    for (const line of lines) output += `${printableText(line.replace(/\r$/, ""))}\n`;
  }
  return output;
}

/** Strings as the formats write them. */
function collectStrings(value: unknown): string[] {
  if (typeof value === "string") return [JSON.stringify(value)];
  return typeof value === "object" && value !== null ? Object.values(value).flatMap(collectStrings) : [];
}
