import { type Config, readConfig } from "../config.ts";
import { BerthError } from "../lib/errors.ts";
import { createLog } from "../lib/log.ts";
import { hasStore, openStore } from "../store/open-store.ts";
import type { SecretStore, Store } from "../store/store.ts";
import { environmentOf } from "./environment.ts";

/**
 * Opens the store of a data folder for the work of one command. Where there is none, the folder is probably wrong or
 * unmounted: only commands that may run before the first start make a new store (`mayMake`), and say so.
 */
export async function withStore(
  { data, mayMake = false }: { readonly data?: string; readonly mayMake?: boolean },
  work: (store: Store & SecretStore, config: Config) => Promise<number>,
): Promise<number> {
  const config = readConfig(environmentOf({ data }));
  const store = await openOrMake(config.dataDir, mayMake);
  try {
    return await work(store, config);
  } finally {
    await store.close();
  }
}

function openOrMake(dataDir: string, mayMake: boolean): Promise<Store & SecretStore> {
  if (!hasStore({ dataDir })) {
    if (!mayMake) {
      const remedy = "name Berth's data folder (--data, BERTH_DATA), or put it back where it was";
      throw new BerthError("store_failed", `there is no store in ${dataDir}: ${remedy}`);
    }
    console.error(`There was no store in ${dataDir}; a new one is made there.`);
  }
  return openStore({ dataDir, log: createLog("error") });
}
