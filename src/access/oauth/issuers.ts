import type { Limits } from "../../limits.ts";
import { Issuer, type IssuerLimits } from "./issuer.ts";
import type { OauthSettings } from "./settings.ts";

/**
 * The authorization servers that tokens are checked with: one of each tenant, though two may name the same, so that
 * what is sent to one tenant wears out no patience that another one needs. The ones that were asked last are kept.
 */
export class Issuers {
  readonly #limits: IssuersLimits;
  readonly #checkedFetch: typeof fetch;
  readonly #kept = new Map<string, Kept>();

  constructor(limits: IssuersLimits, checkedFetch: typeof fetch) {
    this.#limits = limits;
    this.#checkedFetch = checkedFetch;
  }

  of(tenant: string, settings: OauthSettings): Issuer {
    const kept = this.#kept.get(tenant);
    if (kept?.settings === settings) return kept.issuer;
    this.#kept.delete(tenant);
    const [oldest] = this.#kept.keys();
    if (this.#kept.size >= this.#limits.issuers && oldest !== undefined) this.#kept.delete(oldest);
    const issuer = new Issuer(settings.issuer, this.#limits, settings.isOperators ? fetch : this.#checkedFetch);
    this.#kept.set(tenant, { settings, issuer });
    return issuer;
  }
}

export type IssuersLimits = IssuerLimits & Pick<Limits, "issuers">;

interface Kept {
  readonly settings: OauthSettings;
  readonly issuer: Issuer;
}
