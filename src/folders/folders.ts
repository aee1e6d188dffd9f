import { constants } from "node:fs";
import { access, readFile, realpath, stat } from "node:fs/promises";
import { basename, dirname, isAbsolute, join, relative, resolve, sep } from "node:path";
import { BerthError } from "../lib/errors.ts";
import { isObject, type JsonObject, tryParseObject } from "../lib/json.ts";
import { DEFAULT_TENANT, isTenantName } from "../lib/tenant-name.ts";
import { within } from "../lib/within.ts";
import { fixed } from "../limits/fixed.ts";

/**
 * Folders of the machine that the operator declares, and that entries name. Decides which may be declared at all, who
 * may have them, and if they exist. Independent of how code accesses them.
 */
export interface DeclaredFolder {
  readonly name: string;
  readonly path: string;
  readonly writable: boolean;
  readonly tenants: "all" | readonly string[];
}

/** A folder as a program gets it. */
export interface HostFolder {
  readonly name: string;
  readonly path: string;
  readonly writable: boolean;
}

export interface CurrentFolders {
  readonly folders: readonly HostFolder[];
  /** Changes when something else is at one of the paths. */
  readonly version: string;
}

/** A folder cannot be given now; the message names it, is safe to show to callers, and says how to fix it. */
export class FolderFault extends Error {
  /** True when it may exist again later. */
  readonly mayPass: boolean;

  constructor(message: string, mayPass: boolean) {
    super(message);
    this.mayPass = mayPass;
  }
}

/** Valid in an environment variable and in a path. */
const NAME = /^[A-Za-z][A-Za-z0-9_]{0,63}$/;

export function folderNameProblem(name: string): string | undefined {
  if (NAME.test(name)) return undefined;
  return `"${name.slice(0, 100)}" cannot be a folder's name: use 1 to 64 of A-Z a-z 0-9 _ with a letter first`;
}

/** Reads `BERTH_FOLDERS`: `{"docs": {"path": "/srv/docs", "mode": "writable", "tenants": ["acme"]}}`. */
export function parseFolders(text: string | undefined, problems: string[]): DeclaredFolder[] {
  if (text === undefined || text.trim() === "") return [];
  const declared = tryParseObject(text);
  if (!declared) {
    problems.push('BERTH_FOLDERS must be JSON by name, such as {"docs":{"path":"/srv/docs","mode":"read-only"}}');
    return [];
  }
  return Object.entries(declared).flatMap(([name, value]) => {
    const problem = folderNameProblem(name) ?? (isObject(value) ? fieldProblem(value) : "it must be an object");
    if (problem !== undefined) {
      problems.push(`BERTH_FOLDERS, "${name.slice(0, 100)}": ${problem}`);
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

function fieldProblem(value: JsonObject): string | undefined {
  const unknown = Object.keys(value).find((field) => !FIELDS.includes(field));
  if (unknown !== undefined) return `it has no field "${unknown.slice(0, 100)}"; its fields are ${FIELDS.join(", ")}`;
  const { path, mode = "read-only", tenants = [] } = value;
  if (typeof path !== "string" || !isAbsolute(path)) return '"path" must be an absolute path';
  // Both are special in the lists of Node.js's permission model.
  if (/[*,\0\n]/.test(path)) return '"path" must not contain * or a comma';
  if (mode !== "read-only" && mode !== "writable") return '"mode" must be "read-only" or "writable"';
  const areNames = Array.isArray(tenants) && tenants.every((each) => typeof each === "string" && isTenantName(each));
  return tenants === "all" || areNames ? undefined : '"tenants" must be "all" or a list of tenant names';
}

/** Paths that no folder may contain, nor be inside of. */
export interface ProtectedPaths {
  readonly dataDir: string;
  /** The folder for temporary files: scratch folders and egress sockets of guests. */
  readonly temporaryDir: string;
  /** Files with keys and tokens. */
  readonly keyFiles: readonly string[];
  /** Berth itself, and all that it starts: code must not write there. */
  readonly programs: readonly string[];
}

/** How long a call waits for the file system of a folder of its server. */
const bounds = fixed({ folderMs: 5_000 });

/** The machine itself rather than files on it; `/run` contains the sockets of its services. */
const MACHINE = ["/proc", "/sys", "/dev", "/run"];

/**
 * Checks the declared folders. Rejects with `config_invalid`, and every reason, if one must not be given to any code.
 */
export async function openFolders(declared: readonly DeclaredFolder[], own: ProtectedPaths): Promise<Folders> {
  const problems: string[] = [];
  const realPaths = new Map<string, string>();
  for (const { name, path, writable } of declared) {
    const refused = (why: string): void => void problems.push(`BERTH_FOLDERS, "${name}": ${path} ${why}`);
    const found = await realpath(path).catch((error: NodeJS.ErrnoException) => error);
    if (typeof found !== "string") {
      refused(found.code === "ENOENT" ? "does not exist" : `cannot be opened (${found.code})`);
      continue;
    }
    if (!(await stat(found)).isDirectory()) refused("is not a folder");
    const why = await rejectionReason(found, writable, own);
    if (why !== undefined) refused(why);
    realPaths.set(name, found);
  }
  problems.push(...overlaps(declared, realPaths));
  if (problems.length > 0) throw new BerthError("config_invalid", problems.join("; "));
  return new Folders(declared, realPaths);
}

async function rejectionReason(path: string, writable: boolean, own: ProtectedPaths): Promise<string | undefined> {
  if (path === sep) return "is the whole machine: declare the folder that is needed";
  for (const place of MACHINE) {
    if (isWithin(place, path)) return `is in ${place}, which is part of the machine itself, not a folder of files`;
  }
  const kernel = (await kernelMounts()).find((place) => isWithin(path, place) || isWithin(place, path));
  if (kernel !== undefined) return `contains ${kernel}, which is part of the machine itself, not a folder of files`;
  if (await contains(own.dataDir, path)) return "is in Berth's data folder (BERTH_DATA)";
  if (await contains(path, own.dataDir)) return "holds Berth's data folder (BERTH_DATA)";
  if (await contains(path, own.temporaryDir)) {
    return "holds the folder for temporary files, which all processes of Berth use";
  }
  for (const file of own.keyFiles) {
    if (await contains(path, file)) return "holds a file with a key or a token of Berth's";
  }
  for (const place of writable ? own.programs : []) {
    const isPart = (await contains(place, path)) || (await contains(path, place));
    if (isPart) return "contains programs of Berth, or is part of them, and would be writable";
  }
  try {
    await access(path, constants.R_OK | constants.X_OK);
    return undefined;
  } catch {
    return "cannot be read";
  }
}

const KERNEL = /^(?:bpf|cgroup2?|configfs|debugfs|devpts|devtmpfs|efivarfs|proc|pstore|securityfs|sysfs|tracefs)$/;

/** The mount points of such file systems; none if there is no list of mounts. */
async function kernelMounts(): Promise<string[]> {
  const mounts = await readFile("/proc/self/mountinfo", "utf8").catch(() => "");
  return mounts.split("\n").flatMap((line) => {
    const [place, type] = [line.split(" ")[4], / - (\S+)/.exec(line)?.[1]];
    if (place === undefined || type === undefined || !KERNEL.test(type)) return [];
    return [place.replaceAll(/\\([0-7]{3})/g, (_, code: string) => String.fromCharCode(parseInt(code, 8)))];
  });
}

/** A writer in the outer folder could replace the inner one by a link. */
function overlaps(declared: readonly DeclaredFolder[], realPaths: ReadonlyMap<string, string>): string[] {
  return declared.flatMap((outer) =>
    declared.flatMap((inner) => {
      const [outside, inside] = [realPaths.get(outer.name), realPaths.get(inner.name)];
      if (outer === inner || !outer.writable || outside === undefined || inside === undefined) return [];
      if (outside === inside || !isWithin(outside, inside)) return [];
      return [`BERTH_FOLDERS, "${inner.name}": ${inner.path} is in the folder "${outer.name}", which is writable`];
    }),
  );
}

/**
 * True even if one of them is mounted in several places; a path that does not exist yet counts where it would be
 * created.
 */
async function contains(outer: string, inner: string): Promise<boolean> {
  const outerId = await fileIdentity(outer);
  for (let place = await realPlace(inner); ; place = dirname(place)) {
    if (outerId === undefined ? place === resolve(outer) : outerId === (await fileIdentity(place))) return true;
    if (place === dirname(place)) return false;
  }
}

async function fileIdentity(place: string): Promise<string | undefined> {
  const stats = await stat(place).catch(() => undefined);
  return stats && `${stats.dev}:${stats.ino}`;
}

/** The part of the path that exists, without links, and the rest. */
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
  readonly #real: ReadonlyMap<string, string>;
  readonly #identify: typeof identifyFolder;
  /** By name. A file system that does not answer blocks one thread for each of its folders, however many calls wait. */
  readonly #pending = new Map<string, Promise<string | undefined>>();

  constructor(declared: readonly DeclaredFolder[], real: ReadonlyMap<string, string>, identify = identifyFolder) {
    this.#declared = new Map(declared.map((folder) => [folder.name, folder]));
    this.#real = real;
    this.#identify = identify;
  }

  /** Why a tenant's server cannot have the folder; a folder of other tenants looks undeclared. */
  problem(tenant: string, name: string): string | undefined {
    return this.#find(tenant, name) ? undefined : notDeclared(name);
  }

  async now(tenant: string, names: readonly string[]): Promise<CurrentFolders> {
    const resolved = await Promise.all(
      names.map(async (name): Promise<[HostFolder, string]> => {
        const folder = this.#find(tenant, name);
        const path = this.#real.get(name);
        if (!folder || path === undefined) throw new FolderFault(notDeclared(name), false);
        const identity = await this.#identifyInTime(name, path);
        if (identity === undefined) throw new FolderFault(gone(name), true);
        return [{ name, path, writable: folder.writable }, `${name}=${identity}`];
      }),
    );
    return { folders: resolved.map(([folder]) => folder), version: resolved.map(([, version]) => version).join() };
  }

  async #identifyInTime(name: string, path: string): Promise<string | undefined> {
    let pending = this.#pending.get(name);
    if (!pending) {
      pending = this.#identify(path).finally(() => this.#pending.delete(name));
      this.#pending.set(name, pending);
    }
    const answer = await within(
      bounds.folderMs,
      pending.then((found) => ({ found })),
    );
    if (!answer) throw new FolderFault(slow(name), true);
    return answer.found;
  }

  #find(tenant: string, name: string): DeclaredFolder | undefined {
    const folder = this.#declared.get(name);
    return folder && (folder.tenants === "all" || folder.tenants.includes(tenant)) ? folder : undefined;
  }
}

/** Identifies the folder at a path; undefined if there is none, or a link leads elsewhere. */
async function identifyFolder(path: string): Promise<string | undefined> {
  try {
    if ((await realpath(path)) !== path) return undefined;
    const stats = await stat(path);
    return stats.isDirectory() ? `${stats.dev}:${stats.ino}` : undefined;
  } catch {
    return undefined;
  }
}

export const noFolders = new Folders([], new Map());

function notDeclared(name: string): string {
  return (
    `The operator has not declared a folder "${name}" for this tenant: ` +
    'add it to BERTH_FOLDERS and start Berth again, or remove it from "folders" in the entry in mcps'
  );
}

function slow(name: string): string {
  const { folderMs } = bounds;
  return `The folder "${name}" did not answer within ${folderMs} ms; its file system may be out of reach`;
}

function gone(name: string): string {
  return `The folder "${name}" is not there at the moment; calls work again once it is back at its place`;
}
