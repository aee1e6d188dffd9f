import type { Principal } from "../../access/principal.ts";
import type { ServerSummary } from "../../host/catalog/overview.ts";
import { permittedCatalog } from "../../host/catalog/permitted.ts";
import type { Host } from "../../host/host.ts";
import type { Catalog } from "../../host/offers/catalog.ts";
import { cutText } from "../../lib/cut-text.ts";
import { BerthError } from "../../lib/errors.ts";
import { indentedJson } from "../../lib/json.ts";
import { listedTool } from "../../mcp/methods/lists.ts";
import { checkPermitted, checkReadable } from "../access/permit.ts";
import { APP_FRAME } from "../app-frame.ts";
import type { RoutedContext, PageRoute } from "../routed.ts";
import type { Page } from "./pages.ts";
import { createOffers } from "./parts/offers.ts";
import { pathsOf } from "./parts/paths.ts";
import { problemView } from "./parts/problem-view.ts";
import { isContractChange, isGrantRequest, stateView } from "./parts/server-state.ts";
import { countOf, shortCid } from "./parts/text.ts";
import { DESCRIPTION_MAX, shownIcon } from "./parts/tool-view.ts";
import { callsTab } from "./server-tabs/calls.ts";
import { codeTab } from "./server-tabs/code.ts";
import { connectTab } from "./server-tabs/connect.ts";
import { releasesTab } from "./server-tabs/releases.ts";
import { settingsTab } from "./server-tabs/settings.ts";
import type { ServerPageOptions, ServerPageParts, ServerTab, ShownServer } from "./server-tabs/tab.ts";
import { toolsTab } from "./server-tabs/tools.ts";
import { upstreamTab } from "./server-tabs/upstream.ts";
import { lastDraft, newNonce } from "./subject.ts";

/** In the order of the page; a server has those that have something to show of it, and begins with the first. */
const TABS: readonly ServerTab[] = [toolsTab, connectTab, codeTab, upstreamTab, settingsTab, releasesTab, callsTab];

/**
 * `GET /mcp/meta/<server>?tab=<tab>`: one part of what there is to say of a server, or of the release `<server>@<cid>`
 * (C6). With `?tool=<name>`, that tool as JSON, as clients get it.
 */
export const metaPage: PageRoute<ServerPageOptions> = {
  path: "/mcp/meta/:server",
  create(options) {
    const offersOf = createOffers(options.pages);
    return async (context) => {
      const server = context.request.params["server"]!;
      checkReadable(context, server);
      const { tool, tab } = context.request.query;
      // On a tab it filters.
      if (typeof tool === "string" && tab === undefined) return sendTool(tool, server, context, options.host);
      // Any tab may show an editor later, without a reload.
      const parts = { ...options, ...context.place, offersOf, styleNonce: newNonce() };
      const { shown, frame } = await readServer(server, tab, context, parts);
      const tabs = shown.isDeleted ? [codeTab] : TABS.filter((each) => each.isFor(shown));
      const chosen = tabs.find(({ id }) => id === tab) ?? tabs[0]!;
      await options.pages.send(context, "meta", {
        scripts: ["meta.js"],
        ...frame,
        tabs: tabs.map((each) => tabView(each, shown, each === chosen)),
        page: pathsOf(parts.base, shown.address).page,
        tab: chosen.id,
        tabView: `tab-${chosen.id}`,
        styleNonce: parts.styleNonce,
        frames: `${options.originOf(context.request)}${parts.base}${APP_FRAME}`,
        ...(await chosen.view(shown, context, parts)),
      });
    };
  },
};

function tabView({ id, label }: ServerTab, { catalog }: ShownServer, isChosen: boolean): object {
  const count = id === "tools" ? catalog?.contract.tools.length : undefined;
  return { id, label, count: count === undefined ? "" : String(count), isChosen };
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

interface ReadServer {
  readonly shown: ShownServer;
  /** The fields that every tab of it shows. */
  readonly frame: Page;
}

async function readServer(
  name: string,
  tab: unknown,
  context: RoutedContext,
  parts: ServerPageParts,
): Promise<ReadServer> {
  const { host, tenant } = parts;
  const summary = await host.summary(tenant, name);
  if (summary) return currentServer(summary, context, parts);
  // A server that was deleted still has a source, which its editor brings back.
  if (tab === codeTab.id && (await lastDraft(parts, { kind: "definition", name }))) return deletedServer(name, parts);
  // It is the address of a release, or nothing at all.
  const catalog = await host.server(tenant, name);
  checkPermitted(context, "read", catalog.server);
  return pinnedServer(catalog, context, parts);
}

async function currentServer(
  summary: ServerSummary,
  { principal }: RoutedContext,
  { host, tenant, base }: ServerPageParts,
): Promise<ReadServer> {
  const { name, state, catalog: served, isBuiltIn = false } = summary;
  const isUpstream = host.directory(tenant)?.servers.get(name)?.entry.upstream !== undefined;
  const upstream = isUpstream ? await host.upstreamNow(tenant, name) : undefined;
  const { pending, health } = upstream ?? {};
  const problems = summary.problems.filter((each) => !(pending && isContractChange(each)) && !isGrantRequest(each));
  const requests = summary.problems.filter(isGrantRequest).length;
  const catalog = served && (await shownCatalog(served, principal));
  return {
    shown: { ...UNSERVED, name, address: name, isBuiltIn, isUpstream, served, catalog },
    frame: {
      ...frameOf({ ...summary, problems }, catalog, base),
      state: stateView(summary, upstream),
      requests: requests > 0 ? countOf(requests, "grant") : "",
      refusal: served ? "" : REFUSALS[state],
      pending: pending ? countOf(pending.changes.length, "change") : "",
      // What keeps it from being served at all is among its problems.
      failure: served && health?.state === "failed" ? health.failure : "",
    },
  };
}

async function pinnedServer(
  served: Catalog,
  { principal }: RoutedContext,
  { host, tenant, base }: ServerPageParts,
): Promise<ReadServer> {
  const { server: name, release, problems } = served;
  const current = await host.summary(tenant, name);
  const isUpstream = host.directory(tenant)?.servers.get(name)?.entry.upstream !== undefined;
  const catalog = await shownCatalog(served, principal);
  const live = pathsOf(base, name).page;
  const pin = { short: shortCid(release), live, isCurrent: current?.catalog?.release === release };
  return {
    shown: { ...UNSERVED, name, address: `${name}@${release}`, isPinned: true, isUpstream, served, catalog },
    frame: {
      ...frameOf({ name, state: "ready", problems, catalog: served }, catalog, base),
      title: `${name} @ ${pin.short}`,
      description: cutText(served.contract.description ?? "", DESCRIPTION_MAX),
      crumbs: [{ label: "Servers", href: `${base}/mcp` }, { label: name, href: live }, { label: pin.short }],
      pin,
    },
  };
}

function deletedServer(name: string, { base }: ServerPageParts): ReadServer {
  return {
    shown: { ...UNSERVED, name, address: name, isDeleted: true },
    frame: {
      ...frameOf({ name, state: "refused", problems: [] }, undefined, base),
      state: { label: "deleted", tone: "bad" },
    },
  };
}

const UNSERVED = {
  isPinned: false,
  isBuiltIn: false,
  isUpstream: false,
  isDeleted: false,
  served: undefined,
  catalog: undefined,
} as const;

const UNSTARTED =
  "This server has not started yet. It is installed and started on its first request. Reload this page then.";
const REFUSALS = {
  ready: "",
  disabled: "This server is disabled until its entry in the variable mcps enables it.",
  refused: "This server cannot be served until its problems are fixed.",
  unstarted: UNSTARTED,
  starting: UNSTARTED,
} as const;

/** The most problems that stand above the tabs; the others open there. */
const PROBLEMS_OPEN_MAX = 3;

function frameOf(
  { name, state, description = "", problems, catalog: served }: ServerSummary,
  catalog: Catalog | undefined,
  base: string,
): Page {
  const views = problems.map((each) => problemView(base, each));
  const more = views.length - PROBLEMS_OPEN_MAX;
  return {
    title: name,
    section: "mcp",
    crumbs: [{ label: "Servers", href: `${base}/mcp` }, { label: name }],
    name,
    icon: shownIcon(served?.icons),
    state: stateView({ state, problems }),
    description: cutText(description, DESCRIPTION_MAX),
    counts: catalog ? countsOf(catalog) : [],
    release: served ? { cid: served.release, short: shortCid(served.release) } : undefined,
    problems: views.slice(0, PROBLEMS_OPEN_MAX),
    moreProblems: views.slice(PROBLEMS_OPEN_MAX),
    moreCount: more > 0 ? countOf(more, "more problem") : "",
    refusal: "",
    requests: "",
    pending: "",
    failure: "",
    pin: undefined,
  };
}

function countsOf({ contract: { tools, resources, resourceTemplates, prompts } }: Catalog): object[] {
  const all = resources.length + resourceTemplates.length;
  return [
    { label: countOf(tools.length, "tool"), href: "?tab=tools#tools", count: tools.length },
    { label: countOf(all, "resource"), href: "?tab=tools#resources", count: all },
    { label: countOf(prompts.length, "prompt"), href: "?tab=tools#prompts", count: prompts.length },
  ].filter(({ count }) => count > 0);
}
