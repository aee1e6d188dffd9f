import { BerthError } from "../../errors.ts";
import type { Catalog } from "../../host/catalog.ts";
import type { Codec, Method } from "../protocol.ts";
import { META_SERVER_INFO, SUPPORTED_VERSIONS } from "../revisions.ts";
import { sharedMethods } from "../methods/shared.ts";

/**
 * How long a client may take a list as fresh without asking. A change is announced to those who listen; this is
 * for those who do not.
 */
const LIST_TTL_MS = 60_000;

/** The codec of 2026-07-28: stateless, each request carrying its version and its client's capabilities. */
export function createModernCodec({ berthVersion }: { berthVersion: string }): Codec {
  /** What every result of a release ends with: its type and who answered. */
  const tailOf = (catalog: Catalog): string => {
    const known = catalog.memo.get("modern:tail") as string | undefined;
    if (known !== undefined) return known;
    const serverInfo = { name: catalog.server, version: `${berthVersion}+${catalog.release}` };
    const tail = `"resultType":"complete","_meta":${JSON.stringify({ [META_SERVER_INFO]: serverInfo })}}`;
    catalog.memo.set("modern:tail", tail);
    return tail;
  };
  const complete = (catalog: Catalog, result: object): string => {
    const text = JSON.stringify(result);
    return `${text.slice(0, -1)}${text === "{}" ? "" : ","}${tailOf(catalog)}`;
  };
  const cacheable = (catalog: Catalog, result: object): string =>
    complete(catalog, { ...result, ttlMs: LIST_TTL_MS, cacheScope: "public" });

  return {
    era: "modern",
    listPage: (catalog, list, { items, ...rest }) => cacheable(catalog, { [list]: items, ...rest }),
    callResult: (catalog, _tool, result) => complete(catalog, result),
    // What a resource says may change at any time and depend on who asks.
    readResult: (catalog, result) => complete(catalog, { ...result, ttlMs: 0, cacheScope: "private" }),
    promptResult: complete,
    result: complete,
    answersOf: () => undefined,
    ask: () => Promise.reject(new BerthError("missing_capability")),
    methods: new Map<string, Method>([
      ...sharedMethods,
      ["server/discover", ({ catalog }) => cacheable(catalog, discovery(catalog))],
    ]),
  };
}

function discovery(catalog: Catalog): object {
  const { description } = catalog.contract;
  return {
    supportedVersions: SUPPORTED_VERSIONS,
    capabilities: { tools: {}, resources: {}, prompts: {}, completions: {} },
    ...(description !== undefined && { instructions: description }),
  };
}
