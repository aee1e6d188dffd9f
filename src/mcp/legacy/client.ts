import { BerthError } from "../../lib/errors.ts";
import type { Client, Post } from "../protocol.ts";
import { isLegacy, SUPPORTED_VERSIONS, VERSION_WITHOUT_HEADER } from "../revisions.ts";
import type { Session } from "./session.ts";

/** The client of a legacy request, and its session, if any. */
export interface LegacyClient extends Client {
  readonly peer?: Session;
}

/** The server decides what to log for a client that did not set a level (2025-11-25 `server/utilities/logging`). */
const LOG_LEVEL_WITHOUT_SESSION = "info";

export function legacyClient(headers: Post["headers"], peer: Session | undefined): LegacyClient {
  const version = legacyVersion(headers, peer);
  if (!peer) return { version, capabilities: {}, logLevel: LOG_LEVEL_WITHOUT_SESSION };
  const { id, capabilities } = peer.facts;
  return { version, capabilities, logLevel: peer.logLevel, session: id, peer };
}

/** The revision of the header, otherwise of the session. Throws `unsupported_version` for a header that names none. */
function legacyVersion(headers: Post["headers"], peer: Session | undefined): string {
  const header = headers["mcp-protocol-version"];
  if (header === undefined) return peer?.facts.version ?? VERSION_WITHOUT_HEADER;
  if (typeof header === "string" && isLegacy(header)) return header;
  const requested = String(header);
  throw new BerthError("unsupported_version", requested, { data: { supported: SUPPORTED_VERSIONS, requested } });
}
