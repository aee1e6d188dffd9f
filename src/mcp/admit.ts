import type { Action, Principal } from "../access/principal.ts";
import { BerthError } from "../lib/errors.ts";
import { ALL_SERVERS } from "../host/aggregate.ts";
import type { Catalog } from "../host/catalog.ts";
import { isObject } from "../lib/json.ts";
import { isNativeName } from "./native/native.ts";

/**
 * Refuses a principal at a server of which it may use nothing, in the same way whether there is such a server or not.
 * At the server of all servers everybody finds what is theirs. Throws `forbidden`.
 */
export function admit(principal: Principal | undefined, server: string): void {
  if (!principal || server === ALL_SERVERS) return;
  // `server@CID` is a release of the server; its catalog will tell which of the two it is.
  const at = server.lastIndexOf("@");
  const names = at > 0 ? [server, server.slice(0, at)] : [server];
  if (names.some((name) => principal.permits("call", name) || principal.permits("read", name))) return;
  throw forbidden("call", `to use the server "${server}"`);
}

/**
 * Refuses what the principal may do to nothing at this place, before anything is answered: a client that can get a
 * better token learns what it has to be good for. What it may do to some of it, the catalog that it is shown decides.
 * `body` is a message, or a batch of them, as it came.
 */
export function admitMethods(principal: Principal | undefined, { server, contract }: Catalog, body: unknown): void {
  if (!principal) return;
  for (const message of Array.isArray(body) ? (body as unknown[]) : [body]) {
    const method = isObject(message) ? message["method"] : undefined;
    const needs = typeof method === "string" ? neededFor(method) : undefined;
    if (needs === undefined || principal.permits(needs, server)) continue;
    const { tools, resources, resourceTemplates, prompts } = contract;
    const offered = needs === "call" ? tools : [...resources, ...resourceTemplates, ...prompts];
    if (offered.length === 0) throw forbidden(needs, `for ${String(method)}`);
  }
}

const NEEDS: ReadonlyMap<string, Action> = new Map([
  ["tools/call", "call"],
  ["resources/read", "read"],
  ["resources/subscribe", "read"],
  ["prompts/get", "read"],
  ["completion/complete", "read"],
]);

function neededFor(method: string): Action | undefined {
  return NEEDS.get(method) ?? (isNativeName(method) ? "call" : undefined);
}

/** True for a principal who hears that a resource was updated; `server` names its server where that is not the one listened to. */
export function mayHearOf(principal: Principal | undefined, server: string | undefined): boolean {
  return !principal || server === undefined || principal.permits("read", server);
}

function forbidden(needs: Action, what: string): BerthError {
  return new BerthError("forbidden", `it needs "${needs}" ${what}`, { data: { needs } });
}
