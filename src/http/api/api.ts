import { Router } from "express";
import { administering } from "../access/permit.ts";
import type { RouteHandler } from "../routed.ts";
import { addRoute, type ApiOptions } from "./add-route.ts";
import { packageRoutes } from "./packages.ts";
import { serverRoutes } from "./servers.ts";
import { subjectRoutes } from "./subjects.ts";
import { tokenRoutes } from "./tokens.ts";

/**
 * The JSON API under `/api`: changes, and their effects on clients (`docs/api.md`). It turns requests into edits and
 * results into statuses; the edits themselves are up to the host.
 */
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
  const secrets = options.features.find((each) => each.secrets)?.secrets;
  const kit = { ...options, secrets };
  const subjects = (["variable", "definition", "entry"] as const).map((kind) => subjectRoutes(kind, options));
  return [
    ...subjects.map(({ path, router }) => [path, router] as const),
    ["/packages", packageRoutes(options)],
    ["/servers", serverRoutes(options)],
    ...options.features.flatMap(({ api = [] }) => api).map(({ path, create }) => [path, create(kit)] as const),
    ["/tokens", tokenRoutes(options)],
    ["/use", useRoutes(options)],
  ];
}

/** `/api/use`: the bytes that the tenant stores, by kind, and the most that it may, for its administrators. */
function useRoutes({ storedUse }: Pick<ApiOptions, "storedUse">): Router {
  const get: RouteHandler = async ({ tenant, response }) => {
    response.setHeader("Cache-Control", "no-store");
    response.json(await storedUse(tenant));
  };

  const router = Router();
  addRoute(router, "/", { read: administering, write: administering }, { get });
  return router;
}
