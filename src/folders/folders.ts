import { constants } from "node:fs";
import { access, readFile, realpath, stat } from "node:fs/promises";
import { basename, dirname, isAbsolute, join, relative, resolve, sep } from "node:path";
import { BerthError } from "../lib/errors.ts";
import { isObject, type JsonObject, soundObject } from "../lib/json.ts";
import { DEFAULT_TENANT, isTenantName } from "../lib/tenant-name.ts";
import { within } from "../lib/within.ts";
import { fixed } from "../limits/fixed.ts";

/**
 * Folders of the machine that the operator declares, and that entries name. This owns which may be declared at all, who
 * may have them, and whether they are there. It knows nothing of how code sees them.
 */
export interface DeclaredFolder {
  readonly name: string;
  /** As declared; absolute. */
  readonly path: string;
  readonly writable: boolean;
  readonly tenants: "all" | readonly string[];
}

/** A folder as a program is given it. */
export interface HostFolder {
  readonly name: string;
  /** Without links. */
  readonly path: string;
  readonly writable: boolean;
}

export interface FoldersNow {
  readonly folders: readonly HostFolder[];
  /** Another one as soon as something else stands at one of the paths. */
  readonly version: string;
}

/** A folder cannot be given now; the message names it, is safe to show to callers, and says what to do. */
export class FolderFault extends Error {
  /** True when it may be there again later. */
  readonly mayPass: boolean;

  constructor(message: string, mayPass: boolean) {
    super(message);
    this.mayPass = mayPass;
  }
}

/** In an environment and in a path alike. */
const NAME = /^[A-Za-z][A-Za-z0-9_]{0,63}$/;

export function folderNameProblem(name: string): string | undefined {
  if (NAME.test(name)) return undefined;
  return `"${name.slice(0, 100)}" cannot be a folder's name: use 1 to 64 of A-Z a-z 0-9 _ with a letter first`;
}

/** Reads `BERTH_FOLDERS`: `{"docs": {"path": "/srv/docs", "mode": "writable", "tenants": ["acme"]}}`. */
export function parseFolders(text: string | undefined, problems: string[]): DeclaredFolder[] {
  if (text === undefined || text.trim() === "") return [];
  const declared = soundObject(text);
  if (!declared) {
    problems.push('BERTH_FOLDERS must be JSON by name, such as {"docs":{"path":"/srv/docs","mode":"read-only"}}');
    return [];
  }
  return Object.entries(declared).flatMap(([name, value]) => {
    const wrong = folderNameProblem(name) ?? (isObject(value) ? faultOf(value) : "it must be an object");
    if (wrong !== undefined) {
      problems.push(`BERTH_FOLDERS, "${name.slice(0, 100)}": ${wrong}`);
      return [];
    }
    const { path, mode, tenants = [DEFAULT_TENANT] } = value as JsonObject;
    return [
      {
        name,
        path: path as string,
        writable: mode === "writable",
        tenants: tenants as DeclaredFolder["tenants"],
      },
    ];
  });
}

const FIELDS = ["path", "mode", "tenants"];

function faultOf(value: JsonObject): string | undefined {
  const unknown = Object.keys(value).find((field) => !FIELDS.includes(field));
  if (unknown !== undefined) return `it has no field "${unknown.slice(0, 100)}"; its fields are ${FIELDS.join(", ")}`;
  const { path, mode = "read-only", tenants = [] } = value;
  if (typeof path !== "string" || !isAbsolute(path)) return '"path" must be an absolute path';
  // Node reads both in the lists of its permission model.
  if (/[*,\0\n]/.test(path)) return '"path" must hold no * and no comma';
  if (mode !== "read-only" && mode !== "writable") return '"mode" must be "read-only" or "writable"';
  const areNames = Array.isArray(tenants) && tenants.every((each) => typeof each === "string" && isTenantName(each));
  return tenants === "all" || areNames ? undefined : '"tenants" must be "all" or a list of names of tenants';
}

/** Places that no folder may hold, nor be inside of. */
export interface OwnPlaces {
  readonly dataDir: string;
  /** The folder for temporary files: scratch folders of guests, and their ways out. */
  readonly temporaryDir: string;
  /** Files with keys and tokens. */
  readonly keyFiles: readonly string[];
  /** Berth itself, and all that it starts from: code may not write there. */
  readonly programs: readonly string[];
}

/** How long a call waits for the file system of a folder that its server is given. */
const bounds = fixed({ folderMs: 5_000 });

/** The machine itself rather than files on it; `/run` holds the sockets of its services. */
const MACHINE = ["/proc", "/sys", "/dev", "/run"];

/**
 * The declared folders, each looked at. Rejects with `config_invalid`, and every reason, where one must not be given to
 * any code.
 */
export async function openFolders(declared: readonly DeclaredFolder[], own: OwnPlaces): Promise<Folders> {
  const problems: string[] = [];
  const real = new Map<string, string>();
  for (const { name, path, writable } of declared) {
    const refused = (why: string): void => void problems.push(`BERTH_FOLDERS, "${name}": ${path} ${why}`);
    const found = await realpath(path).catch((error: NodeJS.ErrnoException) => error);
    if (typeof found !== "string") {
      refused(found.code === "ENOENT" ? "does not exist" : `cannot be opened (${found.code})`);
      continue;
    }
    if (!(await stat(found)).isDirectory()) refused("is not a folder");
    const why = await refusalOf(found, writable, own);
    if (why !== undefined) refused(why);
    real.set(name, found);
  }
  problems.push(...overlaps(declared, real));
  if (problems.length > 0) throw new BerthError("config_invalid", problems.join("; "));
  return new Folders(declared, real);
}

async function refusalOf(path: string, writable: boolean, own: OwnPlaces): Promise<string | undefined> {
  if (path === sep) return "is the whole machine: declare the folder that is needed";
  for (const place of MACHINE) {
    if (isWithin(place, path)) return `is in ${place}, which is the machine itself and no folder of files`;
  }
  const kernel = (await kernelMounts()).find((place) => isWithin(path, place) || isWithin(place, path));
  if (kernel !== undefined) return `has ${kernel} in it, which is the machine itself and no folder of files`;
  if (await holds(own.dataDir, path)) return "is in Berth's data folder (BERTH_DATA)";
  if (await holds(path, own.dataDir)) return "holds Berth's data folder (BERTH_DATA)";
  if (await holds(path, own.temporaryDir)) {
    return "holds the folder for temporary files, where everything has some that Berth runs";
  }
  for (const file of own.keyFiles) {
    if (await holds(path, file)) return "holds a file with a key or a token of Berth's";
  }
  for (const place of writable ? own.programs : []) {
    const isPart = (await holds(place, path)) || (await holds(path, place));
    if (isPart) return "holds what Berth runs, or is part of it, and would be writable";
  }
  try {
    await access(path, constants.R_OK | constants.X_OK);
    return undefined;
  } catch {
    return "cannot be read";
  }
}

/** File systems that show the kernel. */
const KERNEL = /^(?:bpf|cgroup2?|configfs|debugfs|devpts|devtmpfs|efivarfs|proc|pstore|securityfs|sysfs|tracefs)$/;

/** The places where the kernel shows itself, wherever they are; none where there is no list of mounts. */
async function kernelMounts(): Promise<string[]> {
  const mounts = await readFile("/proc/self/mountinfo", "utf8").catch(() => "");
  return mounts.split("\n").flatMap((line) => {
    const [place, type] = [line.split(" ")[4], / - (\S+)/.exec(line)?.[1]];
    if (place === undefined || type === undefined || !KERNEL.test(type)) return [];
    return [place.replaceAll(/\\([0-7]{3})/g, (_, code: string) => String.fromCharCode(parseInt(code, 8)))];
  });
}

/** A writer in the outer folder could put a link in the place of the inner one. */
function overlaps(declared: readonly DeclaredFolder[], real: ReadonlyMap<string, string>): string[] {
  return declared.flatMap((outer) =>
    declared.flatMap((inner) => {
      const [outside, inside] = [real.get(outer.name), real.get(inner.name)];
      if (outer === inner || !outer.writable || outside === undefined || inside === undefined) return [];
      if (outside === inside || !isWithin(outside, inside)) return [];
      return [`BERTH_FOLDERS, "${inner.name}": ${inner.path} is in the folder "${outer.name}", which is writable`];
    }),
  );
}

/** True also where one of them is mounted at several places; what is still to be made is where it would be. */
async function holds(outer: string, inner: string): Promise<boolean> {
  const is = await identityOf(outer);
  for (let place = await realPlace(inner); ; place = dirname(place)) {
    if (is === undefined ? place === resolve(outer) : is === (await identityOf(place))) return true;
    if (place === dirname(place)) return false;
  }
}

async function identityOf(place: string): Promise<string | undefined> {
  const is = await stat(place).catch(() => undefined);
  return is && `${is.dev}:${is.ino}`;
}

/** The part of the path that there is, without links, and the rest. */
async function realPlace(place: string): Promise<string> {
  const full = resolve(place);
  const found = await realpath(full).catch(() => undefined);
  return found ?? join(await realPlace(dirname(full)), basename(full));
}

function isWithin(outer: string, inner: string): boolean {
  const path = relative(outer, inner);
  return path !== ".." && !path.startsWith(`..${sep}`) && !isAbsolute(path);
}

export class Folders {
  readonly #declared: ReadonlyMap<string, DeclaredFolder>;
  /** The real paths as they were checked, by name. */
  readonly #real: ReadonlyMap<string, string>;
  readonly #look: typeof lookAt;
  /** By name. A file system that does not answer holds one thread for each of its folders, however many calls wait. */
  readonly #looking = new Map<string, Promise<string | undefined>>();

  constructor(declared: readonly DeclaredFolder[], real: ReadonlyMap<string, string>, look = lookAt) {
    this.#declared = new Map(declared.map((folder) => [folder.name, folder]));
    this.#real = real;
    this.#look = look;
  }

  /** The reason why a tenant's server cannot have the folder; a folder of others is as one that there is not. */
  problem(tenant: string, name: string): string | undefined {
    return this.#find(tenant, name) ? undefined : notDeclared(name);
  }

  /** Rejects with a `FolderFault`. */
  async now(tenant: string, names: readonly string[]): Promise<FoldersNow> {
    const looked = await Promise.all(
      names.map(async (name): Promise<[HostFolder, string]> => {
        const folder = this.#find(tenant, name);
        const path = this.#real.get(name);
        if (!folder || path === undefined) throw new FolderFault(notDeclared(name), false);
        const identity = await this.#identityOf(name, path);
        if (identity === undefined) throw new FolderFault(gone(name), true);
        return [{ name, path, writable: folder.writable }, `${name}=${identity}`];
      }),
    );
    return { folders: looked.map(([folder]) => folder), version: looked.map(([, version]) => version).join() };
  }

  async #identityOf(name: string, path: string): Promise<string | undefined> {
    let looking = this.#looking.get(name);
    if (!looking) {
      looking = this.#look(path).finally(() => this.#looking.delete(name));
      this.#looking.set(name, looking);
    }
    const answer = await within(
      bounds.folderMs,
      looking.then((found) => ({ found })),
    );
    if (!answer) throw new FolderFault(slow(name), true);
    return answer.found;
  }

  #find(tenant: string, name: string): DeclaredFolder | undefined {
    const folder = this.#declared.get(name);
    return folder && (folder.tenants === "all" || folder.tenants.includes(tenant)) ? folder : undefined;
  }
}

/** Tells the folder at a path from all others; undefined where there is none, or a link leads elsewhere. */
async function lookAt(path: string): Promise<string | undefined> {
  try {
    if ((await realpath(path)) !== path) return undefined;
    const is = await stat(path);
    return is.isDirectory() ? `${is.dev}:${is.ino}` : undefined;
  } catch {
    return undefined;
  }
}

export const noFolders = new Folders([], new Map());

function notDeclared(name: string): string {
  return (
    `The operator has not declared a folder "${name}" for this tenant: ` +
    'add it to BERTH_FOLDERS and start Berth again, or take it out of "folders" in the entry in mcps'
  );
}

function slow(name: string): string {
  const { folderMs } = bounds;
  return `The folder "${name}" did not answer within ${folderMs} ms; its file system may be out of reach`;
}

function gone(name: string): string {
  return `The folder "${name}" is not there at the moment; calls work again once it is back at its place`;
}
