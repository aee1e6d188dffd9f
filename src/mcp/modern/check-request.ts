import {
  headerMarks,
  NAME_PARAMETERS,
  scalarsAt,
  type HeaderMark,
  type Scalar,
} from "../../contract/parameter-headers.ts";
import type { Checks } from "../../host/checks/checks.ts";
import type { Tool } from "../../host/offers/catalog.ts";
import { BerthError } from "../../lib/errors.ts";
import { isObject, JsonText, type JsonObject } from "../../lib/json.ts";
import { isLogLevel, LOG_LEVELS, type LogLevel } from "../../lib/log-level.ts";
import type { Request } from "../json-rpc.ts";
import type { Client, RequestTarget, Post } from "../protocol.ts";
import {
  isModern,
  META_CLIENT_CAPABILITIES,
  META_LOG_LEVEL,
  META_PROTOCOL_VERSION,
  SUPPORTED_VERSIONS,
} from "../revisions.ts";

type ScalarReader = Pick<Checks, "scalarsIn">;

/**
 * Checks the mandatory parts of a modern request in the order in which a client can fix them, and returns its client.
 * Synchronous unless long arguments have values that go into headers.
 */
export function checkRequest(
  request: Request,
  { headers, headerless }: Post,
  place: RequestTarget,
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
  const logLevel = parseLogLevel(meta[META_LOG_LEVEL]);
  const client = { version, capabilities: capabilities as JsonObject, ...(logLevel && { logLevel }) };
  if (request.method !== "tools/call" || headerless) return client;
  return checkMarkedArguments(request, headers, place, checks)?.then(() => client) ?? client;
}

const cachedMarks = new WeakMap<Tool, HeaderMark[]>();

/** A tool may mark arguments that the client must repeat as headers; the marks of a release are computed once. */
function checkMarkedArguments(
  request: Request,
  headers: Post["headers"],
  { tenant, catalog }: RequestTarget,
  checks: ScalarReader | undefined,
): Promise<void> | undefined {
  const { name, arguments: args } = request.params;
  const tool = typeof name === "string" ? catalog.tool(name) : undefined;
  if (!tool) return undefined;
  let cached = cachedMarks.get(tool);
  if (!cached) cachedMarks.set(tool, (cached = headerMarks(tool.contract.inputSchema)));
  if (cached.length === 0) return undefined;
  const marks = cached;
  const paths = marks.map(({ path }) => path);
  if (args instanceof JsonText) {
    return checks!.scalarsIn(tenant, args, paths).then((values) => checkParameterHeaders(headers, marks, values));
  }
  checkParameterHeaders(headers, marks, scalarsAt(args, paths));
  return undefined;
}

function parseLogLevel(level: unknown): LogLevel | undefined {
  if (level === undefined) return undefined;
  if (isLogLevel(level)) return level;
  throw new BerthError("invalid_params", `"${META_LOG_LEVEL}" must be one of ${LOG_LEVELS.join(", ")}`);
}

/** The standard headers of a modern request must match its body. Throws `header_mismatch`. */
function checkStandardHeaders(headers: Post["headers"], request: Request): void {
  const meta = request.params["_meta"] as Record<string, unknown>;
  require(headers, "mcp-protocol-version", meta[META_PROTOCOL_VERSION]);
  require(headers, "mcp-method", request.method);
  const member = NAME_PARAMETERS.get(request.method);
  // The method itself reports a body without this member.
  if (member && typeof request.params[member] === "string")
    require(headers, "mcp-name", request.params[member], decode);
}

/** `Mcp-Param-*` headers must match the arguments that a schema marks with `x-mcp-header`. */
function checkParameterHeaders(
  headers: Post["headers"],
  marks: readonly HeaderMark[],
  values: readonly (Scalar | undefined)[],
): void {
  for (const [at, { header }] of marks.entries()) {
    const value = values[at];
    if (typeof value === "number") require(headers, header, value, (text) => Number(decode(text)));
    else if (value !== undefined) require(headers, header, String(value), decode);
  }
}

function require(
  headers: Post["headers"],
  name: string,
  expected: unknown,
  read: (text: string) => unknown = (text) => text,
): void {
  const header = headers[name];
  if (typeof header !== "string") throw new BerthError("header_mismatch", `the header ${name} is missing`);
  if (read(header) !== expected) {
    throw new BerthError(
      "header_mismatch",
      `${name} is ${JSON.stringify(header)}, the body says ${JSON.stringify(expected).slice(0, SHOWN_UNITS_MAX)}`,
    );
  }
}

/** Limits the body's value in an error: no header is longer. */
const SHOWN_UNITS_MAX = 16 * 1024;

/** Decodes values outside visible ASCII, which are sent as `=?base64?…?=`. */
function decode(value: string): string {
  const encoded = /^=\?base64\?(.*)\?=$/.exec(value)?.[1];
  if (encoded === undefined) return value;
  const bytes = Buffer.from(encoded, "base64");
  if (bytes.toString("base64") !== encoded) throw new BerthError("header_mismatch", "a header holds malformed base64");
  return bytes.toString("utf8");
}
