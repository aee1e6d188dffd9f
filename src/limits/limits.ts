import { accessLimits } from "./access.ts";
import { admissionLimits } from "./admission.ts";
import { auditLimits } from "./audit.ts";
import { discoverLimits } from "./discover.ts";
import { executorLimits } from "./executor.ts";
import { hostLimits } from "./host.ts";
import { httpLimits } from "./http.ts";
import { mcpLimits } from "./mcp.ts";
import { networkLimits } from "./network.ts";
import { storeLimits } from "./store.ts";
import { upstreamLimits } from "./upstream.ts";

/**
 * Every limit of the service with its default. Each stands in the file of its folder: those of `src/http` in
 * `limits/http.ts`. A name ends in its unit; one without a unit is a count.
 */
const defaults = {
  /** Log lines that stderr does not take; further ones are dropped and counted. */
  logBufferBytes: 1024 * 1024,
  ...httpLimits,
  ...admissionLimits,
  ...accessLimits,
  ...mcpLimits,
  ...hostLimits,
  ...executorLimits,
  ...networkLimits,
  ...discoverLimits,
  ...storeLimits,
  ...upstreamLimits,
  ...auditLimits,
};

export type Limits = Readonly<typeof defaults>;

export const defaultLimits: Limits = defaults;

/** `callMs` → `BERTH_CALL_MS`. */
export function limitVariable(limit: string): string {
  return `BERTH_${limit.replace(/[A-Z]/g, (letter) => `_${letter}`).toUpperCase()}`;
}
