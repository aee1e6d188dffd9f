import { randomBytes } from "node:crypto";
import { link, mkdir, open, readFile, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { BerthError } from "./errors.ts";

const FILE = "seal.key";
const KEY_BYTES = 32;

/**
 * The key of what clients carry for us: sessions, and questions that are open. It stands in the data folder, readable
 * by its owner alone, so that all of it outlives the process. Rejects with `config_invalid`.
 */
export async function readSealKey(dataDir: string): Promise<Uint8Array> {
  const file = join(dataDir, FILE);
  try {
    await mkdir(dataDir, { recursive: true, mode: 0o700 });
    const key = (await read(file)) ?? (await create(file));
    if (key.length === KEY_BYTES) return key;
  } catch (error) {
    throw new BerthError("config_invalid", `${file}: ${(error as Error).message}`, { cause: error });
  }
  throw new BerthError("config_invalid", `${file} does not hold ${KEY_BYTES} bytes; delete it to have a new key made`);
}

async function read(file: string): Promise<Buffer | undefined> {
  try {
    return await readFile(file);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
}

/** Whole or not at all, and one for all of several processes that start at once. */
async function create(file: string): Promise<Buffer> {
  const draft = `${file}.${randomBytes(6).toString("hex")}`;
  const handle = await open(draft, "wx", 0o600);
  try {
    await handle.writeFile(randomBytes(KEY_BYTES));
    await handle.sync();
    await link(draft, file).catch((error: NodeJS.ErrnoException) => {
      // Not all file systems have links; there, processes that start at once for the first time may differ.
      if (error.code !== "EEXIST") return rename(draft, file);
    });
  } finally {
    await handle.close();
    await rm(draft, { force: true });
  }
  return readFile(file);
}
