import { existsSync, lstatSync, mkdirSync, statSync, writeFileSync } from "node:fs";
import { homedir } from "node:os";
import { dirname, join, relative, resolve } from "node:path";
import { cidFile, imageNames, findServerList, MCPS_FILE } from "../image/image.ts";
import { DATA_FOLDER } from "../lib/data-folder.ts";
import { BerthError } from "../lib/errors.ts";
import type { Problem } from "../lib/problem.ts";

/**
 * A folder of one's own: `mcps.json`, which lists servers, and their definitions. Berth keeps what it makes in the folder
 * `.berth` there, which git ignores.
 */
export interface OwnFolder {
  /** Absolute, like the others. */
  readonly folder: string;
  /** The folder of the image that is made of it. */
  readonly image: string;
  /** The data folder of `berth serve`. */
  readonly data: string;
  /** The data folder of `berth dev`, which grants more. */
  readonly devData: string;
}

/** The folder that a person names, or the working folder. Throws `config_invalid` where it lists no servers. */
export function openOwnFolder(path = "."): OwnFolder {
  const folder = resolve(path);
  const stats = statSync(folder, { throwIfNoEntry: false });
  if (!stats) throw notOwn(`there is no folder ${path}; create it with \`berth init ${path}\``);
  if (!stats.isDirectory()) throw notOwn(`${path} is not a folder`);
  const fault = faultOfPlace(folder);
  if (fault !== undefined) throw notOwn(fault);
  if (isImage(folder)) throw notOwn(`${path} is a boot image: serve it with --image ${path}`);
  if (listIn(folder) === undefined) {
    const init = path === "." ? "" : ` ${path}`;
    throw notOwn(
      `${shownFolder(folder)} has no ${MCPS_FILE}, the list of servers; create it with \`berth init${init}\``,
    );
  }
  return ownFolderAt(folder);
}

/** The working folder, if it is a folder of one's own. */
export function ownFolderHere(): OwnFolder | undefined {
  const folder = resolve(".");
  const isOwn = listIn(folder) === MCPS_FILE && !isImage(folder) && faultOfPlace(folder) === undefined;
  return isOwn ? ownFolderAt(folder) : undefined;
}

/** Says why a folder cannot be one that Berth serves; undefined where it can be. */
export function faultOfPlace(folder: string): string | undefined {
  const what = dirname(folder) === folder ? "the root of this machine" : folder === homedir() ? "your home" : undefined;
  if (what === undefined) return undefined;
  return `${folder} is ${what}, and definitions may import every file of their folder: give them one of their own`;
}

/** Makes the folder in which Berth keeps its data. Throws `config_invalid` where a link leads elsewhere. */
export function prepareData({ folder, image, data, devData }: OwnFolder): void {
  const top = join(folder, DATA_FOLDER);
  for (const place of [top, image, join(image, "content"), data, devData]) {
    const stats = lstatSync(place, { throwIfNoEntry: false });
    if (!stats || stats.isDirectory()) continue;
    const what = stats.isSymbolicLink() ? "a link" : "not a folder";
    throw notOwn(`${shownFolder(place)} is ${what}, and Berth makes and removes files there: remove it`);
  }
  mkdirSync(top, { recursive: true, mode: 0o700 });
  const ignore = join(top, ".gitignore");
  if (!existsSync(ignore)) writeFileSync(ignore, "# Berth's data: keys, secrets, and what can be made again.\n*\n");
}

/** Problems with their files named from the person's working folder. */
export function namedFromHere(problems: readonly Problem[], folder: string): Problem[] {
  return problems.map((problem) => {
    if (problem.file === undefined) return problem;
    return { ...problem, file: relative(process.cwd(), join(folder, problem.file)) };
  });
}

/** A path as a person at the working folder writes it. */
export function shownFolder(path: string): string {
  const shown = relative(process.cwd(), path);
  return shown === "" ? "this folder" : shown.startsWith("..") ? path : shown;
}

function ownFolderAt(folder: string): OwnFolder {
  const inData = (name: string): string => join(folder, DATA_FOLDER, name);
  return { folder, image: inData("image"), data: inData("data"), devData: inData("dev") };
}

function listIn(folder: string): ReturnType<typeof findServerList> {
  return findServerList((name) => existsSync(join(folder, name)));
}

function isImage(folder: string): boolean {
  return imageNames.some((name) => existsSync(join(folder, cidFile(name))));
}

function notOwn(message: string): BerthError {
  return new BerthError("config_invalid", message);
}
