import { createHmac, randomBytes } from "node:crypto";
import { join } from "node:path";
import type { Config } from "../config.ts";
import { BerthError } from "../lib/errors.ts";
import { createKeyFile, readKeyFile } from "../lib/key-file.ts";
import type { KeyProofs } from "../store/open-store.ts";
import { givenKeys, MAKE_ONE, openKeyRing, type KeyRing } from "./key-ring.ts";

const FILE = "seal.key";
const KEY_BYTES = 32;

type KeySettings = Pick<Config, "dataDir" | "database" | "sealKeys" | "secretKeys">;

/**
 * The keys of a service: those that seal what clients hold for Berth, sessions and open questions, and those that seal
 * secrets. The operator gives them, or Berth makes its own in the data folder. Nodes on one database have no folder in
 * common, so there all keys are the operator's.
 */
interface Keys {
  /** The first one seals, and each of them opens. */
  readonly seal: readonly Uint8Array[];
  readonly secrets: KeyRing;
  /** They show nodes on one database that they have the same; undefined where a folder has the keys of all. */
  readonly proofs: KeyProofs | undefined;
}

/** Rejects with `config_invalid`. */
export async function openKeys(settings: KeySettings): Promise<Keys> {
  const { dataDir, database, sealKeys } = settings;
  const missing = lackingKeys(settings);
  if (missing.length > 0) throw lacking(missing);
  const given = givenKeys("BERTH_SEAL_KEY", sealKeys)?.keys();
  const seal = given?.map(({ bytes }) => bytes) ?? [await readSealKey(dataDir)];
  const secrets = openSecretKeys(settings);
  return { seal, secrets, proofs: database === undefined ? undefined : proofsOf({ seal, secrets }) };
}

/** Throws `config_invalid`. */
export function openSecretKeys(settings: KeySettings): KeyRing {
  const missing = lackingKeys(settings).filter((variable) => variable === "BERTH_SECRET_KEY");
  if (missing.length > 0) throw lacking(missing);
  return openKeyRing(settings.dataDir, settings.secretKeys);
}

/** They show that two nodes have a key in common, and nothing of the key. */
export function proofsOf({ seal, secrets }: Partial<Pick<Keys, "seal" | "secrets">>): KeyProofs {
  const proof = (kind: string, key: Uint8Array): string =>
    createHmac("sha256", key).update(`berth key of nodes: ${kind}`).digest("base64url");
  return {
    ...(seal && { seal: seal.map((key) => proof("seal", key)) }),
    ...(secrets && { secret: secrets.keys().map(({ bytes }) => proof("secret", bytes)) }),
  };
}

function lackingKeys({ database, sealKeys, secretKeys }: KeySettings): string[] {
  if (database === undefined) return [];
  const settings = { BERTH_SEAL_KEY: sealKeys, BERTH_SECRET_KEY: secretKeys };
  return Object.entries(settings).flatMap(([variable, source]) => (givenKeys(variable, source) ? [] : [variable]));
}

function lacking(variables: readonly string[]): BerthError {
  const settings = variables.map((variable) => `${variable}_FILE (or ${variable})`).join(" and ");
  const why = "nodes on one database have no data folder in common that could hold Berth's own keys";
  return new BerthError("config_invalid", `BERTH_DATABASE needs ${settings}: ${why}; ${MAKE_ONE}, for all nodes`);
}

/** Berth's own key, so that what it seals outlives the process. Rejects with `config_invalid`. */
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
