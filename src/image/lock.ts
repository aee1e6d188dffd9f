import { existsSync, readdirSync, readFileSync, statSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { homedir } from "node:os";
import { join, isAbsolute } from "node:path";
import { TSCONFIG } from "../discover/files/path-aliases.ts";
import { matches, rawBlock, type Cid } from "../lib/cid.ts";
import { isObject } from "../lib/json.ts";
import { compareText } from "../lib/pretty-json.ts";
import type { Problem } from "../lib/problem.ts";
import { compilerIdentity, type Compiling } from "./compiling.ts";
import {
  bootSource,
  cidFile,
  CONTENT_FOLDER,
  imageNames,
  LOCK_FILE,
  manifestFile,
  MCPS_FILE,
  MCPS_SOURCE,
  PACKAGE_JSON,
  UPSTREAMS_LOCK,
} from "./image.ts";
import { isFault, openSourceFolder } from "./source-folder.ts";

/**
 * The inputs from which an image was generated. It is only a cache: anything in it that does not match the current
 * files is ignored, and the work is done again. A lock cannot prove that a result was compiled from a source, so a lock
 * that another user may have written is not trusted.
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
  /** The hash of the names in `content/`. */
  readonly content: Cid;
  /** Problems of definitions that serve nevertheless, to be reported again if nothing has to be done. */
  readonly warnings: readonly Problem[];
}

export const LOCK_VERSION = 1;

/** Undefined if there is none, or if `isTrusted` rejects its CID. */
export function readLock(out: string, isTrusted: (cid: Cid) => boolean = () => true): Lock | undefined {
  try {
    const { cid, bytes } = rawBlock(readFileSync(join(out, LOCK_FILE)));
    if (!isTrusted(cid)) return undefined;
    const lock: unknown = JSON.parse(new TextDecoder().decode(bytes));
    return isLock(lock) ? lock : undefined;
  } catch {
    return undefined;
  }
}

export function contentNames(names: Iterable<string>): Cid {
  return rawBlock([...names].sort(compareText).join("\n")).cid;
}

/** True if sources, outputs and compiler are unchanged since the lock. `deep` also hashes all content. */
export async function isUpToDate(
  lock: Lock,
  { from, out, deep, sourceBytes }: { from: string; out: string; deep: boolean; sourceBytes: number },
  compiling: Compiling,
): Promise<boolean> {
  const compiler = compilerIdentity(compiling);
  return (
    Object.entries(compiler).every(([language, key]) => lock.compiler[language] === key) &&
    areSourcesUnchanged(from, lock.sources, sourceBytes) &&
    UNNAMED_SOURCES.every((name) => existsSync(join(from, name)) === name in lock.sources) &&
    areOutputsUnchanged(out, lock.outputs) &&
    isContentUnchanged(join(out, CONTENT_FOLDER), lock.content, deep) &&
    (await areImportsUnchanged(from, lock.definitions, compiling))
  );
}

/**
 * Sources that count although nothing names them: those of a whole folder of sources take precedence over a user's own
 * list. The lock of packages counts only next to its `package.json`. Aliases may resolve imports that could not be
 * resolved before.
 */
const UNNAMED_SOURCES = [MCPS_SOURCE, ...imageNames.map(bootSource), UPSTREAMS_LOCK, PACKAGE_JSON, TSCONFIG];

/** A new file can shadow the target of an import, so imports are resolved again. */
async function areImportsUnchanged(
  from: string,
  definitions: Lock["definitions"],
  compiling: Compiling,
): Promise<boolean> {
  for (const [entry, { files }] of Object.entries(definitions)) {
    const known = Object.keys(files).sort();
    if (known.length < 2) continue;
    const gathered = await compiling.gather(from, entry);
    if (gathered.problems.some(({ severity }) => severity === "error")) return false;
    if (Object.keys(gathered.files).sort().join("\n") !== known.join("\n")) return false;
  }
  return true;
}

/** Its paths are not trusted: one that leads out of the folder, or not to a plain file, is not read. */
function areSourcesUnchanged(from: string, sources: Lock["sources"], sourceBytes: number): boolean {
  const folder = openSourceFolder(from, sourceBytes);
  return Object.entries(sources).every(([path, cid]) => {
    const file = folder.read(path);
    return !isFault(file) && file.block.cid === cid;
  });
}

const OUTPUTS: ReadonlySet<string> = new Set([
  MCPS_FILE,
  ...imageNames.flatMap((name) => [manifestFile(name), cidFile(name)]),
]);

function areOutputsUnchanged(out: string, outputs: Lock["outputs"]): boolean {
  return Object.entries(outputs).every(([name, cid]) => OUTPUTS.has(name) && isIntact(join(out, name), cid));
}

function isContentUnchanged(folder: string, names: Cid, deep: boolean): boolean {
  if (!existsSync(folder)) return false;
  const present = readdirSync(folder);
  return contentNames(present) === names && (!deep || present.every((cid) => isIntact(join(folder, cid), cid)));
}

function isIntact(file: string, cid: Cid): boolean {
  try {
    // A device may be endless.
    return statSync(file).isFile() && matches(cid, readFileSync(file));
  } catch {
    return false;
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

/** The maximum number of recorded locks: one for each state of an image. */
const LOCKS_MAX = 200;

/**
 * The locks that Berth itself wrote for this user. A lock is stored next to the image, where anyone who changes the
 * image could write it; so only a lock that is recorded here, outside of all projects, is trusted.
 */
export class OwnLocks {
  readonly #folder: string;

  constructor(env: NodeJS.ProcessEnv) {
    const [cache, home] = [env["XDG_CACHE_HOME"], env["HOME"]].map((path) =>
      isAbsolute(path ?? "") ? path : undefined,
    );
    this.#folder = join(cache ?? join(home ?? homedir(), ".cache"), "berth", "locks");
  }

  has(lock: Cid): boolean {
    return existsSync(join(this.#folder, lock));
  }

  /** Records a lock. If that fails, its results are compiled again. */
  add(lock: Cid): void {
    try {
      mkdirSync(this.#folder, { recursive: true, mode: 0o700 });
      writeFileSync(join(this.#folder, lock), "");
      this.#removeOldest();
    } catch {
      // The user has no folder for it, or the disk is full.
    }
  }

  #removeOldest(): void {
    const locks = readdirSync(this.#folder);
    if (locks.length <= LOCKS_MAX) return;
    const age = new Map(locks.map((lock) => [lock, statSync(join(this.#folder, lock)).mtimeMs]));
    locks.sort((one, other) => age.get(one)! - age.get(other)!);
    for (const lock of locks.slice(0, locks.length - LOCKS_MAX)) rmSync(join(this.#folder, lock), { force: true });
  }
}
