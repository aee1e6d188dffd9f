import type { Limits } from "../../limits/limits.ts";
import type { Log } from "../../lib/log.ts";
import { Issuer, type IssuerLimits } from "./issuer.ts";
import type { OauthSettings } from "./settings.ts";

/**
 * The authorization servers that tokens are checked with: one for each tenant, even if two tenants name the same, so
 * that requests to one tenant do not use up the limits of another. The most recently used are kept.
 */
export class Issuers {
  readonly #limits: IssuersLimits;
  readonly #asking: Asking;
  readonly #kept = new Map<string, Kept>();

  constructor(limits: IssuersLimits, asking: Asking) {
    this.#limits = limits;
    this.#asking = asking;
  }

  of(tenant: string, settings: OauthSettings): Issuer {
    const kept = this.#kept.get(tenant);
    const used = kept?.settings === settings ? kept : { settings, issuer: this.#open(tenant, settings) };
    // Moves it to the end, as the most recently used.
    this.#kept.delete(tenant);
    const [oldest] = this.#kept.keys();
    if (this.#kept.size >= this.#limits.issuers && oldest !== undefined) this.#kept.delete(oldest);
    this.#kept.set(tenant, used);
    return used.issuer;
  }

  #open(tenant: string, { issuer, isOperators }: OauthSettings): Issuer {
    const { checkedFetch, log } = this.#asking;
    return new Issuer(issuer, this.#limits, {
      fetchFrom: isOperators ? fetch : checkedFetch,
      onFailure: (error) => log.warn({ tenant, err: error }, "an authorization server cannot be asked for its keys"),
    });
  }
}

export type IssuersLimits = IssuerLimits & Pick<Limits, "issuers">;

export interface Asking {
  /** For issuers that are not the operator's own: reaches only permitted addresses. */
  readonly checkedFetch: typeof fetch;
  readonly log: Pick<Log, "warn">;
}

interface Kept {
  readonly settings: OauthSettings;
  readonly issuer: Issuer;
}
