/** Protocol revisions and the names that they reserve. Specification: `basic/versioning`, `basic/index#_meta`. */
export const MODERN_VERSIONS = ["2026-07-28"] as const;
export const LEGACY_VERSIONS = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"] as const;
export const SUPPORTED_VERSIONS: readonly string[] = [...MODERN_VERSIONS, ...LEGACY_VERSIONS];

/** Without a version header (2025-11-25 `basic/transports`). */
export const VERSION_WITHOUT_HEADER = "2025-03-26";

export const META_PROTOCOL_VERSION = "io.modelcontextprotocol/protocolVersion";
export const META_CLIENT_CAPABILITIES = "io.modelcontextprotocol/clientCapabilities";
export const META_LOG_LEVEL = "io.modelcontextprotocol/logLevel";
export const META_SUBSCRIPTION_ID = "io.modelcontextprotocol/subscriptionId";
export const META_SERVER_INFO = "io.modelcontextprotocol/serverInfo";

/** Berth's own members in lists of tools: the CIDs of a tool's contract and of its implementation. */
export const META_CONTRACT = "dev.berth/contract";
export const META_IMPLEMENTATION = "dev.berth/implementation";

export function isModern(version: string): boolean {
  return (MODERN_VERSIONS as readonly string[]).includes(version);
}

export function isLegacy(version: string): boolean {
  return (LEGACY_VERSIONS as readonly string[]).includes(version);
}

/** Revisions are dates, so the first modern one divides unknown revisions, too. */
export function isOfModernEra(version: string): boolean {
  return /^\d{4}-\d{2}-\d{2}$/.test(version) && version >= MODERN_VERSIONS[0];
}
