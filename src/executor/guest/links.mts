import fs from "node:fs";
import { syncBuiltinESMExports } from "node:module";
import { basename, dirname, join, relative, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { folders } from "./folders.mts";

/**
 * Without a sandbox, Node's permission model compares paths as they are written, so a link in a folder would be followed
 * to wherever it leads. This keeps honest code within its folders, as the sandbox does; it is no wall against other code.
 */
export function refuseLinksOut(): void {
  const given = Object.entries(folders);
  if (given.length === 0) return;
  const links: Links = { realpath: fs.realpathSync.native, readlink: fs.readlinkSync };

  const check = (path: unknown, ofItself: boolean): void => {
    const full = pathOf(path);
    const found = full === undefined ? undefined : given.find(([, root]) => isWithin(root, full));
    if (!found) return;
    const [name, root] = found;
    const real = ofItself ? join(realOf(dirname(full!), links), basename(full!)) : realOf(full!, links);
    if (full === root || isWithin(root, real)) return;
    const message = `EACCES: permission denied: ${full} leads out of the folder "${name}"`;
    throw Object.assign(new Error(message), { code: "EACCES", path: full });
  };
  const guard = (of: object, rejects: boolean): void => {
    const functions = of as Record<string, unknown>;
    for (const [name, original] of Object.entries(functions)) {
      const kind = name.replace(/Sync$/, "");
      if (typeof original !== "function" || !BY_PATH.has(kind)) continue;
      const guarded = function (this: unknown, ...args: unknown[]): unknown {
        try {
          for (const path of args.slice(0, TWO_PATHS.has(kind) ? 2 : 1)) check(path, OF_THE_LINK.has(kind));
        } catch (error) {
          if (!rejects || kind === "watch") throw error;
          return Promise.reject(error);
        }
        return Reflect.apply(original, this, args);
      };
      functions[name] = Object.assign(guarded, original);
    }
  };
  listWithoutLinks();
  guard(fs.promises, true);
  guard(fs, false);
  const ofProcess = { loadEnvFile: process.loadEnvFile.bind(process) };
  guard(ofProcess, false);
  Object.assign(process, ofProcess);
  syncBuiltinESMExports();
}

/** Node 20 follows the links in a tree that it lists, except where it tells what each entry is. */
function listWithoutLinks(): void {
  const { readdir, readdirSync } = fs as unknown as Record<string, (...args: unknown[]) => unknown>;
  const list = fs.promises.readdir as unknown as (...args: unknown[]) => Promise<unknown>;
  const ofTree = (path: unknown, options: unknown): TreeList | undefined => {
    const { recursive, withFileTypes, encoding } = (options ?? {}) as Record<string, unknown>;
    // It lists no tree as bytes.
    if (recursive !== true || withFileTypes === true || encoding === "buffer") return undefined;
    return {
      typed: { recursive, withFileTypes: true },
      names: (found) =>
        found.map(({ path: before, parentPath, name }) => relative(pathOf(path)!, resolve(parentPath ?? before, name))),
    };
  };
  Object.assign(fs.promises, {
    async readdir(path: unknown, options: unknown) {
      const tree = ofTree(path, options);
      return tree ? tree.names((await list(path, tree.typed)) as Listed[]) : list(path, options);
    },
  });
  Object.assign(fs, {
    readdirSync(path: unknown, options: unknown) {
      const tree = ofTree(path, options);
      return tree ? tree.names(readdirSync!(path, tree.typed) as Listed[]) : readdirSync!(path, options);
    },
    readdir(path: unknown, options: unknown, done?: (error: unknown, names?: unknown) => void) {
      const tree = ofTree(path, options);
      if (!tree || !done) return readdir!(path, options, done);
      readdir!(path, tree.typed, (error: unknown, found: Listed[]) =>
        error ? done(error) : done(null, tree.names(found)),
      );
    },
  });
}

interface TreeList {
  readonly typed: object;
  names(found: readonly Listed[]): string[];
}

interface Listed {
  readonly name: string;
  readonly parentPath?: string;
  readonly path: string;
}

const TWO_PATHS: ReadonlySet<string> = new Set(["copyFile", "cp", "link", "rename"]);
/** They are about a link and not about where it leads. */
const OF_THE_LINK: ReadonlySet<string> = new Set([
  "lchmod",
  "lchown",
  "lstat",
  "lutimes",
  "readlink",
  "rename",
  "rm",
  "unlink",
]);
const BY_PATH: ReadonlySet<string> = new Set([
  ...TWO_PATHS,
  ...OF_THE_LINK,
  ...(
    "access appendFile chmod chown createReadStream createWriteStream loadEnvFile mkdir mkdtemp open " +
    "openAsBlob opendir readdir readFile rmdir stat statfs truncate unwatchFile utimes watch " +
    "watchFile writeFile"
  ).split(" "),
]);

function pathOf(path: unknown): string | undefined {
  if (typeof path === "string") return resolve(path);
  if (path instanceof Uint8Array) return resolve(Buffer.from(path).toString());
  return path instanceof URL && path.protocol === "file:" ? fileURLToPath(path) : undefined;
}

/** A path that is still to be made counts by the part of its path that there is, and by where a link to nothing leads. */
function realOf(path: string, { realpath, readlink }: Links, left = LINKS_MAX): string {
  try {
    return realpath(path);
  } catch {
    const parent = dirname(path);
    if (parent === path) return path;
    const inParent = join(realOf(parent, { realpath, readlink }, left), basename(path));
    let target: string;
    try {
      target = readlink(inParent);
    } catch {
      return inParent;
    }
    return left === 0 ? "/" : realOf(resolve(dirname(inParent), target), { realpath, readlink }, left - 1);
  }
}

/** Node's own, before they are guarded. */
interface Links {
  readonly realpath: (path: string) => string;
  readonly readlink: (path: string) => string;
}

/** As many as Linux follows. */
const LINKS_MAX = 40;

function isWithin(root: string, path: string): boolean {
  return path === root || path.startsWith(`${root}/`);
}
