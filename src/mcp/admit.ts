import type { Action, Principal } from "../access/principal.ts";
import type { Catalog } from "../host/offers/catalog.ts";
import { ALL_SERVERS } from "../host/serving/aggregate.ts";
import { BerthError } from "../lib/errors.ts";
import { isObject } from "../lib/json.ts";
import { isNativeName } from "./protocol.ts";

/**
 * Throws `forbidden` when a principal may use nothing of a server, whether or not the server exists. The server of all
 * servers filters by principal itself.
 */
export function admit(principal: Principal | undefined, server: string): void {
  if (!principal || server === ALL_SERVERS) return;
  // `server@CID` may name a release of the server, or another server: its catalog decides.
  const at = server.lastIndexOf("@");
  const names = at > 0 ? [server, server.slice(0, at)] : [server];
  if (names.some((name) => principal.permits("call", name) || principal.permits("read", name))) return;
  throw forbidden("call", `to use the server "${server}"`);
}

/**
 * Throws `forbidden` for a method that the principal may use on nothing here, before anything is answered, so that a
 * client learns what a better token must permit. If the principal may use it on something, its catalog decides. `body`
 * is a message or a batch as received.
 */
export function admitMethods(principal: Principal | undefined, { server, contract }: Catalog, body: unknown): void {
  if (!principal) return;
  for (const message of Array.isArray(body) ? (body as unknown[]) : [body]) {
    const method = isObject(message) ? message["method"] : undefined;
    const needs = typeof method === "string" ? requiredAction(method) : undefined;
    if (needs === undefined || principal.permits(needs, server)) continue;
    const { tools, resources, resourceTemplates, prompts } = contract;
    const offered = needs === "call" ? tools : [...resources, ...resourceTemplates, ...prompts];
    if (offered.length === 0) throw forbidden(needs, `for ${String(method)}`);
  }
}

const REQUIRED_ACTIONS: ReadonlyMap<string, Action> = new Map([
  ["tools/call", "call"],
  ["resources/read", "read"],
  ["resources/subscribe", "read"],
  ["prompts/get", "read"],
  ["completion/complete", "read"],
]);

function requiredAction(method: string): Action | undefined {
  return REQUIRED_ACTIONS.get(method) ?? (isNativeName(method) ? "call" : undefined);
}

/**
 * True when the principal may be notified of an update of a resource; `server` is the resource's server if it is not
 * the one listened to.
 */
export function mayReceiveUpdates(principal: Principal | undefined, server: string | undefined): boolean {
  return !principal || server === undefined || principal.permits("read", server);
}

function forbidden(needs: Action, what: string): BerthError {
  return new BerthError("forbidden", `it needs "${needs}" ${what}`, { data: { needs } });
}
