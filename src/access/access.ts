import { hash, timingSafeEqual } from "node:crypto";
import { BerthError } from "../lib/errors.ts";
import type { Log } from "../lib/log.ts";
import type { Tenants } from "../store/tenants.ts";
import type { TokenRecords } from "../store/tokens.ts";
import { AccessTokens, type AccessTokenLimits, type AskedResource } from "./oauth/access-tokens.ts";
import type { OauthSettings } from "./oauth/settings.ts";
import { createPrincipal, type Principal } from "./principal.ts";
import { isTokenText } from "./token-text.ts";
import { Tokens, type TokenLimits } from "./tokens.ts";

/** Who may do what here, in one place: it finds the principal of whatever token somebody shows. */
export interface Access {
  /** Whether whoever has no token is refused. */
  readonly required: boolean;
  /** Whether who is asked for no token may start programs. */
  readonly openPrograms: boolean;
  readonly tokens: Tokens;
  /** The authorization server of a tenant; undefined for one that has none. */
  oauth(tenant: string): OauthSettings | undefined;
  /**
   * Whose token this is; at once when it is known. `asked` is called for tokens of authorization servers alone, and
   * gives undefined where none of them is taken. Throws or rejects with `unauthorized`, or `issuer_unavailable`.
   */
  principalOf(token: string, tenant: string, asked: () => AskedResource | undefined): Principal | Promise<Principal>;
  /** The tenant may have another authorization server now: what the former one has said counts no more. */
  oauthChanged(tenant: string): void;
  /** Calls `listener` with the id of a principal that is one no more. Gives the function that ends it. */
  onRevoked(listener: (principalId: string) => void): () => void;
  close(): Promise<void>;
}

export interface AccessOptions {
  readonly tokens: TokenRecords;
  /** All tokens of a tenant go when it goes. */
  readonly tenants: Pick<Tenants, "onChange">;
  readonly required: boolean;
  readonly openPrograms: boolean;
  /** Good for everything of all tenants; a secret. */
  readonly adminToken: string | undefined;
  readonly oauth: (tenant: string) => OauthSettings | undefined;
  /** Reaches what an issuer that is not the operator's own may be asked at. */
  readonly checkedFetch: typeof fetch;
  readonly limits: AccessTokenLimits & TokenLimits;
  /** Throws where a tenant makes tokens too often. */
  readonly checkTokenPace?: (tenant: string) => void;
  readonly log: Pick<Log, "warn">;
}

export function openAccess(options: AccessOptions): Access {
  const { tenants, required, openPrograms, adminToken, oauth, limits } = options;
  const listeners = new Set<(principalId: string) => void>();
  const onRevoked = (principalId: string): void => {
    for (const listener of listeners) listener(principalId);
  };
  const tokens = new Tokens(options.tokens, { ...limits, checkPace: options.checkTokenPace, onRevoked });
  const stop = tenants.onChange((tenant) => tokens.forgetTenant(tenant));
  const accessTokens = new AccessTokens(limits, options);
  const operators = new Map<string, Principal>();
  const adminHash = adminToken === undefined ? undefined : digest(adminToken);

  const operatorOf = (tenant: string): Principal => {
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

    principalOf(token, tenant, asked) {
      if (isTokenText(token)) return tokens.principalOf(token, tenant);
      // Of equal length whatever was sent, so that the time tells nothing.
      if (adminHash && timingSafeEqual(digest(token), adminHash)) return operatorOf(tenant);
      const settings = JWT.test(token) ? oauth(tenant) : undefined;
      const resource = settings && asked();
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

/** Whoever runs the service and has set the token in its environment. */
const OPERATOR_ID = "operator";
const NO_RESOURCE =
  "it is made for an address, and this service has none that is known and safe: BERTH_PUBLIC_URL has to be its https URL";
const JWT = /^[\w-]+\.[\w-]+\.[\w-]*$/;

function digest(token: string): Buffer {
  return hash("sha256", token, "buffer");
}
