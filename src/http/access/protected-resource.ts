import type { Access } from "../../access/access.ts";
import { scopesFor } from "../../access/oauth/scopes.ts";
import { BerthError } from "../../lib/errors.ts";
import type { Tenancy } from "../../host/serving/tenancy.ts";
import { DEFAULT_TENANT, isTenantName } from "../../lib/tenant-name.ts";
import type { RouteHandler } from "../routed.ts";
import { decoded, WELL_KNOWN, type Resources } from "./resources.ts";

/** An optional `/t/<tenant>`, `/mcp`, and an optional server. */
const RESOURCE = /^(?:\/t\/([^/]+))?\/mcp(?:\/([^/]+))?$/;
const MAX_AGE_S = 300;

/**
 * `GET /.well-known/oauth-protected-resource/mcp/<server>`, `…/t/<tenant>/mcp/<server>` and the same without a server:
 * names the authorization server that issues tokens for that endpoint (RFC 9728). The answer is public and does not
 * tell if the server exists; it does tell that a tenant with an authorization server exists.
 */
export function protectedResource(access: Access, resources: Resources, tenancy: Pick<Tenancy, "admit">): RouteHandler {
  return async (context) => {
    const { request, response, refusal } = context;
    const path = request.path.slice(WELL_KNOWN.length);
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
      resource: `${origin}${path}`,
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
