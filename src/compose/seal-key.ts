import { randomBytes } from "node:crypto";
import { join } from "node:path";
import { BerthError } from "../lib/errors.ts";
import { createKeyFile, readKeyFile } from "../lib/key-file.ts";

const FILE = "seal.key";
const KEY_BYTES = 32;

/**
 * The key that seals state which clients hold for Berth: sessions and open questions. It stands in the data folder,
 * readable by its owner alone, so that this state outlives the process. Rejects with `config_invalid`.
 */
export async function readSealKey(dataDir: string): Promise<Uint8Array> {
  const file = join(dataDir, FILE);
  let key: Uint8Array;
  try {
    key = readKeyFile(file) ?? createKeyFile(file, randomBytes(KEY_BYTES));
  } catch (error) {
    throw new BerthError("config_invalid", `${file}: ${(error as Error).message}`, { cause: error });
  }
  if (key.length === KEY_BYTES) return key;
  throw new BerthError("config_invalid", `${file} does not hold ${KEY_BYTES} bytes; delete it to have a new key made`);
}
