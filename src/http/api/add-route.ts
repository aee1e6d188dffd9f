import type { Router } from "express";
import type { Access } from "../../access/access.ts";
import type { Edits } from "../../edits/edits.ts";
import type { PackageEdits } from "../../edits/package-edits.ts";
import type { Checks } from "../../host/checks/checks.ts";
import type { Host } from "../../host/host.ts";
import { BerthError } from "../../lib/errors.ts";
import type { Bodies } from "../body.ts";
import type { FeatureRoutes } from "../feature-routes.ts";
import { type Permit, type RouteHandler, routed } from "../routed.ts";

/** The parts that routes of the API are made with. */
export interface ApiOptions {
  readonly edits: Edits;
  readonly packages: PackageEdits;
  readonly host: Host;
  readonly access: Access;
  readonly storedUse: (tenant: string) => Promise<TenantUse>;
  readonly bodies: Bodies;
  readonly features: readonly FeatureRoutes[];
  /** Reads long drafts. */
  readonly checks: Pick<Checks, "readDraft">;
}

interface TenantUse {
  /** Bytes by kind. */
  readonly use: Readonly<Record<string, number>>;
  /** The most of all kinds together. */
  readonly storedBytes: number;
}

const WRITES = ["put", "post", "delete"] as const;

/** The checks for reading and for writing; each refuses by throwing. */
export interface Permits {
  readonly read: Permit;
  readonly write: Permit;
}

/** Adds the handlers of one address with their permits. Refuses every other method and lists the allowed ones. */
export function addRoute(
  router: Router,
  path: string,
  permits: Permits,
  handlers: Partial<Record<"get" | (typeof WRITES)[number], RouteHandler>>,
): void {
  if (handlers.get) router.get(path, routed(handlers.get, permits.read));
  for (const method of WRITES) {
    const handler = handlers[method];
    if (handler) router[method](path, routed(handler, permits.write));
  }
  const allowed = Object.keys(handlers).flatMap((method) =>
    method === "get" ? ["GET", "HEAD"] : method.toUpperCase(),
  );
  router.all(path, (request, response) => {
    response.setHeader("Allow", allowed.join(", "));
    throw new BerthError("method_not_allowed", `${request.method}; it takes ${allowed.join(", ")}`);
  });
}
