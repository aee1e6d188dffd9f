import type { IncomingMessage } from "node:http";
import type { Action, Principal } from "../../access/principal.ts";
import { checkTyped, RIGHTS, type Power } from "../../access/rights.ts";
import { isLoopback } from "../../config.ts";
import { BerthError } from "../../lib/errors.ts";
import type { Catalog } from "../../host/catalog.ts";
import { callableBy } from "../../host/permitted.ts";
import { plainAddress } from "../peer.ts";
import type { RequestContext } from "../request-context.ts";
import type { Permit, RoutedContext } from "../routed.ts";
import { checkWritingPage } from "./own-page.ts";

/**
 * What behind Express a request may do: what its principal permits, and where nobody is asked for a token, everything
 * to those who sit at this machine, by a program or by a page of this very service.
 */

/** The server that a request is about; without one it is about the tenant as a whole. */
type ServerOf = (context: RoutedContext) => string | undefined;

export const named: ServerOf = ({ request }) => request.params["name"];
const whole: ServerOf = () => undefined;

/** Refuses with `forbidden` whoever may not read this. */
export function reading(serverOf: ServerOf = whole): Permit {
  return (context) => checkPermitted(context, "read", serverOf(context));
}

/** Lists are for everybody: each shows what its reader may know of. */
export const listing: Permit = () => {};

/** Whether a server, or without a name all that is no server's, is anything that the principal may know of. */
export function mayKnow(principal: Principal | undefined, server?: string): boolean {
  if (!principal || principal.permits("read", server)) return true;
  return server !== undefined && principal.permits("call", server);
}

/** Refuses with `forbidden`, `unauthorized` or `write_forbidden` whoever has not this power. */
export function changing(power: Power, serverOf: ServerOf = whole): Permit {
  return (context) => checkChange(context, power, serverOf(context));
}

/**
 * For who administers the tenant: to look at what is no one else's business. Where nobody is asked for a token, that is
 * whoever sits at this machine.
 */
export const administering = readingWith("audit");

/** Refuses, as `mayChange` has it, whoever may not see what is for nobody but those who have this power. */
export function readingWith(power: Power, serverOf: ServerOf = whole): Permit {
  const { action, of } = RIGHTS[power];
  return (context) => {
    if (context.principal) checkPermitted(context, action, of === "server" ? serverOf(context) : undefined);
    else checkPeer(context.request, action);
  };
}

/** Whether it is anything that `administering` lets see. */
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
 * As `checkPermitted` for reading what may be a server, or one of its releases: `server@CID`. Who may not read it does
 * not learn whether it is there.
 */
export function checkReadable(context: RequestContext, name: string): void {
  const at = name.lastIndexOf("@");
  if (at > 0 && context.principal?.permits("read", name.slice(0, at))) return;
  checkPermitted(context, "read", name);
}

/** Which of a server's tools a page tells of: those that may be called, and all where it is only looked at. */
export function toolsShown(
  principal: Principal | undefined,
  catalog: Pick<Catalog, "server" | "starting">,
): (tool: string) => boolean {
  return principal?.permits("call", catalog.server) ? callableBy(principal, catalog) : () => true;
}

/** Throws `forbidden`, `unauthorized` or `write_forbidden`; no token is in a message. */
export function checkChange(context: RequestContext, power: Power, server?: string): void {
  const { request, principal } = context;
  const { action, of } = RIGHTS[power];
  const { authorization } = request.headers;
  if (principal) {
    checkPermitted(context, action, of === "server" ? server : undefined);
    // A header is sent by whoever means to; a cookie is sent by itself.
    if (authorization === undefined) checkWritingPage(request);
    checkTyped(principal, power);
    return;
  }
  if (authorization !== undefined) throw new BerthError("unauthorized", "send Authorization: Bearer <token>");
  checkWritingPage(request);
  checkPeer(request, action);
}

/** True for a reader of a page who may also change it, and may see what is for nobody else. */
export function mayChange({ request, principal }: RequestContext, power: Power, server: string): boolean {
  const { action, of } = RIGHTS[power];
  return principal
    ? principal.permits(action, of === "server" ? server : undefined)
    : whyOutside(request) === undefined;
}

/** What a proxy hands on may come from anywhere, though the proxy itself sits at this machine. */
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
