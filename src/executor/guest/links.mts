import fs from "node:fs";
import { syncBuiltinESMExports } from "node:module";
import { dirname, isAbsolute, join, relative, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { folders } from "./folders.mts";

/**
 * Without a sandbox, Node's permission model compares paths literally, so a symbolic link in a folder would be followed
 * anywhere. This keeps honest code within its folders, as the sandbox does; it is no barrier to malicious code.
 */
export function guardFolders(): void {
  const granted = Object.entries(folders);
  if (granted.length === 0) return;
  const readlink = fs.readlinkSync;
  const roots = [...granted, ["its own files", process.cwd()] as const];

  const check = (path: unknown, actsOnLink: boolean): void => {
    const literal = toAbsolute(path);
    const absolute = literal === undefined ? undefined : resolve(literal);
    const match = absolute === undefined ? undefined : roots.find(([, root]) => isWithin(root, absolute));
    if (!match) return;
    const [name, root] = match;
    const walk = { actsOnLink, readlink, linkFree: roots.map(([, root]) => root) };
    // Some functions of Node resolve each `..` before the system sees the path.
    if ([literal!, absolute!].every((each) => isWithin(root, resolveLinks(each, walk)))) return;
    const message = `EACCES: permission denied: ${absolute} leads out of the folder "${name}"`;
    throw Object.assign(new Error(message), { code: "EACCES", path: absolute });
  };
  const guard = (target: object, rejects: boolean): void => {
    const functions = target as Record<string, unknown>;
    for (const [name, original] of Object.entries(functions)) {
      const kind = name.replace(/Sync$/, "");
      if (typeof original !== "function" || !BY_PATH.has(kind)) continue;
      const guarded = function (this: unknown, ...args: unknown[]): unknown {
        try {
          const paths = kind === "symlink" ? args.slice(1, 2) : args.slice(0, TWO_PATHS.has(kind) ? 2 : 1);
          for (const path of paths) check(path, ACTS_ON_LINK.has(kind));
        } catch (error) {
          if (kind === "exists") return (args[1] as ((exists: boolean) => void) | undefined)?.(false) ?? false;
          if (!rejects || kind === "watch") throw error;
          return Promise.reject(error);
        }
        return Reflect.apply(original, this, args);
      };
      functions[name] = Object.assign(guarded, original);
    }
  };
  listWithoutLinks();
  for (const realpath of [fs.realpath, fs.realpathSync]) guard(realpath, false);
  guard(fs.promises, true);
  guard(fs, false);
  const processFunctions = { loadEnvFile: process.loadEnvFile.bind(process) };
  guard(processFunctions, false);
  Object.assign(process, processFunctions);
  syncBuiltinESMExports();
}

/** Node 20 follows the links in a tree that it lists, unless the listing includes file types. */
function listWithoutLinks(): void {
  type List = (...args: unknown[]) => unknown;
  const { readdir, readdirSync } = fs as unknown as Record<"readdir" | "readdirSync", List>;
  const list = fs.promises.readdir as unknown as List;
  // Node lists no tree as buffers.
  const isTree = ({ recursive, withFileTypes, encoding }: Record<string, unknown>): boolean =>
    recursive === true && withFileTypes !== true && encoding !== "buffer";
  const typed = { recursive: true, withFileTypes: true };
  const names = (path: unknown, entries: unknown): string[] =>
    (entries as Listed[]).map(({ path: before, parentPath, name }) =>
      relative(toAbsolute(path)!, resolve(parentPath ?? before, name)),
    );
  Object.assign(fs.promises, {
    readdir: async (path: unknown, options: unknown) =>
      isTree(Object(options)) ? names(path, await list(path, typed)) : list(path, options),
  });
  Object.assign(fs, {
    readdirSync: (path: unknown, options: unknown) =>
      isTree(Object(options)) ? names(path, readdirSync(path, typed)) : readdirSync(path, options),
    readdir: (path: unknown, options: unknown, done?: (error: unknown, names?: unknown) => void) =>
      done && isTree(Object(options))
        ? readdir(path, typed, (error: unknown, found: unknown) =>
            error ? done(error) : done(null, names(path, found)),
          )
        : readdir(path, options, done),
  });
}

interface Listed {
  readonly name: string;
  readonly parentPath?: string;
  readonly path: string;
}

const TWO_PATHS: ReadonlySet<string> = new Set(["copyFile", "cp", "link", "rename"]);
/** These act on a link itself and not on its target. */
const ACTS_ON_LINK: ReadonlySet<string> = new Set(
  "lchmod lchown lstat lutimes readlink rename rm symlink unlink".split(" "),
);
const BY_PATH: ReadonlySet<string> = new Set([
  ...TWO_PATHS,
  ...ACTS_ON_LINK,
  ...(
    "access appendFile chmod chown createReadStream createWriteStream exists loadEnvFile mkdir mkdtemp " +
    "mkdtempDisposable native open openAsBlob opendir readdir readFile realpath rmdir stat statfs truncate " +
    "unwatchFile utimes watch watchFile writeFile"
  ).split(" "),
]);

/** The absolute path, not normalized: the system follows each link in it before a `..` after it. */
function toAbsolute(path: unknown): string | undefined {
  if (typeof path === "number" || path === undefined || path === null) return undefined;
  let text: string;
  if (path instanceof Uint8Array) {
    text = Buffer.from(path).toString();
    // The system would read another name than the one that is checked.
    if (!Buffer.from(text).equals(path)) throw Object.assign(new Error("a path must be UTF-8"), { code: "EINVAL" });
  } else if (typeof path === "string") text = path;
  else {
    try {
      // Node accepts anything that looks like a file URL.
      text = fileURLToPath(path as URL);
    } catch {
      return undefined;
    }
  }
  return isAbsolute(text) ? text : `${process.cwd()}/${text}`;
}

interface ResolveOptions {
  /** The path refers to its last link and not to the target. */
  readonly actsOnLink: boolean;
  /** Node's own function, from before it was guarded. */
  readonly readlink: (path: string) => string;
  /** Paths without links; anything outside them cannot be read, and may be a link. */
  readonly linkFree: readonly string[];
}

/** The path that the system resolves this to; its end need not exist. */
function resolveLinks(path: string, { actsOnLink: ofItself, readlink, linkFree: known }: ResolveOptions): string {
  const parts = path.split("/");
  let resolved = "/";
  for (let links = 0; parts.length > 0;) {
    const part = parts.shift()!;
    if (part === "" || part === ".") continue;
    if (part === "..") {
      resolved = dirname(resolved);
      continue;
    }
    const next = join(resolved, part);
    let target: string | undefined;
    try {
      // A trailing slash makes a path refer to the target.
      if (!ofItself || parts.length > 0) target = readlink(next);
    } catch (error) {
      const isRefused = (error as NodeJS.ErrnoException).code === "ERR_ACCESS_DENIED";
      if (isRefused && !known.some((each) => isWithin(next, each))) return "/";
    }
    if (target === undefined) resolved = next;
    else if (++links > LINKS_MAX) return "/";
    else {
      parts.unshift(...target.split("/"));
      if (target.startsWith("/")) resolved = "/";
    }
  }
  return resolved;
}

/** The limit of Linux. */
const LINKS_MAX = 40;

function isWithin(root: string, path: string): boolean {
  return path === root || path.startsWith(`${root}/`);
}
