import fs from "node:fs";
import { syncBuiltinESMExports } from "node:module";
import { dirname, isAbsolute, join, relative, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { folders } from "./folders.mts";

/**
 * Without a sandbox, Node's permission model compares paths as they are written, so a link in a folder would be followed
 * to wherever it leads. This keeps honest code within its folders, as the sandbox does; it is no wall against other code.
 */
export function refuseLinksOut(): void {
  const given = Object.entries(folders);
  if (given.length === 0) return;
  const readlink = fs.readlinkSync;
  const roots = [...given, ["its own files", process.cwd()] as const];

  const check = (path: unknown, ofItself: boolean): void => {
    const written = pathOf(path);
    const full = written === undefined ? undefined : resolve(written);
    const found = full === undefined ? undefined : roots.find(([, root]) => isWithin(root, full));
    if (!found) return;
    const [name, root] = found;
    const walk = { ofItself, readlink, known: roots.map(([, known]) => known) };
    // Some functions of Node resolve each `..` before the system sees the path.
    if ([written!, full!].every((each) => isWithin(root, realOf(each, walk)))) return;
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
          const paths = kind === "symlink" ? args.slice(1, 2) : args.slice(0, TWO_PATHS.has(kind) ? 2 : 1);
          for (const path of paths) check(path, OF_THE_LINK.has(kind));
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
  const ofProcess = { loadEnvFile: process.loadEnvFile.bind(process) };
  guard(ofProcess, false);
  Object.assign(process, ofProcess);
  syncBuiltinESMExports();
}

/** Node 20 follows the links in a tree that it lists, except where it tells what each entry is. */
function listWithoutLinks(): void {
  type List = (...args: unknown[]) => unknown;
  const { readdir, readdirSync } = fs as unknown as Record<"readdir" | "readdirSync", List>;
  const list = fs.promises.readdir as unknown as List;
  // It lists no tree as bytes.
  const isTree = ({ recursive, withFileTypes, encoding }: Record<string, unknown>): boolean =>
    recursive === true && withFileTypes !== true && encoding !== "buffer";
  const typed = { recursive: true, withFileTypes: true };
  const names = (path: unknown, found: unknown): string[] =>
    (found as Listed[]).map(({ path: before, parentPath, name }) =>
      relative(pathOf(path)!, resolve(parentPath ?? before, name)),
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
/** They are about a link and not about where it leads. */
const OF_THE_LINK: ReadonlySet<string> = new Set(
  "lchmod lchown lstat lutimes readlink rename rm symlink unlink".split(" "),
);
const BY_PATH: ReadonlySet<string> = new Set([
  ...TWO_PATHS,
  ...OF_THE_LINK,
  ...(
    "access appendFile chmod chown createReadStream createWriteStream exists loadEnvFile mkdir mkdtemp " +
    "mkdtempDisposable native open openAsBlob opendir readdir readFile realpath rmdir stat statfs truncate " +
    "unwatchFile utimes watch watchFile writeFile"
  ).split(" "),
]);

/** The absolute path as it is written: the system follows each link in it before it takes a `..` after it. */
function pathOf(path: unknown): string | undefined {
  if (typeof path === "number" || path === undefined || path === null) return undefined;
  let text: string;
  if (path instanceof Uint8Array) {
    text = Buffer.from(path).toString();
    // Another name than the system reads would be checked.
    if (!Buffer.from(text).equals(path)) throw Object.assign(new Error("a path must be UTF-8"), { code: "EINVAL" });
  } else if (typeof path === "string") text = path;
  else {
    try {
      // Node takes whatever looks like a URL of a file.
      text = fileURLToPath(path as URL);
    } catch {
      return undefined;
    }
  }
  return isAbsolute(text) ? text : `${process.cwd()}/${text}`;
}

interface Walk {
  /** The path is about its last link and not about where that leads. */
  readonly ofItself: boolean;
  /** Node's own, before it is guarded. */
  readonly readlink: (path: string) => string;
  /** Paths without links; what is beside them cannot be read, and may be one. */
  readonly known: readonly string[];
}

/** Where the system gets to by this path, of which the end need not exist. */
function realOf(path: string, { ofItself, readlink, known }: Walk): string {
  const parts = path.split("/");
  let real = "/";
  for (let links = 0; parts.length > 0;) {
    const part = parts.shift()!;
    if (part === "" || part === ".") continue;
    if (part === "..") {
      real = dirname(real);
      continue;
    }
    const next = join(real, part);
    let target: string | undefined;
    try {
      // A slash after a link asks where it leads.
      if (!ofItself || parts.length > 0) target = readlink(next);
    } catch (error) {
      const isRefused = (error as NodeJS.ErrnoException).code === "ERR_ACCESS_DENIED";
      if (isRefused && !known.some((each) => isWithin(next, each))) return "/";
    }
    if (target === undefined) real = next;
    else if (++links > LINKS_MAX) return "/";
    else {
      parts.unshift(...target.split("/"));
      if (target.startsWith("/")) real = "/";
    }
  }
  return real;
}

/** As many as Linux follows. */
const LINKS_MAX = 40;

function isWithin(root: string, path: string): boolean {
  return path === root || path.startsWith(`${root}/`);
}
