import type { HeaderMark, Scalar } from "../../contract/header-marks.ts";
import { BerthError } from "../../lib/errors.ts";
import type { Request } from "../json-rpc.ts";
import type { Post } from "../protocol.ts";
import { META_PROTOCOL_VERSION } from "../revisions.ts";

/** Methods whose `Mcp-Name` header repeats a parameter (2026-07-28 `basic/transports/streamable-http`). */
const NAMED_BY: ReadonlyMap<string, "name" | "uri" | "taskId"> = new Map([
  ["tools/call", "name"],
  ["prompts/get", "name"],
  ["resources/read", "uri"],
  // SEP-2663, "Routing Headers".
  ["tasks/get", "taskId"],
  ["tasks/update", "taskId"],
  ["tasks/cancel", "taskId"],
]);

/** The standard headers of a modern request must match its body. Throws `header_mismatch`. */
export function checkStandardHeaders(headers: Post["headers"], request: Request): void {
  const meta = request.params["_meta"] as Record<string, unknown>;
  require(headers, "mcp-protocol-version", meta[META_PROTOCOL_VERSION]);
  require(headers, "mcp-method", request.method);
  const member = NAMED_BY.get(request.method);
  // A body without the member is an error for the method itself to report.
  if (member && typeof request.params[member] === "string")
    require(headers, "mcp-name", request.params[member], decode);
}

/** `Mcp-Param-*` headers must match the arguments that a schema marks with `x-mcp-header`. */
export function checkParameterHeaders(
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

/** The most of a body's value that an error quotes: no header is longer. */
const SHOWN_UNITS_MAX = 16 * 1024;

/** Decodes values outside visible ASCII, which are sent as `=?base64?…?=`. */
function decode(value: string): string {
  const encoded = /^=\?base64\?(.*)\?=$/.exec(value)?.[1];
  if (encoded === undefined) return value;
  const bytes = Buffer.from(encoded, "base64");
  if (bytes.toString("base64") !== encoded) throw new BerthError("header_mismatch", "a header holds malformed base64");
  return bytes.toString("utf8");
}
