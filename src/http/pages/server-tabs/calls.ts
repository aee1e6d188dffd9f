import type { ListedCall } from "../../../features/retained-calls/retained-calls.ts";
import { mayChange, toolsShown } from "../../access/permit.ts";
import { nextAddress } from "../../list-page.ts";
import { nextCursor, onlyFailed, readRetainedCallsQuery } from "../../../features/retained-calls/query.ts";
import type { RoutedContext } from "../../routed.ts";
import type { Page } from "../pages.ts";
import { callViews, lineViews } from "../parts/health.ts";
import { pathsOf } from "../parts/paths.ts";
import { retainedCallRow, retainedCallView, spanText } from "../../../features/retained-calls/call-view.ts";
import { retainedCallOf } from "../../../features/retained-calls/tab.ts";
import type { ServerPageParts, ServerTab, ShownServer } from "./tab.ts";

/** The calls under way, those that the server keeps or the latest ones, and the lines of its functions. */
export const callsTab: ServerTab = {
  id: "calls",
  label: "Calls",
  isFor: ({ isPinned }) => !isPinned,
  async view(shown, context, parts) {
    const { name, served, isBuiltIn } = shown;
    const { host, tenant, cluster, retainedCalls } = parts;
    const activity = host.activity(tenant, name);
    const isShown = toolsShown(context.principal, served ?? { server: name });
    const mayRead = mayChange(context, "calls", name);
    const retainedMs = retainedCalls.retainedMs(tenant, name);
    const call = await retainedCallOf(shown, context, parts);
    return {
      inFlight: activity.inFlight,
      calls: callViews(activity.recent().filter(({ tool }) => isShown(tool))),
      lines: mayChange(context, "source", name) ? lineViews(activity.lines()) : [],
      isOneOfSeveral: cluster.others.size > 0,
      keptFor: retainedMs === undefined ? "" : spanText(retainedMs),
      kept: mayRead && retainedMs !== undefined && !call ? await keptView(shown, context, parts) : undefined,
      call: call && { ...retainedCallView(call, parts.base), again: againAt(call, shown, parts) },
      mayKeep: retainedMs === undefined && !isBuiltIn && parts.writable && mayChange(context, "entry", name),
    };
  },
};

async function keptView(
  { name, catalog }: ShownServer,
  { request, response }: RoutedContext,
  { base, tenant, retainedCalls }: ServerPageParts,
): Promise<Partial<Page>> {
  const query = readRetainedCallsQuery(request);
  const found = await retainedCalls.list(tenant, name, query);
  response.setHeader("Cache-Control", "no-store");
  const { page } = pathsOf(base, name);
  const next = nextAddress(page, request, nextCursor(found), ["tab", "failed", "tool", "since", "before"]);
  const names = new Set((catalog?.contract.tools ?? []).slice(0, TOOLS_MAX).map(({ name }) => name));
  if (query.tool !== undefined) names.add(query.tool);
  return {
    calls: found.calls.map(retainedCallRow),
    tools: [...names].map((tool) => ({ name: tool, isChosen: tool === query.tool })),
    onlyFailed: onlyFailed(request.query),
    isFiltered: [query.tool, query.outcomes, query.since, query.before].some((each) => each !== undefined),
    isLater: query.after !== undefined,
    next,
  };
}

/** The most tools to choose from; an address can name any other one. */
const TOOLS_MAX = 200;

/** Where the call can be run again; empty where its tool is not there any more, or its arguments were not kept. */
function againAt(
  { id, tool, arguments: given }: ListedCall & { readonly arguments?: unknown },
  { name, catalog }: ShownServer,
  { base }: ServerPageParts,
): string {
  const isOffered = catalog?.contract.tools.some((each) => each.name === tool) ?? false;
  return isOffered && given !== undefined ? `${pathsOf(base, name).page}?tab=tools&call=${id}` : "";
}
