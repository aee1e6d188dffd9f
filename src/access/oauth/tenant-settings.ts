import { BerthError } from "../../lib/errors.ts";
import type { JsonObject } from "../../lib/json.ts";
import { readOauthSettings, type OauthSettings } from "./settings.ts";

/**
 * The authorization server in a tenant's record: a person's text becomes plain data, and plain data becomes settings.
 * Only the operator may write it.
 */

const NAMES = ["issuer", "audience", "scopes"] as const;

/**
 * Applies settings that a person wrote, each `name=value`, to the earlier ones; a name without a value is removed, and
 * removing the issuer gives null. Throws `tenant_invalid` with every problem at once.
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

/** The settings in a tenant's record: the same result for the same object. Undefined for none, and for invalid ones. */
export function oauthOfTenant(stored: JsonObject | undefined): OauthSettings | undefined {
  if (!stored) return undefined;
  let settings = read.get(stored);
  if (settings === undefined) read.set(stored, (settings = readOauthSettings(stored).settings ?? null));
  return settings ?? undefined;
}

/** Cached, because each request with an access token asks for it. */
const read = new WeakMap<JsonObject, OauthSettings | null>();
