import { Router } from "express";
import { rightsOf } from "../../access/rights.ts";
import type { PackageRequest } from "../../edits/package-edits.ts";
import { isCid, type Cid } from "../../lib/cid.ts";
import { BerthError } from "../../lib/errors.ts";
import { isStringArray, tryParseObject } from "../../lib/json.ts";
import { changing, reading } from "../access/permit.ts";
import { SHORT_BODY_BYTES } from "../body.ts";
import type { RouteHandler } from "../routed.ts";
import { addRoute, type ApiOptions, type Permits } from "./add-route.ts";
import { etagOf, readPrecondition, saveOptions } from "./preconditions.ts";
import { sendSaved } from "./subjects.ts";

/** `/api/packages`: the npm packages that definitions may import. Its versions are those of the variable `packages`. */
export function packageRoutes({ packages, access, bodies }: ApiOptions): Router {
  const get: RouteHandler = async ({ tenant, response }) => {
    const { cid, npm, packages: listed } = await packages.read(tenant);
    if (cid !== null) response.setHeader("ETag", etagOf(cid));
    response.json({ cid, allowed: packages.mayHave(tenant), ...(npm !== undefined && { npm }), packages: listed });
  };

  const postReview: RouteHandler = async (context) => {
    const { set: _, ...wishes } = wishesIn(await bodies.read(context, SHORT_BODY_BYTES));
    const rights = rightsOf(context.principal, access);
    context.response.json(await packages.review(context.tenant, wishes, rights, context.signal));
  };

  const post: RouteHandler = async (context) => {
    const { set, ...wishes } = wishesIn(await bodies.read(context, SHORT_BODY_BYTES));
    const options = saveOptions(context, readPrecondition(context.request), access);
    const saved = await packages.save(context.tenant, wishes, { ...options, ...(set !== undefined && { set }) });
    sendSaved(context.response, saved);
  };

  const router = Router();
  const permits: Permits = { read: reading(), write: changing("values") };
  addRoute(router, "/", permits, { get, post });
  addRoute(router, "/review", permits, { post: postReview });
  return router;
}

const SHAPE =
  'the body must be JSON such as {"add": ["papaparse@^5"], "remove": ["luxon"], "update": true}, with at least one of ' +
  'them; "update" is true, or a list of names, and "set" the CID that a review told';

/** Throws `invalid_params`. */
function wishesIn(body: string): PackageRequest & { readonly set?: Cid } {
  const wish = tryParseObject(body);
  if (!wish) throw new BerthError("invalid_params", SHAPE);
  const { add = [], remove = [], update = [], set, ...others } = wish;
  const isUpdate = update === true || isStringArray(update);
  const isRight = isStringArray(add) && isStringArray(remove) && isUpdate && Object.keys(others).length === 0;
  const isSet = set === undefined || (typeof set === "string" && isCid(set));
  if (!isRight || !isSet) throw new BerthError("invalid_params", SHAPE);
  if (update !== true && add.length + remove.length + update.length === 0) {
    throw new BerthError("invalid_params", SHAPE);
  }
  return { add, remove, update, ...(set !== undefined && { set }) };
}
