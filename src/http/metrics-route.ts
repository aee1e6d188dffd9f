import { BerthError } from "../lib/errors.ts";
import type { Metrics } from "../metrics/metrics.ts";
import { DEFAULT_TENANT } from "../lib/tenant-name.ts";
import { checkChange } from "./access/permit.ts";
import type { RouteHandler } from "./routed.ts";

export interface MetricsRouteOptions {
  readonly metrics: Metrics;
}

/**
 * `GET /metrics`: figures of all tenants, so only for administrators of the default tenant, who run the service, and
 * for users of its machine.
 */
export function metricsRoute({ metrics }: MetricsRouteOptions): RouteHandler {
  return async (context) => {
    const { response } = context;
    if (context.tenant !== DEFAULT_TENANT) throw new BerthError("not_found", "figures stand at /metrics alone");
    checkChange(context, "audit");
    const text = await metrics.text();
    response.setHeader("Cache-Control", "no-store");
    // Express would add a second charset to the type that the format demands.
    response.setHeader("Content-Type", metrics.contentType);
    response.end(text);
  };
}
