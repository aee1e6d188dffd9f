import { RIGHTS } from "../../access/rights.ts";
import { isStructure } from "../../lib/cid.ts";
import { BerthError } from "../../lib/errors.ts";
import type { Store } from "../../store/store.ts";
import type { CallOptions, CallResult, Catalog, InputRequired, ReadResult, Resource } from "../catalog.ts";
import { textsOf } from "../content.ts";
import { LongResult } from "../long-result.ts";
import type { Remake } from "../remake.ts";
import { contentsOfBytes, contentsOfResult } from "../resource-contents.ts";
import { parseAddress, type Address } from "./address.ts";
import type { ValidatorOf } from "../checks/checks.ts";
import { targetFinder, type Link } from "./link.ts";
import { queryArguments } from "./query-arguments.ts";
import type { ReadUri } from "./read-uri.ts";

/**
 * The URIs of Berth's own schemes, as one server of one tenant may read them:
 *
 * - `cid://<cid>`: any content that the tenant has, for whoever may read all of it.
 * - `variable://<name>`: only what the server's entry in `mcps` lists, exactly or by a template.
 * - `server://<name>/<function>?<query>`: what the entry lists; the server's own functions also without that, unless
 *   they are `@destructive`, because clients ask nobody before they read.
 *
 * What is not there and what is not allowed cannot be told apart. It knows no protocol and no HTTP.
 */
export interface Uris {
  /** What may be read without being listed; undefined for every other URI. What is listed is the server's resource. */
  find(uri: string): Resource | undefined;
  /** As `find`, for where the server's own code leads a caller to: content that the code could have given itself. */
  readonly findLed: (uri: string) => Resource | undefined;
  readonly readUri: ReadUri;
  /** Calls the function that a `server://` URI names, as a tool; undefined for other URIs and what may not be read. */
  call(uri: string, options: CallOptions): Promise<CallResult | InputRequired | undefined>;
}

export interface UriSurroundings {
  readonly tenant: string;
  /** The server whose URIs these are, when it is loaded. */
  readonly own: () => Catalog;
  /** What the server's entry lists of such URIs. */
  readonly links: readonly Link[];
  /** Whether the server's code may read any content of the tenant. */
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

/** What a server may read without being listed. */
function isFree(address: Address, own: Catalog): boolean {
  if (address.kind === "variable") return false;
  if (address.kind === "cid") return true;
  if (address.server !== own.server) return false;
  const tool = own.tool(address.path || own.server);
  return tool !== undefined && tool.contract.annotations?.destructiveHint !== true;
}

/**
 * Whose token is for some servers or tools alone reaches no other ones by a URI, and no content. What the entry lists,
 * its operator allows.
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

/** A server that cannot be served is like one that there is not. */
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
