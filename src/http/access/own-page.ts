import type { IncomingMessage } from "node:http";
import { BerthError } from "../../lib/errors.ts";

/**
 * What browsers say of the page that a request comes from, which no page can forge. A cookie is sent with requests of
 * pages at other ports of the same host, too, so that a browser's word for the very origin is needed besides.
 */
export function isOwnPage({ headers }: IncomingMessage): boolean {
  const { origin, host } = headers;
  const site = headers["sec-fetch-site"];
  if (site !== undefined && site !== "same-origin" && site !== "none") return false;
  return origin === undefined || isOriginOf(origin, host);
}

/**
 * A page writes only to the service that it came from; a form without script has to say where it came from, too.
 * Throws `write_forbidden`.
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
    throw new BerthError("write_forbidden", "a browser has to say by Origin which page it comes from");
  }
}

const FORM = /^(?:application\/x-www-form-urlencoded|multipart\/form-data)\b/i;

/** Whether a page of that origin is one of this very service, as it is called by a request. */
export function isOriginOf(origin: string, host: string | undefined): boolean {
  if (origin === `http://${host}`) return true;
  try {
    const url = new URL(origin);
    // The default port is written by nobody; `new URL` leaves it out of both.
    return url.origin === origin && url.host === new URL(`${url.protocol}//${host}`).host;
  } catch {
    return false;
  }
}
