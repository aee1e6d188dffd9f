import type { IncomingMessage } from "node:http";
import { BerthError } from "../../lib/errors.ts";

/**
 * Tells by headers that no page can forge if a request comes from a page of this service. Browsers also send a cookie
 * with requests from pages at other ports of the same host, so an Origin must match exactly.
 */
export function isOwnPage({ headers }: IncomingMessage): boolean {
  const { origin, host } = headers;
  const site = headers["sec-fetch-site"];
  if (site !== undefined && site !== "same-origin" && site !== "none") return false;
  return origin === undefined || isOriginOf(origin, host);
}

/**
 * A page may write only to the service that it came from; a plain form, too, has to state its origin. Throws
 * `write_forbidden`.
 */
export function checkWritingPage({ headers }: IncomingMessage): void {
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
    throw new BerthError("write_forbidden", "a browser must send Origin");
  }
}

const FORM = /^(?:application\/x-www-form-urlencoded|multipart\/form-data)\b/i;

/** True when `origin` is this service's own, by the host name that the request uses. */
export function isOriginOf(origin: string, host: string | undefined): boolean {
  if (origin === `http://${host}`) return true;
  try {
    const url = new URL(origin);
    // Clients leave out the default port; `new URL` drops it from both.
    return url.origin === origin && url.host === new URL(`${url.protocol}//${host}`).host;
  } catch {
    return false;
  }
}
