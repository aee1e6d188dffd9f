import { Router, type Request } from "express";
import { changing, mayChange, named, readingWith } from "../../http/access/permit.ts";
import { addRoute, type ApiOptions, type Permits } from "../../http/api/add-route.ts";
import { requirePrecondition, writerOf } from "../../http/api/preconditions.ts";
import { cursorAfter, readListPage } from "../../http/list-page.ts";
import type { RoutedContext, RouteHandler } from "../../http/routed.ts";
import { BerthError } from "../../lib/errors.ts";
import { valueBounds } from "../../limits/value-bounds.ts";
import type { StateChange, StateEdits, ValueEntry, ValueItem, StateValue } from "./edits.ts";

/**
 * `/api/state`: values that servers store by key. Reading requires the right to change the server, whose code could
 * reveal all of it anyway. Keys are in the query, since not every text can be part of a path.
 */
export function stateRoutes(state: StateEdits, bodies: ApiOptions["bodies"]): Router {
  const getServers: RouteHandler = async (context) => {
    const sizes = await state.sizes(context.tenant);
    context.response.json({ servers: sizes.filter(({ server }) => mayChange(context, "state", server)) });
  };

  const getKeys: RouteHandler = async (context) => {
    const { request, tenant } = context;
    const { limit, after } = readListPage(request);
    const page = { prefix: readQueryText(request, "prefix") ?? "", after, max: limit };
    const { items, next } = await state.list(tenant, request.params["name"]!, page);
    context.response.json({ keys: items.map(itemView), ...(next !== undefined && { next: cursorAfter(next) }) });
  };

  const clear: RouteHandler = async (context) => {
    const keys = await state.clear(context.tenant, context.request.params["name"]!, writerOf(context));
    context.response.json({ keys });
  };

  const getValue: RouteHandler = async (context) => {
    const { request, response, tenant } = context;
    const key = readKey(request);
    const entry = await state.read(tenant, request.params["name"]!, key);
    response.setHeader("ETag", `"${entry.version}"`).setHeader("Cache-Control", "no-store");
    response.json({ key, ...entryView(entry) });
  };

  const putValue: RouteHandler = async (context) => {
    const { request, response, tenant } = context;
    const change = readChange(context);
    const value = await readValue(context, bodies);
    const version = await state.set(tenant, request.params["name"]!, readKey(request), value, change);
    response.setHeader("ETag", `"${version}"`).json({ version });
  };

  const deleteValue: RouteHandler = async (context) => {
    const { request, response, tenant } = context;
    await state.remove(tenant, request.params["name"]!, readKey(request), readChange(context));
    response.status(204).end();
  };

  const router = Router();
  const permits: Permits = { read: readingWith("state", named), write: changing("state", named) };
  addRoute(router, "/", { read: permitAny, write: changing("state") }, { get: getServers });
  addRoute(router, "/:name", permits, { get: getKeys, delete: clear });
  addRoute(router, "/:name/value", permits, { get: getValue, put: putValue, delete: deleteValue });
  return router;
}

/** Each reader gets only the servers that it may change. */
const permitAny = (): void => {};

export function itemView({ key, bytes, isJson, version, changedAt, expiresAt }: ValueItem): object {
  return { key, kind: isJson ? "json" : "bytes", bytes, version, changedAt, expiresAt };
}

function entryView({ value, isJson, version, changedAt, expiresAt }: ValueEntry): object {
  const bytes = Buffer.from(value.buffer, value.byteOffset, value.byteLength);
  const content = isJson
    ? { value: JSON.parse(bytes.toString("utf8")) as unknown }
    : { base64: bytes.toString("base64") };
  return { kind: isJson ? "json" : "bytes", ...content, version, changedAt, expiresAt };
}

function readChange(context: RoutedContext): StateChange {
  const precondition = requirePrecondition(context.request);
  const by = writerOf(context);
  if (precondition.kind === "any") return { by, mustExist: true };
  if (precondition.kind === "absent") return { by, expected: 0 };
  const expected = /^[1-9][0-9]{0,15}$/.test(precondition.expected) ? Number(precondition.expected) : NaN;
  if (!Number.isSafeInteger(expected)) throw new BerthError("invalid_request", "If-Match is not a version of a key");
  return { by, expected };
}

/** The body is the value: JSON, or bytes in base64 as plain text. */
async function readValue(context: RoutedContext, bodies: ApiOptions["bodies"]): Promise<StateValue> {
  const { "content-type": type = "" } = context.request.headers;
  const isJson = JSON_TYPE.test(type);
  if (!isJson && !TEXT.test(type)) throw new BerthError("unsupported_media_type", "or text/plain for base64");
  // A value that is slightly too long is rejected by its own limit, not by this one.
  const body = await bodies.read(context, 2 * valueBounds.valueBytes);
  const expiresAt = readExpiry(context.request);
  if (isJson) return { isJson, value: Buffer.from(body), expiresAt };
  const base64 = body.trim();
  if (!BASE64.test(base64))
    throw new BerthError("state_invalid", "the body is not base64; send JSON as application/json");
  return { isJson, value: Buffer.from(base64, "base64"), expiresAt };
}

const JSON_TYPE = /^application\/json\s*(?:;|$)/i;
const TEXT = /^text\/plain\s*(?:;|$)/i;
const BASE64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;

/** `?expiresAt=` in milliseconds since the epoch; null if absent. */
function readExpiry(request: Request): number | null {
  const text = readQueryText(request, "expiresAt");
  if (text === undefined || text === "") return null;
  const at = /^[0-9]{1,15}$/.test(text) ? Number(text) : NaN;
  if (at > Date.now() && at <= LAST_DATE_MS) return at;
  throw new BerthError("invalid_params", '"expiresAt" must be a time in the future, in milliseconds since the epoch');
}

const LAST_DATE_MS = 8.64e15;

function readKey(request: Request): string {
  const key = readQueryText(request, "key");
  if (key === undefined) throw new BerthError("invalid_params", '"key" is missing in the query');
  return key;
}

function readQueryText({ query }: Request, name: string): string | undefined {
  const value = query[name];
  if (value === undefined || typeof value === "string") return value;
  throw new BerthError("invalid_params", `"${name}" must occur only once in the query`);
}
