import { Router } from "express";
import { changing, reading } from "../../http/access/permit.ts";
import { addRoute, type Permits } from "../../http/api/add-route.ts";
import { readPrecondition, writerOf } from "../../http/api/preconditions.ts";
import type { Bodies } from "../../http/body.ts";
import { namesOnPage, readListPage } from "../../http/list-page.ts";
import type { RequestContext } from "../../http/request-context.ts";
import type { RouteHandler } from "../../http/routed.ts";
import { BerthError } from "../../lib/errors.ts";
import { tryParseJson } from "../../lib/json.ts";
import { SECRET_BYTES } from "../../secrets/secret-rules.ts";
import type { ListedSecret, SecretEdits } from "./edits.ts";

/** `/api/secrets`: the names that are set or wanted. Values go in; no answer contains one. */
export function secretRoutes(secrets: SecretEdits, bodies: Bodies): Router {
  const getList: RouteHandler = async (context) => {
    const page = readListPage(context.request);
    const listed = new Map((await secrets.list(context.tenant)).map((secret) => [secret.name, secret]));
    const { names, next } = namesOnPage([...listed.keys()], page, () => true);
    context.response.json({
      secrets: names.map((name) => viewOf(listed.get(name)!)),
      ...(next !== undefined && { next }),
    });
  };

  const put: RouteHandler = async (context) => {
    const value = await readValue(context, bodies);
    const isNew = readPrecondition(context.request)?.kind === "absent";
    const by = writerOf(context);
    await secrets.set(context.tenant, context.request.params["name"]!, value, { by, isNew });
    context.response.status(204).end();
  };

  const deleteIt: RouteHandler = async (context) => {
    await secrets.remove(context.tenant, context.request.params["name"]!, writerOf(context));
    context.response.status(204).end();
  };

  const router = Router();
  const permits: Permits = { read: reading(), write: changing("secretValues") };
  addRoute(router, "/", permits, { get: getList });
  addRoute(router, "/:name", permits, { put, delete: deleteIt });
  return router;
}

function viewOf({ name, set, servers, moreServers }: ListedSecret): object {
  return { name, isSet: set !== undefined, ...set, servers, ...(moreServers > 0 && { moreServers }) };
}

/** Reads `{value}` as JSON, or the value alone as plain text. */
async function readValue(context: RequestContext, bodies: Bodies): Promise<string> {
  const { "content-type": type = "", "content-encoding": encoding = "identity" } = context.request.headers;
  const isJson = JSON_TYPE.test(type);
  if (!isJson && !TEXT.test(type)) throw new BerthError("unsupported_media_type", "or text/plain for the value alone");
  if (encoding !== "identity") throw new BerthError("unsupported_media_type", "and its Content-Encoding identity");
  // A value that is only somewhat too long is refused by the secret's own limit, not by this one.
  const body = await bodies.read(context, ESCAPED_BYTES * SECRET_BYTES + AROUND_BYTES);
  if (!isJson) return body;
  // Parses only the one string: a body of this length could hold a hundred thousand values.
  const [, text] = VALUE_ALONE.exec(body) ?? [];
  // Without the message of a JSON error, which may quote the text: here it is the secret.
  const value = tryParseJson(text ?? "");
  if (typeof value === "string") return value;
  throw new BerthError("invalid_params", "the body must be {value}, a string, as JSON");
}

/** A byte of the value may be written as `\\u0000`. */
const ESCAPED_BYTES = 6;
const AROUND_BYTES = 1024;
const VALUE_ALONE = /^\s*\{\s*"value"\s*:\s*("[^"\\]*(?:\\.[^"\\]*)*")\s*\}\s*$/;
const TEXT = /^text\/plain\s*(?:;|$)/i;
const JSON_TYPE = /^application\/json\s*(?:;|$)/i;
