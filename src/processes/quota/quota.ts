import { findProcessorQuota } from "./processor-quota.ts";
import { QuotaKeeper } from "./quota-keeper.ts";

/**
 * Processor time where it is short. `CpuFairness` works in the serving process: it measures the process trees of each
 * tenant, and lowers or pauses those of tenants that use much. `keepWithinQuota` works in the spawn helper: it pauses
 * whatever gives way before the control group has used up its quota. Both see processes from outside, and know nothing
 * of programs and calls. Other folders import this file alone.
 */
export { CpuFairness } from "./cpu-fairness.ts";
export type { MemoryLimit } from "./watched-tree.ts";

/** `folder`: below `/proc`, of the process whose quota it is. */
export function keepWithinQuota(folder?: string): QuotaKeeper {
  return new QuotaKeeper(() => findProcessorQuota(folder));
}
