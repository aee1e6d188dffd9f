import { accessLimits } from "./limits/access.ts";
import { admissionLimits } from "./limits/admission.ts";
import { auditLimits } from "./limits/audit.ts";
import { discoverLimits } from "./limits/discover.ts";
import { executorLimits } from "./limits/executor.ts";
import { hostLimits } from "./limits/host.ts";
import { httpLimits } from "./limits/http.ts";
import { mcpLimits } from "./limits/mcp.ts";
import { networkLimits } from "./limits/network.ts";
import { storeLimits } from "./limits/store.ts";
import { upstreamLimits } from "./limits/upstream.ts";

/**
 * Every limit of the service, its default with it. Each stands with its room: what `src/http` keeps to is in
 * `limits/http.ts`. A name ends in its unit; one without a unit is a count.
 */
const defaults = {
  /** Of log lines that stderr does not take; further ones are dropped and counted. */
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
