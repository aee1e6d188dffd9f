import { Router } from "express";
import { readTokenRequest } from "../../access/token-request.ts";
import type { TokenInfo } from "../../access/tokens.ts";
import { yieldToCalls } from "../../lib/event-loop.ts";
import { parseJson } from "../../lib/parse-json.ts";
import { changing } from "../access/permit.ts";
import { SHORT_BODY_BYTES } from "../body.ts";
import { cursorAfter, readListPage } from "../list-page.ts";
import type { RouteHandler } from "../routed.ts";
import { addRoute, type Permits } from "./add-route.ts";
import type { ApiOptions } from "./add-route.ts";
import { writerOf } from "./preconditions.ts";

/** A token may take 8 KB, and is parsed whole. */
const READ_AT_ONCE = 20;
/** A page ends at this length, whatever its query asks for. */
const PAGE_UNITS_MAX = 1024 * 1024;

/** `/api/tokens`: the tenant's tokens, for its administrators. Only the answer that creates a token contains it. */
export function tokenRoutes({ access, bodies }: Pick<ApiOptions, "access" | "bodies">): Router {
  const { tokens } = access;

  const getList: RouteHandler = async (context) => {
    const { limit, after } = readListPage(context.request);
    const shown: TokenInfo[] = [];
    let units = 0;
    let found: TokenInfo[];
    do {
      await yieldToCalls();
      const part = { limit: Math.min(READ_AT_ONCE, limit - shown.length) + 1, after: shown.at(-1)?.id ?? after };
      found = await tokens.list(context.tenant, part);
      shown.push(...found.slice(0, part.limit - 1));
      units += JSON.stringify(found).length;
      if (found.length < part.limit) break;
    } while (shown.length < limit && units < PAGE_UNITS_MAX);
    const hasMore = found.length > 0 && found.at(-1) !== shown.at(-1);
    context.response.json({ tokens: shown, ...(hasMore && { next: cursorAfter(shown.at(-1)!.id) }) });
  };

  const post: RouteHandler = async (context) => {
    const asked = parseJson(await bodies.read(context, SHORT_BODY_BYTES));
    const wish = readTokenRequest(asked, tokens.now());
    const created = await tokens.create(context.tenant, wish, writerOf(context));
    context.response.setHeader("Cache-Control", "no-store");
    context.response.status(201).json(created);
  };

  const deleteIt: RouteHandler = async (context) => {
    const id = context.request.params["id"]!;
    await tokens.revoke(context.tenant, id, writerOf(context));
    context.response.json({ id, revoked: true });
  };

  const router = Router();
  // The list tells who may do what, so reading it needs the same power as a change.
  const permits: Permits = { read: changing("tokens"), write: changing("tokens") };
  addRoute(router, "/", permits, { get: getList, post });
  addRoute(router, "/:id", permits, { delete: deleteIt });
  return router;
}
