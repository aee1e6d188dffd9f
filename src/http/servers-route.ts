import type { IncomingMessage } from "node:http";
import type { Request, RequestHandler } from "express";
import { createConverter, type Converter } from "../host/calls/remake.ts";
import { queryArguments } from "../host/calls/uris/query-arguments.ts";
import { permittedCatalog } from "../host/catalog/permitted.ts";
import type { Checks } from "../host/checks/checks.ts";
import type { Host } from "../host/host.ts";
import type { CallResult, Tool } from "../host/offers/catalog.ts";
import { failure, BARE_JSON, bareOf, textsOf, type Bare } from "../host/offers/content.ts";
import { jsonOf, LongResult } from "../host/offers/long-result.ts";
import { toClientError } from "../lib/error-mapping.ts";
import { BerthError } from "../lib/errors.ts";
import { isObject, type JsonObject, type JsonText } from "../lib/json.ts";
import type { Log } from "../lib/log.ts";
import { LongText } from "../lib/long-text.ts";
import { parseJson } from "../lib/parse-json.ts";
import { readingBounds } from "../lib/reading-bounds.ts";
import { admit } from "../mcp/admit.ts";
import { readAccept } from "./accept.ts";
import type { Challenge } from "./access/challenge.ts";
import { checkPermitted } from "./access/permit.ts";
import type { Bodies } from "./body.ts";
import { type EventStream, endResponse } from "./event-stream.ts";
import { checkContent, decodeName } from "./mcp-route.ts";
import type { OpenStreams } from "./open-streams.ts";
import { wantsPage } from "./pages/error.ts";
import { NEW_SERVER } from "./pages/parts/paths.ts";
import type { OriginOf } from "./public-origin.ts";
import type { RequestContext } from "./request-context.ts";
import { contextOf } from "./routed.ts";
import { sayWhenToRetry } from "./write-answer.ts";

export interface ServersRouteOptions {
  readonly host: Pick<Host, "server">;
  readonly challenge: Challenge;
  readonly streams: OpenStreams;
  readonly originOf: OriginOf;
  readonly bodies: Bodies;
  /** Reads long arguments and results. */
  readonly checks: Pick<Checks, "readArguments" | "remake">;
  readonly log: Log;
}

/**
 * `/servers/<name>/<function>`, and `/servers/<name>` for the function that has its server's name: a tool call as plain
 * HTTP. `GET` takes the arguments from the query, `POST` from a JSON object. The return value is hostile: answers are
 * sandboxed, and always have an explicit type. A browser that opens `/servers/<name>` without a query, or `/servers/new`,
 * gets a page, which is not made here.
 */
export function serversRoute(options: ServersRouteOptions): RequestHandler {
  return (request, response, next) => {
    const target = readTarget(request);
    if (target) void answer(target, contextOf(response), options);
    else next();
  };
}

/** The parts of the URL as written: dots and escapes in names are not resolved. */
interface Target {
  readonly server: string;
  readonly path: string;
  readonly query: string | undefined;
}

function readTarget(request: Request): Target | undefined {
  const { method, url } = request;
  const [, server, path = "", query] = /^\/servers\/([^/?#]+)(?:\/([^?#]*))?(?:\?([^#]*))?$/.exec(url) ?? [];
  if (server === undefined || (method !== "GET" && method !== "POST")) return undefined;
  const isPage = query === undefined || server === NEW_SERVER;
  if (method === "GET" && path === "" && isPage && wantsPage(request)) return undefined;
  return { server, path, query };
}

async function answer(target: Target, context: RequestContext, options: ServersRouteOptions): Promise<void> {
  const { request, response } = context;
  const { challenge, streams, log } = options;
  // No type that a function chooses can run as a page of this origin.
  response.setHeader("Content-Security-Policy", "default-src 'none'; sandbox");
  response.setHeader("Cache-Control", "no-store");
  response.setHeader("Vary", "Accept, Origin");
  let events: EventStream | undefined;
  try {
    refuseOtherSites(request);
    const tool = await toolOf(context, target, options.host);
    const args = await argumentsOf(target, tool, context, options);
    if (readAccept(request.headers.accept).events && !(events = streams.take(context))) {
      throw new BerthError("too_many_streams");
    }
    const outcome = await call(tool, args, events, context, options.originOf(request));
    if (events) sendEvents(events, outcome);
    else await writeOutcome(context, outcome, createConverter(options.checks, context.tenant));
  } catch (error) {
    const shown = toClientError(error, context.trace.requestId, log, "a call over HTTP failed");
    challenge(context, shown);
    writeCallFailure(context, events, shown);
  }
}

/** A link or a form on another site's page must not call anything; browsers say where a request comes from. */
function refuseOtherSites({ headers }: IncomingMessage): void {
  const site = headers["sec-fetch-site"];
  if (site === "cross-site" || site === "same-site") throw new BerthError("forbidden_site");
}

/**
 * A browser takes its cookies along on every redirect within its site, and resolves dots. So a redirect within this
 * origin may lead only to functions of the same tenant. Returns the fault of any other; undefined for an allowed one.
 */
function faultOfRedirect(redirect: string, base: string, origin: string): CallResult | undefined {
  const { origin: to, pathname } = new URL(redirect, origin);
  if (to !== new URL(origin).origin || pathname.startsWith(`${base}/servers/`)) return undefined;
  const shown = pathname.slice(0, 200);
  return failure(`The redirect is refused: it leads to ${shown}, which is not a function of this tenant`);
}

async function toolOf(
  context: RequestContext,
  { server, path }: Target,
  host: ServersRouteOptions["host"],
): Promise<Tool> {
  const { principal } = context;
  admit(principal, decodeName(server));
  const catalog = await permittedCatalog(await host.server(context.tenant, decodeName(server)), principal);
  checkPermitted(context, "call", catalog.server);
  const name = decodeName(path) || catalog.server;
  const tool = catalog.tool(name);
  if (tool) return tool;
  const known = catalog.contract.tools.map((each) => each.name).slice(0, NAMES_SHOWN);
  throw new BerthError("tool_not_found", `"${catalog.server}" has no "${name}"; it has ${known.join(", ") || "none"}`);
}

const NAMES_SHOWN = 20;

async function argumentsOf(
  { query }: Target,
  { contract }: Tool,
  context: RequestContext,
  { bodies, checks }: Pick<ServersRouteOptions, "bodies" | "checks">,
): Promise<JsonObject | JsonText> {
  const { request, tenant } = context;
  if (request.method === "GET") {
    if (contract.annotations?.destructiveHint === true) {
      throw new BerthError("method_not_allowed", `GET; "${contract.name}" may destroy something, so it takes POST`);
    }
    return queryArguments(query ?? "", contract.inputSchema);
  }
  if (query !== undefined)
    throw new BerthError("invalid_params", "a POST takes its arguments in the body, not in the query");
  checkContent(request.headers);
  const body = await bodies.read(context);
  context.atClose({ leave: bodies.hold(tenant, body) });
  if (body.length > readingBounds.inlineBodyBytes) return checks.readArguments(tenant, body);
  const args = body === "" ? {} : parseJson(body);
  if (!isObject(args)) throw new BerthError("invalid_params", "the body must be an object of arguments");
  return args as JsonObject;
}

async function call(
  tool: Tool,
  args: JsonObject | JsonText,
  events: EventStream | undefined,
  { principal, trace, signal, base }: RequestContext,
  origin: string,
): Promise<PlainCallOutcome> {
  let redirect: string | undefined;
  const result = await tool.call(args, {
    principal,
    trace,
    signal,
    invalidRejects: true,
    onRedirect: (address) => (redirect = address.startsWith("/") ? base + address : address),
    ...(events && { onProgress: (event) => events.sendOther("progress", JSON.stringify(event)) }),
  });
  if (redirect !== undefined) {
    const fault = faultOfRedirect(redirect, base, origin);
    return fault ? { result: fault } : { redirect };
  }
  if (!("inputRequests" in result)) return { result };
  const { hint } = result;
  const how = `plain HTTP cannot ask questions; call it with MCP${hint === undefined ? "" : `: ${hint}`}`;
  throw new BerthError("input_required", how, { data: { inputRequests: result.inputRequests } });
}

/** The outcome of a call: its result, or the address of the result. */
type PlainCallOutcome = { readonly result: CallResult } | { readonly redirect: string };

const QUOTE = 0x22;

/** Answers with the bare value if there is one, otherwise with the MCP result. Rejects with `tool_failed`. */
async function writeOutcome(
  context: RequestContext,
  outcome: PlainCallOutcome,
  remake: Pick<Converter, "bare">,
): Promise<void> {
  if ("redirect" in outcome) {
    context.response.setHeader("Location", outcome.redirect);
    return write(context, 303, undefined);
  }
  const { result } = outcome;
  if (result.isError) throw new BerthError("tool_failed", textsOf(result));
  const bare = result instanceof LongResult ? await longBare(result, remake) : bareOf(result);
  write(context, bare ? 200 : 204, bare);
}

async function longBare(result: LongResult, remake: Pick<Converter, "bare">): Promise<Body> {
  const { structured, blocks } = result.parts;
  // A string has to be decoded; everything else is written as it is.
  if (structured !== undefined && structured[0] !== QUOTE) return { type: BARE_JSON, body: new LongText(structured) };
  return structured === undefined && blocks > 1 ? { type: BARE_JSON, body: result.text } : remake.bare(result);
}

/** Ends an event stream: `result` with the MCP result, or `redirect` with an address. */
function sendEvents(events: EventStream, outcome: PlainCallOutcome): void {
  if ("redirect" in outcome) void events.sendOther("redirect", JSON.stringify({ location: outcome.redirect }));
  else void events.sendOther("result", jsonOf(outcome.result));
  events.close();
}

/** Writes an error as JSON with its own status, or as the event `error` of an open stream. */
function writeCallFailure(context: RequestContext, events: EventStream | undefined, failure: BerthError): void {
  const { response } = context;
  const { code, message, data, status } = failure;
  const problem = { error: { code, message, ...(data && { data }) } };
  if (events?.isOpen) {
    void events.sendOther("error", JSON.stringify(problem));
    return events.close();
  }
  if (response.headersSent) return void response.destroy();
  if (code === "method_not_allowed") response.setHeader("Allow", "POST");
  sayWhenToRetry(response, failure);
  writeJson(context, status, problem);
}

function writeJson(context: RequestContext, status: number, value: unknown): void {
  write(context, status, { type: BARE_JSON, body: JSON.stringify(value) });
}

interface Body {
  readonly type: string;
  readonly body: Bare["body"] | LongText;
}

function asBuffer(body: Bare["body"]): Buffer {
  return typeof body === "string" ? Buffer.from(body) : Buffer.from(body.buffer, body.byteOffset, body.length);
}

function write(context: RequestContext, status: number, answer: Body | undefined): void {
  const { response } = context;
  if (response.destroyed) return;
  if (!answer) return void response.writeHead(status).end();
  const { type, body } = answer;
  const bytes = body instanceof LongText ? body : asBuffer(body);
  const length = bytes instanceof LongText ? bytes.bytes : bytes.length;
  response.writeHead(status, { "Content-Type": type, "Content-Length": length });
  endResponse(context, bytes);
}
