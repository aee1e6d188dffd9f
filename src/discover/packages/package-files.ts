import { createHash } from "node:crypto";
import { posix } from "node:path";
import resolving from "enhanced-resolve";
import type { Cid } from "../../lib/cid.ts";
import { soundObject } from "../../lib/json.ts";
import type { LockedPackage, PackagesInReach } from "../../packages/package-set.ts";
import { readTarball, TarballRefused, type TarballFiles, type TarballLimits } from "./tarball.ts";

/**
 * The packages that a definition can reach, as a tree of files in memory: `/node_modules/zod/index.js`. Nothing of them is
 * ever on a disk, so that no link leads anywhere, and a bundle depends on nothing but their tarballs and their places.
 */
export class PackageFiles {
  readonly #packages: ReadonlyMap<string, OpenPackage>;
  readonly #folders: ReadonlySet<string>;
  readonly #names: ReadonlyMap<string, string>;
  readonly #resolvers: Readonly<Record<ImportKind, resolving.ResolveFunction>>;
  readonly #kept = new Map<string, unknown>();

  /**
   * `tarballs` must have what `packages` name; each is verified. Returns the tree of the last call where it has the same
   * packages. Rejects with `TarballRefused`.
   */
  static async read(
    { packages }: PackagesInReach,
    tarballs: (cid: Cid) => Uint8Array | undefined,
    limits: TarballLimits,
  ): Promise<PackageFiles> {
    const key = JSON.stringify(packages);
    if (last?.key === key) return last.tree;
    const open = new Map<string, OpenPackage>();
    for (const [place, locked] of Object.entries(packages)) {
      const files = await filesOf(locked, tarballs(locked.tarball!), limits);
      open.set(`/${place}`, { locked, files });
    }
    last = { key, tree: new PackageFiles(open) };
    return last.tree;
  }

  private constructor(packages: ReadonlyMap<string, OpenPackage>) {
    this.#packages = packages;
    this.#folders = foldersOf(packages);
    this.#names = namesOf(packages);
    const options = { fileSystem: this.#fileSystem(), ...resolution };
    this.#resolvers = {
      import: resolving.create.sync({ ...options, conditionNames: ["node", "import", "module"] }),
      require: resolving.create.sync({ ...options, conditionNames: ["node", "require", "module"] }),
    };
  }

  hasFile(path: string): boolean {
    return this.#found(path) !== undefined;
  }

  hasFolder(path: string): boolean {
    return this.#folders.has(path);
  }

  bytes(path: string): Uint8Array | undefined {
    return this.#found(path)?.bytes;
  }

  text(path: string): string | undefined {
    const bytes = this.bytes(path);
    return bytes && decoder.decode(bytes);
  }

  /** The result of `make`, made once for this tree. */
  kept<Made>(key: string, make: () => Made): Made {
    if (!this.#kept.has(key)) this.#kept.set(key, make());
    return this.#kept.get(key) as Made;
  }

  /** The result of `make`, made once for each file as long as its tarball is kept. */
  once<Made>(path: string, make: () => Made): Made {
    const files = this.#found(path)?.files;
    if (!files) return make();
    const made = madeOf.get(files) ?? new Map<string, unknown>();
    madeOf.set(files, made);
    if (!made.has(path)) made.set(path, make());
    return made.get(path) as Made;
  }

  /** Where an import from a folder leads, as Node resolves it; undefined for nowhere. */
  resolve(specifier: string, folder: string, kind: ImportKind): string | undefined {
    try {
      const found = this.#resolvers[kind](folder, specifier);
      return typeof found === "string" ? found : undefined;
    } catch {
      return undefined;
    }
  }

  /** The package of a file, and the file's name, which is the same wherever it lies: `luxon@3.7.2/src/luxon.js`. */
  origin(path: string): { readonly locked: LockedPackage; readonly name: string } | undefined {
    const found = this.#found(path);
    return found && { locked: found.locked, name: `${this.#names.get(found.place)!}/${found.inside}` };
  }

  /** False if the package says that a file does nothing but export. */
  hasSideEffects(path: string): boolean {
    const found = this.#found(path);
    const { sideEffects } = (found && manifestIn(found.files, "package.json")) ?? {};
    if (typeof sideEffects === "boolean") return sideEffects;
    if (!Array.isArray(sideEffects)) return true;
    return sideEffects.some((glob) => typeof glob === "string" && matchesGlob(found!.inside, glob));
  }

  /** True if the manifest next to a file, or above it, says that its `.js` files are ES modules. */
  isModule(path: string): boolean {
    const { files, inside } = this.#found(path)!;
    for (let folder = posix.dirname(inside); ; folder = posix.dirname(folder)) {
      const manifest = manifestIn(files, folder === "." ? "package.json" : `${folder}/package.json`);
      if (manifest) return manifest.type === "module";
      if (folder === ".") return false;
    }
  }

  #found(path: string): FoundFile | undefined {
    const start = path.lastIndexOf("/node_modules/");
    if (start < 0) return undefined;
    const parts = path.slice(start + "/node_modules/".length).split("/");
    const isScoped = parts[0]!.startsWith("@");
    const place = `${path.slice(0, start)}/node_modules/${parts.slice(0, isScoped ? 2 : 1).join("/")}`;
    const inside = parts.slice(isScoped ? 2 : 1).join("/");
    const open = this.#packages.get(place);
    if (!open) return this.#bundled(path);
    const bytes = open.files.get(inside);
    return bytes && { ...open, place, inside, bytes };
  }

  /** A package may bring others in a `node_modules` of its own. */
  #bundled(path: string): FoundFile | undefined {
    for (let end = path.lastIndexOf("/"); end > 0; end = path.lastIndexOf("/", end - 1)) {
      const open = this.#packages.get(path.slice(0, end));
      const inside = path.slice(end + 1);
      const bytes = open?.files.get(inside);
      if (open && bytes) return { ...open, place: path.slice(0, end), inside, bytes };
    }
    return undefined;
  }

  /** As `enhanced-resolve` asks for it. */
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
    // It asks for a package's manifest at each import of each of its files.
    const readJson = (path: string): unknown => {
      const bytes = this.bytes(path);
      if (!bytes) throw missing();
      if (!parsed.has(bytes)) parsed.set(bytes, JSON.parse(decoder.decode(bytes)));
      return parsed.get(bytes);
    };
    const readlink = (): never => {
      throw Object.assign(new Error("no link"), { code: "EINVAL" });
    };
    return inSync({ stat, lstat: stat, readFile, readJson, readlink, readdir: () => [] });
  }
}

export type ImportKind = "import" | "require";

interface OpenPackage {
  readonly locked: LockedPackage;
  readonly files: TarballFiles;
}

interface FoundFile extends OpenPackage {
  readonly place: string;
  readonly inside: string;
  readonly bytes: Uint8Array;
}

/** The ways of Node, with what bundlers add to them: names without an extension, `module` beside `main`. */
const resolution = {
  extensions: [".js", ".mjs", ".cjs", ".json", ".node"],
  mainFields: ["main", "module"],
  symlinks: false,
  useSyncFileSystemCalls: true,
  // Its cache would outlive the packages.
  unsafeCache: false,
};

const decoder = new TextDecoder();

/** Manifests by their bytes, as long as their tarballs are kept. */
const parsed = new WeakMap<Uint8Array, unknown>();

let last: { readonly key: string; readonly tree: PackageFiles } | undefined;

/** The packages of the last definition: the next one often needs the same, and unpacking takes longer than reading. */
let unpacked = new Map<Cid, TarballFiles>();

async function filesOf(
  { name, version, integrity, tarball }: LockedPackage,
  bytes: Uint8Array | undefined,
  limits: TarballLimits,
): Promise<TarballFiles> {
  const known = unpacked.get(tarball!);
  if (known) return known;
  const what = `the tarball of ${name}@${version}`;
  if (!bytes) throw new TarballRefused(`${what} is not stored: add the package again`);
  if (`sha512-${createHash("sha512").update(bytes).digest("base64")}` !== integrity)
    throw new TarballRefused(`${what} does not have the integrity of the set: add the package again`);
  try {
    const files = await readTarball(bytes, limits);
    unpacked.set(tarball!, files);
    return files;
  } catch (error) {
    if (!(error instanceof TarballRefused)) throw error;
    throw new TarballRefused(`${what} cannot be used: ${error.message}`);
  }
}

/** The tarballs that have to be sent; the others are here from before. */
export function tarballsToSend({ packages }: PackagesInReach): Cid[] {
  const named = new Set(Object.values(packages).flatMap(({ tarball }) => tarball ?? []));
  unpacked = new Map([...unpacked].filter(([cid]) => named.has(cid)));
  return [...named].filter((cid) => !unpacked.has(cid));
}

function foldersOf(packages: ReadonlyMap<string, OpenPackage>): Set<string> {
  const folders = new Set<string>(["/"]);
  for (const [place, { files }] of packages) {
    for (const path of [`${place}/package.json`, ...Array.from(files.keys(), (inside) => `${place}/${inside}`)]) {
      for (let folder = posix.dirname(path); !folders.has(folder); folder = posix.dirname(folder)) folders.add(folder);
    }
  }
  return folders;
}

/**
 * A name for each place: `name@version`, shared by places from which the package, and what it imports, find the same
 * packages. Others have a number behind. Places are told apart in rounds, as long as that finds differences.
 */
function namesOf(packages: ReadonlyMap<string, OpenPackage>): Map<string, string> {
  const plain = new Map([...packages].map(([place, { locked }]) => [place, `${locked.name}@${locked.version}`]));
  let kinds = plain;
  for (let told = 0; new Set(kinds.values()).size > told;) {
    const last = kinds;
    told = new Set(last.values()).size;
    const kindOf = (place: string): string => {
      const needed = packages.get(place)!.locked.dependencies ?? [];
      const seen = needed.map((name) => last.get(placeSeen(packages, name, place) ?? ""));
      return createHash("sha256")
        .update(JSON.stringify([plain.get(place), seen]))
        .digest("base64");
    };
    kinds = new Map(Array.from(packages.keys(), (place) => [place, kindOf(place)]));
  }
  const variants = new Map<string, string[]>();
  for (const [place, name] of plain) {
    const known = variants.get(name) ?? [];
    if (!known.includes(kinds.get(place)!)) variants.set(name, [...known, kinds.get(place)!]);
  }
  const named = ([place, name]: [string, string]): [string, string] => {
    const index = variants.get(name)!.indexOf(kinds.get(place)!);
    return [place, index === 0 ? name : `${name}+${index}`];
  };
  return new Map([...plain].map(named));
}

function placeSeen(packages: ReadonlyMap<string, OpenPackage>, name: string, from: string): string | undefined {
  for (let place = from; ; place = place.slice(0, Math.max(0, place.lastIndexOf("/node_modules/")))) {
    const found = `${place}/node_modules/${name}`;
    if (packages.has(found)) return found;
    if (place === "") return undefined;
  }
}

/** By path: a package may lie in other places for another definition. */
const madeOf = new WeakMap<TarballFiles, Map<string, unknown>>();

interface Manifest {
  readonly sideEffects?: unknown;
  readonly type?: unknown;
}

const manifests = new WeakMap<Uint8Array, Manifest>();

/** One that cannot be read says nothing. */
function manifestIn(files: TarballFiles, name: string): Manifest | undefined {
  const bytes = files.get(name);
  if (!bytes) return undefined;
  let manifest = manifests.get(bytes);
  if (!manifest) {
    manifest = soundObject(decoder.decode(bytes)) ?? {};
    manifests.set(bytes, manifest);
  }
  return manifest;
}

/** As bundlers read `sideEffects`: a name without a folder is meant at any depth. */
function matchesGlob(path: string, glob: string): boolean {
  const plain = glob.replace(/^\.\//, "");
  // Braces and classes are rare, and a file that is kept does no harm.
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

/** The resolver wants both forms of each call, and uses these. */
function inSync(calls: SyncCalls): resolving.ResolveOptionsOptionalFS["fileSystem"] {
  const both = Object.entries(calls).flatMap(([name, call]) => [
    [`${name}Sync`, call],
    [
      name,
      (path: string, ...rest: unknown[]) => {
        const done = rest.at(-1) as (error: unknown, found?: unknown) => void;
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
