import { mayChange, readingWith } from "../../http/access/permit.ts";
import type { CallViews } from "../../http/feature-routes.ts";
import { nextAddress } from "../../http/list-page.ts";
import type { Page } from "../../http/pages/pages.ts";
import { pathsOf } from "../../http/pages/parts/paths.ts";
import type { RoutedContext } from "../../http/routed.ts";
import { isObject, type Json } from "../../lib/json.ts";
import { HIDDEN } from "../../lib/redactor.ts";
import { retainedCallRow, retainedCallView, spanText } from "./call-view.ts";
import { nextCursor, noSuchCall, onlyFailed, readCallId, readRetainedCallsQuery } from "./query.ts";
import type { FoundCall, RetainedCalls } from "./retained-calls.ts";

type ShownServer = Parameters<CallViews["tab"]>[0];

export function callViews(retainedCalls: RetainedCalls): CallViews {
  return {
    async tab(shown, context) {
      const { tenant, base } = context;
      const call = await retainedCallOf(retainedCalls, shown, context);
      const ms = retainedCalls.retainedMs(tenant, shown.name);
      if (ms === undefined) return undefined;
      const isListed = !call && mayChange(context, "calls", shown.name);
      return {
        keptFor: spanText(ms),
        kept: isListed ? await listView(retainedCalls, shown, context) : undefined,
        call: call && { ...retainedCallView(call, base), again: againAt(call, shown, base) },
      };
    },
    async again(shown, context) {
      const call = await retainedCallOf(retainedCalls, shown, context);
      const args = call && argumentsAgain(call);
      return (
        args && {
          tool: call.tool,
          arguments: args.text,
          isHidden: args.isHidden,
          call: `${pathsOf(context.base, shown.name).page}?tab=calls&call=${call.id}`,
        }
      );
    },
  };
}

/** The call named by `?call=`; undefined without it. Rejects if the reader may not see it, or if it does not exist. */
async function retainedCallOf(
  retainedCalls: RetainedCalls,
  { name, isPinned }: ShownServer,
  context: RoutedContext,
): Promise<FoundCall | undefined> {
  const { call: id } = context.request.query;
  if (id === undefined || isPinned) return undefined;
  readingWith("calls", () => name)(context);
  const found = await retainedCalls.get(context.tenant, name, readCallId(id));
  if (!found) throw noSuchCall();
  context.response.setHeader("Cache-Control", "no-store");
  return found;
}

async function listView(
  retainedCalls: RetainedCalls,
  { name, catalog }: ShownServer,
  { request, response, base, tenant }: RoutedContext,
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

/** The most tools to choose from; a URL can name any other one. */
const TOOLS_MAX = 200;

/** The path to run the call again; empty if its tool no longer exists, or its arguments were not retained. */
function againAt({ id, tool, arguments: args }: FoundCall, { name, catalog }: ShownServer, base: string): string {
  const isOffered = catalog?.contract.tools.some((each) => each.name === tool) ?? false;
  return isOffered && args !== undefined ? `${pathsOf(base, name).page}?tab=tools&call=${id}` : "";
}

/** The arguments for running a call again, as JSON: hidden values are omitted, for the person to fill in. */
function argumentsAgain(call: FoundCall): { readonly text: string; readonly isHidden: boolean } | undefined {
  if (call.arguments === undefined) return undefined;
  if (call.arguments === HIDDEN) return { text: "{}", isHidden: true };
  const before = JSON.stringify(call.arguments);
  return { text: JSON.stringify(withoutHidden(call.arguments)), isHidden: before.includes(HIDDEN) };
}

function withoutHidden(value: Json): Json {
  if (Array.isArray(value)) return value.map(withoutHidden);
  if (!isObject(value)) return value;
  const members = Object.entries(value as Record<string, Json>).filter(([, member]) => member !== HIDDEN);
  return Object.fromEntries(members.map(([name, member]) => [name, withoutHidden(member)]));
}
