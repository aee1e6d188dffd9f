import type { IncomingMessage } from "node:http";
import { Router, type RequestHandler } from "express";
import type { Edits } from "../../host/edits/edits.ts";
import type { Host } from "../../host/host.ts";
import type { SecretEdits } from "../../host/secret-edits.ts";
import { secretRoutes } from "./secrets.ts";
import { serverRoutes } from "./servers.ts";
import { subjectRoutes } from "./subjects.ts";

/**
 * The JSON API under `/api`: what a person can change, and what that does to whom (`docs/api.md`). It turns requests
 * into edits and answers into statuses; what an edit is, it leaves to the host.
 */
export interface ApiOptions {
  readonly edits: Edits;
  readonly secrets: SecretEdits;
  readonly host: Host;
  readonly mayWrite: RequestHandler;
  readonly bodyBytes: number;
}

export interface CreateApiOptions extends Omit<ApiOptions, "mayWrite" | "bodyBytes"> {
  /** Throws for a request that may not change anything. */
  readonly writeGuard: (request: IncomingMessage) => void;
  readonly limits: { readonly bodyBytes: number };
}

export function createApi({ writeGuard, limits, ...rest }: CreateApiOptions): Router {
  const mayWrite: RequestHandler = (request, _response, next) => {
    writeGuard(request);
    next();
  };
  const options: ApiOptions = { ...rest, mayWrite, bodyBytes: limits.bodyBytes };
  const router = Router();
  router.use((_request, response, next) => {
    // Pages of other origins have no business here, not even to read.
    response.removeHeader("Access-Control-Allow-Origin");
    response.setHeader("Cache-Control", "no-cache");
    next();
  });
  for (const kind of ["variable", "definition", "entry"] as const) {
    const { path, router: routes } = subjectRoutes(kind, options);
    router.use(path, routes);
  }
  router.use("/secrets", secretRoutes(options));
  router.use("/servers", serverRoutes(options));
  return router;
}
