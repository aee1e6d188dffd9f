import { createRemoteJWKSet, customFetch, type JWTVerifyGetKey } from "jose";
import type { Limits } from "../../limits.ts";
import { BerthError } from "../../errors.ts";
import { isObject } from "../../json.ts";
import { isTrustworthy } from "./settings.ts";

/**
 * One authorization server, as far as its keys are concerned: found by its metadata (RFC 8414, OpenID Connect
 * Discovery), read again when a token names a key that is not there, and now and then. It owns how often it is asked,
 * whoever sends whatever tokens, and how much of its answers is read.
 */
export class Issuer {
  readonly #url: string;
  readonly #limits: IssuerLimits;
  #keys: Promise<JWTVerifyGetKey> | undefined;
  #failedAt = Number.NEGATIVE_INFINITY;

  constructor(url: string, limits: IssuerLimits) {
    this.#url = url;
    this.#limits = limits;
  }

  /** Finds the key of a token. Rejects with an error of jose's, or with `issuer_unavailable`. */
  readonly key: JWTVerifyGetKey = async (header, token) => {
    this.#keys ??= this.#discover();
    const keys = this.#keys;
    try {
      return await (
        await keys
      )(header, token);
    } catch (error) {
      if (error instanceof BerthError && this.#keys === keys) this.#keys = undefined;
      throw error;
    }
  };

  async #discover(): Promise<JWTVerifyGetKey> {
    const { jwksCooldownMs, jwksMaxAgeMs, issuerMs } = this.#limits;
    return createRemoteJWKSet(await this.#jwksUrl(), {
      cooldownDuration: jwksCooldownMs,
      cacheMaxAge: jwksMaxAgeMs,
      timeoutDuration: issuerMs,
      [customFetch]: (url, init) => this.#fetch(url, init),
    });
  }

  async #jwksUrl(): Promise<URL> {
    for (const address of metadataAddresses(this.#url)) {
      const signal = AbortSignal.timeout(this.#limits.issuerMs);
      const response = await this.#fetch(address, {
        signal,
        redirect: "manual",
        headers: { Accept: "application/json" },
      });
      if (response.status !== 200) continue;
      const metadata: unknown = await response.json().catch(() => undefined);
      // Whoever answers for another issuer is not asked for keys (RFC 8414, section 3.3).
      if (!isObject(metadata) || metadata["issuer"] !== this.#url) continue;
      const jwks = metadata["jwks_uri"];
      if (typeof jwks !== "string" || !URL.canParse(jwks) || !isTrustworthy(new URL(jwks))) continue;
      return new URL(jwks);
    }
    this.#failedAt = Date.now();
    throw this.#unavailable("none of its metadata documents is its own and names its keys");
  }

  /** Who cannot be reached is left alone for a moment, however many tokens come meanwhile. */
  async #fetch(url: string, init: RequestInit): Promise<Response> {
    if (Date.now() - this.#failedAt < FAILURE_MS) throw this.#unavailable("it did not answer a moment ago");
    try {
      const response = await fetch(url, init);
      return new Response(await bounded(response, this.#limits.issuerBytes), { status: response.status });
    } catch (error) {
      this.#failedAt = Date.now();
      throw this.#unavailable(causeOf(error), error);
    }
  }

  #unavailable(why: string, cause?: unknown): BerthError {
    return new BerthError("issuer_unavailable", `${this.#url}: ${why}`, { cause });
  }
}

export type IssuerLimits = Pick<Limits, "jwksCooldownMs" | "jwksMaxAgeMs" | "issuerMs" | "issuerBytes">;

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

async function bounded({ body, status }: Response, bytesMax: number): Promise<Uint8Array<ArrayBuffer> | null> {
  if (!body || status === 204 || status === 304) return null;
  const chunks: Uint8Array[] = [];
  let length = 0;
  for await (const chunk of body) {
    length += chunk.length;
    if (length > bytesMax) throw new Error(`an answer has more than ${bytesMax} bytes`);
    chunks.push(chunk);
  }
  return Uint8Array.from(Buffer.concat(chunks, length));
}

function causeOf(error: unknown): string {
  if (!(error instanceof Error)) return "it cannot be reached";
  const inner = error.cause instanceof Error ? error.cause : error;
  return inner.name === "TimeoutError" ? "it takes too long" : inner.message || "it cannot be reached";
}
