import { existsSync } from "node:fs";
import { homedir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { readFolderPackages, type FolderPackages } from "../image/folder-packages.ts";
import { MCPS_FILE, MCPS_SOURCE, PACKAGE_JSON, PACKAGE_LOCK } from "../image/image.ts";
import { openSourceFolder } from "../image/source-folder.ts";
import type { Problem } from "../lib/problem.ts";
import type { Limits } from "../limits/limits.ts";
import type { HaveTarball } from "../packages/fetch-set.ts";
import type { NpmLimits } from "../packages/npm.ts";
import { ownNpm } from "./own-npm.ts";

/**
 * The folder whose `package.json` counts for the files of a folder: the nearest one upwards that has one. The search ends
 * at a folder of sources, at the root of a repository, and at the person's home. Where it finds none, the files of the
 * folder itself would count.
 */
export function packagesFolder(start: string): string {
  const own = resolve(start);
  for (let folder = own; ; folder = dirname(folder)) {
    if (existsSync(join(folder, PACKAGE_JSON))) return folder;
    const isRoot = [MCPS_SOURCE, MCPS_FILE, ".git"].some((name) => existsSync(join(folder, name)));
    if (isRoot || folder === homedir() || folder === dirname(folder)) return own;
  }
}

/** The files of such a folder that say what its packages are. */
export function packageFilesOf(folder: string): string[] {
  return [PACKAGE_JSON, PACKAGE_LOCK].map((name) => join(folder, name));
}

/** The packages of a folder that imports lead to; what is wrong with its files is told only where they lead to any. */
export async function projectPackages(
  folder: string,
  imported: Iterable<string>,
  { limits, have = () => undefined }: { limits: NpmLimits & Pick<Limits, "sourceBytes">; have?: HaveTarball },
): Promise<{ packages?: FolderPackages; problems: Problem[] }> {
  const problems: Problem[] = [];
  const npm = ownNpm(folder, limits);
  try {
    const sources = openSourceFolder(folder, limits.sourceBytes);
    const packages = await readFolderPackages(sources, problems, { ...npm, have, imported });
    return { ...(packages && { packages }), problems };
  } finally {
    await npm.close();
  }
}
