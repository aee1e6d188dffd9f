import type { Router } from "express";
import { BerthError } from "../../lib/errors.ts";
import { routed, type Permit, type RouteHandler } from "../routed.ts";

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
