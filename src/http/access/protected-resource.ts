import type { RequestHandler } from "express";
import type { Access } from "../../access/access.ts";
import { scopesFor } from "../../access/oauth/scopes.ts";
import { BerthError } from "../../errors.ts";
import { DEFAULT_TENANT, isTenantName } from "../../tenant-name.ts";
import { placeOf } from "../place.ts";
import { decoded, WELL_KNOWN, type Resources } from "./resources.ts";

/** `/t/<tenant>` or nothing, `/mcp`, and maybe a server. */
const RESOURCE = /^(?:\/t\/([^/]+))?\/mcp(?:\/([^/]+))?$/;
const MAX_AGE_S = 300;

/**
 * `GET /.well-known/oauth-protected-resource/mcp/<server>`, `…/t/<tenant>/mcp/<server>` and the same without a server:
 * which authorization server makes tokens for that endpoint (RFC 9728). It is told to everybody, and says nothing of
 * whether there is such a server.
 */
export function protectedResource(access: Access, resources: Resources): RequestHandler {
  return (request, response) => {
    const path = request.path.slice(WELL_KNOWN.length);
    const [found, named, word] = RESOURCE.exec(path) ?? [];
    const { tenant: own } = placeOf(request);
    const isForeign = named !== undefined && (!isTenantName(named) || own !== DEFAULT_TENANT);
    const server = word === undefined ? undefined : decoded(word);
    const isNone = found === undefined || isForeign || (word !== undefined && server === undefined);
    const settings = isNone ? undefined : access.oauth(named ?? own);
    const origin = settings && resources.originOf(request);
    if (!settings || origin === undefined) throw new BerthError("not_found", request.path);
    response.setHeader("Cache-Control", `public, max-age=${MAX_AGE_S}`);
    response.json({
      resource: `${origin}${path}`,
      authorization_servers: [settings.issuer],
      scopes_supported: scopesFor(["read", "call"], server, settings),
      bearer_methods_supported: ["header"],
      resource_name: server === undefined ? "Berth" : `Berth: ${server}`,
    });
  };
}
