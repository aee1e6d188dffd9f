import { headerMarks, scalarsAt, type HeaderMark } from "../../contract/header-marks.ts";
import { BerthError } from "../../lib/errors.ts";
import type { Tool } from "../../host/catalog/catalog.ts";
import type { Checks } from "../../host/checks/checks.ts";
import { isObject, JsonText, type JsonObject } from "../../lib/json.ts";
import { isLogLevel, LOG_LEVELS, type LogLevel } from "../../lib/log-level.ts";
import type { Request } from "../json-rpc.ts";
import type { Client, ServerPlace, Post } from "../protocol.ts";
import {
  isModern,
  META_CLIENT_CAPABILITIES,
  META_LOG_LEVEL,
  META_PROTOCOL_VERSION,
  SUPPORTED_VERSIONS,
} from "../revisions.ts";
import { checkParameterHeaders, checkStandardHeaders } from "./headers.ts";

/** Reads the values that go into headers from long arguments. */
export type ScalarReader = Pick<Checks, "scalarsIn">;

/**
 * Checks the mandatory parts of a modern request, in the order in which a client can fix them, and returns its client:
 * synchronously, except for long arguments with values that go into headers.
 */
export function modernClient(
  request: Request,
  { headers, headerless }: Post,
  place: ServerPlace,
  checks?: ScalarReader,
): Client | Promise<Client> {
  const meta = request.params["_meta"];
  if (!isObject(meta) || typeof meta[META_PROTOCOL_VERSION] !== "string") {
    throw new BerthError("invalid_params", `"_meta" needs "${META_PROTOCOL_VERSION}"`);
  }
  const version = meta[META_PROTOCOL_VERSION];
  if (!headerless) checkStandardHeaders(headers, request);
  if (!isModern(version)) {
    const data = { supported: SUPPORTED_VERSIONS, requested: version };
    throw new BerthError("unsupported_version", version, { data });
  }
  const capabilities = meta[META_CLIENT_CAPABILITIES];
  if (!isObject(capabilities)) {
    throw new BerthError("invalid_params", `"_meta" needs "${META_CLIENT_CAPABILITIES}", an object`);
  }
  const logLevel = logLevelOf(meta[META_LOG_LEVEL]);
  const client = { version, capabilities: capabilities as JsonObject, ...(logLevel && { logLevel }) };
  if (request.method !== "tools/call" || headerless) return client;
  return checkMarkedArguments(request, headers, place, checks)?.then(() => client) ?? client;
}

const marksOf = new WeakMap<Tool, HeaderMark[]>();

/** A tool may mark arguments that the client must repeat as headers; the marks of a release are looked up once. */
function checkMarkedArguments(
  request: Request,
  headers: Post["headers"],
  { tenant, catalog }: ServerPlace,
  checks: ScalarReader | undefined,
): Promise<void> | undefined {
  const { name, arguments: args } = request.params;
  const tool = typeof name === "string" ? catalog.tool(name) : undefined;
  if (!tool) return undefined;
  let known = marksOf.get(tool);
  if (!known) marksOf.set(tool, (known = headerMarks(tool.contract.inputSchema)));
  if (known.length === 0) return undefined;
  const marks = known;
  const paths = marks.map(({ path }) => path);
  if (args instanceof JsonText) {
    return checks!.scalarsIn(tenant, args, paths).then((values) => checkParameterHeaders(headers, marks, values));
  }
  checkParameterHeaders(headers, marks, scalarsAt(args, paths));
  return undefined;
}

function logLevelOf(level: unknown): LogLevel | undefined {
  if (level === undefined) return undefined;
  if (isLogLevel(level)) return level;
  throw new BerthError("invalid_params", `"${META_LOG_LEVEL}" must be one of ${LOG_LEVELS.join(", ")}`);
}
