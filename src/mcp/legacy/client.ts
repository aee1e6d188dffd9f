import { BerthError } from "../../errors.ts";
import type { Request } from "../json-rpc.ts";
import type { Client, Post } from "../protocol.ts";
import { isLegacy, SUPPORTED_VERSIONS, VERSION_WITHOUT_HEADER } from "../revisions.ts";

/** Who sends a legacy request: its version stands in a header, everything else in its session. */
export function legacyClient(request: Request, { headers }: Post): Client {
  if (request.method === "initialize") return { version: VERSION_WITHOUT_HEADER, capabilities: {} };
  const version = legacyVersion(headers);
  if (headers["mcp-session-id"] !== undefined) throw new BerthError("session_not_found");
  return { version, capabilities: {} };
}

/** The revision that a legacy request speaks. Throws `unsupported_version` for a header that names none. */
export function legacyVersion(headers: Post["headers"]): string {
  const header = headers["mcp-protocol-version"];
  if (header === undefined) return VERSION_WITHOUT_HEADER;
  if (typeof header === "string" && isLegacy(header)) return header;
  const requested = String(header);
  throw new BerthError("unsupported_version", requested, { data: { supported: SUPPORTED_VERSIONS, requested } });
}
