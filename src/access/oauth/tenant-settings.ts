import { BerthError } from "../../lib/errors.ts";
import type { JsonObject } from "../../lib/json.ts";
import { readOauthSettings, type OauthSettings } from "./settings.ts";

/**
 * The authorization server in a tenant's record: parses what a person wrote into plain data, and plain data into
 * settings. Only the operator may write it.
 */

const NAMES = ["issuer", "audience", "scopes"] as const;

/**
 * Applies settings that a person wrote as `name=value` to the earlier ones; a name without a value is removed, and
 * removing the issuer returns null. Throws `tenant_invalid` with all problems.
 */
export function readTenantOauth(before: JsonObject | null, texts: readonly string[]): JsonObject | null {
  const settings: JsonObject = { ...before };
  const problems: string[] = [];
  for (const text of texts) {
    const [, name = "", value = ""] = /^([^=]*)=?(.*)$/s.exec(text) ?? [];
    if (!(NAMES as readonly string[]).includes(name)) {
      problems.push(`there is no setting "${name}"; there are ${NAMES.join(", ")}`);
    } else if (value === "") {
      delete settings[name];
    } else if (name === "scopes") {
      try {
        settings[name] = JSON.parse(value);
      } catch (error) {
        problems.push(`the scopes are not JSON: ${(error as Error).message}`);
      }
    } else {
      settings[name] = value;
    }
  }
  const isRemoved = settings["issuer"] === undefined && texts.includes("issuer=");
  if (!isRemoved && Object.keys(settings).length > 0) problems.push(...readOauthSettings(settings).problems);
  if (problems.length > 0) throw new BerthError("tenant_invalid", problems.join("; "));
  return isRemoved || Object.keys(settings).length === 0 ? null : settings;
}

/** The settings in a tenant's record: the same result for the same object. Undefined if absent or invalid. */
export function readTenantRecord(stored: JsonObject | undefined): OauthSettings | undefined {
  if (!stored) return undefined;
  let settings = cache.get(stored);
  if (settings === undefined) cache.set(stored, (settings = readOauthSettings(stored).settings ?? null));
  return settings ?? undefined;
}

/** Cached, because each request with an access token needs it. */
const cache = new WeakMap<JsonObject, OauthSettings | null>();
