import { randomBytes } from "node:crypto";
import { open, rename, rm } from "node:fs/promises";
import { dirname } from "node:path";
import { BESIDE } from "./store-files.ts";

/** A file that is there whole or not at all is written beside its place, and put there by `publish`. It is its owner's alone. */
export async function inDraft<T>(beside: string, work: (draft: string) => Promise<T>): Promise<T> {
  const draft = `${beside}.${randomBytes(6).toString("hex")}`;
  try {
    // It is nobody else's from its beginning on.
    await (await open(draft, "wx", 0o600)).close();
    return await work(draft);
  } finally {
    for (const suffix of ["", ...BESIDE]) await rm(draft + suffix, { force: true });
  }
}

/** Under its name once all of it is on the disk. */
export async function publish(draft: string, file: string): Promise<void> {
  await sync(draft);
  await rename(draft, file);
  await sync(dirname(file));
}

export async function sync(path: string): Promise<void> {
  const handle = await open(path, "r");
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}
