import type { Principal } from "../../access/principal.ts";
import type { Access } from "../../access/access.ts";
import { cutText } from "../../lib/cut-text.ts";
import { BerthError } from "../../lib/errors.ts";
import type { Catalog } from "../../host/catalog/catalog.ts";
import type { Host, ServerSummary } from "../../host/host.ts";
import { permittedCatalog } from "../../host/catalog/permitted.ts";
import { indentedJson } from "../../lib/json.ts";
import { listedTool } from "../../mcp/methods/lists.ts";
import { checkPermitted, mayChange, checkReadable, toolsShown } from "../access/permit.ts";
import type { OriginOf } from "../origin.ts";
import type { RequestPlace } from "../request-context.ts";
import type { RoutedContext, RouteHandler } from "../routed.ts";
import type { Page, Pages } from "./pages.ts";
import { callViews, healthFacts, lineViews, releaseViews } from "./parts/health.ts";
import { credentialsOf } from "./parts/credentials.ts";
import { createOffers } from "./parts/offers.ts";
import { pathsOf } from "./parts/origin.ts";
import { problemView } from "./parts/problem-view.ts";
import { SERVER_STATES } from "./parts/server-state.ts";
import { setupsFor } from "./parts/setup.ts";
import { DESCRIPTION_MAX } from "./parts/tool-view.ts";
import { upstreamView } from "./parts/upstream.ts";
import { shortCid } from "./parts/text.ts";

export interface MetaOptions {
  readonly host: Host;
  readonly pages: Pages;
  readonly isolation: string;
  readonly originOf: OriginOf;
  readonly access: Pick<Access, "required" | "oauth">;
  /** False on a read-only boot. */
  readonly writable: boolean;
}

interface Parts extends MetaOptions, RequestPlace {
  readonly offersOf: ReturnType<typeof createOffers>;
}

/**
 * `GET /mcp/meta/<server>`: all about one server, or about the release `<server>@<cid>` (C6). With `?tool=<name>`, that
 * tool as JSON, as clients get it.
 */
export function metaPage(options: MetaOptions): RouteHandler {
  const offersOf = createOffers(options.pages);
  return async (context) => {
    const server = context.request.params["server"]!;
    checkReadable(context, server);
    const { tool } = context.request.query;
    if (typeof tool === "string") return sendTool(tool, server, context, options.host);
    const page = await readPage(server, context, { ...options, ...context.place, offersOf });
    await options.pages.send(context, "meta", page);
  };
}

async function sendTool(
  tool: string,
  server: string,
  { tenant, principal, response }: RoutedContext,
  host: Host,
): Promise<void> {
  const summary = await host.summary(tenant, server);
  const found = summary ? summary.catalog : await host.server(tenant, server);
  const catalog = found && (await shownCatalog(found, principal));
  const contract = catalog?.contract.tools.find(({ name }) => name === tool);
  if (!catalog || !contract) throw new BerthError("not_found", `"${server}" has no tool "${tool}"`);
  response.setHeader("Cache-Control", "no-cache");
  response.type("json").send(indentedJson(listedTool(contract, catalog)));
}

/** The whole catalog for a reader who may not call; otherwise the part that may be called. */
function shownCatalog(catalog: Catalog, principal: Principal | undefined): Catalog | Promise<Catalog> {
  return principal?.permits("call", catalog.server) ? permittedCatalog(catalog, principal) : catalog;
}

async function readPage(name: string, context: RoutedContext, options: Parts): Promise<Page> {
  const { host, tenant, base } = options;
  const summary = await host.summary(tenant, name);
  if (summary) return serverPage(summary, context, options);
  // Not listed, so it is the address of a release, or nothing at all.
  const catalog = await host.server(tenant, name);
  const server = catalog.server;
  checkPermitted(context, "read", server);
  const current = await host.summary(tenant, server);
  const page = await servedPage(
    { ...current, name: server, state: "ready", problems: catalog.problems, catalog },
    context,
    options,
  );
  const isCurrent = current?.catalog?.release === catalog.release;
  const pin = { short: shortCid(catalog.release), live: pathsOf(base, server).page, isCurrent };
  return {
    ...page,
    ...addresses(`${server}@${catalog.release}`, server, catalog, {
      ...options,
      origin: options.originOf(context.request),
    }),
    title: `${server} @ ${pin.short}`,
    description: cutText(catalog.contract.description ?? "", DESCRIPTION_MAX),
    crumbs: [{ label: "Servers", href: `${base}/mcp` }, { label: server, href: pin.live }, { label: pin.short }],
    pin,
    upstream: undefined,
  };
}

function serverPage(summary: ServerSummary, context: RoutedContext, options: Parts): Promise<Page> {
  return summary.catalog ? servedPage(summary as Served, context, options) : refusedPage(summary, context, options);
}

type Served = ServerSummary & { readonly catalog: Catalog };

async function servedPage(summary: Served, context: RoutedContext, options: Parts): Promise<Page> {
  const { name } = summary;
  const { host, tenant, base, isolation } = options;
  const { principal } = context;
  const isShown = toolsShown(principal, summary.catalog);
  const catalog = await shownCatalog(summary.catalog, principal);
  const releases = await host.releases(tenant, name);
  const activity = host.activity(tenant, name);
  const origin = options.originOf(context.request);
  return {
    ...(await frameOf(summary, context, options)),
    ...addresses(name, name, catalog, { ...options, origin }),
    ...(await options.offersOf(catalog)),
    served: true,
    facts: healthFacts(catalog, {
      base,
      // An upstream is not guest code: its own section tells how it runs.
      isolation: host.upstream(tenant, name) ? undefined : isolation,
      inFlight: activity.inFlight,
      since: releases.find(({ release }) => release === catalog.release),
    }),
    releases: releaseViews(releases, name, { origin, base, writable: options.writable }),
    calls: callViews(activity.recent().filter(({ tool }) => isShown(tool))),
    lines: mayChange(context, "source", name) ? lineViews(host.recentLines(tenant, name)) : [],
  };
}

async function refusedPage(summary: ServerSummary, context: RoutedContext, options: Parts): Promise<Page> {
  const { state } = summary;
  return {
    ...(await frameOf(summary, context, options)),
    served: false,
    mendable: state === "refused" && options.host.upstream(options.tenant, summary.name) === undefined,
    refusal: REFUSALS[state],
  };
}

const UNSTARTED =
  "Nothing is known of this server before its first start, which may install it: it is started when somebody asks it for something. Load this page again then.";
const REFUSALS = {
  ready: "",
  disabled: "This server is disabled: it answers nobody until its entry in the variable mcps enables it.",
  refused: "This server cannot be served until what is wrong with it is mended.",
  unstarted: UNSTARTED,
  starting: UNSTARTED,
} as const;

async function frameOf(
  { name, isBuiltIn, state, description = "", problems }: ServerSummary,
  context: RoutedContext,
  { host, pages, tenant, base }: Parts,
): Promise<Page> {
  const upstream = host.upstream(tenant, name);
  const shown = upstream && (await upstreamView(pages, base, name, upstream, mayChange(context, "entry", name)));
  return {
    title: name,
    section: "mcp",
    crumbs: [{ label: "Servers", href: `${base}/mcp` }, { label: name }],
    name,
    state: SERVER_STATES[state],
    description: cutText(description, DESCRIPTION_MAX),
    pin: undefined,
    upstream: shown?.view,
    fragments: shown?.fragments ?? [],
    ...(!isBuiltIn && {
      edit: { url: pathsOf(base, name).edit, label: `Edit its ${upstream ? "entry" : "definition"}` },
    }),
    problems: problems.map(problemView),
    scripts: ["meta.js", "tester.js"],
  };
}

/** `address` is the name that a client uses: the server's, or that of one release. */
function addresses(
  address: string,
  name: string,
  { contract }: Catalog,
  { access, tenant, base, origin }: Parts & { origin: string },
): Partial<Page> {
  const { endpoint } = pathsOf(base, address);
  const url = `${origin}${endpoint}`;
  const credentials = credentialsOf(access, tenant, name);
  const setups = setupsFor({ name, url, tool: contract.tools[0], access: credentials.access });
  return { path: endpoint, url, credentials, setups };
}
