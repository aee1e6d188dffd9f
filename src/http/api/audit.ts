import { Router } from "express";
import type { Audit } from "../../audit/audit.ts";
import { administering } from "../access/permit.ts";
import { readAuditQuery } from "../audit-query.ts";
import type { RouteHandler } from "../routed.ts";
import { addRoute } from "./add-route.ts";

/** `/api/audit`: the tenant's audit records, newest first, for its administrators. */
export function auditRoutes({ audit }: { readonly audit: Audit }): Router {
  const get: RouteHandler = async (context) => {
    const { records, next } = await audit.search(context.tenant, readAuditQuery(context.request));
    context.response.setHeader("Cache-Control", "no-store");
    context.response.json({ records, ...(next !== undefined && { next }) });
  };

  const router = Router();
  addRoute(router, "/", { read: administering, write: administering }, { get });
  return router;
}
