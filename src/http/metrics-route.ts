import type { IncomingMessage } from "node:http";
import type { RequestHandler } from "express";
import { BerthError } from "../errors.ts";
import type { Metrics } from "../metrics/metrics.ts";
import { DEFAULT_TENANT } from "../tenant-name.ts";
import { principalOf } from "./authenticate.ts";
import { tenantOf } from "./place.ts";

export interface MetricsRouteOptions {
  readonly metrics: Metrics;
  /** Throws for a request that may not change anything. */
  readonly writeGuard: (request: IncomingMessage) => void;
}

/**
 * `GET /metrics`: figures of all tenants, so for those alone who may administer the default one, as whose administrators
 * the service is run, or who sit at its machine.
 */
export function metricsRoute({ metrics, writeGuard }: MetricsRouteOptions): RequestHandler {
  return async (request, response) => {
    checkOperator(request, writeGuard);
    const text = await metrics.text();
    response.setHeader("Cache-Control", "no-store");
    // Express would add a second charset to the type that the format demands.
    response.setHeader("Content-Type", metrics.contentType);
    response.end(text);
  };
}

function checkOperator(request: IncomingMessage, writeGuard: MetricsRouteOptions["writeGuard"]): void {
  if (tenantOf(request) !== DEFAULT_TENANT) throw new BerthError("not_found", "figures stand at /metrics alone");
  const principal = principalOf(request);
  if (!principal) return writeGuard(request);
  if (principal.permits("admin")) return;
  throw new BerthError("unauthorized", "only who administers the service sees its figures");
}
