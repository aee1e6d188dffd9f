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

/** A configuration file that people and other programs edit as well, as it was read. */
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
  const target = targetOf(path);
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

/** Follows links also to a file that is not there yet. */
export function targetOf(path: string): string {
  let target = path;
  for (let links = 0; lstatSync(target, { throwIfNoEntry: false })?.isSymbolicLink(); links++) {
    if (links === LINKS_MAX) throw new BerthError("client_file_invalid", `${path}: its links lead in a circle`);
    target = resolve(dirname(target), readlinkSync(target));
  }
  return target;
}

/** The value at a path in the file; undefined where there is none. */
export function valueIn(file: ConfigFile, path: readonly string[]): unknown {
  return valueAt(file.format.value(file.path, bodyOf(file)), path);
}

type Kind = "add" | "remove";

/** The text of the file with parts added or removed; "" for no file. */
export function editedText(file: ConfigFile, parts: readonly FilePart[], kind: Kind): string {
  const { path, format } = file;
  const before = bodyOf(file);
  const after = parts.reduce((text, part) => format[kind](path, text, part), before);
  checkOnlyParts(format.value(path, before), after === "" ? {} : format.value(path, after), parts, kind, path);
  return after === "" ? "" : BOM.exec(file.text ?? "")![0] + after;
}

/** An edit that would change anything else is not made. */
function checkOnlyParts(before: unknown, after: unknown, parts: readonly FilePart[], kind: Kind, path: string): void {
  const isAsWanted = parts.every((part) => hasPart(after, part) === (kind === "add"));
  if (isAsWanted && isDeepStrictEqual(othersIn(before, parts), othersIn(after, parts))) return;
  throw new BerthError("client_file_invalid", `${path}: it is written in a way that only you can edit`);
}

/** True if it has the part; a server may have further settings there, which others have added. */
function hasPart(value: unknown, part: FilePart): boolean {
  const there = valueAt(value, part.path);
  if ("element" in part) return Array.isArray(there) && there.some((each) => isDeepStrictEqual(each, part.element));
  return isObject(there) && Object.entries(part.value).every(([name, each]) => isDeepStrictEqual(there[name], each));
}

/** The value without the parts, and without objects and lists that are empty then. */
function othersIn(value: unknown, parts: readonly FilePart[]): unknown {
  const copy = structuredClone(value);
  for (const part of parts) {
    for (let depth = part.path.length; depth > 0; depth--) {
      const holder = valueAt(copy, part.path.slice(0, depth - 1));
      if (!isObject(holder)) continue;
      const name = part.path[depth - 1]!;
      const there = holder[name];
      const isWhole = depth === part.path.length && !("element" in part);
      if (depth === part.path.length && "element" in part && Array.isArray(there)) {
        holder[name] = there.filter((each) => !isDeepStrictEqual(each, part.element));
      }
      if (isWhole || Object.keys(holder[name] ?? {}).length === 0) delete holder[name];
    }
  }
  return copy;
}

const BOM = /^\ufeff?/;

function bodyOf({ text = "" }: ConfigFile): string {
  return text.replace(BOM, "");
}

/**
 * Replaces the file atomically; with "" removes it. Its permissions and links stay. Throws `client_file_invalid` if it
 * has changed since it was read.
 */
export async function writeConfigFile(file: ConfigFile, text: string): Promise<void> {
  const { path, target } = file;
  const draft = join(dirname(target), `.berth-${randomBytes(6).toString("hex")}.tmp`);
  try {
    if (text === "" && target === path) {
      checkAsRead(file);
      return unlinkSync(target);
    }
    mkdirSync(dirname(target), { recursive: true });
    const { mode, uid, gid } = existsSync(target)
      ? statSync(target)
      : { mode: undefined, uid: undefined, gid: undefined };
    const handle = await open(draft, "wx", mode ?? (text.includes("<token>") ? 0o600 : 0o666));
    try {
      if (mode !== undefined) await handle.chmod(mode & 0o7777);
      // Only an administrator can, and only for one does it differ.
      if (uid !== undefined && uid !== process.getuid?.()) await handle.chown(uid, gid);
      await handle.writeFile(text || file.format.empty);
      await handle.sync();
    } finally {
      await handle.close();
    }
    checkAsRead(file);
    await rename(draft, target);
  } catch (error) {
    if (error instanceof BerthError) throw error;
    const { code } = error as NodeJS.ErrnoException;
    throw new BerthError("client_file_invalid", `${path}: it cannot be written: ${code}`, { cause: error });
  } finally {
    await rm(draft, { force: true });
  }
}

/** Other programs write these files as well. */
function checkAsRead({ path, target, text }: ConfigFile): void {
  const now = existsSync(target) ? readFileSync(target, "utf8") : undefined;
  if (now !== text) throw new BerthError("client_file_invalid", `${path}: it has changed meanwhile; try again`);
}

/**
 * The change of a file, as `diff -u` shows it. Strings that are not of the parts show as "…": the entries beside them
 * may hold tokens.
 */
export function differenceOf(file: ConfigFile, after: string, parts: readonly FilePart[]): string {
  const own = new Set(parts.flatMap((part) => stringsIn("element" in part ? part.element : part.value)));
  const hidden = (text: string): string => {
    let shown = "";
    let end = 0;
    for (const [from, to] of text === "" ? [] : file.format.strings(file.path, text)) {
      if (own.has(text.slice(from, to))) continue;
      shown += `${text.slice(end, from)}"…"`;
      end = to;
    }
    return shown + text.slice(end);
  };
  const before = bodyOf(file);
  const { hunks } = structuredPatch("", "", hidden(before), hidden(after.replace(BOM, "")), "", "", { context: 2 });
  let shown = "";
  for (const { oldStart, oldLines, newStart, newLines, lines } of hunks) {
    shown += `@@ -${oldStart},${oldLines} +${newStart},${newLines} @@\n`;
    for (const line of lines) shown += `${printableText(line.replace(/\r$/, ""))}\n`;
  }
  return shown;
}

/** As formats write them. */
function stringsIn(value: unknown): string[] {
  if (typeof value === "string") return [JSON.stringify(value)];
  return typeof value === "object" && value !== null ? Object.values(value).flatMap(stringsIn) : [];
}
