import { Router } from "express";
import type { Audit } from "../../audit/audit.ts";
import { administering } from "../access/permit.ts";
import { readAuditQuery } from "../audit-query.ts";
import { tenantOf } from "../place.ts";
import { addRoute, type Handler } from "./add-route.ts";

/** `/api/audit`: what happened in the tenant, the newest first, for who may administer it. */
export function auditRoutes({ audit }: { readonly audit: Audit }): Router {
  const get: Handler = async (request, response) => {
    const { records, next } = await audit.search(tenantOf(request), readAuditQuery(request));
    response.setHeader("Cache-Control", "no-store");
    response.json({ records, ...(next !== undefined && { next }) });
  };

  const router = Router();
  addRoute(router, "/", { read: administering, write: administering }, { get });
  return router;
}
