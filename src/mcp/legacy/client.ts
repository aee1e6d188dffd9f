import { BerthError } from "../../lib/errors.ts";
import type { Client, Post } from "../protocol.ts";
import { isLegacy, SUPPORTED_VERSIONS, VERSION_WITHOUT_HEADER } from "../revisions.ts";
import type { Session } from "./session.ts";

/** Who sends a legacy request, and the session in which it does so. */
export interface LegacyClient extends Client {
  readonly peer?: Session;
}

/** The server decides what to log for a client that did not say (2025-11-25 `server/utilities/logging`). */
const LOG_LEVEL_WITHOUT_SESSION = "info";

export function legacyClient(headers: Post["headers"], peer: Session | undefined): LegacyClient {
  const version = legacyVersion(headers, peer);
  if (!peer) return { version, capabilities: {}, logLevel: LOG_LEVEL_WITHOUT_SESSION };
  const { id, capabilities } = peer.facts;
  return { version, capabilities, logLevel: peer.logLevel, session: id, peer };
}

/** The header's revision, else the session's. Throws `unsupported_version` for a header that names none. */
function legacyVersion(headers: Post["headers"], peer: Session | undefined): string {
  const header = headers["mcp-protocol-version"];
  if (header === undefined) return peer?.facts.version ?? VERSION_WITHOUT_HEADER;
  if (typeof header === "string" && isLegacy(header)) return header;
  const requested = String(header);
  throw new BerthError("unsupported_version", requested, { data: { supported: SUPPORTED_VERSIONS, requested } });
}
