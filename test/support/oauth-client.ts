import assert from "node:assert/strict";
import {
  Client,
  StreamableHTTPClientTransport,
  UnauthorizedError,
  type OAuthClientProvider,
  type OAuthDiscoveryState,
  type StoredOAuthClientInformation,
  type StoredOAuthTokens,
} from "@modelcontextprotocol/client";
import { REDIRECT, type AuthorizationServer } from "./authorization-server.ts";

/** A client's data of a person who has agreed. */
export class Ada implements OAuthClientProvider {
  readonly redirectUrl = REDIRECT;
  readonly clientMetadata = {
    client_name: "test",
    redirect_uris: [REDIRECT],
    grant_types: ["authorization_code", "refresh_token"],
    response_types: ["code"],
    token_endpoint_auth_method: "none",
    scope: "mcp:read mcp:call",
  };
  /** The address to which the person was sent to agree. */
  asked: URL | undefined;
  /** The number of times that tokens were issued. */
  renewals = 0;
  #client: StoredOAuthClientInformation | undefined;
  #tokens: StoredOAuthTokens | undefined;
  #verifier = "";
  #discovered: OAuthDiscoveryState | undefined;

  clientInformation = () => this.#client;
  saveClientInformation = (client: StoredOAuthClientInformation) => void (this.#client = client);
  tokens = () => this.#tokens;
  saveTokens(tokens: StoredOAuthTokens): void {
    this.renewals += 1;
    this.#tokens = tokens;
  }
  redirectToAuthorization = (url: URL) => void (this.asked = url);
  discoveryState = () => this.#discovered;
  saveDiscoveryState = (state: OAuthDiscoveryState) => void (this.#discovered = state);
  codeVerifier = () => this.#verifier;
  saveCodeVerifier = (verifier: string) => void (this.#verifier = verifier);
}

/** A connection for which `ada` agrees at the authorization server that the endpoint names. */
export async function connectAs(ada: Ada, url: string, issuer: AuthorizationServer): Promise<Client> {
  const open = (): StreamableHTTPClientTransport =>
    new StreamableHTTPClientTransport(new URL(url), { authProvider: ada });
  const first = open();
  await assert.rejects(new Client({ name: "test", version: "1" }).connect(first), UnauthorizedError);
  await first.finishAuth((await issuer.browse(ada.asked!)).searchParams);
  const client = new Client({ name: "test", version: "1" });
  await client.connect(open());
  return client;
}
