import type { createRemoteJWKSet, JWTVerifyGetKey } from "jose";
import { BoundedMap } from "../../lib/bounded-map.ts";
import { clock } from "../../lib/clock.ts";
import { BerthError } from "../../lib/errors.ts";
import { GrowingBytes } from "../../lib/growing-bytes.ts";
import { isObject } from "../../lib/json.ts";
import type { Log } from "../../lib/log.ts";
import { fixed } from "../../limits/fixed.ts";
import { isTrustworthy, type OauthSettings } from "./settings.ts";

const bounds = fixed({
  /** The time between two searches for a missing key of an authorization server. */
  jwksCooldownMs: 30_000,
  /** The time after which the keys of an authorization server are read again. */
  jwksMaxAgeMs: 600_000,
  /** The time for one request to an authorization server, with its answer. */
  issuerMs: 5_000,
  /** The answer to such a request. */
  issuerBytes: 256 * 1024,
  /** Authorization servers whose keys are cached, one per tenant. */
  issuers: 256,
});
/** Requests with access tokens that wait at the same time for the keys of one authorization server. */
const WAITING_MAX = 256;

/**
 * The authorization servers that tokens are checked with: one for each tenant, even if two tenants name the same, so
 * that requests to one tenant do not use up the limits of another. The most recently used are kept.
 */
export class Issuers {
  readonly #asking: Asking;
  readonly #kept = new BoundedMap<string, { readonly settings: OauthSettings; readonly issuer: Issuer }>(
    bounds.issuers,
  );

  constructor(asking: Asking) {
    this.#asking = asking;
  }

  of(tenant: string, settings: OauthSettings): Issuer {
    const kept = this.#kept.get(tenant);
    const used = kept?.settings === settings ? kept : { settings, issuer: this.#open(tenant, settings) };
    // Set again, as the most recently used.
    this.#kept.set(tenant, used);
    return used.issuer;
  }

  #open(tenant: string, { issuer, isOperators }: OauthSettings): Issuer {
    const { checkedFetch, log } = this.#asking;
    return new Issuer(issuer, {
      fetchFrom: isOperators ? fetch : checkedFetch,
      onFailure: (error) => log.warn({ tenant, err: error }, "an authorization server cannot be asked for its keys"),
    });
  }
}

export interface Asking {
  /** For issuers that are not the operator's own: reaches only permitted addresses. */
  readonly checkedFetch: typeof fetch;
  readonly log: Pick<Log, "warn">;
}

/**
 * The keys of one authorization server: found by its metadata (RFC 8414, OpenID Connect Discovery), and read again when
 * a token names an unknown key, and now and then. It owns how often the server is asked, whatever tokens arrive, and
 * how much of its answers is read.
 */
class Issuer {
  readonly #url: string;
  readonly #asking: AskingIssuer;
  #keys: Promise<KeySet> | undefined;
  #foundAt = 0;
  #failedAt = Number.NEGATIVE_INFINITY;
  #waiting = 0;

  constructor(url: string, asking: AskingIssuer) {
    this.#url = url;
    this.#asking = asking;
  }

  /** Finds the key of a token. Rejects with an error of jose's, or with `issuer_unavailable`. */
  readonly key: JWTVerifyGetKey = async (header, token) => {
    if (this.#waiting >= WAITING_MAX) throw this.#unavailable("too many tokens are waiting for its keys");
    // The address of the keys may have changed as well.
    if (clock.now() - this.#foundAt > bounds.jwksMaxAgeMs) this.#keys = undefined;
    const keys = (this.#keys ??= this.#discover());
    let set: KeySet | undefined;
    this.#waiting += 1;
    try {
      set = await keys;
      return await set(header, token);
    } catch (error) {
      // Its answer was no set of keys; any other error is the token's fault.
      const isItsOwn = OWN_FAULTS.has((error as { readonly code?: unknown }).code);
      const failure = isItsOwn ? this.#failed("its keys cannot be read", error) : error;
      // A failed search for an unknown key leaves the known keys valid.
      if (failure instanceof BerthError && this.#keys === keys && !set?.fresh) this.#keys = undefined;
      throw failure;
    } finally {
      this.#waiting -= 1;
    }
  };

  async #discover(): Promise<KeySet> {
    this.#foundAt = clock.now();
    const { createRemoteJWKSet, customFetch } = await import("jose");
    return createRemoteJWKSet(await this.#jwksUrl(), {
      cooldownDuration: bounds.jwksCooldownMs,
      cacheMaxAge: bounds.jwksMaxAgeMs,
      timeoutDuration: bounds.issuerMs,
      [customFetch]: (url: string, init: RequestInit) => this.#fetch(url, init),
    });
  }

  async #jwksUrl(): Promise<URL> {
    for (const address of metadataAddresses(this.#url)) {
      const signal = AbortSignal.timeout(bounds.issuerMs);
      const response = await this.#fetch(address, {
        signal,
        redirect: "manual",
        headers: { Accept: "application/json" },
      });
      if (response.status !== 200) continue;
      const metadata: unknown = await response.json().catch(() => undefined);
      // A server that answers for another issuer is not asked for keys (RFC 8414, section 3.3).
      if (!isObject(metadata) || metadata["issuer"] !== this.#url) continue;
      const jwks = metadata["jwks_uri"];
      if (typeof jwks !== "string" || !URL.canParse(jwks) || !isTrustworthy(new URL(jwks))) continue;
      return new URL(jwks);
    }
    throw this.#failed("no metadata document of its own names its keys");
  }

  /** An issuer that cannot be reached is left alone for a moment, however many tokens come meanwhile. */
  async #fetch(url: string, init: RequestInit): Promise<Response> {
    if (clock.now() - this.#failedAt < FAILURE_MS) throw this.#unavailable("it did not answer the last request");
    try {
      const response = await this.#asking.fetchFrom(url, init);
      return new Response(await bounded(response), { status: response.status });
    } catch (error) {
      throw this.#failed(causeOf(error), error);
    }
  }

  #failed(why: string, cause?: unknown): BerthError {
    this.#failedAt = clock.now();
    const failure = this.#unavailable(why, cause);
    this.#asking.onFailure(failure);
    return failure;
  }

  #unavailable(why: string, cause?: unknown): BerthError {
    return new BerthError("issuer_unavailable", `${this.#url}: ${why}`, { cause });
  }
}

interface AskingIssuer {
  readonly fetchFrom: typeof fetch;
  /** Called with each failure and its cause, which is not for the senders of unchecked tokens. */
  readonly onFailure: (error: BerthError) => void;
}

type KeySet = ReturnType<typeof createRemoteJWKSet>;

const FAILURE_MS = 1_000;

/** In the order of the specification (2026-07-28 `basic/authorization/authorization-server-discovery`). */
function metadataAddresses(issuer: string): string[] {
  const { origin, pathname } = new URL(issuer);
  const path = pathname.replace(/\/$/, "");
  const [oauth, openid] = ["/.well-known/oauth-authorization-server", "/.well-known/openid-configuration"];
  const appended = `${origin}${path}${openid}`;
  return path === ""
    ? [`${origin}${oauth}`, appended]
    : [`${origin}${oauth}${path}`, `${origin}${openid}${path}`, appended];
}

class AnswerTooLong extends Error {}

async function bounded({ body, status }: Response): Promise<Uint8Array<ArrayBuffer> | null> {
  if (!body || status === 204 || status === 304) return null;
  const held = new GrowingBytes();
  const { issuerBytes } = bounds;
  for await (const chunk of body) {
    if (held.length + chunk.length > issuerBytes)
      throw new AnswerTooLong(`an answer has more than ${issuerBytes} bytes`);
    held.add(chunk);
  }
  return held.take();
}

const OWN_FAULTS: ReadonlySet<unknown> = new Set(["ERR_JWKS_INVALID", "ERR_JWKS_TIMEOUT", "ERR_JOSE_GENERIC"]);

/** Strangers read it: how far a connection came is left out, because it reveals the network that Berth is in. */
function causeOf(error: unknown): string {
  if (error instanceof AnswerTooLong) return error.message;
  const inner = error instanceof Error && error.cause instanceof Error ? error.cause : error;
  return inner instanceof Error && inner.name === "TimeoutError" ? "it takes too long" : "it cannot be reached";
}
