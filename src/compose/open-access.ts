import { openAccess, type Access } from "../access/access.ts";
import { readConfiguredOauth } from "../access/oauth/settings.ts";
import { readTenantRecord } from "../access/oauth/tenant-settings.ts";
import type { Config } from "../config.ts";
import { BerthError } from "../lib/errors.ts";
import type { JsonObject } from "../lib/json.ts";
import type { Log } from "../lib/log.ts";
import type { SharedLimits } from "../lib/shared-limits.ts";
import { DEFAULT_TENANT } from "../lib/tenant-name.ts";
import { createRateLimiter } from "../lib/token-buckets.ts";
import type { TenantLimits } from "../limits/limits.ts";
import { parseAddresses, type AllowedHost } from "../network/allow-list.ts";
import { openPublicFetch } from "../network/public-fetch.ts";
import type { Store } from "../store/store.ts";

interface AccessParts {
  readonly store: Pick<Store, "tokens" | "tenants" | "now">;
  /** A tenant's own settings; the tenant `default` also has those of the configuration. */
  readonly oauthOf: (tenant: string) => JsonObject | undefined;
  readonly limitsOf: (tenant: string) => TenantLimits;
  readonly sharedLimits: SharedLimits;
  readonly log: Log;
}

/** The access rules of a service. Throws `config_invalid`. */
export function accessOf(config: Config, { store, oauthOf, limitsOf, sharedLimits, log }: AccessParts): Access {
  const { limits, adminToken } = config;
  const configured = readConfiguredOauth(config);
  return openAccess({
    now: () => store.now(),
    tokens: store.tokens,
    tenants: store.tenants,
    required: config.access === "required",
    openPrograms: config.upstreamPrograms,
    adminToken,
    oauth: (tenant) => readTenantRecord(oauthOf(tenant)) ?? (tenant === DEFAULT_TENANT ? configured : undefined),
    checkedFetch: openPublicFetch(privateIssuers(config)),
    limits,
    checkTokenPace: createRateLimiter(
      "make tokens",
      "savesPerMinute",
      (tenant) => limitsOf(tenant).savesPerMinute,
      sharedLimits,
    ),
    log,
  });
}

function privateIssuers({ oauth: { privateIssuers: text } }: Config): readonly AllowedHost[] {
  const addresses = text === undefined ? [] : parseAddresses(text);
  if (typeof addresses === "string")
    throw new BerthError("config_invalid", `BERTH_OAUTH_PRIVATE_ISSUERS: ${addresses}`);
  return addresses;
}
