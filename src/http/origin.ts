import type { IncomingMessage } from "node:http";
import { isLoopback } from "../config.ts";
import { hostnameOf } from "./hostname.ts";

/** Scheme and host of a request as its sender wrote them; the guard has judged the host. */
export type OriginOf = (request: IncomingMessage) => string;

/**
 * What a proxy says about its clients is believed only where one is configured: with `publicUrl`. That is the origin of
 * requests to its host, and of those that a proxy sends on to a loopback name; any other host is that of a request,
 * with the scheme that the proxy tells.
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
