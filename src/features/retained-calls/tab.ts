import type { FoundCall } from "./retained-calls.ts";
import { isObject, type Json } from "../../lib/json.ts";
import { HIDDEN } from "../../lib/redactor.ts";
import { readingWith } from "../../http/access/permit.ts";
import { noSuchCall, readCallId } from "./query.ts";
import type { RoutedContext } from "../../http/routed.ts";
import type { ServerPageParts, ShownServer } from "../../http/pages/server-tabs/tab.ts";

/** The call that `?call=` names; undefined without it. Rejects for a reader who may not see it, and where there is none. */
export async function retainedCallOf(
  { name, isPinned }: ShownServer,
  context: RoutedContext,
  { tenant, retainedCalls }: ServerPageParts,
): Promise<FoundCall | undefined> {
  const { call: id } = context.request.query;
  if (id === undefined || isPinned) return undefined;
  readingWith("calls", () => name)(context);
  const found = await retainedCalls.get(tenant, name, readCallId(id));
  if (!found) throw noSuchCall();
  context.response.setHeader("Cache-Control", "no-store");
  return found;
}

/** The arguments to run a call again with, as JSON: what was hidden is left out, for the person to fill in. */
export function argumentsAgain(call: FoundCall): { readonly text: string; readonly isHidden: boolean } | undefined {
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
