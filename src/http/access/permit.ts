import type { IncomingMessage } from "node:http";
import type { Action, Principal } from "../../access/principal.ts";
import { checkTyped, RIGHTS, type Power } from "../../access/rights.ts";
import { isLoopback } from "../../config.ts";
import { createCallFilter } from "../../host/catalog/permitted.ts";
import type { Catalog } from "../../host/offers/catalog.ts";
import { BerthError } from "../../lib/errors.ts";
import { plainAddress } from "../peer.ts";
import type { RequestContext } from "../request-context.ts";
import type { Permit, RoutedContext } from "../routed.ts";
import { checkWritingPage } from "./own-page.ts";

/**
 * Permission checks behind Express: a request may do what its principal permits. Where no token is required, it may do
 * everything if it comes from this machine, from a program or from a page of this service.
 */

/** The server that a request is about; without one it is about the tenant as a whole. */
type ServerOf = (context: RoutedContext) => string | undefined;

export const named: ServerOf = ({ request }) => request.params["name"];
const whole: ServerOf = () => undefined;

/** Refuses a reader without permission, with `forbidden`. */
export function reading(serverOf: ServerOf = whole): Permit {
  return (context) => checkPermitted(context, "read", serverOf(context));
}

/** Lists are open to everybody; each shows only what its reader may know of. */
export const listing: Permit = () => {};

/** True when the principal may know of the server; without a name, of what belongs to no server. */
export function mayKnow(principal: Principal | undefined, server?: string): boolean {
  if (!principal || principal.permits("read", server)) return true;
  return server !== undefined && principal.permits("call", server);
}

/** Refuses a request without this power, with `forbidden`, `unauthorized` or `write_forbidden`. */
export function changing(power: Power, serverOf: ServerOf = whole): Permit {
  return (context) => checkChange(context, power, serverOf(context));
}

/** Admits only administrators of the tenant. Where no token is required, these are the users of this machine. */
export const administering = readingWith("audit");

/** Refuses a reader without this power, by the same rule as `mayChange`. */
export function readingWith(power: Power, serverOf: ServerOf = whole): Permit {
  const { action, of } = RIGHTS[power];
  return (context) => {
    if (context.principal) checkPermitted(context, action, of === "server" ? serverOf(context) : undefined);
    else checkPeer(context.request, action);
  };
}

/** True when the principal may see what `administering` guards. */
export function mayAdminister(principal: Principal | undefined): boolean {
  return !principal || principal.permits(RIGHTS.audit.action);
}

/** Throws `forbidden`. */
export function checkPermitted({ principal }: RequestContext, action: Action, server?: string): void {
  if (!principal || principal.permits(action, server)) return;
  const where = server === undefined ? "for the tenant as a whole" : `on the server "${server}"`;
  throw new BerthError("forbidden", `it needs "${action}" ${where}`, { data: { needs: action } });
}

/**
 * Like `checkPermitted`, for reading a server or one of its releases, `server@CID`. A reader without permission does
 * not learn if it exists.
 */
export function checkReadable(context: RequestContext, name: string): void {
  const at = name.lastIndexOf("@");
  if (at > 0 && context.principal?.permits("read", name.slice(0, at))) return;
  checkPermitted(context, "read", name);
}

/** Selects the tools of a server that a page shows: the callable ones for a principal that may call, all for others. */
export function toolsShown(
  principal: Principal | undefined,
  catalog: Pick<Catalog, "server" | "starting">,
): (tool: string) => boolean {
  return principal?.permits("call", catalog.server) ? createCallFilter(principal, catalog) : () => true;
}

/** Throws `forbidden`, `unauthorized` or `write_forbidden`; no message contains a token. */
export function checkChange(context: RequestContext, power: Power, server?: string): void {
  const { request, principal } = context;
  const { action, of } = RIGHTS[power];
  const { authorization } = request.headers;
  if (principal) {
    checkPermitted(context, action, of === "server" ? server : undefined);
    // A client sends a header on purpose; a browser sends a cookie by itself.
    if (authorization === undefined) checkWritingPage(request);
    checkTyped(principal, power);
    return;
  }
  if (authorization !== undefined) throw new BerthError("unauthorized", "send Authorization: Bearer <token>");
  checkWritingPage(request);
  checkPeer(request, action);
}

/** True for a reader who may also change the server, and so may see what only its editors see. */
export function mayChange({ request, principal }: RequestContext, power: Power, server: string): boolean {
  const { action, of } = RIGHTS[power];
  return principal
    ? principal.permits(action, of === "server" ? server : undefined)
    : whyOutside(request) === undefined;
}

/** A proxied request may come from anywhere, even if the proxy runs on this machine. */
function checkPeer(request: IncomingMessage, action: Action): void {
  const why = whyOutside(request);
  if (why !== undefined) throw new BerthError("write_forbidden", `${why}, without a token that permits "${action}"`);
}

function whyOutside({ headers, socket }: IncomingMessage): string | undefined {
  const proxied = Object.keys(headers).find((name) => PROXIED.test(name));
  if (proxied !== undefined) return `it comes through a proxy (${proxied})`;
  return isLoopback(plainAddress(socket.remoteAddress)) ? undefined : "it comes from another machine";
}

const PROXIED = /^(?:forwarded|via|x-forwarded-.*|x-real-ip|x-client-ip|true-client-ip|cf-connecting-ip)$/;
