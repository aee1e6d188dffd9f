import type { Access } from "../../access/access.ts";
import type { Principal } from "../../access/principal.ts";
import type { Cluster } from "../../cluster/cluster.ts";
import type { ContractChange } from "../../contract/change.ts";
import type { Contract, ToolContract } from "../../contract/contract.ts";
import type { Catalog } from "../../host/catalog/catalog.ts";
import type { ServerSummary } from "../../host/catalog/overview.ts";
import { packagesOfRelease } from "../../host/catalog/package-users.ts";
import { permittedCatalog } from "../../host/catalog/permitted.ts";
import type { Host } from "../../host/host.ts";
import type { PendingChange, UpstreamState } from "../../host/serving/hosting.ts";
import { decodeJson, jsonBlock } from "../../lib/cid.ts";
import { cutText } from "../../lib/cut-text.ts";
import { BerthError } from "../../lib/errors.ts";
import { indentedJson } from "../../lib/json.ts";
import { printable } from "../../lib/printable.ts";
import { listedTool } from "../../mcp/methods/lists.ts";
import { checkPermitted, mayChange, checkReadable, toolsShown } from "../access/permit.ts";
import { textDiff } from "../api/text-diff.ts";
import type { OriginOf } from "../public-origin.ts";
import type { RequestPlace } from "../request-context.ts";
import type { RoutedContext, PageRoute } from "../routed.ts";
import type { Fragment } from "./fragment.ts";
import type { Page, Pages } from "./pages.ts";
import { credentialsOf } from "./parts/credentials.ts";
import { callViews, healthFacts, lineViews, releaseViews, type Fact } from "./parts/health.ts";
import { createOffers } from "./parts/offers.ts";
import { pathsOf } from "./parts/paths.ts";
import { problemView } from "./parts/problem-view.ts";
import { SERVER_STATES } from "./parts/server-state.ts";
import { setupsFor } from "./parts/setup.ts";
import { shortCid, countOf, timeView } from "./parts/text.ts";
import { DESCRIPTION_MAX } from "./parts/tool-view.ts";

interface MetaOptions {
  readonly host: Host;
  readonly cluster: Pick<Cluster, "others">;
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
export const metaPage: PageRoute<MetaOptions> = {
  path: "/mcp/meta/:server",
  create(options) {
    const offersOf = createOffers(options.pages);
    return async (context) => {
      const server = context.request.params["server"]!;
      checkReadable(context, server);
      const { tool } = context.request.query;
      if (typeof tool === "string") return sendTool(tool, server, context, options.host);
      const page = await readPage(server, context, { ...options, ...context.place, offersOf });
      await options.pages.send(context, "meta", page);
    };
  },
};

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
  if (summary) return viewServer(summary, context, options);
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

function viewServer(summary: ServerSummary, context: RoutedContext, options: Parts): Promise<Page> {
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
    packages: (await packagesOfRelease(host, tenant, catalog.release)).slice(0, PACKAGES_SHOWN_MAX),
    releases: releaseViews(releases, name, { origin, base, writable: options.writable }),
    isOneOfSeveral: options.cluster.others.size > 0,
    calls: callViews(activity.recent().filter(({ tool }) => isShown(tool))),
    lines: mayChange(context, "source", name) ? lineViews(host.recentLines(tenant, name)) : [],
  };
}

/** The most packages that the page names; the release has all. */
const PACKAGES_SHOWN_MAX = 200;

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
  "This server has not started yet. It starts, and may be installed, when somebody first uses it. Reload this page then.";
const REFUSALS = {
  ready: "",
  disabled: "This server is disabled until its entry in the variable mcps enables it.",
  refused: "This server cannot be served until its problems are fixed.",
  unstarted: UNSTARTED,
  starting: UNSTARTED,
} as const;

async function frameOf(
  { name, isBuiltIn, state, description = "", problems }: ServerSummary,
  context: RoutedContext,
  { host, pages, tenant, base }: Parts,
): Promise<Page> {
  const upstream = await host.upstreamNow(tenant, name);
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

/** The view of an upstream: its health, and the changes that wait for a person. */
export async function upstreamView(
  pages: Pick<Pages, "fragment">,
  base: string,
  server: string,
  { name, launcher, health, pending, stderr, node }: UpstreamState,
  mayChange: boolean,
): Promise<{ readonly view: object; readonly fragments: readonly Fragment[] }> {
  const { state, starts, requests, failure, retryAt, protocolVersion, server: own } = health;
  const facts: Fact[] = [
    { label: isRemote(launcher) ? "Reached at" : "Started from", value: name },
    { label: "By", value: launcher },
    {
      label: "Isolation",
      value: isRemote(launcher) ? "it runs elsewhere" : "none: it runs like a process of your own",
    },
    { label: "Process", value: STATES[state] },
    ...(node
      ? [{ label: "Runs once, on the node", value: node.isThis ? `${node.id}, which shows this` : node.id }]
      : []),
    ...(own ? [{ label: "Calls itself", value: `${own.name} ${own.version}` }] : []),
    ...(protocolVersion === undefined ? [] : [{ label: "Speaks MCP", value: protocolVersion }]),
    { label: "Starts so far", value: String(starts) },
    { label: "Requests under way", value: String(requests) },
    ...(failure === undefined ? [] : [{ label: "Failed last", value: failure }]),
    ...(retryAt === undefined ? [] : [{ label: "Not tried again before", value: timeView(retryAt).exact }]),
  ];
  const wrote = mayChange ? printable(stderr) : "";
  if (!pending) return { view: { facts, wrote }, fragments: [] };
  const { groups, ...view } = pendingView(base, server, pending);
  const fragment = await pages.fragment("pending", groups);
  return { view: { facts, wrote, pending: { ...view, groups: fragment } }, fragments: [fragment] };
}

function isRemote(launcher: string): boolean {
  return launcher === "http" || launcher === "https";
}

const STATES = {
  idle: "not running; it starts when it is needed",
  starting: "starting",
  running: "running",
  failed: "failed; it is tried again when it is needed",
} as const;

function pendingView(base: string, server: string, { contract, changes, approved, observed }: PendingChange) {
  const groups = new Map<string, ContractChange[]>();
  for (const change of changes) {
    const key = JSON.stringify([change.subject, change.name]);
    const group = groups.get(key);
    if (group) group.push(change);
    else groups.set(key, [change]);
  }
  const sorted = [...groups.values()].sort((one, other) => rankOf(one) - rankOf(other));
  const more = sorted.length - GROUPS_MAX;
  return {
    contract,
    approve: `${base}/api/servers/${encodeURIComponent(server)}/approve`,
    count: countOf(changes.length, "change"),
    groups: groupViews(sorted.slice(0, GROUPS_MAX), toolsOf(approved), toolsOf(observed)),
    more:
      more > 0
        ? `There are ${more} more changes: GET ${base}/api/servers/${encodeURIComponent(server)}/upstream lists them.`
        : "",
  };
}

/** No page shows more: a reader of so many knows what to think of the server. */
const GROUPS_MAX = 200;

function* groupViews(groups: readonly ContractChange[][], approved: Tools, observed: Tools): Generator<object> {
  for (const group of groups) {
    const { subject, name, renamedTo } = group[0]!;
    yield {
      subject: subject === "server" ? "The server itself" : subject,
      name,
      changes: group.toSorted(byEffect).map(({ effect, message }) => {
        const { label, tone } = EFFECTS[effect];
        return { label, tone, message };
      }),
      diff: subject === "tool" ? toolDiff(approved.get(name), observed.get(renamedTo ?? name)) : "",
    };
  }
}

type Tools = ReadonlyMap<string, ToolContract>;

function toolsOf({ tools }: Contract): Tools {
  return new Map(tools.map((tool) => [tool.name, tool]));
}

const EFFECTS = {
  breaking: { label: "breaking", tone: "bad", rank: 0 },
  review: { label: "for you to judge", tone: "warn", rank: 1 },
  compatible: { label: "compatible", tone: "good", rank: 2 },
} as const;

function rankOf(group: readonly ContractChange[]): number {
  return Math.min(...group.map(({ effect }) => EFFECTS[effect].rank));
}

function byEffect(one: ContractChange, other: ContractChange): number {
  return EFFECTS[one.effect].rank - EFFECTS[other.effect].rank;
}

function toolDiff(before: ToolContract | undefined, after: ToolContract | undefined): string {
  const [old, now] = [toolText(before), toolText(after)];
  if (old === undefined || now === undefined) return "Too long to be compared line by line here.";
  const diff = textDiff({ entry: "tool", files: { tool: old } }, { entry: "tool", files: { tool: now } });
  // File names mean nothing here.
  return diff.replace(/^--- .*\n\+\+\+ .*\n/, "");
}

/** The most bytes of a tool without indentation; a page has hundreds of these. */
const DIFF_BYTES_MAX = 32 * 1024;

/** The text of a tool; undefined when it is too long. */
function toolText(tool: ToolContract | undefined): string | undefined {
  if (!tool) return "";
  // Fields are in one order, wherever each of the two comes from.
  const { bytes } = jsonBlock(tool);
  return bytes.length > DIFF_BYTES_MAX ? undefined : `${indentedJson(decodeJson(bytes))}\n`;
}
