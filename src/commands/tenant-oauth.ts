import { readTenantOauth } from "../access/oauth/tenant-settings.ts";
import { BerthError } from "../lib/errors.ts";
import type { JsonObject } from "../lib/json.ts";
import type { Tenant } from "../store/store.ts";
import { withTenants, type TenantOptions } from "./tenant.ts";

/**
 * `berth tenant oauth NAME [SETTING=VALUE…]`: sets whose access tokens a tenant accepts, or shows it without settings.
 */
export function setTenantOauth(name: string, texts: readonly string[], options: TenantOptions): Promise<number> {
  return withTenants(options, async (tenants) => {
    const tenant = await tenants.find(name);
    if (!tenant) throw new BerthError("tenant_not_found", `"${name}"`);
    const oauth = readTenantOauth(tenant.oauth, texts);
    if (texts.length > 0) {
      checkOwnAudience(name, oauth, await tenants.list());
      await tenants.change(name, { by: "command", oauth });
    }
    if (!oauth) console.error(`The tenant ${name} takes no access tokens of an authorization server of its own.`);
    for (const [setting, value] of Object.entries(oauth ?? {})) {
      console.log(`${setting}  ${typeof value === "string" ? value : JSON.stringify(value)}`);
    }
    return 0;
  });
}

/** With the same issuer and audience, a token would be valid for two tenants. */
function checkOwnAudience(name: string, oauth: JsonObject | null, tenants: readonly Tenant[]): void {
  const { issuer, audience } = oauth ?? {};
  if (audience === undefined) return;
  const same = tenants.find(
    (other) => other.name !== name && other.oauth?.["issuer"] === issuer && other.oauth?.["audience"] === audience,
  );
  if (!same) return;
  const why = `tokens of this issuer for ${JSON.stringify(audience)} are those of "${same.name}" already; each needs an audience of its own`;
  throw new BerthError("tenant_invalid", why);
}
