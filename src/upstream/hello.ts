import { isObject, type JsonObject } from "../lib/json.ts";
import type { ConnectOptions } from "./connect.ts";
import type { Peer } from "./channel.ts";
import type { PipeRequests } from "./pipe.ts";
import { isText, shortResult, type UpstreamResult } from "./results.ts";
import { UpstreamError } from "./upstream-error.ts";

type Identity = Pick<ConnectOptions, "clientInfo" | "capabilities">;

const MODERN_VERSION = "2026-07-28";
/** Revisions that begin with `initialize`, the preferred one first. */
const LEGACY_VERSIONS: readonly unknown[] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05", "2024-10-07"];
const SERVER_INFO = "io.modelcontextprotocol/serverInfo";

/**
 * The modern handshake. Resolves with undefined if the server is not of that era, and rejects with `upstream_ended` if
 * it has gone. It may never be answered: a server may spend minutes on its installation.
 */
export async function discover(requests: PipeRequests, identity: Identity): Promise<Peer | undefined> {
  try {
    const params = { _meta: envelopeOf(identity) };
    const answer = await requests.send("server/discover", params, WHAT, { timeoutMs: Infinity });
    return readDiscovery(shortResult(WHAT, answer));
  } catch (error) {
    if (error instanceof UpstreamError && error.code === "upstream_refused") return undefined;
    throw error;
  }
}

/**
 * The legacy handshake, which must not be cancelled. Rejects if the server is gone, refuses it, or answers nonsense.
 */
export async function initialize(requests: PipeRequests, { clientInfo, capabilities = {} }: Identity): Promise<Peer> {
  const params = { protocolVersion: LEGACY_VERSIONS[0] as string, capabilities, clientInfo: { ...clientInfo } };
  const answered = requests.send("initialize", params, WHAT, { timeoutMs: Infinity });
  const peer = readInitialized(shortResult(WHAT, await answered.catch(sayRefusal)));
  requests.notify("notifications/initialized", {});
  return peer;
}

function sayRefusal(error: unknown): never {
  if (!(error instanceof UpstreamError) || error.code !== "upstream_refused") throw error;
  const { message, rpc } = error.data ?? {};
  throw new Error(`it refuses to say hello: ${String(message)} (${String(rpc)})`, { cause: error });
}

/** The `_meta` that a modern server expects with each message (2026-07-28 `basic`). */
export function envelopeOf({ clientInfo, capabilities = {} }: Identity): JsonObject {
  return {
    "io.modelcontextprotocol/protocolVersion": MODERN_VERSION,
    "io.modelcontextprotocol/clientInfo": { ...clientInfo },
    "io.modelcontextprotocol/clientCapabilities": capabilities,
  };
}

const WHAT = "saying hello";

function readDiscovery({ supportedVersions, capabilities, instructions, _meta }: UpstreamResult): Peer | undefined {
  if (!Array.isArray(supportedVersions) || !supportedVersions.includes(MODERN_VERSION)) return undefined;
  if (!isObject(capabilities)) return undefined;
  const said = { capabilities, instructions, serverInfo: isObject(_meta) ? _meta[SERVER_INFO] : undefined };
  return { era: "modern", protocolVersion: MODERN_VERSION, ...readSaid(said) };
}

function readInitialized(result: UpstreamResult): Peer {
  const { protocolVersion, capabilities } = result;
  if (!isText(protocolVersion) || !LEGACY_VERSIONS.includes(protocolVersion)) {
    const shown = isText(protocolVersion) ? `"${protocolVersion}"` : "none";
    throw new Error(`the revision that it speaks is none that Berth knows: ${shown}`);
  }
  if (!isObject(capabilities)) throw new Error("its hello names no capabilities");
  return { era: "legacy", protocolVersion, ...readSaid(result) };
}

function readSaid({ capabilities, instructions, serverInfo }: UpstreamResult): Omit<Peer, "era" | "protocolVersion"> {
  const { name, version } = isObject(serverInfo) ? serverInfo : {};
  return {
    capabilities: capabilities as JsonObject,
    ...(isText(instructions) && { instructions }),
    ...(isText(name) && isText(version) && { serverInfo: { name, version } }),
  };
}
