import { Router } from "express";
import type { Access } from "../../access/access.ts";
import type { Audit } from "../../audit/audit.ts";
import type { Checks } from "../../host/checks/checks.ts";
import type { Edits } from "../../edits/edits.ts";
import type { Host } from "../../host/host.ts";
import type { SecretEdits } from "../../edits/secret-edits.ts";
import type { Limits } from "../../limits/limits.ts";
import type { Bodies } from "../body.ts";
import type { ListPageLimits } from "../list-page.ts";
import { auditRoutes } from "./audit.ts";
import { secretRoutes } from "./secrets.ts";
import { serverRoutes } from "./servers.ts";
import { subjectRoutes } from "./subjects.ts";
import { tokenRoutes } from "./tokens.ts";

/**
 * The JSON API under `/api`: changes, and their effects on clients (`docs/api.md`). It turns requests into edits and
 * results into statuses; the edits themselves are up to the host.
 */
export interface ApiOptions {
  readonly edits: Edits;
  readonly secrets: SecretEdits;
  readonly host: Host;
  readonly access: Access;
  readonly audit: Audit;
  readonly bodies: Bodies;
  /** Reads long drafts. */
  readonly checks: Pick<Checks, "readDraft">;
  readonly limits: ListPageLimits & Pick<Limits, "inlineBodyBytes" | "secretBytes">;
}

export function createApi(options: ApiOptions): Router {
  const router = Router();
  router.use((_request, response, next) => {
    response.setHeader("Cache-Control", "no-cache");
    next();
  });
  for (const [path, routes] of apiRoutes(options)) router.use(path, routes);
  return router;
}

/** All routes, by path prefix. */
export function apiRoutes(options: ApiOptions): readonly (readonly [path: string, Router])[] {
  const subjects = (["variable", "definition", "entry"] as const).map((kind) => subjectRoutes(kind, options));
  return [
    ...subjects.map(({ path, router }) => [path, router] as const),
    ["/secrets", secretRoutes(options)],
    ["/servers", serverRoutes(options)],
    ["/tokens", tokenRoutes(options)],
    ["/audit", auditRoutes(options)],
  ];
}
