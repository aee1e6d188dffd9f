import type { Access } from "../../access/access.ts";
import type { Principal } from "../../access/principal.ts";
import type { Overview } from "../../host/catalog/overview.ts";
import type { Host } from "../../host/host.ts";
import type { UpstreamState } from "../../host/serving/hosting.ts";
import { mapInTurns } from "../../lib/event-loop.ts";
import { areMore } from "../../lib/problem.ts";
import { mayKnow, toolsShown } from "../access/permit.ts";
import { namesOnPage, nextAddress, readListPage, type ListPageLimits } from "../list-page.ts";
import type { OriginOf } from "../public-origin.ts";
import type { PageRoute } from "../routed.ts";
import { inGroups, type Pages } from "./pages.ts";
import { credentialsOf } from "./parts/credentials.ts";
import { pathsOf } from "./parts/paths.ts";
import { problemView } from "./parts/problem-view.ts";
import { SERVER_STATES } from "./parts/server-state.ts";
import { setupsFor } from "./parts/setup.ts";
import { countOf, firstLine } from "./parts/text.ts";

export interface McpOptions {
  readonly host: Host;
  readonly pages: Pages;
  readonly isolation: string;
  readonly access: Pick<Access, "required" | "oauth">;
  readonly originOf: OriginOf;
  readonly limits: ListPageLimits;
}

/** `GET /mcp`: what this is, how to connect, and every server with its state, tools and problems (C6). */
export const mcpPage: PageRoute<McpOptions> = {
  path: "/mcp",
  create({ host, pages, isolation, access, originOf, limits }) {
    return async (context) => {
      const { request, tenant, base, principal } = context;
      const shown = host.names(tenant).filter((name) => mayKnow(principal, name));
      const { names, next } = namesOnPage(shown, readListPage(request, limits), () => true);
      const all = await host.overview(tenant, names);
      const servers = principal ? await mapInTurns(all, async (server) => known(server, principal)) : all;
      const origin = originOf(request);
      const upstreams = new Map(
        await Promise.all(servers.map(async ({ name }) => [name, await host.upstreamNow(tenant, name)] as const)),
      );
      const viewOf = (server: Overview): object => ({
        origin,
        ...serverView(base, server, upstreams.get(server.name)),
      });
      const url = `${origin}${base}/mcp`;
      const credentials = credentialsOf(access, tenant);
      await pages.send(context, "mcp", {
        title: "MCP servers",
        section: "mcp",
        origin,
        url,
        credentials,
        isSandboxed: isolation === "sandboxed",
        setups: setupsFor({ name: "berth", url, tool: undefined, access: credentials.access }),
        problems: mayKnow(principal) ? host.problems(tenant).map(problemView) : [],
        summary: servers.length === shown.length ? summaryOf(servers) : partOf(shown.length, names),
        filtered: servers.length > FILTERED_FROM,
        servers: servers.length > 0 ? await pages.fragment("servers", inGroups(servers, viewOf)) : undefined,
        next: nextAddress(`${base}/mcp`, request, next),
      });
    };
  },
};

/** The part of a server that the principal may know of. */
function known(overview: Overview, principal: Principal): Overview {
  const { name: server, starting } = overview;
  return { ...overview, tools: overview.tools.filter(toolsShown(principal, { server, starting })) };
}

/** Fewer servers need no filter. */
const FILTERED_FROM = 8;
/** The most tool names that a server's line shows; its own page has all of them. */
const NAMES_MAX = 8;

function serverView(
  base: string,
  { name, state, description = "", tools, problems }: Overview,
  upstream: UpstreamState | undefined,
): object {
  const { endpoint, page } = pathsOf(base, name);
  const names = tools.slice(0, NAMES_MAX);
  return {
    name,
    state,
    ...SERVER_STATES[state],
    upstream: upstreamBadge(upstream),
    description: firstLine(description),
    endpoint,
    page,
    names,
    more: tools.length - names.length,
    text: `${name} ${firstLine(description)} ${namesWithin(tools, FILTER_UNITS_MAX)}`,
    problems: problems.slice(0, PROBLEMS_MAX).map(problemView),
    moreProblems: moreOf(problems),
  };
}

/** The most that the page's filter searches of a server's tool names. */
const FILTER_UNITS_MAX = 2_000;

function namesWithin(names: readonly string[], units: number): string {
  let text = "";
  for (const name of names) {
    if (text.length + name.length > units) break;
    text += `${name} `;
  }
  return text;
}

/** The badge of an upstream: the state of its process. */
function upstreamBadge(upstream: UpstreamState | undefined): object | undefined {
  if (!upstream) return undefined;
  const { health, pending } = upstream;
  const waits = pending?.changes.some(({ effect }) => effect !== "compatible") ?? false;
  return { state: health.state, tone: health.state === "failed" ? "bad" : "", waits };
}

const PROBLEMS_MAX = 3;

function moreOf(problems: Overview["problems"]): string {
  if (problems.length <= PROBLEMS_MAX) return "";
  return areMore(problems) ? "more problems" : countOf(problems.length - PROBLEMS_MAX, "more problem");
}

function partOf(count: number, names: readonly string[]): string {
  const part = names.length > 0 ? `here ${names[0]} to ${names.at(-1)}` : "none of them here";
  return `${countOf(count, "server")}, ${part}`;
}

function summaryOf(servers: readonly Overview[]): string {
  const tools = servers.reduce((sum, server) => sum + server.tools.length, 0);
  const bad = servers.filter(({ state }) => state === "refused").length;
  const parts = [countOf(servers.length, "server"), countOf(tools, "tool")];
  return [...parts, ...(bad > 0 ? [`${bad} refused`] : [])].join(", ");
}
