import type { Catalog } from "../../host/catalog/catalog.ts";
import type { Params } from "../json-rpc.ts";
import { isLegacy, LEGACY_VERSIONS } from "../revisions.ts";

/**
 * 2025-11-25 `basic/lifecycle`: the requested version if it is known here, otherwise the latest of the era; undefined
 * without a version.
 */
export function negotiate(params: Params): string | undefined {
  const requested = params["protocolVersion"];
  if (typeof requested !== "string") return undefined;
  return isLegacy(requested) ? requested : LEGACY_VERSIONS[0];
}

/**
 * Declares all capabilities, whatever the server offers now: a session outlives a release, and the next one may offer
 * more.
 */
export function initialization(catalog: Catalog, version: string, berthVersion: string): object {
  const { description } = catalog.contract;
  return {
    protocolVersion: version,
    capabilities: {
      tools: { listChanged: true },
      resources: { subscribe: true, listChanged: true },
      prompts: { listChanged: true },
      logging: {},
      ...(version >= "2025-03-26" && { completions: {} }),
    },
    serverInfo: { name: catalog.server, version: `${berthVersion}+${catalog.release}` },
    ...(description !== undefined && { instructions: description }),
  };
}
