import { findCpuQuota } from "./cpu-quota.ts";
import { QuotaKeeper } from "./quota-keeper.ts";

/**
 * Sharing scarce CPU time. `CpuFairness` works in the serving process: it measures the process trees of each tenant,
 * and lowers or pauses those of tenants that use much. `keepWithinQuota` works in the spawn helper: it pauses
 * low-priority processes before the control group has used up its quota. Both observe processes from outside, and know
 * nothing of programs and calls. Other folders import only this file.
 */
export { CpuFairness } from "./cpu-fairness.ts";
export type { MemoryLimit } from "./watched-tree.ts";

/** `folder`: of the process below `/proc` whose quota applies. */
export function keepWithinQuota(folder?: string): QuotaKeeper {
  return new QuotaKeeper(() => findCpuQuota(folder));
}
