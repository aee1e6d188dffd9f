import { RIGHTS } from "../../../access/rights.ts";
import { parseUriTemplate, type Expression } from "../../../discover/uri-template.ts";
import { parseAddress, type Address } from "../../../entry/address.ts";
import { isStructure } from "../../../lib/cid.ts";
import { BerthError } from "../../../lib/errors.ts";
import type { JsonObject } from "../../../lib/json.ts";
import { readingBounds } from "../../../lib/reading-bounds.ts";
import { limitVariable, type Limits } from "../../../limits/limits.ts";
import type { Store } from "../../../store/store.ts";
import type { ValidatorOf } from "../../checks/checks.ts";
import type { CallOptions, CallResult, Catalog, InputRequired, ReadResult, Resource } from "../../offers/catalog.ts";
import { textsOf } from "../../offers/content.ts";
import { LongResult } from "../../offers/long-result.ts";
import { contentsOfBytes, contentsOfResult } from "../../offers/resource-contents.ts";
import type { Converter } from "../remake.ts";
import { createUriFinder, type Find, type Findable, type Open } from "./find-resource.ts";
import { queryArguments } from "./query-arguments.ts";

/**
 * Berth's own URI schemes, for one server of one tenant:
 *
 * - `cid://<cid>`: any content of the tenant, for callers that may read all of it.
 * - `variable://<name>`: only URIs that the server's entry in `mcps` lists, exactly or by a template.
 * - `server://<name>/<function>?<query>`: URIs that the entry lists; the server's own functions also unlisted, unless
 *   they are `@destructive`, because clients read without asking the user.
 *
 * Callers cannot distinguish a forbidden target from a missing one.
 */
export interface Uris {
  /** Finds a resource that can be read without being listed; undefined for other URIs, including listed ones. */
  find(uri: string): Resource | undefined;
  /** Finds content that the server's own code redirects to, and could read itself. */
  readonly findRedirected: (uri: string) => Resource | undefined;
  readonly readUri: ReadUri;
  /** Calls the function of a `server://` URI as a tool; undefined for other or forbidden URIs. */
  call(uri: string, options: CallOptions): Promise<CallResult | InputRequired | undefined>;
}

export interface UriContext {
  readonly tenant: string;
  /** The server itself; available after it is loaded. */
  readonly own: () => Catalog;
  /** URIs listed in the server's entry. */
  readonly links: readonly Link[];
  /** The server's code may read any content of the tenant. */
  readonly readsAll: boolean;
  readonly validatorOf: ValidatorOf;
  /** Any server of a tenant. */
  readonly findServer: (tenant: string, name: string) => Catalog | Promise<Catalog>;
  readonly store: Pick<Store, "content" | "name">;
  readonly limits: Pick<Limits, "outputBytes">;
  readonly remake: Converter;
}

/** Maximum number of redirects and function URIs that one call or read follows. */
const HOPS_MAX = 5;

export function createUris(context: UriContext): Uris {
  const { own, links, readsAll, validatorOf, remake } = context;
  const findTarget = createTargetFinder(links, validatorOf);

  const readUri: ReadUri = async (uri, { as = uri, mimeType }, options) => {
    const address = parseAddress(uri);
    if (!address) throw notFound(uri);
    if (address.kind !== "server") return readStored(uri, address, as, mimeType, context);
    const result = await callServer(uri, address, { ...options, invalidRejects: true }, context);
    if ("inputRequests" in result) return result;
    if (result instanceof LongResult) return remake.contents(result, as, mimeType);
    if (result.isError) throw new BerthError("guest_failed", textsOf(result));
    return { contents: contentsOfResult(result, as, mimeType) };
  };

  return {
    readUri,
    find(uri) {
      const address = parseAddress(uri);
      if (!address || !isReadableUnlisted(address, own())) return undefined;
      return {
        read(options) {
          if (!mayUse(address, own(), options)) throw notFound(uri);
          return readUri(uri, {}, options);
        },
      };
    },
    findRedirected(uri) {
      const isContent = readsAll && parseAddress(uri)?.kind === "cid";
      return isContent ? { read: (options) => readUri(uri, {}, options) } : undefined;
    },
    async call(uri, options) {
      const listed = await findTarget(uri);
      const address = parseAddress(listed ?? uri);
      if (address?.kind !== "server") return undefined;
      if (listed === undefined && !(isReadableUnlisted(address, own()) && mayUse(address, own(), options)))
        return undefined;
      return callServer(uri, address, options, context);
    },
  };
}

/** True for a target that need not be listed. */
function isReadableUnlisted(address: Address, own: Catalog): boolean {
  if (address.kind === "variable") return false;
  if (address.kind === "cid") return true;
  if (address.server !== own.server) return false;
  const tool = own.tool(address.path || own.server);
  return tool !== undefined && tool.contract.annotations?.destructiveHint !== true;
}

/**
 * A token limited to some servers or tools cannot reach others, or content, by URI. Listed URIs are allowed by the
 * operator.
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
  { tenant, store, limits, remake }: UriContext,
): Promise<ReadResult> {
  const cid = address.kind === "cid" ? address.cid : (await store.name(tenant, "variable", address.name))?.cid;
  const bytes = cid === undefined ? undefined : await store.content(tenant, cid);
  if (!bytes) throw notFound(uri);
  if (bytes.length > limits.outputBytes) {
    const sizes = `${uri} has ${bytes.length} bytes; the limit is ${limits.outputBytes} (${limitVariable("outputBytes")})`;
    throw new BerthError("resource_too_large", sizes, { data: { uri } });
  }
  const type = mimeType ?? (isStructure(cid!) ? "application/json" : undefined);
  if (bytes.length > readingBounds.inlineBodyBytes) return remake.contents(bytes, as, type);
  return { contents: [contentsOfBytes(bytes, as, type)] };
}

async function callServer(
  uri: string,
  { server, path, query }: Extract<Address, { kind: "server" }>,
  options: CallOptions,
  { tenant, own, findServer }: UriContext,
): Promise<CallResult | InputRequired> {
  const catalog = server === own().server ? own() : await loadForUri(uri, () => findServer(tenant, server));
  const tool = catalog.tool(path || catalog.server);
  if (!tool) throw notFound(uri);
  const hops = (options.hops ?? 0) + 1;
  if (hops > HOPS_MAX) {
    throw new BerthError("guest_failed", `it is redirected through more than ${HOPS_MAX} functions`);
  }
  return tool.call(queryArguments(query, tool.contract.inputSchema), { ...options, hops: hops });
}

/** Reports a server that cannot be served as missing. */
async function loadForUri(uri: string, load: () => Catalog | Promise<Catalog>): Promise<Catalog> {
  try {
    return await load();
  } catch (error) {
    throw error instanceof BerthError ? notFound(uri) : error;
  }
}

function notFound(uri: string): BerthError {
  return new BerthError("resource_not_found", uri, { data: { uri } });
}

/** A resource of an entry whose content comes from a Berth URI. */
export interface Link extends Findable {
  /** A `cid://`, `variable://` or `server://` URI; for a template, it may contain the template's variables. */
  readonly target: string;
}

export function linkedResource(link: Link, { readUri }: { readonly readUri: ReadUri }): Open<Resource> {
  const open = createOpener(link);
  return (uri, args) => {
    const target = open(uri, args);
    return { read: (options) => readUri(target, { as: uri, mimeType: link.mimeType }, options) };
  };
}

/** Maps a URI of an entry's resource to its target; undefined for URIs that the entry does not list. */
function createTargetFinder(links: readonly Link[], validatorOf: ValidatorOf): Find<string> {
  return createUriFinder(
    links.map((link) => ({ ...link, open: createOpener(link) })),
    validatorOf,
  );
}

function createOpener({ uri: template, target }: Link): Open<string> {
  // A resource that links to its own URI reads the requested URI.
  return (uri, args) => (target === template ? uri : expandTemplate(target, args));
}

/**
 * Reads a `cid://`, `variable://` or `server://` URI without checking permissions: `uris.find` checks URIs of callers,
 * and URIs in the server's entry are allowed.
 *
 * Rejects with `resource_not_found` (data: `uri`) for a missing target or any other URI, `resource_too_large`, and
 * `guest_failed` when a function fails.
 */
type ReadUri = (uri: string, reading: Reading, options: CallOptions) => Promise<ReadResult | InputRequired>;

interface Reading {
  /** URI of the returned contents, if different. */
  readonly as?: string;
  /** Detected from the content by default. */
  readonly mimeType?: string | undefined;
}

/** Expands a URI template (RFC 6570, section 3.2). `values` are strings or lists of strings; missing ones are skipped. */
export function expandTemplate(text: string, values: JsonObject): string {
  const template = parseUriTemplate(text);
  if ("message" in template) throw new TypeError(`${text} is not a URI template: ${template.message}`);
  return template.parts.map((part) => (typeof part === "string" ? part : expand(part, values))).join("");
}

const SEPARATORS: Readonly<Record<string, string>> = { "": ",", "+": ",", "#": "," };
const FIRST: Readonly<Record<string, string>> = { "": "", "+": "" };

function expand({ operator, variables }: Expression, values: JsonObject): string {
  const isNamed = operator === ";" || operator === "?" || operator === "&";
  const separator = operator === "?" ? "&" : (SEPARATORS[operator] ?? operator);
  const encode = operator === "+" || operator === "#" ? encodeReserved : encodeValue;
  const expanded = variables.flatMap(({ name, explode, prefix }) => {
    const value = Object.hasOwn(values, name) ? values[name] : undefined;
    const texts = (value === undefined || value === null ? [] : [value].flat()).map(String);
    if (texts.length === 0) return [];
    const encoded = texts.map((each) =>
      encode(prefix === undefined ? each : Array.from(each).slice(0, prefix).join("")),
    );
    const all = explode ? encoded : [encoded.join(",")];
    return isNamed ? all.map((each) => (each === "" && operator === ";" ? name : `${name}=${each}`)) : all;
  });
  return expanded.length === 0 ? "" : `${FIRST[operator] ?? operator}${expanded.join(separator)}`;
}

function encodeValue(text: string): string {
  return encodeURIComponent(text).replace(/[!'()*]/g, (char) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`);
}

/** Leaves reserved characters and existing escapes unchanged. */
function encodeReserved(text: string): string {
  return encodeURI(text)
    .replace(/%5B/g, "[")
    .replace(/%5D/g, "]")
    .replace(/%25(?=[\dA-Fa-f]{2})/g, "%");
}
