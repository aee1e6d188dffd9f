import type { IncomingMessage } from "node:http";
import { isLoopback } from "../config.ts";
import { hostnameOf } from "./hostname.ts";

/** The scheme and host of a request as its sender wrote them; the guard has checked the host. */
export type OriginOf = (request: IncomingMessage) => string;

/**
 * Trusts a proxy's word on its clients only when one is configured, by `publicUrl`. This is the origin of requests to
 * its host, and of those that a proxy forwards to a loopback name; every other request has its own host, with the
 * scheme that the proxy states.
 */
export function createOriginOf(publicUrl: string | undefined): OriginOf {
  if (publicUrl === undefined) return ({ headers }) => `http://${headers.host}`;
  const { host: publicHost } = new URL(publicUrl);
  return ({ headers }) => {
    const { host = "", "x-forwarded-proto": forwarded } = headers;
    const isPublic = host === publicHost || (forwarded !== undefined && isLoopback(hostnameOf(`http://${host}`)));
    if (isPublic) return publicUrl;
    return `${forwarded === "https" ? "https" : "http"}://${host}`;
  };
}
