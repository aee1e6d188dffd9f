import { Router } from "express";
import type { Directory } from "../../host/directory/directory.ts";
import { changing, named, readingWith } from "../../http/access/permit.ts";
import { addRoute, type Permits } from "../../http/api/add-route.ts";
import type { RouteHandler } from "../../http/routed.ts";
import { BerthError } from "../../lib/errors.ts";
import { nextCursor, noSuchCall, readCallId, readRetainedCallsQuery } from "./query.ts";
import type { ListedCall, RetainedCalls } from "./retained-calls.ts";

/** `/api/servers/<name>/calls`: the retained calls of a server. */
export function callRoutes(retainedCalls: RetainedCalls, directory: (tenant: string) => Directory | undefined): Router {
  const getCalls: RouteHandler = async (context) => {
    const { request, response, tenant } = context;
    const name = named(context)!;
    if (!directory(tenant)?.servers.has(name)) throw new BerthError("server_not_found", `"${name}"`);
    const found = await retainedCalls.list(tenant, name, readRetainedCallsQuery(request));
    const next = nextCursor(found);
    response.setHeader("Cache-Control", "no-store");
    response.json({
      retainedMs: retainedCalls.retainedMs(tenant, name) ?? null,
      calls: found.calls.map(toView),
      ...(next !== undefined && { next }),
    });
  };

  const getCall: RouteHandler = async (context) => {
    const { request, response, tenant } = context;
    const call = await retainedCalls.get(tenant, named(context)!, readCallId(request.params["id"]));
    if (!call) throw noSuchCall();
    response.setHeader("Cache-Control", "no-store");
    response.json(toView(call));
  };

  const router = Router();
  const permits: Permits = { read: readingWith("calls", named), write: changing("source", named) };
  addRoute(router, "/:name/calls", permits, { get: getCalls });
  addRoute(router, "/:name/calls/:id", permits, { get: getCall });
  return router;
}

function toView({ micros, ...call }: ListedCall): object {
  return { ...call, ms: micros / 1_000 };
}
