import { rightsOf } from "../access/rights.ts";
import { openCore, type Core } from "../compose/core.ts";
import { inDatabase } from "../compose/service-log.ts";
import { readConfig } from "../config.ts";
import type { Review } from "../contract/review.ts";
import { BerthError } from "../lib/errors.ts";
import { createLog } from "../lib/log.ts";
import { openSpawnHelper } from "../processes/spawn/spawn-helper.ts";
import { hasStore } from "../store/open-store.ts";
import { environmentOf } from "./environment.ts";
import { printProblems } from "./print-problems.ts";
import { checkTenant, noStore, type TenantDataOptions } from "./with-store.ts";

/** Everything that a serving Berth has but the listening: a change is compiled, loaded and compared before it is saved. */
export async function withCore(
  { tenant, data }: TenantDataOptions,
  work: (core: Core) => Promise<number>,
): Promise<number> {
  const config = readConfig(environmentOf({ ...(data !== undefined && { data }) }));
  if (!(await hasStore(config))) throw noStore(config);
  const log = createLog("error", [config.adminToken, config.registry.token, ...inDatabase(config.database)]);
  const nothing = async (): Promise<void> => {};
  const core = await openCore(
    config,
    log,
    nothing,
    () => {},
    openSpawnHelper({ onGone: () => {}, onStderr: () => {} }),
  );
  try {
    await checkTenant(core.store, tenant);
    await core.tenancy.admit(tenant);
    return await work(core);
  } finally {
    await core.close();
  }
}

/** Commands have all rights of the operator. */
export const rights = rightsOf(undefined, { openPrograms: true });

/** Saves, and reports the changes or why there are none. */
export async function saved(
  { allowBreaking = false }: { readonly allowBreaking?: boolean },
  save: (allowBreaking: boolean) => Promise<{ readonly review: Review }>,
  tell: (review: Review) => void,
): Promise<number> {
  try {
    tell((await save(allowBreaking)).review);
    console.error("Saved; it is in effect.");
    return 0;
  } catch (error) {
    const { code, data } = error instanceof BerthError ? error : {};
    if (code === "edit_breaking") {
      tell(data?.["review"] as Review);
      console.error("Nothing was changed, because callers would break; --allow-breaking saves it all the same.");
      return 1;
    }
    if (code !== "edit_refused") throw error;
    printProblems(data?.["problems"] as Review["problems"]);
    console.error("Nothing was changed.");
    return 1;
  }
}
