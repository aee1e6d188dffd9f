import type { Access } from "../../access/access.ts";
import type { Principal } from "../../access/principal.ts";
import type { Cluster } from "../../cluster/cluster.ts";
import type { Overview } from "../../host/catalog/overview.ts";
import type { Host } from "../../host/host.ts";
import type { UpstreamState } from "../../host/upstreams/hosting.ts";
import { printable } from "../../lib/printable.ts";
import { hasMore, formatLocation, type Problem } from "../../lib/problem.ts";
import { DEFAULT_TENANT } from "../../lib/tenant-name.ts";
import { mayChange, mayKnow, toolsShown } from "../access/permit.ts";
import type { SetupsFor } from "../feature-routes.ts";
import { nextAddress, readListPage } from "../list-page.ts";
import type { OriginOf } from "../public-origin.ts";
import type { PageRoute } from "../routed.ts";
import { inGroups, type Pages } from "./pages.ts";
import { callChart } from "./parts/call-chart.ts";
import { credentialsOf } from "./parts/credentials.ts";
import {
  findServers,
  readServerFilter,
  SERVER_KINDS,
  type FoundServers,
  type ServerFilter,
} from "./parts/find-servers.ts";
import { pathsOf } from "./parts/paths.ts";
import { problemView } from "./parts/problem-view.ts";
import { isContractChange, SERVER_STATES, stateView } from "./parts/server-state.ts";
import { countOf, firstLine, timeView } from "./parts/text.ts";
import { idOf } from "./parts/tool-view.ts";

export interface McpOptions {
  readonly host: Host;
  readonly cluster: Pick<Cluster, "others">;
  readonly pages: Pages;
  readonly isolation: string;
  readonly sandboxNote: string;
  readonly access: Pick<Access, "required" | "oauth">;
  readonly originOf: OriginOf;
  /** False on a read-only boot. */
  readonly writable: boolean;
  readonly setups: readonly SetupsFor[];
}

/**
 * `GET /mcp`: every server with its state, tools, problems and the calls of its last hour (C6), and how to connect to
 * all of them. `?q=&state=&kind=` asks for some of them.
 */
export const mcpPage: PageRoute<McpOptions> = {
  path: "/mcp",
  create({ host, cluster, pages, isolation, sandboxNote, access, originOf, writable, setups }) {
    return async (context) => {
      const { request, tenant, base, principal } = context;
      const names = host.names(tenant).filter((name) => mayKnow(principal, name));
      const filter = readServerFilter(request);
      const known = (server: Overview): Overview => (principal ? knownPart(server, principal) : server);
      const found = await findServers({ host, tenant, names, known }, filter, readListPage(request));
      const origin = originOf(request);
      const upstreams = new Map(
        await Promise.all(found.servers.map(async ({ name }) => [name, await host.upstreamNow(tenant, name)] as const)),
      );
      const now = Date.now();
      const viewOf = (server: Overview): object => ({
        ...serverView(base, server, upstreams.get(server.name)),
        kind: kindOf(server, upstreams.get(server.name)),
        wrote: mayChange(context, "entry", server.name) ? lastWritten(upstreams.get(server.name)) : "",
        ...callsView(host, tenant, server.name, now),
        origin,
      });
      const url = `${origin}${base}/mcp`;
      const credentials = credentialsOf(access, tenant);
      const isFiltered = filter.words.length > 0 || filter.state !== undefined || filter.kind !== undefined;
      await pages.send(context, "mcp", {
        title: "Servers",
        section: "mcp",
        origin,
        url,
        credentials,
        isolation,
        isTrusted: isolation === "trusted",
        sandboxNote: tenant === DEFAULT_TENANT ? sandboxNote : "",
        setups: setups.flatMap((each) => each({ name: "berth", url, tool: undefined, access: credentials.access })),
        problems: mayKnow(principal) ? host.problems(tenant).map((each) => problemView(base, each)) : [],
        mayAdd: writable && mayChange(context, "entry", ""),
        filter: filterView(filter, request.query["q"]),
        isFiltered,
        isEmpty: names.length === 0,
        summary: isFiltered ? foundText(found) : summaryOf(names.length, found.servers),
        left: found.left === 0 ? "" : `Not searched yet: ${countOf(found.left, "server")}`,
        again: request.originalUrl,
        servers:
          found.servers.length > 0 ? await pages.fragment("servers", inGroups(found.servers, viewOf)) : undefined,
        isOneOfSeveral: cluster.others.size > 0,
        next: nextAddress(`${base}/mcp`, request, found.next, ["q", "state", "kind"]),
      });
    };
  },
};

/** The part of a server that the principal may know of. */
function knownPart(overview: Overview, principal: Principal): Overview {
  const { name: server, starting } = overview;
  return { ...overview, tools: overview.tools.filter(toolsShown(principal, { server, starting })) };
}

const KIND_LABELS = { definition: "Definitions", upstream: "Upstreams", builtin: "Built in" } as const;

/** The form above the list, filled in with what is asked for. */
function filterView({ state, kind }: ServerFilter, q: unknown): object {
  const states = Object.entries(SERVER_STATES).map(([value, { label }]) => ({ value, label }));
  return {
    q: typeof q === "string" ? q : "",
    states: [...states, { value: "problems", label: "with problems" }].map(({ value, label }) => ({
      value,
      label,
      selected: value === state,
    })),
    kinds: SERVER_KINDS.map((value) => ({ value, label: KIND_LABELS[value], selected: value === kind })),
  };
}

function foundText({ servers, searched, left, next }: FoundServers): string {
  const among = left === 0 ? "" : ` among the ${searched} searched so far`;
  if (servers.length === 0) return `No server found${among}`;
  return next === undefined
    ? `${countOf(servers.length, "server")} found${among}`
    : `The first ${servers.length} found`;
}

/** The most tools that a server's line names; its own page has all of them. */
const NAMES_MAX = 50;

function serverView(base: string, overview: Overview, upstream: UpstreamState | undefined): object {
  const { name, state, description = "", tools } = overview;
  const problems = upstream?.pending ? overview.problems.filter((each) => !isContractChange(each)) : overview.problems;
  const { endpoint, page } = pathsOf(base, name);
  const isFaulty = problems.some(({ severity }) => severity === "error");
  const { label, tone } = stateView({ state, problems }, upstream);
  return {
    name,
    state: label,
    isOfUpstream: state === "ready" && (label === "failed" || label === "needs review"),
    tone,
    description: firstLine(description),
    endpoint,
    page,
    tools: tools.length,
    names: tools
      .slice(0, NAMES_MAX)
      .map((tool) => ({ name: tool, href: `${page}#tool-${encodeURIComponent(idOf(tool))}` })),
    moreNames: Math.max(tools.length - NAMES_MAX, 0),
    problems: problems.slice(0, PROBLEMS_MAX).map((each) => problemView(base, each)),
    first: problems[0] && firstLine(problems[0].message),
    firstAt: problems[0] ? fileOf(problems[0]) : "",
    problemCount: hasMore(problems) ? `${problems.length - 1}+` : problems.length || "",
    problemTone: isFaulty ? "bad" : "warn",
    moreProblems: moreOf(problems),
  };
}

/** The end of what a failed upstream wrote to stderr. */
function lastWritten(upstream: UpstreamState | undefined): string {
  if (upstream?.health.state !== "failed") return "";
  return printable(upstream.stderr.trimEnd().split("\n").slice(-WRITTEN_LINES).join("\n").slice(-WRITTEN_CHARS));
}

const WRITTEN_LINES = 5;
const WRITTEN_CHARS = 1_000;

/** Where in its code; a place in `mcps` tells nobody more. */
function fileOf(problem: Problem): string {
  return problem.file === undefined ? "" : formatLocation(problem);
}

function kindOf({ isBuiltIn, language, state }: Overview, upstream: UpstreamState | undefined): string {
  if (upstream) return `Upstream (${upstream.launcher})`;
  if (isBuiltIn) return "Built in";
  if (language !== undefined) return language === "shell" ? "Shell" : "TypeScript";
  return state === "ready" ? "Entry alone" : "Definition";
}

function callsView(host: Pick<Host, "activity">, tenant: string, server: string, now: number): object {
  const activity = host.activity(tenant, server);
  const { latestAt } = activity;
  return {
    chart: callChart(activity.lastHour(now)),
    latest: latestAt === undefined ? undefined : timeView(latestAt, now),
  };
}

const PROBLEMS_MAX = 3;

function moreOf(problems: Overview["problems"]): string {
  if (problems.length <= PROBLEMS_MAX) return "";
  return hasMore(problems) ? "more problems" : countOf(problems.length - PROBLEMS_MAX, "more problem");
}

function summaryOf(count: number, servers: readonly Overview[]): string {
  if (servers.length < count) {
    const part = servers.length > 0 ? `here ${servers[0]!.name} to ${servers.at(-1)!.name}` : "none of them here";
    return `${countOf(count, "server")}, ${part}`;
  }
  const tools = servers.reduce((sum, server) => sum + server.tools.length, 0);
  const bad = servers.filter(({ state }) => state === "refused").length;
  const parts = [countOf(servers.length, "server"), countOf(tools, "tool")];
  return [...parts, ...(bad > 0 ? [`${bad} refused`] : [])].join(", ");
}
