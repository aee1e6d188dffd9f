import fs from "node:fs";
import { syncBuiltinESMExports } from "node:module";
import { basename, dirname, join, resolve } from "node:path";
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
  guard(fs.promises, true);
  guard(fs, false);
  syncBuiltinESMExports();
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
    "access appendFile chmod chown createReadStream createWriteStream mkdir mkdtemp open " +
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
