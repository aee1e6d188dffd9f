import { Router } from "express";
import type { Access } from "../../access/access.ts";
import type { Audit } from "../../audit/audit.ts";
import type { Edits } from "../../host/edits/edits.ts";
import type { Host } from "../../host/host.ts";
import type { SecretEdits } from "../../host/secret-edits.ts";
import type { ListLimits } from "../list-page.ts";
import { auditRoutes } from "./audit.ts";
import { secretRoutes } from "./secrets.ts";
import { serverRoutes } from "./servers.ts";
import { subjectRoutes } from "./subjects.ts";
import { tokenRoutes } from "./tokens.ts";

/**
 * The JSON API under `/api`: what a person can change, and what that does to whom (`docs/api.md`). It turns requests
 * into edits and answers into statuses; what an edit is, it leaves to the host.
 */
export interface ApiOptions {
  readonly edits: Edits;
  readonly secrets: SecretEdits;
  readonly host: Host;
  readonly access: Access;
  readonly audit: Audit;
  readonly bodyBytes: number;
  readonly limits: ListLimits;
}

export interface CreateApiOptions extends Omit<ApiOptions, "bodyBytes" | "limits"> {
  readonly limits: ListLimits & { readonly bodyBytes: number };
}

export function createApi({ limits, ...rest }: CreateApiOptions): Router {
  const options: ApiOptions = { ...rest, limits, bodyBytes: limits.bodyBytes };
  const router = Router();
  router.use((_request, response, next) => {
    response.setHeader("Cache-Control", "no-cache");
    next();
  });
  for (const kind of ["variable", "definition", "entry"] as const) {
    const { path, router: routes } = subjectRoutes(kind, options);
    router.use(path, routes);
  }
  router.use("/secrets", secretRoutes(options));
  router.use("/servers", serverRoutes(options));
  router.use("/tokens", tokenRoutes(options));
  router.use("/audit", auditRoutes(options));
  return router;
}
