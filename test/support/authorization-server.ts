import type { IncomingMessage, ServerResponse } from "node:http";
import { exportJWK, generateKeyPair, type CryptoKey } from "jose";
import { Provider } from "oidc-provider";
import { openServer } from "./listening.ts";

/** A real authorization server, at which every user who logs in is Ada and agrees. */
export interface AuthorizationServer {
  readonly issuer: string;
  /** Its signing key, for tokens that it would never make. */
  readonly privateKey: CryptoKey;
  readonly publicKey: CryptoKey;
  readonly keyId: string;
  /** The number of requests, by path. */
  readonly asked: ReadonlyMap<string, number>;
  /** Signs with a new key of this id from now on; tokens of the keys in `kept` can still be verified. */
  rotate(keyId: string, kept?: readonly string[]): Promise<void>;
  /** A token for a program (RFC 6749, 4.4), made for `resource` (RFC 8707). */
  tokenFor(resource: string, scope: string): Promise<string>;
  /** Does what a browser would: logs in, agrees, and returns the address that it is sent back to. */
  browse(authorization: URL): Promise<URL>;
  close(): Promise<void>;
}

export const REDIRECT = "http://127.0.0.1:1/callback";

/** The kinds of tokens for which the library requires a lifetime. */
const KINDS = "AuthorizationCode ClientCredentials Grant IdToken Interaction RefreshToken Session".split(" ");

export async function startAuthorizationServer({ accessTokenSeconds = 600 } = {}): Promise<AuthorizationServer> {
  const keyId = "key-1";
  const { privateKey, publicKey } = await generateKeyPair("RS256", { extractable: true });
  const keys = new Map([[keyId, privateKey]]);
  const asked = new Map<string, number>();
  let provider!: Provider;
  const { url: issuer, close } = await openServer((request, response) => {
    const { pathname } = new URL(request.url!, "http://localhost");
    asked.set(pathname, (asked.get(pathname) ?? 0) + 1);
    if (pathname.startsWith("/interaction/")) void agree(provider, request, response);
    else provider.callback()(request, response);
  });
  provider = await open(issuer, keys, accessTokenSeconds);

  return {
    issuer,
    privateKey,
    publicKey,
    keyId,
    asked,
    async rotate(id, kept = []) {
      for (const known of keys.keys()) if (!kept.includes(known)) keys.delete(known);
      keys.set(id, (await generateKeyPair("RS256", { extractable: true })).privateKey);
      // Grants and requests are kept beside it.
      provider = await open(issuer, keys, accessTokenSeconds);
    },
    async tokenFor(resource, scope) {
      const response = await fetch(`${issuer}/token`, {
        method: "POST",
        headers: { Authorization: `Basic ${btoa("program:secret-of-the-program")}` },
        body: new URLSearchParams({ grant_type: "client_credentials", scope, resource }),
      });
      const body = (await response.json()) as { access_token?: string };
      if (!body.access_token) throw new Error(`no token: ${JSON.stringify(body)}`);
      return body.access_token;
    },
    async browse(authorization) {
      const cookies = new Map<string, string>();
      let url = authorization;
      for (let step = 0; step < 10; step++) {
        const cookie = [...cookies].map(([name, value]) => `${name}=${value}`).join("; ");
        const response = await fetch(url, { redirect: "manual", headers: { Cookie: cookie } });
        for (const set of response.headers.getSetCookie()) {
          const [, name, value] = /^([^=]+)=([^;]*)/.exec(set) ?? [];
          if (name !== undefined) cookies.set(name, value!);
        }
        const location = response.headers.get("location");
        if (location === null) throw new Error(`${url.href}: ${response.status} ${await response.text()}`);
        url = new URL(location, url);
        if (url.href.startsWith(REDIRECT)) return url;
      }
      throw new Error("the authorization server leads nowhere");
    },
    close,
  };
}

async function agree(provider: Provider, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const { prompt, params, session } = await provider.interactionDetails(request, response);
  if (prompt.name === "login") {
    return provider.interactionFinished(request, response, { login: { accountId: "ada" } });
  }
  const grant = new provider.Grant({ accountId: session!.accountId, clientId: params.client_id });
  const { missingOIDCScope, missingResourceScopes = {} } = prompt.details;
  if (missingOIDCScope) grant.addOIDCScope(missingOIDCScope.join(" "));
  for (const [resource, scopes] of Object.entries(missingResourceScopes)) {
    grant.addResourceScope(resource, scopes.join(" "));
  }
  const grantId = await grant.save();
  await provider.interactionFinished(request, response, { consent: { grantId } });
}

async function open(
  issuer: string,
  keys: ReadonlyMap<string, CryptoKey>,
  accessTokenSeconds: number,
): Promise<Provider> {
  // It signs with the first; the newest comes last.
  const jwks: object[] = [];
  for (const [kid, key] of keys) jwks.unshift({ ...(await exportJWK(key)), kid, alg: "RS256", use: "sig" });
  return new Provider(issuer, {
    clients: [
      {
        client_id: "program",
        client_secret: "secret-of-the-program",
        grant_types: ["client_credentials"],
        redirect_uris: [],
        response_types: [],
      },
    ],
    jwks: { keys: jwks },
    issueRefreshToken: () => true,
    scopes: ["openid", "offline_access", "mcp:call", "mcp:read"],
    ttl: { ...Object.fromEntries(KINDS.map((kind) => [kind, 600])), AccessToken: accessTokenSeconds },
    pkce: { required: () => true },
    cookies: { keys: ["for tests alone"] },
    findAccount: (_context: unknown, id: string) => ({ accountId: id, claims: () => ({ sub: id }) }),
    interactions: { url: (_context: unknown, { uid }: { uid: string }) => `/interaction/${uid}` },
    features: {
      devInteractions: { enabled: false },
      clientCredentials: { enabled: true },
      registration: { enabled: true },
      resourceIndicators: {
        enabled: true,
        getResourceServerInfo: (_context: unknown, resource: string) => ({
          scope: "mcp:call mcp:read",
          audience: resource,
          accessTokenFormat: "jwt",
          jwt: { sign: { alg: "RS256" } },
        }),
        useGrantedResource: () => true,
      },
    },
  });
}
