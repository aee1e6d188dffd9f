import { createHash, timingSafeEqual } from "node:crypto";
import type { IncomingMessage } from "node:http";
import { isLoopback } from "../config.ts";
import { BerthError } from "../errors.ts";

/**
 * Who may change what is hosted: whoever has the administrator's token, and without it who sits at this machine, by
 * a program or by a page of this very service. What browsers say of a request's page cannot be forged by that page.
 * Throws `unauthorized` or `write_forbidden`; the token is in no message and no log.
 */
export function createWriteGuard({
  adminToken,
}: {
  adminToken: string | undefined;
}): (request: IncomingMessage) => void {
  const expected = adminToken === undefined ? undefined : digest(adminToken);

  return (request) => {
    const { authorization } = request.headers;
    if (authorization !== undefined) return checkToken(authorization, expected);
    checkPage(request);
    checkPeer(request, expected !== undefined);
  };
}

function checkToken(authorization: string, expected: Buffer | undefined): void {
  const given = /^Bearer +(\S+) *$/i.exec(authorization)?.[1];
  if (given === undefined) throw new BerthError("unauthorized", "send Authorization: Bearer <token>");
  if (!expected) throw new BerthError("unauthorized", "this Berth was started without BERTH_ADMIN_TOKEN");
  // Of equal length whatever was sent, so that the time tells nothing.
  if (!timingSafeEqual(digest(given), expected)) throw new BerthError("unauthorized", "it is another token");
}

function digest(token: string): Buffer {
  return createHash("sha256").update(token).digest();
}

/** A page writes only to the service that it came from; a form without script has to say where it came from, too. */
function checkPage({ headers }: IncomingMessage): void {
  const { origin, host, "content-type": type = "" } = headers;
  const site = headers["sec-fetch-site"];
  if (site !== undefined && site !== "same-origin" && site !== "none") {
    throw new BerthError("write_forbidden", `it comes from a page of another site (${site})`);
  }
  if (origin !== undefined) {
    if (!isOriginOf(origin, host)) throw new BerthError("write_forbidden", `it comes from a page of ${origin}`);
    return;
  }
  const isBrowser = site !== undefined || headers.cookie !== undefined || headers.referer !== undefined;
  if (isBrowser || FORM.test(type)) {
    throw new BerthError("write_forbidden", "a browser has to say by Origin which page it comes from");
  }
}

const FORM = /^(?:application\/x-www-form-urlencoded|multipart\/form-data)\b/i;

function isOriginOf(origin: string, host: string | undefined): boolean {
  try {
    const url = new URL(origin);
    // The default port is written by nobody; `new URL` leaves it out of both.
    return url.origin === origin && url.host === new URL(`${url.protocol}//${host}`).host;
  } catch {
    return false;
  }
}

/** What a proxy hands on may come from anywhere, though the proxy itself sits at this machine. */
function checkPeer({ headers, socket }: IncomingMessage, hasToken: boolean): void {
  const proxied = Object.keys(headers).find((name) => PROXIED.test(name));
  const address = socket.remoteAddress?.replace(/^::ffff:/i, "") ?? "";
  if (proxied === undefined && isLoopback(address)) return;
  const why = proxied === undefined ? "it comes from another machine" : `it comes through a proxy (${proxied})`;
  const remedy = hasToken ? "" : "; start Berth with BERTH_ADMIN_TOKEN to write from there";
  throw new BerthError("write_forbidden", `${why}, without the administrator's token${remedy}`);
}

const PROXIED = /^(?:forwarded|via|x-forwarded-.*|x-real-ip|x-client-ip|true-client-ip|cf-connecting-ip)$/;
