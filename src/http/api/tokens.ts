import { Router } from "express";
import { readTokenWish } from "../../access/token-wish.ts";
import { parseJson } from "../../parse-json.ts";
import { changing } from "../access/permit.ts";
import { cursorAfter, readListPage } from "../list-page.ts";
import { tenantOf } from "../place.ts";
import { addRoute, type Handler, type Permits } from "./add-route.ts";
import type { ApiOptions } from "./api.ts";
import { writerOf } from "./preconditions.ts";

/** `/api/tokens`: those of the tenant, for who may administer it. A token itself is in no answer but the one that makes it. */
export function tokenRoutes({ access, bodies, limits }: Pick<ApiOptions, "access" | "bodies" | "limits">): Router {
  const { tokens } = access;

  const getList: Handler = async (request, response) => {
    const { limit, after } = readListPage(request, limits);
    const found = await tokens.list(tenantOf(request), { limit: limit + 1, after });
    const shown = found.slice(0, limit);
    response.json({ tokens: shown, ...(found.length > limit && { next: cursorAfter(shown.at(-1)!.id) }) });
  };

  const post: Handler = async (request, response) => {
    const wish = readTokenWish(parseJson(await bodies.read(request, "shortBodyBytes")));
    const created = await tokens.create(tenantOf(request), wish, writerOf(request));
    response.setHeader("Cache-Control", "no-store");
    response.status(201).json(created);
  };

  const deleteIt: Handler = async (request, response) => {
    const id = request.params["id"]!;
    await tokens.revoke(tenantOf(request), id, writerOf(request));
    response.json({ id, revoked: true });
  };

  const router = Router();
  // Who reads the list learns who may do what, so that this is asked as if it were a change.
  const permits: Permits = { read: changing("tokens"), write: changing("tokens") };
  addRoute(router, "/", permits, { get: getList, post });
  addRoute(router, "/:id", permits, { delete: deleteIt });
  return router;
}
