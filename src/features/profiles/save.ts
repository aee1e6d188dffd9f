import { randomUUID } from "node:crypto";
import { mkdir, readdir, rename, rm, writeFile } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import type { Contract } from "../../contract/contract.ts";
import { BerthError } from "../../lib/errors.ts";
import type { Json } from "../../lib/json.ts";
import {
  CONTRACT_FILE,
  META_FILE,
  metaProblems,
  profileNameProblem,
  toolProblems,
  type ProfileMeta,
  type ProfileTool,
} from "./profile.ts";

/** The content of a profile's files. */
export interface ProfileFiles {
  readonly meta: ProfileMeta;
  readonly tools: Readonly<Record<string, ProfileTool>>;
  readonly contract?: Contract;
}

/**
 * Writes a profile as a whole: a reader finds all of the old files or all of the new ones, and a failure preserves the
 * old ones. Rejects with `profile_invalid` if the files could not be read again, and with `profile_exists` if the
 * folder exists and `replace` is not set.
 */
export async function saveProfile(
  folder: string,
  files: ProfileFiles,
  { replace = false }: { replace?: boolean } = {},
): Promise<void> {
  checkFiles(files);
  const parent = dirname(folder);
  await mkdir(parent, { recursive: true });
  const temporary = besides(folder);
  try {
    await mkdir(temporary);
    await write(join(temporary, META_FILE), files.meta);
    if (files.contract) await write(join(temporary, CONTRACT_FILE), files.contract as unknown as Json);
    for (const [name, tool] of Object.entries(files.tools)) await write(join(temporary, `${name}.json`), tool);
    if (replace) await exchange(folder, temporary);
    else await place(folder, temporary);
  } finally {
    await rm(temporary, { recursive: true, force: true });
  }
}

/** Throws `profile_invalid` with every problem in files to be saved. */
export function checkFiles({ meta, tools }: ProfileFiles): void {
  const problems = [
    ...metaProblems(meta, META_FILE),
    ...Object.entries(tools).flatMap(([name, tool]) => {
      const wrong = profileNameProblem(name, "tool");
      if (wrong) return [{ code: "bad-name", message: wrong, severity: "error" as const, pointer: `/tools/${name}` }];
      return toolProblems(tool, `${name}.json`);
    }),
  ];
  if (problems.length === 0) return;
  const said = problems.map(({ file, pointer, message }) => [file, pointer, message].filter(Boolean).join(": "));
  throw new BerthError("profile_invalid", said.join("; "), { data: { problems } });
}

/** A name that no profile can have, so that leftovers of a crash are not mistaken for one. */
function besides(folder: string): string {
  return join(dirname(folder), `.${basename(folder)}.${randomUUID()}`);
}

async function write(path: string, value: Json): Promise<void> {
  await writeFile(path, `${JSON.stringify(value, undefined, 2)}\n`, { flag: "wx", flush: true });
}

/** No system renames a folder over one that is not empty. */
async function place(folder: string, temporary: string): Promise<void> {
  const there = await readdir(folder).catch(() => []);
  if (there.length > 0) throw new BerthError("profile_exists", `${folder}; update it, or save under another name`);
  await rename(temporary, folder);
}

/** Between the two renames the name is briefly free; if the second fails, the old folder is restored. */
async function exchange(folder: string, temporary: string): Promise<void> {
  const old = besides(folder);
  await rename(folder, old).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== "ENOENT") throw error;
  });
  try {
    await rename(temporary, folder);
  } catch (error) {
    await rename(old, folder).catch(() => {});
    throw error;
  }
  await rm(old, { recursive: true, force: true });
}
