import { tenantLimits } from "../../admission/tenant-limits.ts";
import type { JsonObject } from "../../lib/json.ts";
import { fixed } from "../../limits/fixed.ts";
import type { Limits } from "../../limits/limits.ts";
import type { CollectionOptions } from "../../store/store.ts";

/** How long unreferenced content stays readable, and how long it can be restored after that. */
export const collectionBounds = fixed({ collectGraceMs: 3_600_000 });

/** Requests a collection for these tenants, each with its own history limit. */
export function collectionOrder(
  tenants: readonly { readonly name: string; readonly limits: JsonObject }[],
  defaults: Limits,
): CollectionOptions {
  return {
    tenants: tenants.map(({ name, limits }) => ({
      tenant: name,
      historyMs: tenantLimits(defaults, limits).historyDays * DAY_MS,
    })),
    graceMs: collectionBounds.collectGraceMs,
  };
}

const DAY_MS = 86_400_000;
