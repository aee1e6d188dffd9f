import type { IncomingMessage } from "node:http";
import type { RequestHandler } from "express";
import type { Access } from "../../access/access.ts";
import type { RequestedResource } from "../../access/oauth/access-tokens.ts";
import { scopesFor } from "../../access/oauth/scopes.ts";
import { isTrustworthy } from "../../access/oauth/settings.ts";
import { isLoopback, type Config } from "../../config.ts";
import type { Tenancy } from "../../host/serving/tenancy.ts";
import { BerthError } from "../../lib/errors.ts";
import { DEFAULT_TENANT, isTenantName } from "../../lib/tenant-name.ts";
import { hostnameOf } from "../hostname.ts";
import { MCP_PATH } from "../mcp-path.ts";
import { plainAddress } from "../peer.ts";
import type { RequestContext } from "../request-context.ts";
import type { RouteHandler } from "../routed.ts";

/**
 * The names of the resources here (RFC 8707): the addresses of the MCP endpoints, and `…/mcp` for all servers of a
 * tenant. They derive from the configuration, never from an unchecked Host header: a client that could choose the name
 * could use a token here that was issued for another service.
 */
export interface Resources {
  /** The resource that a request is for; undefined when this service cannot know its own name. */
  of(context: RequestContext): RequestedResource | undefined;
  /** The metadata address of a resource (RFC 9728, section 3.1). */
  metadataOf(resource: string): string;
  /** The origin of this service, as `of` uses it. */
  originOf(request: IncomingMessage): string | undefined;
  /** The path in front of all of Berth's at its public address; empty for none. */
  readonly publicPath: string;
}

export const WELL_KNOWN = "/.well-known/oauth-protected-resource";

export function createResources(
  { publicUrl, publicPath, allowedHosts }: Pick<Config, "publicUrl" | "publicPath" | "allowedHosts">,
  tenancy: Pick<Tenancy, "findByHost">,
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
      const isOwn = isHere && isLoopback(hostname) && Number(/:(\d+)$/.exec(host)?.[1] ?? 80) === localPort;
      return isOwn ? `http://${host.toLowerCase()}` : undefined;
    }
    // The operator has mapped this name to a tenant, and people know it.
    if (tenancy.findByHost(hostname) !== undefined) return mapped(publicUrl, hostname);
    return publicUrl;
  };

  return {
    originOf,
    publicPath,
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
      const [, , end = ""] = MCP_PATH.exec(request.url ?? "") ?? [];
      const otherEnd = end === "" ? "/mcp" : "";
      const namesOf = (name: string): [string, string] => {
        const address = `${whole}/${wordOf(name)}`;
        return [address + end, address + otherEnd];
      };
      // A release is the same resource as its server; its own address is valid, too.
      const plain = server.replace(/(?!^)@[^@]*$/, "");
      const release = plain === server ? [] : namesOf(server);
      return { tenant, server: plain, resources: [...namesOf(plain), ...release], whole };
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

/** Decodes a word of an address; undefined when it is not well percent-encoded. */
function decoded(word: string): string | undefined {
  try {
    return decodeURIComponent(word);
  } catch {
    return undefined;
  }
}

/** An optional `/t/<tenant>`, `/mcp`, and an optional server, whose address has two ends. */
const RESOURCE = /^(?:\/t\/([^/]+))?\/mcp(?:\/(?!meta\/mcp)([^/]+)(?:\/mcp)?)?$/;
const MAX_AGE_S = 300;

/**
 * `GET /.well-known/oauth-protected-resource/mcp/<server>`, `…/t/<tenant>/mcp/<server>`, both with one more `/mcp`, and
 * the same without a server:
 * names the authorization server that issues tokens for that endpoint (RFC 9728). The answer is public and does not
 * tell if the server exists; it does tell that a tenant with an authorization server exists.
 */
export function protectedResource(access: Access, resources: Resources, tenancy: Pick<Tenancy, "admit">): RouteHandler {
  return async (context) => {
    const { request, response, refusal } = context;
    const { publicPath } = resources;
    const whole = request.path.slice(WELL_KNOWN.length);
    const path = whole.startsWith(`${publicPath}/`) ? whole.slice(publicPath.length) : whole;
    const [found, named, word] = RESOURCE.exec(path) ?? [];
    const own = context.claimed.tenant;
    const isForeign = named !== undefined && (!isTenantName(named) || own !== DEFAULT_TENANT);
    const server = word === undefined ? undefined : decoded(word);
    const isNone =
      refusal !== undefined || found === undefined || isForeign || (word !== undefined && server === undefined);
    // The settings of a tenant are known once it is served.
    const isServed = !isNone && (named === undefined || (await isAdmitted(named, tenancy)));
    const settings = isServed ? access.oauth(named ?? own) : undefined;
    const origin = settings && resources.originOf(request);
    if (!settings || origin === undefined) throw new BerthError("not_found", request.path);
    response.setHeader("Cache-Control", `public, max-age=${MAX_AGE_S}`);
    response.json({
      resource: `${origin}${publicPath}${path}`,
      authorization_servers: [settings.issuer],
      scopes_supported: scopesFor(["read", "call"], server, settings),
      bearer_methods_supported: ["header"],
      resource_name: server === undefined ? "Berth" : `Berth: ${server}`,
    });
  };
}

async function isAdmitted(tenant: string, tenancy: Pick<Tenancy, "admit">): Promise<boolean> {
  try {
    await tenancy.admit(tenant);
    return true;
  } catch (error) {
    if (error instanceof BerthError && error.status < 500) return false;
    throw error;
  }
}

/**
 * The paths at which clients look for an authorization server on the host itself (RFC 8414, and the fallbacks of
 * revision 2025-03-26). Berth is not one; a client that was asked for a token here would see a failing authorization
 * server.
 */
export const AUTHORIZATION_SERVER = ["/.well-known/*path", "/authorize", "/token", "/register"];

export const noAuthorizationServer: RequestHandler = (request) => {
  const what = "Berth issues no tokens here; send one made by `berth token create`, as Authorization: Bearer <token>";
  throw new BerthError("not_found", `${request.path}: ${what}`);
};
