import { inDatabase } from "../compose/service-log.ts";
import { type Config, readConfig } from "../config.ts";
import { BerthError } from "../lib/errors.ts";
import { createLog } from "../lib/log.ts";
import { hasStore, openStore, type KeyProofs } from "../store/open-store.ts";
import type { SecretStore, Store } from "../store/store.ts";
import { environmentOf } from "./environment.ts";

/**
 * Opens the store for the work of one command. Where there is none, the data folder is probably wrong or unmounted, or
 * the database another one: only commands that may run before the first start make a new store (`mayMake`), and say so.
 */
export async function withStore(
  { data, mayMake = false, proofsOf }: WithStoreOptions,
  work: (store: Store & SecretStore, config: Config) => Promise<number>,
): Promise<number> {
  const config = readConfig(environmentOf({ data }));
  const store = await openOrMake(config, mayMake, proofsOf?.(config));
  try {
    return await work(store, config);
  } finally {
    await store.close();
  }
}

export interface DataOptions {
  readonly data?: string;
}

export interface TenantDataOptions extends DataOptions {
  readonly tenant: string;
}

interface WithStoreOptions extends DataOptions {
  readonly mayMake?: boolean;
  /** They show that the command has the keys of the nodes. */
  readonly proofsOf?: (config: Config) => KeyProofs | undefined;
}

async function openOrMake(config: Config, mayMake: boolean, keyProofs?: KeyProofs): Promise<Store & SecretStore> {
  const { dataDir, database } = config;
  if (!(await hasStore(config))) {
    if (!mayMake) throw noStore(config);
    console.error(`There was no store ${placeOf(config)}; a new one is made there.`);
  }
  const log = createLog("error", inDatabase(database));
  return openStore({ dataDir, database, log, keyProofs, isCommand: true });
}

export function noStore(config: Pick<Config, "dataDir" | "database">): BerthError {
  const remedy =
    config.database === undefined
      ? "name Berth's data folder (--data, BERTH_DATA), or put it back where it was"
      : "name Berth's own database in BERTH_DATABASE, or start Berth with it once";
  return new BerthError("store_failed", `there is no store ${placeOf(config)}: ${remedy}`);
}

export async function checkTenant({ tenants }: Pick<Store, "tenants">, tenant: string): Promise<void> {
  if (await tenants.find(tenant)) return;
  throw new BerthError("tenant_not_found", `"${tenant}"; "berth tenant create ${tenant}" makes it`);
}

function placeOf({ dataDir, database }: Pick<Config, "dataDir" | "database">): string {
  return database === undefined ? `in ${dataDir}` : "in the database that BERTH_DATABASE names";
}
