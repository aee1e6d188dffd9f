import { isObject, type JsonObject } from "../../lib/json.ts";
import { fixed } from "../../limits/fixed.ts";
import { quoted } from "../messages/messages.ts";
import { isString, shortResult, type UpstreamResult } from "../messages/results.ts";
import { UpstreamError } from "../messages/upstream-error.ts";
import type { ConnectOptions, Peer } from "./channel.ts";
import type { RpcChannel } from "./rpc-channel.ts";

/** The delay after which an upstream that does not answer the modern handshake also gets the legacy one. */
export const handshakeBounds = fixed({ upstreamProbeMs: 10_000 });

type Identity = Pick<ConnectOptions, "clientInfo" | "capabilities">;

export const MODERN_VERSION = "2026-07-28";
/** Revisions that begin with `initialize`, the preferred one first. */
const LEGACY_VERSIONS: readonly unknown[] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05", "2024-10-07"];
const SERVER_INFO = "io.modelcontextprotocol/serverInfo";

/**
 * The modern handshake. Resolves with undefined if the server is not of that era, however it reports this, and rejects
 * if it has ended. It may never be answered: a server may spend minutes on its installation. `what` names the action in
 * errors.
 */
export async function discover(channel: RpcChannel, identity: Identity, what: string): Promise<Peer | undefined> {
  try {
    const params = { _meta: requestMeta(identity) };
    const answer = await channel.send("server/discover", params, what, { timeoutMs: Infinity });
    return readDiscovery(shortResult(what, answer));
  } catch (error) {
    if (error instanceof UpstreamError && NOT_MODERN.has(error.code)) return undefined;
    throw error;
  }
}

const NOT_MODERN: ReadonlySet<string> = new Set(["upstream_refused", "upstream_protocol"]);

/**
 * The legacy handshake, which must not be cancelled. Rejects if the server is gone, refuses it, or gives an unusable
 * answer.
 */
export async function initialize(channel: RpcChannel, identity: Identity, what: string): Promise<Peer> {
  const { clientInfo, capabilities = {} } = identity;
  const params = { protocolVersion: LEGACY_VERSIONS[0] as string, capabilities, clientInfo: { ...clientInfo } };
  const answered = channel.send("initialize", params, what, { timeoutMs: Infinity });
  return readInitialized(channel, shortResult(what, await answered.catch(describeRefusal)));
}

function describeRefusal(error: unknown): never {
  const { message, rpc } = (error instanceof UpstreamError && error.data) || {};
  if (rpc === undefined) throw error;
  throw new Error(`it refuses the handshake: ${message as string} (${rpc as number})`, { cause: error });
}

/** The `_meta` that a modern server expects with each message (2026-07-28 `basic`). */
export function requestMeta({ clientInfo, capabilities = {} }: Identity): JsonObject {
  return {
    "io.modelcontextprotocol/protocolVersion": MODERN_VERSION,
    "io.modelcontextprotocol/clientInfo": { ...clientInfo },
    "io.modelcontextprotocol/clientCapabilities": capabilities,
  };
}

function readDiscovery({ supportedVersions, capabilities, instructions, _meta }: UpstreamResult): Peer | undefined {
  if (!Array.isArray(supportedVersions) || !supportedVersions.includes(MODERN_VERSION)) return undefined;
  if (!isObject(capabilities)) return undefined;
  const details = { instructions, serverInfo: isObject(_meta) ? _meta[SERVER_INFO] : undefined };
  return {
    era: "modern",
    protocolVersion: MODERN_VERSION,
    capabilities: capabilities as JsonObject,
    ...readDetails(details),
  };
}

function readInitialized({ deviate }: RpcChannel, result: UpstreamResult): Peer {
  const { protocolVersion, capabilities } = result;
  if (!isString(protocolVersion) || !LEGACY_VERSIONS.includes(protocolVersion)) {
    const shown = protocolVersion === undefined ? "none" : quoted(protocolVersion);
    throw new Error(`it speaks a revision that Berth does not support: ${shown}`);
  }
  if (!isObject(capabilities)) deviate("declares no capabilities");
  return {
    era: "legacy",
    protocolVersion,
    // Its lists will show what it offers.
    capabilities: isObject(capabilities) ? (capabilities as JsonObject) : { tools: {}, resources: {}, prompts: {} },
    ...readDetails(result),
  };
}

function readDetails({ instructions, serverInfo }: UpstreamResult): Pick<Peer, "instructions" | "serverInfo"> {
  const { name, version } = isObject(serverInfo) ? serverInfo : {};
  return {
    ...(isString(instructions) && { instructions }),
    ...(isString(name) && isString(version) && { serverInfo: { name, version } }),
  };
}
