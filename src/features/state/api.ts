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
 * `/api/state`: what servers keep by key. Reading takes the right to change the server, whose code could tell all of it
 * anyway. Keys stand in the query, since a path is no place for any text.
 */
export function stateRoutes(state: StateEdits, bodies: ApiOptions["bodies"]): Router {
  const getServers: RouteHandler = async (context) => {
    const kept = await state.sizes(context.tenant);
    context.response.json({ servers: kept.filter(({ server }) => mayChange(context, "state", server)) });
  };

  const getKeys: RouteHandler = async (context) => {
    const { request, tenant } = context;
    const { limit, after } = readListPage(request);
    const part = { prefix: textIn(request, "prefix") ?? "", after, max: limit };
    const { items, next } = await state.list(tenant, request.params["name"]!, part);
    context.response.json({ keys: items.map(itemView), ...(next !== undefined && { next: cursorAfter(next) }) });
  };

  const clear: RouteHandler = async (context) => {
    const keys = await state.clear(context.tenant, context.request.params["name"]!, writerOf(context));
    context.response.json({ keys });
  };

  const getValue: RouteHandler = async (context) => {
    const { request, response, tenant } = context;
    const key = keyIn(request);
    const entry = await state.read(tenant, request.params["name"]!, key);
    response.setHeader("ETag", `"${entry.version}"`).setHeader("Cache-Control", "no-store");
    response.json({ key, ...entryView(entry) });
  };

  const putValue: RouteHandler = async (context) => {
    const { request, response, tenant } = context;
    const change = changeOf(context);
    const value = await readValue(context, bodies);
    const version = await state.set(tenant, request.params["name"]!, keyIn(request), value, change);
    response.setHeader("ETag", `"${version}"`).json({ version });
  };

  const deleteValue: RouteHandler = async (context) => {
    const { request, response, tenant } = context;
    await state.remove(tenant, request.params["name"]!, keyIn(request), changeOf(context));
    response.status(204).end();
  };

  const router = Router();
  const permits: Permits = { read: readingWith("state", named), write: changing("state", named) };
  addRoute(router, "/", { read: readingAny, write: changing("state") }, { get: getServers });
  addRoute(router, "/:name", permits, { get: getKeys, delete: clear });
  addRoute(router, "/:name/value", permits, { get: getValue, put: putValue, delete: deleteValue });
  return router;
}

/** Each reader is told of the servers that it may change. */
const readingAny = (): void => {};

export function itemView({ key, bytes, isJson, version, changedAt, expiresAt }: ValueItem): object {
  return { key, kind: isJson ? "json" : "bytes", bytes, version, changedAt, expiresAt };
}

function entryView({ value, isJson, version, changedAt, expiresAt }: ValueEntry): object {
  const bytes = Buffer.from(value.buffer, value.byteOffset, value.byteLength);
  const kept = isJson ? { value: JSON.parse(bytes.toString("utf8")) as unknown } : { base64: bytes.toString("base64") };
  return { kind: isJson ? "json" : "bytes", ...kept, version, changedAt, expiresAt };
}

function changeOf(context: RoutedContext): StateChange {
  const precondition = requirePrecondition(context.request);
  const by = writerOf(context);
  if (precondition.kind === "any") return { by, mustExist: true };
  if (precondition.kind === "absent") return { by, expected: 0 };
  const expected = /^[1-9][0-9]{0,15}$/.test(precondition.expected) ? Number(precondition.expected) : NaN;
  if (!Number.isSafeInteger(expected)) throw new BerthError("invalid_request", "If-Match is not a version of a key");
  return { by, expected };
}

/** The body is the value: JSON, or the base64 of bytes as plain text. */
async function readValue(context: RoutedContext, bodies: ApiOptions["bodies"]): Promise<StateValue> {
  const { "content-type": type = "" } = context.request.headers;
  const isJson = JSON_TYPE.test(type);
  if (!isJson && !TEXT.test(type)) throw new BerthError("unsupported_media_type", "or text/plain for base64");
  // A value that is only somewhat too long is refused by its own limit, not by this one.
  const body = await bodies.read(context, 2 * valueBounds.valueBytes);
  const expiresAt = expiryIn(context.request);
  if (isJson) return { isJson, value: Buffer.from(body), expiresAt };
  const base64 = body.trim();
  if (!BASE64.test(base64))
    throw new BerthError("state_invalid", "the body is not base64; send JSON as application/json");
  return { isJson, value: Buffer.from(base64, "base64"), expiresAt };
}

const JSON_TYPE = /^application\/json\s*(?:;|$)/i;
const TEXT = /^text\/plain\s*(?:;|$)/i;
const BASE64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;

/** `?expiresAt=` in milliseconds since the epoch; null without it. */
function expiryIn(request: Request): number | null {
  const text = textIn(request, "expiresAt");
  if (text === undefined || text === "") return null;
  const at = /^[0-9]{1,15}$/.test(text) ? Number(text) : NaN;
  if (at > Date.now() && at <= LAST_DATE_MS) return at;
  throw new BerthError("invalid_params", '"expiresAt" is a time to come, in milliseconds since the epoch');
}

const LAST_DATE_MS = 8.64e15;

function keyIn(request: Request): string {
  const key = textIn(request, "key");
  if (key === undefined) throw new BerthError("invalid_params", '"key" in the query says which one');
  return key;
}

function textIn({ query }: Request, name: string): string | undefined {
  const value = query[name];
  if (value === undefined || typeof value === "string") return value;
  throw new BerthError("invalid_params", `"${name}" stands in the query once`);
}
