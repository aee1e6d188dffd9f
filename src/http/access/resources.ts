import type { IncomingMessage } from "node:http";
import type { AskedResource } from "../../access/oauth/access-tokens.ts";
import { isTrustworthy } from "../../access/oauth/settings.ts";
import { isLoopback } from "../../config.ts";
import type { Tenancy } from "../../host/serving/tenancy.ts";
import { hostnameOf } from "../hostname.ts";
import { plainAddress } from "../peer.ts";
import type { RequestContext } from "../request-context.ts";

/**
 * The names of the resources here (RFC 8707): the addresses of the MCP endpoints, and `…/mcp` for all servers of a
 * tenant. They derive from the configuration, never from an unchecked Host header: a client that could choose the name
 * could use a token here that was issued for another service.
 */
export interface Resources {
  /** The resource that a request is for; undefined when this service cannot know its own name. */
  of(context: RequestContext): AskedResource | undefined;
  /** The metadata address of a resource (RFC 9728, section 3.1). */
  metadataOf(resource: string): string;
  /** The origin of this service, as `of` uses it. */
  originOf(request: IncomingMessage): string | undefined;
}

export const WELL_KNOWN = "/.well-known/oauth-protected-resource";

export function createResources(
  { publicUrl, allowedHosts }: { readonly publicUrl: string | undefined; readonly allowedHosts: readonly string[] },
  tenancy: Pick<Tenancy, "ofHost">,
): Resources {
  const isSafe = publicUrl === undefined || isTrustworthy(new URL(publicUrl));
  const originOf = (request: IncomingMessage): string | undefined => {
    if (!isSafe) return undefined;
    const { host = "" } = request.headers;
    const hostname = hostnameOf(`http://${host}`);
    if (publicUrl === undefined) {
      // Tokens of another Berth on this machine do not count here; and where other machines send requests, a loopback
      // name identifies nothing, since each machine has its own.
      const { localAddress, localPort } = request.socket;
      const isHere = allowedHosts.length === 0 && isLoopback(plainAddress(localAddress));
      const isOwn = isHere && isLoopback(hostname) && portOf(host) === localPort;
      return isOwn ? `http://${host.toLowerCase()}` : undefined;
    }
    // The operator has mapped this name to a tenant, and people know it.
    if (tenancy.ofHost(hostname) !== undefined) return mapped(publicUrl, hostname);
    return publicUrl;
  };

  return {
    originOf,
    of(context) {
      const { request } = context;
      const origin = originOf(request);
      if (origin === undefined) return undefined;
      const { tenant, base } = context.place;
      const whole = `${origin}${base}/mcp`;
      const word = /^\/(?:mcp(?:\/meta)?|servers|api\/(?:servers|definitions|entries))\/([^/?]+)/.exec(
        request.url ?? "",
      )?.[1];
      const server = word === undefined || word === "meta" ? undefined : decoded(word);
      if (server === undefined) return { tenant, server, resources: [whole], whole };
      // A release is the same resource as its server; its own address is valid, too.
      const plain = server.replace(/(?!^)@[^@]*$/, "");
      const release = plain === server ? [] : [`${whole}/${wordOf(server)}`];
      return { tenant, server: plain, resources: [`${whole}/${wordOf(plain)}`, ...release], whole };
    },
    metadataOf(resource) {
      const { origin, pathname } = new URL(resource);
      return `${origin}${WELL_KNOWN}${pathname}`;
    },
  };
}

/** Encodes the name of a server for an address. */
function wordOf(name: string): string {
  return encodeURIComponent(name).replaceAll("%40", "@");
}

/** The origin of `publicUrl`, with another host name. */
function mapped(publicUrl: string, hostname: string): string {
  const { protocol, port } = new URL(publicUrl);
  return `${protocol}//${hostname}${port === "" ? "" : `:${port}`}`;
}

function portOf(host: string): number {
  return Number(/:(\d+)$/.exec(host)?.[1] ?? 80);
}

/** Decodes a word of an address; undefined when it is not well percent-encoded. */
export function decoded(word: string): string | undefined {
  try {
    return decodeURIComponent(word);
  } catch {
    return undefined;
  }
}
