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
  /** How long the keys of an authorization server are cached. */
  jwksMaxAgeMs: 600_000,
  /** The timeout of one request to an authorization server, including the response. */
  issuerMs: 5_000,
  /** The size of such a response. */
  issuerBytes: 256 * 1024,
  /** Authorization servers whose keys are cached, one per tenant. */
  issuers: 256,
});
/** Requests with access tokens that may wait simultaneously for the keys of one authorization server. */
const WAITING_MAX = 256;

/**
 * The authorization servers that verify tokens: one per tenant, even if two tenants name the same one, so that requests
 * of one tenant do not use up the limits of another. The most recently used are cached.
 */
export class Issuers {
  readonly #options: IssuersOptions;
  readonly #cache = new BoundedMap<string, { readonly settings: OauthSettings; readonly issuer: Issuer }>(
    bounds.issuers,
  );

  constructor(options: IssuersOptions) {
    this.#options = options;
  }

  of(tenant: string, settings: OauthSettings): Issuer {
    const cached = this.#cache.get(tenant);
    const entry = cached?.settings === settings ? cached : { settings, issuer: this.#open(tenant, settings) };
    // Set again to mark it as most recently used.
    this.#cache.set(tenant, entry);
    return entry.issuer;
  }

  #open(tenant: string, { issuer, isOperators }: OauthSettings): Issuer {
    const { checkedFetch, log } = this.#options;
    return new Issuer(issuer, {
      fetchFrom: isOperators ? fetch : checkedFetch,
      onFailure: (error) => log.warn({ tenant, err: error }, "an authorization server cannot be asked for its keys"),
    });
  }
}

export interface IssuersOptions {
  /** For issuers other than the operator's own: reaches only permitted addresses. */
  readonly checkedFetch: typeof fetch;
  readonly log: Pick<Log, "warn">;
}

/**
 * The keys of one authorization server: found by its metadata (RFC 8414, OpenID Connect Discovery), and fetched again
 * when a token names an unknown key, and periodically. It limits how often the server is contacted, whatever tokens
 * arrive, and how much of its responses is read.
 */
class Issuer {
  readonly #url: string;
  readonly #options: IssuerOptions;
  #keys: Promise<KeySet> | undefined;
  #discoveredAt = 0;
  #failedAt = Number.NEGATIVE_INFINITY;
  #waiting = 0;

  constructor(url: string, options: IssuerOptions) {
    this.#url = url;
    this.#options = options;
  }

  /** Finds the key of a token. Rejects with an error of jose or with `issuer_unavailable`. */
  readonly key: JWTVerifyGetKey = async (header, token) => {
    if (this.#waiting >= WAITING_MAX) throw this.#unavailable("too many tokens are waiting for its keys");
    // The address of the keys may have changed as well.
    if (clock.now() - this.#discoveredAt > bounds.jwksMaxAgeMs) this.#keys = undefined;
    const keys = (this.#keys ??= this.#discover());
    let set: KeySet | undefined;
    this.#waiting += 1;
    try {
      set = await keys;
      return await set(header, token);
    } catch (error) {
      // The response was not a key set; any other error is the token's fault.
      const isServerFault = SERVER_FAULTS.has((error as { readonly code?: unknown }).code);
      const failure = isServerFault ? this.#failed("its keys cannot be read", error) : error;
      // A failed search for an unknown key leaves the known keys valid.
      if (failure instanceof BerthError && this.#keys === keys && !set?.fresh) this.#keys = undefined;
      throw failure;
    } finally {
      this.#waiting -= 1;
    }
  };

  async #discover(): Promise<KeySet> {
    this.#discoveredAt = clock.now();
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
      // A server that answers for another issuer is not trusted for keys (RFC 8414, section 3.3).
      if (!isObject(metadata) || metadata["issuer"] !== this.#url) continue;
      const jwks = metadata["jwks_uri"];
      if (typeof jwks !== "string" || !URL.canParse(jwks) || !isTrustworthy(new URL(jwks))) continue;
      return new URL(jwks);
    }
    throw this.#failed("no metadata document of its own names its keys");
  }

  /** After a failure, an issuer is not contacted for a moment, however many tokens arrive. */
  async #fetch(url: string, init: RequestInit): Promise<Response> {
    if (clock.now() - this.#failedAt < FAILURE_MS) throw this.#unavailable("it did not answer the last request");
    try {
      const response = await this.#options.fetchFrom(url, init);
      return new Response(await readBounded(response), { status: response.status });
    } catch (error) {
      throw this.#failed(describeCause(error), error);
    }
  }

  #failed(why: string, cause?: unknown): BerthError {
    this.#failedAt = clock.now();
    const failure = this.#unavailable(why, cause);
    this.#options.onFailure(failure);
    return failure;
  }

  #unavailable(why: string, cause?: unknown): BerthError {
    return new BerthError("issuer_unavailable", `${this.#url}: ${why}`, { cause });
  }
}

interface IssuerOptions {
  readonly fetchFrom: typeof fetch;
  /** Called with each failure and its cause, which must not be shown to senders of unverified tokens. */
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

async function readBounded({ body, status }: Response): Promise<Uint8Array<ArrayBuffer> | null> {
  if (!body || status === 204 || status === 304) return null;
  const received = new GrowingBytes();
  const { issuerBytes } = bounds;
  for await (const chunk of body) {
    if (received.length + chunk.length > issuerBytes)
      throw new AnswerTooLong(`an answer has more than ${issuerBytes} bytes`);
    received.add(chunk);
  }
  return received.take();
}

const SERVER_FAULTS: ReadonlySet<unknown> = new Set(["ERR_JWKS_INVALID", "ERR_JWKS_TIMEOUT", "ERR_JOSE_GENERIC"]);

/** Visible to anonymous callers: connection details are omitted, since they reveal the network that Berth is in. */
function describeCause(error: unknown): string {
  if (error instanceof AnswerTooLong) return error.message;
  const inner = error instanceof Error && error.cause instanceof Error ? error.cause : error;
  return inner instanceof Error && inner.name === "TimeoutError" ? "it takes too long" : "it cannot be reached";
}
