import { existsSync } from "node:fs";
import { join } from "node:path";
import { inDatabase } from "../compose/service-log.ts";
import { readConfig, type Config } from "../config.ts";
import { applyImage } from "../image/apply.ts";
import { readImage } from "../image/read.ts";
import { BerthError } from "../lib/errors.ts";
import { createLog, type Log } from "../lib/log.ts";
import { DEFAULT_TENANT } from "../lib/tenant-name.ts";
import { givenKeys, openKeyRing } from "../secrets/key-ring.ts";
import { copyStore, hasStore, openStore, type CopiedStore, type StoreOptions } from "../store/open-store.ts";
import { environmentOf } from "./environment.ts";
import { progressLine } from "./progress.ts";
import { noStore } from "./with-store.ts";

interface MigrateOptions {
  readonly image?: string;
  /** A data folder whose store is copied into the database. */
  readonly from?: string;
  /** A data folder that gets a copy of the store in the database. */
  readonly to?: string;
}

type PostgresConfig = Config & { readonly database: string };

/** `berth migrate`, for a store in Postgres, while nodes serve or not. */
export async function migrate({ from, to, image }: MigrateOptions): Promise<number> {
  const config = readConfig(environmentOf({ ...(image !== undefined && { image }) }));
  if (config.database === undefined) {
    const detail = "berth migrate is for a store in Postgres, which BERTH_DATABASE names";
    throw new BerthError("config_invalid", `${detail}; one in a data folder is brought to this version by berth serve`);
  }
  if (from !== undefined && to !== undefined)
    throw new BerthError("config_invalid", "--from copies into the database, and --to out of it: leave one out");
  const named = { ...config, database: config.database };
  if (from !== undefined) return copyFrom(from, named);
  if (to !== undefined) return copyTo(to, named);
  return apply(named);
}

async function apply(config: PostgresConfig): Promise<number> {
  const { dataDir, database, imageDir } = config;
  const image = await readImage(imageDir, config.image);
  const store = await openStore({ dataDir, database, log: logOf(config) });
  try {
    const { applied, changed, kept } = await applyImage(store, DEFAULT_TENANT, image);
    const followed = applied ? `${changed.length} names follow it` : "it was applied before";
    console.error(`The database is ready for this version of Berth, and has the boot image ${image.cid}: ${followed}.`);
    for (const { kind, name, message } of kept) console.error(message ?? `The ${kind} ${name} stays as it was edited.`);
    return 0;
  } finally {
    await store.close();
  }
}

async function copyFrom(folder: string, config: PostgresConfig): Promise<number> {
  const source = { dataDir: folder, database: undefined };
  if (!(await hasStore(source))) throw noStore(source);
  const copied = await copy(source, config, config);
  console.error(`The database now holds what ${folder} held: ${said(copied)}.`);
  const given = givenKeys("BERTH_SECRET_KEY", config.secretKeys)?.keys() ?? [];
  const missing = copied.keyIds.filter((id) => !given.some((key) => key.id === id));
  const seal = join(folder, "seal.key");
  const sealKey = existsSync(seal) ? `BERTH_SEAL_KEY="$(base64 < ${seal})"` : "the BERTH_SEAL_KEY of before";
  console.error(`For open sessions to go on, all nodes need ${sealKey}.`);
  if (missing.length > 0) console.error(`For its secrets, all nodes need ${keyOfSecrets(folder, missing)}.`);
  return tellFault(copied);
}

function keyOfSecrets(folder: string, ids: readonly string[]): string {
  const ring = openKeyRing(folder, { file: undefined, text: undefined });
  const own = ring.keys();
  const isThere = ids.every((id) => own.some((key) => key.id === id));
  return isThere
    ? `a copy of ${ring.source} as BERTH_SECRET_KEY_FILE`
    : `the key ${ids.join(", ")} in BERTH_SECRET_KEY`;
}

async function copyTo(folder: string, config: PostgresConfig): Promise<number> {
  if (!(await hasStore(config))) throw noStore(config);
  const copied = await copy(config, { dataDir: folder, database: undefined }, config);
  console.error(`The data folder ${folder} now holds what the database held: ${said(copied)}.`);
  console.error(`Serve it with --data ${folder} and the keys of the nodes, BERTH_SEAL_KEY and BERTH_SECRET_KEY.`);
  return tellFault(copied);
}

async function copy(from: StoreOptions, to: StoreOptions, config: PostgresConfig): Promise<CopiedStore> {
  const log = logOf(config);
  const progress = progressLine();
  try {
    const onTable = (name: string): void => progress.update(`copying ${name}`);
    return await copyStore({ ...from, log }, { ...to, log }, { keep: config.limits, onTable });
  } finally {
    progress.end();
  }
}

function tellFault({ logFault }: CopiedStore): number {
  if (logFault === undefined) return 0;
  console.error(`The audit log does not fit, as it did not before: ${logFault}.`);
  return 1;
}

function said({ contents, bytes, rows }: CopiedStore): string {
  return `${contents} contents of ${bytes} bytes, ${rows} rows in all, counted and verified`;
}

function logOf({ database }: PostgresConfig): Log {
  return createLog("error", inDatabase(database));
}
