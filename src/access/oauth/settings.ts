import { isLoopback, type Config } from "../../config.ts";
import { BerthError } from "../../lib/errors.ts";
import { isObject } from "../../lib/json.ts";
import { ACTIONS, type Action, type AccessGrant } from "../principal.ts";

/** The authorization server whose tokens a tenant accepts. This folder is only the resource server of OAuth 2.1. */
export interface OauthSettings {
  /** The issuer, exactly as it names itself. */
  readonly issuer: string;
  /** An audience that represents all servers of the tenant, for issuers that do not support resources (RFC 8707). */
  readonly audience?: string;
  /** The grant of each scope; by default `mcp:call`, `mcp:read`, `mcp:edit`, `mcp:admin`, and `mcp:call:<server>`. */
  readonly scopes?: Readonly<Record<string, AccessGrant>>;
  /** Set if it is configured for the service itself: such an issuer may be anywhere, even in a private network. */
  readonly isOperators?: true;
}

/** The settings from the service's configuration; undefined if there are none. Throws `config_invalid`. */
export function readConfiguredOauth({ oauth, publicUrl, host, allowedHosts }: OauthConfig): OauthSettings | undefined {
  const { issuer, audience, scopes } = oauth;
  if (issuer === undefined && audience === undefined && scopes === undefined) return undefined;
  let mapped: unknown;
  try {
    mapped = scopes === undefined ? undefined : JSON.parse(scopes);
  } catch (error) {
    throw new BerthError("config_invalid", `BERTH_OAUTH_SCOPES is not JSON: ${(error as Error).message}`);
  }
  const value = {
    issuer,
    ...(audience !== undefined && { audience }),
    ...(mapped !== undefined && { scopes: mapped }),
  };
  const { settings, problems } = readOauthSettings(value);
  if (publicUrl === undefined && (!isLoopback(host) || allowedHosts.length > 0)) {
    problems.push("access tokens are bound to an address, so set BERTH_PUBLIC_URL to this service's");
  }
  if (publicUrl !== undefined && !isTrustworthy(new URL(publicUrl))) {
    problems.push("tokens must not be sent over plain HTTP, so BERTH_PUBLIC_URL must be an https URL");
  }
  if (settings && problems.length === 0) return { ...settings, isOperators: true };
  throw new BerthError("config_invalid", `BERTH_OAUTH_ISSUER, _AUDIENCE and _SCOPES: ${problems.join("; ")}`);
}

export type OauthConfig = Pick<Config, "oauth" | "publicUrl" | "host" | "allowedHosts">;

/** Parses settings from plain data and returns all problems. */
export function readOauthSettings(value: unknown): { settings?: OauthSettings; problems: string[] } {
  if (!isObject(value)) return { problems: ["it must be an object"] };
  const { issuer, audience, scopes } = value;
  const problems = Object.keys(value).flatMap((key) =>
    key === "issuer" || key === "audience" || key === "scopes" ? [] : [`there is no setting "${key}"`],
  );
  if (typeof issuer !== "string") problems.push("the issuer must be a URL");
  else problems.push(...checkIssuer(issuer));
  if (audience !== undefined && (typeof audience !== "string" || audience === "")) {
    problems.push("the audience must be a string");
  }
  if (scopes !== undefined) problems.push(...checkScopes(scopes));
  return problems.length > 0 ? { problems } : { settings: value as unknown as OauthSettings, problems };
}

/** Keys from a connection that anyone can tamper with would prove nothing, and tokens on it would be exposed. */
export function isTrustworthy(url: URL): boolean {
  const hostname = url.hostname.replace(/^\[|\]$/g, "");
  return url.protocol === "https:" || (url.protocol === "http:" && isLoopback(hostname));
}

function checkIssuer(issuer: string): string[] {
  const url = URL.canParse(issuer) ? new URL(issuer) : undefined;
  if (!url || /[?#]/.test(issuer) || url.username !== "" || url.password !== "") {
    return [`the issuer must be a URL without a query and a fragment, not "${issuer}"`];
  }
  return isTrustworthy(url) ? [] : [`the issuer must be an https URL, or an address of this machine, not "${issuer}"`];
}

/** A scope by RFC 6749, section 3.3. */
const SCOPE = /^[\x21\x23-\x5b\x5d-\x7e]{1,200}$/;

function checkScopes(scopes: unknown): string[] {
  if (!isObject(scopes) || Object.keys(scopes).length === 0) {
    return ['the scopes must be an object: {"scope": {"can": ["call"], "servers": ["echo"]}}'];
  }
  return Object.entries(scopes).flatMap(([scope, grant]) => {
    if (!SCOPE.test(scope)) return [`"${scope}" is not a scope`];
    const { can, servers, tools, ...rest } = isObject(grant) ? grant : {};
    const isValid =
      isNames(can) &&
      can.every((each) => ACTIONS.includes(each as Action)) &&
      (servers === undefined || isNames(servers)) &&
      (tools === undefined || isNames(tools)) &&
      Object.keys(rest).length === 0;
    return isValid
      ? []
      : [`the scope "${scope}" must say what it permits: "can", a list of ${ACTIONS.join(", ")}; "servers"; "tools"`];
  });
}

function isNames(value: unknown): value is string[] {
  return Array.isArray(value) && value.length > 0 && value.every((each) => typeof each === "string" && each !== "");
}
