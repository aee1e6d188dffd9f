import { BerthError } from "../../errors.ts";
import type { Catalog, Tool } from "../../host/catalog.ts";
import { isObject, JsonText, type JsonObject } from "../../json.ts";
import { isLogLevel, LOG_LEVELS, type LogLevel } from "../../log-level.ts";
import type { Request } from "../json-rpc.ts";
import type { Client, Post } from "../protocol.ts";
import {
  isModern,
  META_CLIENT_CAPABILITIES,
  META_LOG_LEVEL,
  META_PROTOCOL_VERSION,
  SUPPORTED_VERSIONS,
} from "../revisions.ts";
import { checkParameterHeaders, checkStandardHeaders, headerMarks, type HeaderMark } from "./headers.ts";

/** Checks what each modern request must carry, in the order in which a client can mend it, and says who asks. */
export function modernClient(request: Request, { headers, headerless }: Post, catalog: Catalog): Client {
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
  if (request.method === "tools/call" && !headerless) checkMarkedArguments(request, headers, catalog);
  const logLevel = logLevelOf(meta[META_LOG_LEVEL]);
  return { version, capabilities: capabilities as JsonObject, ...(logLevel && { logLevel }) };
}

const marksOf = new WeakMap<Tool, HeaderMark[]>();

/** A tool may mark arguments that the client must repeat as headers; what a release marks is looked up once. */
function checkMarkedArguments(request: Request, headers: Post["headers"], catalog: Catalog): void {
  const { name, arguments: args } = request.params;
  const tool = typeof name === "string" ? catalog.tool(name) : undefined;
  if (!tool) return;
  let marks = marksOf.get(tool);
  if (!marks) marksOf.set(tool, (marks = headerMarks(tool)));
  if (marks.length > 0) checkParameterHeaders(headers, marks, args instanceof JsonText ? args.read() : args);
}

function logLevelOf(level: unknown): LogLevel | undefined {
  if (level === undefined) return undefined;
  if (isLogLevel(level)) return level;
  throw new BerthError("invalid_params", `"${META_LOG_LEVEL}" must be one of ${LOG_LEVELS.join(", ")}`);
}
