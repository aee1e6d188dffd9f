import { RIGHTS } from "../../../access/rights.ts";
import { isStructure } from "../../../lib/cid.ts";
import { BerthError } from "../../../lib/errors.ts";
import type { Store } from "../../../store/store.ts";
import type { CallOptions, CallResult, Catalog, InputRequired, ReadResult, Resource } from "../../catalog/catalog.ts";
import { textsOf } from "../content.ts";
import { LongResult } from "../long-result.ts";
import type { Remake } from "../remake.ts";
import { contentsOfBytes, contentsOfResult } from "../resource-contents.ts";
import { parseAddress, type Address } from "../../../entry/address.ts";
import type { ValidatorOf } from "../../checks/checks.ts";
import { targetFinder, type Link } from "./link.ts";
import { queryArguments } from "./query-arguments.ts";
import type { ReadUri } from "./read-uri.ts";

/**
 * The URIs of Berth's own schemes, as one server of one tenant may read them:
 *
 * - `cid://<cid>`: any content of the tenant, for callers that may read all of it.
 * - `variable://<name>`: only URIs that the server's entry in `mcps` lists, exactly or by a template.
 * - `server://<name>/<function>?<query>`: URIs that the entry lists; the server's own functions also unlisted, unless
 *   they are `@destructive`, because clients read without asking the user.
 *
 * A missing target and a forbidden one cannot be told apart. This knows no protocol and no HTTP.
 */
export interface Uris {
  /**
   * Finds a resource that may be read without being listed; undefined for every other URI. A listed one is the server's
   * own resource.
   */
  find(uri: string): Resource | undefined;
  /**
   * Like `find`, for a URI that the server's own code leads a caller to: content that the code could have given itself.
   */
  readonly findLed: (uri: string) => Resource | undefined;
  readonly readUri: ReadUri;
  /**
   * Calls the function that a `server://` URI names, as a tool; undefined for other URIs and those that may not be
   * read.
   */
  call(uri: string, options: CallOptions): Promise<CallResult | InputRequired | undefined>;
}

export interface UriSurroundings {
  readonly tenant: string;
  /** The server that the URIs are for, once it is loaded. */
  readonly own: () => Catalog;
  /** The URIs that the server's entry lists. */
  readonly links: readonly Link[];
  /** True when the server's code may read any content of the tenant. */
  readonly readsAll: boolean;
  readonly validatorOf: ValidatorOf;
  /** Any server of a tenant. */
  readonly serverOf: (tenant: string, name: string) => Catalog | Promise<Catalog>;
  readonly store: Pick<Store, "content" | "name">;
  readonly limits: UriLimits;
  readonly remake: Remake;
}

export interface UriLimits {
  readonly outputBytes: number;
  readonly inlineBodyBytes: number;
  readonly followedUris: number;
  readonly queryNames: number;
}

export function createUris(surroundings: UriSurroundings): Uris {
  const { own, links, readsAll, validatorOf, remake } = surroundings;
  const targetOf = targetFinder(links, validatorOf);

  const readUri: ReadUri = async (uri, { as = uri, mimeType }, options) => {
    const address = parseAddress(uri);
    if (!address) throw notFound(uri);
    if (address.kind !== "server") return readStored(uri, address, as, mimeType, surroundings);
    const result = await callServer(uri, address, { ...options, invalidRejects: true }, surroundings);
    if ("inputRequests" in result) return result;
    if (result instanceof LongResult) return remake.contents(result, as, mimeType);
    if (result.isError) throw new BerthError("guest_failed", textsOf(result));
    return { contents: contentsOfResult(result, as, mimeType) };
  };

  return {
    readUri,
    find(uri) {
      const address = parseAddress(uri);
      if (!address || !isFree(address, own())) return undefined;
      return {
        read(options) {
          if (!mayUse(address, own(), options)) throw notFound(uri);
          return readUri(uri, {}, options);
        },
      };
    },
    findLed(uri) {
      const isContent = readsAll && parseAddress(uri)?.kind === "cid";
      return isContent ? { read: (options) => readUri(uri, {}, options) } : undefined;
    },
    async call(uri, options) {
      const listed = await targetOf(uri);
      const address = parseAddress(listed ?? uri);
      if (address?.kind !== "server") return undefined;
      if (listed === undefined && !(isFree(address, own()) && mayUse(address, own(), options))) return undefined;
      return callServer(uri, address, options, surroundings);
    },
  };
}

/** True for a target that a server may read without listing it. */
function isFree(address: Address, own: Catalog): boolean {
  if (address.kind === "variable") return false;
  if (address.kind === "cid") return true;
  if (address.server !== own.server) return false;
  const tool = own.tool(address.path || own.server);
  return tool !== undefined && tool.contract.annotations?.destructiveHint !== true;
}

/**
 * A token limited to some servers or tools reaches no others by a URI, and no content. The operator allows what the
 * entry lists.
 */
function mayUse(address: Address, own: Catalog, { principal }: CallOptions): boolean {
  if (!principal) return true;
  if (address.kind !== "server") return principal.permits(RIGHTS.contents.action);
  return principal.permits("call", own.server, address.path || own.server);
}

async function readStored(
  uri: string,
  address: Exclude<Address, { kind: "server" }>,
  as: string,
  mimeType: string | undefined,
  { tenant, store, limits, remake }: UriSurroundings,
): Promise<ReadResult> {
  const cid = address.kind === "cid" ? address.cid : (await store.name(tenant, "variable", address.name))?.cid;
  const bytes = cid === undefined ? undefined : await store.content(tenant, cid);
  if (!bytes) throw notFound(uri);
  if (bytes.length > limits.outputBytes) {
    const sizes = `${uri} has ${bytes.length} bytes, and outputBytes allows ${limits.outputBytes}`;
    throw new BerthError("resource_too_large", sizes, { data: { uri } });
  }
  const type = mimeType ?? (isStructure(cid!) ? "application/json" : undefined);
  if (bytes.length > limits.inlineBodyBytes) return remake.contents(bytes, as, type);
  return { contents: [contentsOfBytes(bytes, as, type)] };
}

async function callServer(
  uri: string,
  { server, path, query }: Extract<Address, { kind: "server" }>,
  options: CallOptions,
  { tenant, own, serverOf, limits }: UriSurroundings,
): Promise<CallResult | InputRequired> {
  const catalog = server === own().server ? own() : await loaded(uri, () => serverOf(tenant, server));
  const tool = catalog.tool(path || catalog.server);
  if (!tool) throw notFound(uri);
  const followed = (options.followed ?? 0) + 1;
  if (followed > limits.followedUris) {
    throw new BerthError(
      "guest_failed",
      `it leads on to more than ${limits.followedUris} functions, which is the limit followedUris`,
    );
  }
  return tool.call(queryArguments(query, tool.contract.inputSchema, limits.queryNames), { ...options, followed });
}

/** A server that cannot be served looks like a missing one. */
async function loaded(uri: string, load: () => Catalog | Promise<Catalog>): Promise<Catalog> {
  try {
    return await load();
  } catch (error) {
    throw error instanceof BerthError ? notFound(uri) : error;
  }
}

function notFound(uri: string): BerthError {
  return new BerthError("resource_not_found", uri, { data: { uri } });
}
