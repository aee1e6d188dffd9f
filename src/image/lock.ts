import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { matches, rawBlock, type Cid } from "../cid.ts";
import { isObject } from "../json.ts";
import type { Problem } from "../problem.ts";
import { compilerIdentity, type Compiling } from "./compiler.ts";
import { CONTENT_FOLDER, LOCK_FILE, UPSTREAMS_LOCK } from "./image.ts";
import { compareText, prettyJson } from "./pretty-json.ts";

/**
 * What an image was made of. It is a memory only: whatever in it does not fit what is found is not used, and the
 * work is done again.
 */
export interface Lock {
  readonly version: typeof LOCK_VERSION;
  readonly compiler: Readonly<Record<string, string>>;
  /** Every file that was read, by path. */
  readonly sources: Readonly<Record<string, Cid>>;
  /** By entry file. */
  readonly definitions: Readonly<Record<string, { readonly cid: Cid; readonly files: Readonly<Record<string, Cid>> }>>;
  /** Compile key → compiled result. */
  readonly results: Readonly<Record<string, Cid>>;
  /** The files of the image outside of `content/`, without this one. */
  readonly outputs: Readonly<Record<string, Cid>>;
  /** The names in `content/`, hashed. */
  readonly content: Cid;
  /** What is wrong with definitions that serve all the same, to be said again when nothing is done. */
  readonly warnings: readonly Problem[];
}

export const LOCK_VERSION = 1;

export function readLock(out: string): Lock | undefined {
  try {
    const lock: unknown = JSON.parse(readFileSync(join(out, LOCK_FILE), "utf8"));
    return isLock(lock) ? lock : undefined;
  } catch {
    return undefined;
  }
}

export function lockText(lock: Lock): string {
  return prettyJson(lock);
}

export function contentNames(names: Iterable<string>): Cid {
  return rawBlock([...names].sort(compareText).join("\n")).cid;
}

/**
 * Whether the image of `out` is what the sources give, as far as can be told without making it: each source, each
 * output and the compiler are what they were, and no content is missing or extra. `deep` also hashes all content.
 */
export async function confirm(
  lock: Lock,
  { from, out, deep }: { from: string; out: string; deep: boolean },
  compiling: Compiling,
): Promise<boolean> {
  const compiler = compilerIdentity(compiling);
  return (
    Object.entries(compiler).every(([language, key]) => lock.compiler[language] === key) &&
    allAre(from, lock.sources) &&
    // The one source that counts without being named anywhere.
    existsSync(join(from, UPSTREAMS_LOCK)) === UPSTREAMS_LOCK in lock.sources &&
    allAre(out, lock.outputs) &&
    contentIs(join(out, CONTENT_FOLDER), lock.content, deep) &&
    (await importsAre(from, lock.definitions, compiling))
  );
}

/** A new file can stand in the way of an import that led to another, so these are followed again. */
async function importsAre(from: string, definitions: Lock["definitions"], compiling: Compiling): Promise<boolean> {
  for (const [entry, { files }] of Object.entries(definitions)) {
    const known = Object.keys(files).sort();
    if (known.length < 2) continue;
    const found = await compiling.gather(from, entry);
    if (found.problems.some(({ severity }) => severity === "error")) return false;
    if (Object.keys(found.files).sort().join("\n") !== known.join("\n")) return false;
  }
  return true;
}

function allAre(folder: string, files: Readonly<Record<string, Cid>>): boolean {
  return Object.entries(files).every(([path, cid]) => cidOfFile(join(folder, path)) === cid);
}

function contentIs(folder: string, names: Cid, deep: boolean): boolean {
  if (!existsSync(folder)) return false;
  const found = readdirSync(folder);
  return contentNames(found) === names && (!deep || found.every((cid) => isIntact(folder, cid)));
}

function isIntact(folder: string, cid: Cid): boolean {
  try {
    return matches(cid, readFileSync(join(folder, cid)));
  } catch {
    return false;
  }
}

function cidOfFile(file: string): Cid | undefined {
  try {
    return rawBlock(readFileSync(file)).cid;
  } catch {
    return undefined;
  }
}

function isLock(value: unknown): value is Lock {
  if (!isObject(value) || value["version"] !== LOCK_VERSION) return false;
  const { compiler, sources, definitions, results, outputs, content, warnings } = value;
  return (
    [compiler, sources, definitions, results, outputs].every(isObject) &&
    Object.values(definitions as object).every((one) => isObject(one) && isObject(one["files"])) &&
    typeof content === "string" &&
    Array.isArray(warnings)
  );
}
