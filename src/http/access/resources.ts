import type { IncomingMessage } from "node:http";
import type { AskedResource } from "../../access/oauth/access-tokens.ts";
import { isTrustworthy } from "../../access/oauth/settings.ts";
import { isLoopback } from "../../config.ts";
import type { Tenancy } from "../../host/tenancy.ts";
import { hostnameOf } from "../hostname.ts";
import { plainAddress } from "../peer.ts";
import type { RequestContext } from "../request-context.ts";

/**
 * What the resources here are called (RFC 8707): the addresses of the MCP endpoints, and `…/mcp` for all servers of a
 * tenant. They are made of what is configured, never of what a request says of its host: whoever could choose the
 * name could use a token here that was made for somewhere else.
 */
export interface Resources {
  /** The resource that a request is for; undefined where this service cannot know its own name. */
  of(context: RequestContext): AskedResource | undefined;
  /** The address of the metadata of a resource (RFC 9728, section 3.1). */
  metadataOf(resource: string): string;
  /** The origin of this service, as `of` has it. */
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
      // Of another Berth of this machine the tokens are no business of this one; and where other machines send
      // requests, a name that each machine has for itself says nothing.
      const { localAddress, localPort } = request.socket;
      const isHere = allowedHosts.length === 0 && isLoopback(plainAddress(localAddress));
      const isOwn = isHere && isLoopback(hostname) && portOf(host) === localPort;
      return isOwn ? `http://${host.toLowerCase()}` : undefined;
    }
    // The operator has said whose name it is, and that people know it.
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
      // A release of a server is the same resource as the server; its own address is good, too.
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

/** A server's name as it stands in addresses. */
function wordOf(name: string): string {
  return encodeURIComponent(name).replaceAll("%40", "@");
}

/** As the service itself is reached, but for the name. */
function mapped(publicUrl: string, hostname: string): string {
  const { protocol, port } = new URL(publicUrl);
  return `${protocol}//${hostname}${port === "" ? "" : `:${port}`}`;
}

function portOf(host: string): number {
  return Number(/:(\d+)$/.exec(host)?.[1] ?? 80);
}

/** Undefined for a word of an address that is not well percent-encoded. */
export function decoded(word: string): string | undefined {
  try {
    return decodeURIComponent(word);
  } catch {
    return undefined;
  }
}
