import { BerthError } from "../../lib/errors.ts";
import type { JsonObject } from "../../lib/json.ts";
import { readOauthSettings, type OauthSettings } from "./settings.ts";

/**
 * The authorization server of one tenant, as it stands in the tenant's record: what a person writes becomes plain data,
 * and plain data becomes settings. Who may write it is whoever runs the service.
 */

const NAMES = ["issuer", "audience", "scopes"] as const;

/**
 * Settings as a person writes them, each `name=value`, on top of what there was; a name without a value is set no more,
 * and without an issuer there is none of it: null. Throws `tenant_invalid` with every problem at once.
 */
export function readTenantOauth(before: JsonObject | null, texts: readonly string[]): JsonObject | null {
  const wanted: JsonObject = { ...before };
  const problems: string[] = [];
  for (const text of texts) {
    const [, name = "", value = ""] = /^([^=]*)=?(.*)$/s.exec(text) ?? [];
    if (!(NAMES as readonly string[]).includes(name)) {
      problems.push(`there is no setting "${name}"; there are ${NAMES.join(", ")}`);
    } else if (value === "") {
      delete wanted[name];
    } else if (name === "scopes") {
      try {
        wanted[name] = JSON.parse(value);
      } catch (error) {
        problems.push(`the scopes are not JSON: ${(error as Error).message}`);
      }
    } else {
      wanted[name] = value;
    }
  }
  const isEnded = wanted["issuer"] === undefined && texts.includes("issuer=");
  if (!isEnded && Object.keys(wanted).length > 0) problems.push(...readOauthSettings(wanted).problems);
  if (problems.length > 0) throw new BerthError("tenant_invalid", problems.join("; "));
  return isEnded || Object.keys(wanted).length === 0 ? null : wanted;
}

/** The settings in a tenant's record: the same for the same object. Undefined for none, and for what is not right. */
export function oauthOfTenant(stored: JsonObject | undefined): OauthSettings | undefined {
  if (!stored) return undefined;
  let settings = read.get(stored);
  if (settings === undefined) read.set(stored, (settings = readOauthSettings(stored).settings ?? null));
  return settings ?? undefined;
}

/** It is asked for with each request that shows an access token. */
const read = new WeakMap<JsonObject, OauthSettings | null>();
