import { hash, timingSafeEqual } from "node:crypto";
import { BerthError } from "../lib/errors.ts";
import type { Log } from "../lib/log.ts";
import type { Limits } from "../limits/limits.ts";
import type { Tenants, TokenRecords } from "../store/store.ts";
import { AccessTokens, type RequestedResource } from "./oauth/access-tokens.ts";
import type { OauthSettings } from "./oauth/settings.ts";
import { createPrincipal, type Principal } from "./principal.ts";
import { isTokenText } from "./token-text.ts";
import { Tokens } from "./tokens.ts";

/** Authentication and authorization: finds the principal of any token. */
export interface Access {
  /** True when requests without a token are refused. */
  readonly required: boolean;
  /** True when callers that need no token may start programs. */
  readonly openPrograms: boolean;
  readonly tokens: Tokens;
  /** The authorization server of a tenant; undefined if it has none. */
  oauth(tenant: string): OauthSettings | undefined;
  /**
   * The principal of a token; synchronous if it is cached. `requested` is called only for tokens of authorization
   * servers, and returns undefined if none of them is accepted. Throws or rejects with `unauthorized` or
   * `issuer_unavailable`.
   */
  principalOf(
    token: string,
    tenant: string,
    requested: () => RequestedResource | undefined,
  ): Principal | Promise<Principal>;
  /** The tenant's authorization server may have changed: tokens of the former one are no longer valid. */
  oauthChanged(tenant: string): void;
  /** Calls `listener` with the id of each revoked principal. Returns a function that removes the listener. */
  onRevoked(listener: (principalId: string) => void): () => void;
  close(): Promise<void>;
}

export interface AccessOptions {
  readonly tokens: TokenRecords;
  /** A tenant's tokens are deleted with it. */
  readonly tenants: Pick<Tenants, "onChange">;
  readonly required: boolean;
  readonly openPrograms: boolean;
  /** A secret that is valid for everything in all tenants. */
  readonly adminToken: string | undefined;
  readonly oauth: (tenant: string) => OauthSettings | undefined;
  /** For issuers other than the operator's own: reaches only permitted addresses. */
  readonly checkedFetch: typeof fetch;
  readonly limits: Pick<Limits, "databaseOutageMs">;
  /** Throws if a tenant creates tokens too often. */
  readonly checkTokenPace?: (tenant: string) => void;
  /** The clock by which tokens expire; by default that of the process. */
  readonly now?: () => number;
  readonly log: Pick<Log, "warn">;
}

export function openAccess(options: AccessOptions): Access {
  const { tenants, required, openPrograms, adminToken, oauth, limits } = options;
  const listeners = new Set<(principalId: string) => void>();
  const onRevoked = (principalId: string): void => {
    for (const listener of listeners) listener(principalId);
  };
  const tokens = new Tokens(options.tokens, {
    ...limits,
    checkPace: options.checkTokenPace,
    now: options.now,
    onRevoked,
  });
  const stop = tenants.onChange((tenant) => tokens.forgetTenant(tenant));
  const accessTokens = new AccessTokens(options, options.now);
  const operators = new Map<string, Principal>();
  const adminHash = adminToken === undefined ? undefined : digest(adminToken);

  const operatorFor = (tenant: string): Principal => {
    let operator = operators.get(tenant);
    if (!operator) {
      operator = createPrincipal({ id: OPERATOR_ID, tenant }, [{ can: ["admin"] }]);
      operators.set(tenant, operator);
    }
    return operator;
  };

  return {
    required,
    openPrograms,
    tokens,
    oauth,

    principalOf(token, tenant, requested) {
      if (isTokenText(token)) return tokens.principalOf(token, tenant);
      // Digests have equal length for any input, so that the time reveals nothing.
      if (adminHash && timingSafeEqual(digest(token), adminHash)) return operatorFor(tenant);
      const settings = JWT.test(token) ? oauth(tenant) : undefined;
      const resource = settings && requested();
      if (settings && !resource) throw new BerthError("unauthorized", NO_RESOURCE);
      if (settings && resource) return accessTokens.principalOf(token, resource, settings);
      return tokens.principalOf(token, tenant);
    },

    oauthChanged(tenant) {
      for (const id of accessTokens.forget(tenant, oauth(tenant))) onRevoked(id);
    },

    onRevoked(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },

    async close() {
      stop();
      tokens.close();
    },
  };
}

/** The operator, who set the token in the environment. */
const OPERATOR_ID = "operator";
const NO_RESOURCE =
  "an access token is bound to an address, and this Berth has no secure one: set BERTH_PUBLIC_URL to its https URL";
const JWT = /^[\w-]+\.[\w-]+\.[\w-]*$/;

function digest(token: string): Buffer {
  return hash("sha256", token, "buffer");
}
