import { createHash } from "node:crypto";
import { posix } from "node:path";
import resolving from "enhanced-resolve";
import type { Cid } from "../../lib/cid.ts";
import { tryParseObject } from "../../lib/json.ts";
import type { LockedPackage, PackagesInReach } from "../../packages/package-set.ts";
import { readTarball, TarballRefused, type TarballFiles, type TarballLimits } from "./tarball.ts";

/** The packages that a definition can reach, in memory: no link can lead out, and only the tarballs count. */
export class PackageFiles {
  readonly #packages: ReadonlyMap<string, OpenPackage>;
  readonly #folders: ReadonlySet<string>;
  readonly #names: ReadonlyMap<string, string>;
  readonly #resolvers: Readonly<Record<ImportKind, resolving.ResolveFunction>>;
  readonly #cache = new Map<string, unknown>();

  /** `tarballs` must have every package. Reuses the last tree. Rejects with `TarballRefused`. */
  static async read(
    { packages }: PackagesInReach,
    tarballs: (cid: Cid) => Uint8Array | undefined,
    limits: TarballLimits,
  ): Promise<PackageFiles> {
    const key = JSON.stringify(packages);
    if (last?.key === key) return last.tree;
    const open = new Map<string, OpenPackage>();
    for (const [location, locked] of Object.entries(packages)) {
      const files = await unpack(locked, tarballs(locked.tarball!), limits);
      open.set(`/${location}`, { locked, files });
    }
    last = { key, tree: new PackageFiles(open) };
    return last.tree;
  }

  private constructor(packages: ReadonlyMap<string, OpenPackage>) {
    this.#packages = packages;
    this.#folders = collectFolders(packages);
    this.#names = assignNames(packages);
    const options = { fileSystem: this.#fileSystem(), ...resolution };
    this.#resolvers = {
      import: resolving.create.sync({ ...options, conditionNames: ["node", "import", "module"] }),
      require: resolving.create.sync({ ...options, conditionNames: ["node", "require", "module"] }),
    };
  }

  hasFile(path: string): boolean {
    return this.#find(path) !== undefined;
  }

  hasFolder(path: string): boolean {
    return this.#folders.has(path);
  }

  bytes(path: string): Uint8Array | undefined {
    return this.#find(path)?.bytes;
  }

  text(path: string): string | undefined {
    const bytes = this.bytes(path);
    return bytes && decoder.decode(bytes);
  }

  /** Returns the result of `create`, which is called once per tree. */
  memoize<Value>(key: string, create: () => Value): Value {
    if (!this.#cache.has(key)) this.#cache.set(key, create());
    return this.#cache.get(key) as Value;
  }

  /** Returns the result of `create`, which is called once per file while its tarball is cached. */
  memoizeForFile<Value>(path: string, create: () => Value): Value {
    const files = this.#find(path)?.files;
    if (!files) return create();
    const values = fileValues.get(files) ?? new Map<string, unknown>();
    fileValues.set(files, values);
    if (!values.has(path)) values.set(path, create());
    return values.get(path) as Value;
  }

  /** The file that an import from a folder resolves to by Node.js rules; undefined if there is none. */
  resolve(specifier: string, folder: string, kind: ImportKind): string | undefined {
    try {
      const resolved = this.#resolvers[kind](folder, specifier);
      return typeof resolved === "string" ? resolved : undefined;
    } catch {
      return undefined;
    }
  }

  /** The package of a file, and the file's name independent of its location: `luxon@3.7.2/src/luxon.js`. */
  origin(path: string): { readonly locked: LockedPackage; readonly name: string } | undefined {
    const found = this.#find(path);
    return found && { locked: found.locked, name: `${this.#names.get(found.location)!}/${found.inside}` };
  }

  /** False if the package declares that a file has no side effects. */
  hasSideEffects(path: string): boolean {
    const found = this.#find(path);
    const { sideEffects } = (found && readManifest(found.files, "package.json")) ?? {};
    if (typeof sideEffects === "boolean") return sideEffects;
    if (!Array.isArray(sideEffects)) return true;
    return sideEffects.some((glob) => typeof glob === "string" && matchesGlob(found!.inside, glob));
  }

  /** True if the nearest manifest in or above a file's folder makes its `.js` files ES modules. */
  isModule(path: string): boolean {
    const { files, inside } = this.#find(path)!;
    for (let folder = posix.dirname(inside); ; folder = posix.dirname(folder)) {
      const manifest = readManifest(files, folder === "." ? "package.json" : `${folder}/package.json`);
      if (manifest) return manifest.type === "module";
      if (folder === ".") return false;
    }
  }

  #find(path: string): FoundFile | undefined {
    const start = path.lastIndexOf("/node_modules/");
    if (start < 0) return undefined;
    const parts = path.slice(start + "/node_modules/".length).split("/");
    const isScoped = parts[0]!.startsWith("@");
    const location = `${path.slice(0, start)}/node_modules/${parts.slice(0, isScoped ? 2 : 1).join("/")}`;
    const inside = parts.slice(isScoped ? 2 : 1).join("/");
    const open = this.#packages.get(location);
    if (!open) return this.#findBundled(path);
    const bytes = open.files.get(inside);
    return bytes && { ...open, location, inside, bytes };
  }

  /** A package may bundle other packages in its own `node_modules`. */
  #findBundled(path: string): FoundFile | undefined {
    for (let end = path.lastIndexOf("/"); end > 0; end = path.lastIndexOf("/", end - 1)) {
      const open = this.#packages.get(path.slice(0, end));
      const inside = path.slice(end + 1);
      const bytes = open?.files.get(inside);
      if (open && bytes) return { ...open, location: path.slice(0, end), inside, bytes };
    }
    return undefined;
  }

  /** The file system interface of `enhanced-resolve`. */
  #fileSystem(): resolving.ResolveOptionsOptionalFS["fileSystem"] {
    const stat = (path: string): { isFile(): boolean; isDirectory(): boolean } => {
      const isFile = this.hasFile(path);
      if (!isFile && !this.hasFolder(path)) throw missing();
      return { isFile: () => isFile, isDirectory: () => !isFile };
    };
    const readFile = (path: string): Buffer => {
      const bytes = this.bytes(path);
      if (!bytes) throw missing();
      return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
    };
    // It reads a package's manifest at each import of each of its files.
    const readJson = (path: string): unknown => {
      const bytes = this.bytes(path);
      if (!bytes) throw missing();
      if (!parsed.has(bytes)) parsed.set(bytes, JSON.parse(decoder.decode(bytes)));
      return parsed.get(bytes);
    };
    const readlink = (): never => {
      throw Object.assign(new Error("no link"), { code: "EINVAL" });
    };
    return inBothForms({ stat, lstat: stat, readFile, readJson, readlink, readdir: () => [] });
  }
}

export type ImportKind = "import" | "require";

interface OpenPackage {
  readonly locked: LockedPackage;
  readonly files: TarballFiles;
}

interface FoundFile extends OpenPackage {
  readonly location: string;
  readonly inside: string;
  readonly bytes: Uint8Array;
}

/** The rules of Node.js plus those of bundlers: names without extension, and `module` in addition to `main`. */
const resolution = {
  extensions: [".js", ".mjs", ".cjs", ".json", ".node"],
  mainFields: ["main", "module"],
  symlinks: false,
  useSyncFileSystemCalls: true,
  // Its cache would outlive the packages.
  unsafeCache: false,
};

const decoder = new TextDecoder();

/** Parsed manifests by their bytes, while their tarballs are cached. */
const parsed = new WeakMap<Uint8Array, unknown>();

let last: { readonly key: string; readonly tree: PackageFiles } | undefined;

/** The packages of the last definition: the next one often needs the same, and unpacking takes longer than reading. */
let unpacked = new Map<Cid, TarballFiles>();

async function unpack(
  { name, version, integrity, tarball }: LockedPackage,
  bytes: Uint8Array | undefined,
  limits: TarballLimits,
): Promise<TarballFiles> {
  const cached = unpacked.get(tarball!);
  if (cached) return cached;
  const label = `the tarball of ${name}@${version}`;
  if (!bytes) throw new TarballRefused(`${label} is not stored: add the package again`);
  if (`sha512-${createHash("sha512").update(bytes).digest("base64")}` !== integrity)
    throw new TarballRefused(`${label} does not match the integrity in the package set: add the package again`);
  try {
    const files = await readTarball(bytes, limits);
    unpacked.set(tarball!, files);
    return files;
  } catch (error) {
    if (!(error instanceof TarballRefused)) throw error;
    throw new TarballRefused(`${label} cannot be used: ${error.message}`);
  }
}

/** The tarballs that must be sent; all others are cached. */
export function tarballsToSend({ packages }: PackagesInReach): Cid[] {
  const referenced = new Set(Object.values(packages).flatMap(({ tarball }) => tarball ?? []));
  unpacked = new Map([...unpacked].filter(([cid]) => referenced.has(cid)));
  return [...referenced].filter((cid) => !unpacked.has(cid));
}

function collectFolders(packages: ReadonlyMap<string, OpenPackage>): Set<string> {
  const folders = new Set<string>(["/"]);
  for (const [location, { files }] of packages) {
    for (const path of [`${location}/package.json`, ...Array.from(files.keys(), (inside) => `${location}/${inside}`)]) {
      for (let folder = posix.dirname(path); !folders.has(folder); folder = posix.dirname(folder)) folders.add(folder);
    }
  }
  return folders;
}

/**
 * Assigns a name to each location: `name@version`, shared by locations from which the package and its imports resolve
 * to the same packages. Others get a numeric suffix. Locations are split into classes in rounds until no round finds a
 * difference.
 */
function assignNames(packages: ReadonlyMap<string, OpenPackage>): Map<string, string> {
  const plain = new Map([...packages].map(([location, { locked }]) => [location, `${locked.name}@${locked.version}`]));
  let classes = plain;
  for (let classCount = 0; new Set(classes.values()).size > classCount;) {
    const previous = classes;
    classCount = new Set(previous.values()).size;
    const classify = (location: string): string => {
      const needed = packages.get(location)!.locked.dependencies ?? [];
      const resolved = needed.map((name) => previous.get(resolveLocation(packages, name, location) ?? ""));
      return createHash("sha256")
        .update(JSON.stringify([plain.get(location), resolved]))
        .digest("base64");
    };
    classes = new Map(Array.from(packages.keys(), (location) => [location, classify(location)]));
  }
  const variants = new Map<string, string[]>();
  for (const [location, name] of plain) {
    const distinct = variants.get(name) ?? [];
    if (!distinct.includes(classes.get(location)!)) variants.set(name, [...distinct, classes.get(location)!]);
  }
  const addSuffix = ([location, name]: [string, string]): [string, string] => {
    const index = variants.get(name)!.indexOf(classes.get(location)!);
    return [location, index === 0 ? name : `${name}+${index}`];
  };
  return new Map([...plain].map(addSuffix));
}

function resolveLocation(packages: ReadonlyMap<string, OpenPackage>, name: string, from: string): string | undefined {
  for (let location = from; ; location = location.slice(0, Math.max(0, location.lastIndexOf("/node_modules/")))) {
    const candidate = `${location}/node_modules/${name}`;
    if (packages.has(candidate)) return candidate;
    if (location === "") return undefined;
  }
}

/** Keyed by path within the tarball's files: a package may have another location in another definition. */
const fileValues = new WeakMap<TarballFiles, Map<string, unknown>>();

interface Manifest {
  readonly sideEffects?: unknown;
  readonly type?: unknown;
}

const manifests = new WeakMap<Uint8Array, Manifest>();

/** An unreadable manifest counts as empty. */
function readManifest(files: TarballFiles, name: string): Manifest | undefined {
  const bytes = files.get(name);
  if (!bytes) return undefined;
  let manifest = manifests.get(bytes);
  if (!manifest) {
    manifest = tryParseObject(decoder.decode(bytes)) ?? {};
    manifests.set(bytes, manifest);
  }
  return manifest;
}

/** Matches `sideEffects` as bundlers do: a name without a folder matches at any depth. */
function matchesGlob(path: string, glob: string): boolean {
  const plain = glob.replace(/^\.\//, "");
  // Braces and classes are rare, and including a file needlessly does no harm.
  if (/[{}[\]!()]/.test(plain)) return true;
  const anywhere = plain.includes("/") ? plain : `**/${plain}`;
  const pattern = anywhere.replace(/[.+^$|\\]/g, "\\$&").replace(/\*\*\/|\*\*|\*|\?/g, (wild) => WILD[wild]!);
  return new RegExp(`^${pattern}$`, "s").test(path);
}

const WILD: Readonly<Record<string, string>> = { "**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]" };

function missing(): Error {
  return Object.assign(new Error("no such file"), { code: "ENOENT" });
}

type SyncCalls = Readonly<
  Record<"stat" | "lstat" | "readFile" | "readJson" | "readlink" | "readdir", (path: string) => unknown>
>;

/** The resolver requires both forms of each call and uses the synchronous ones. */
function inBothForms(calls: SyncCalls): resolving.ResolveOptionsOptionalFS["fileSystem"] {
  const both = Object.entries(calls).flatMap(([name, call]) => [
    [`${name}Sync`, call],
    [
      name,
      (path: string, ...rest: unknown[]) => {
        const done = rest.at(-1) as (error: unknown, result?: unknown) => void;
        try {
          done(null, call(path));
        } catch (error) {
          done(error);
        }
      },
    ],
  ]);
  return Object.fromEntries(both) as resolving.ResolveOptionsOptionalFS["fileSystem"];
}
