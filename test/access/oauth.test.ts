import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { exportSPKI, generateKeyPair, SignJWT, UnsecuredJWT, type CryptoKey } from "jose";
import { startAuthorizationServer, type AuthorizationServer } from "../support/authorization-server.ts";
import { post, request, startTestBerth, type Reply, type TestBerth } from "../support/berth.ts";
import { Ada, connectAs } from "../support/oauth-client.ts";
import { bearer } from "../support/tokens.ts";

const SAY = `/** Says hello. */\nexport function say(): string { return "hello"; }\n`;

describe("C8 access by tokens of an authorization server", () => {
  let issuer: AuthorizationServer;
  let berth: TestBerth;
  let one: string;
  before(async () => {
    issuer = await startAuthorizationServer();
    const env = { BERTH_ACCESS: "required", BERTH_OAUTH_ISSUER: issuer.issuer };
    berth = await startTestBerth({ texts: { "one.ts": SAY, "two.ts": SAY }, env });
    one = `${berth.url}/mcp/one`;
  });
  after(async () => {
    await berth?.close();
    await issuer?.close();
  });

  const say = (url: string, token: string): Promise<Reply> =>
    post(url, request("tools/call", { name: "say", arguments: {} }), bearer(token));

  it("C8 whoever has no token is told where there are some", async () => {
    const refused = await post(one, request("tools/list"));
    assert.equal(refused.status, 401);
    const challenge = refused.headers.get("www-authenticate")!;
    const [, address] = /resource_metadata="([^"]+)"/.exec(challenge)!;
    assert.match(challenge, /^Bearer .*scope="mcp:read mcp:call"/);
    const metadata = (await (await fetch(address!)).json()) as Record<string, unknown>;
    assert.equal(metadata["resource"], one);
    assert.deepEqual(metadata["authorization_servers"], [issuer.issuer]);
    assert.deepEqual(metadata["scopes_supported"], ["mcp:read", "mcp:call"]);
  });

  it("C8 a token that was made for a server calls it, and no other one", async () => {
    const token = await issuer.tokenFor(one, "mcp:call mcp:read");
    assert.equal((await say(one, token)).body.result.content[0].text, "hello");
    const elsewhere = await say(`${berth.url}/mcp/two`, token);
    assert.equal(elsewhere.status, 401);
    assert.match(elsewhere.headers.get("www-authenticate")!, /error="invalid_token"/);
  });

  it("C8 a token for all servers calls each of them", async () => {
    const token = await issuer.tokenFor(`${berth.url}/mcp`, "mcp:call mcp:read");
    assert.equal((await say(one, token)).status, 200);
    assert.equal((await say(`${berth.url}/mcp/two`, token)).status, 200);
  });

  it("C8 a scope that is missing is named", async () => {
    const refused = await say(one, await issuer.tokenFor(one, "mcp:read"));
    assert.equal(refused.status, 403);
    const challenge = refused.headers.get("www-authenticate")!;
    assert.match(challenge, /error="insufficient_scope"/);
    assert.match(challenge, /scope="mcp:call"/);
  });

  it("C8 no token counts that the issuer has not made, for here, for now, and as it is", async () => {
    const now = Math.floor(Date.now() / 1_000);
    const claims = { scope: "mcp:call mcp:read", client_id: "program" };
    const made = (changes: Record<string, unknown> = {}): SignJWT =>
      new SignJWT({ ...claims, iss: issuer.issuer, aud: one, sub: "ada", iat: now, exp: now + 300, ...changes });
    const header = { alg: "RS256", kid: issuer.keyId, typ: "at+jwt" };
    const signed = (changes?: Record<string, unknown>, key: CryptoKey = issuer.privateKey): Promise<string> =>
      made(changes).setProtectedHeader(header).sign(key);

    // Tokens below are refused for their fault alone.
    const good = await signed();
    assert.equal((await say(one, good)).status, 200);

    const others = await generateKeyPair("RS256");
    const [head, body, signature] = good.split(".");
    const more = Buffer.from(body!, "base64url").toString().replace("mcp:read", "mcp:edit");
    const publicPem = new TextEncoder().encode(await exportSPKI(issuer.publicKey));
    const bad: Record<string, string> = {
      expired: await signed({ exp: now - 60 }),
      "not yet valid": await signed({ nbf: now + 600 }),
      "of another issuer": await signed({ iss: "http://127.0.0.1:9" }),
      "for another audience": await signed({ aud: "http://127.0.0.1:9/mcp/one" }),
      "without an audience": await signed({ aud: undefined }),
      "without an end": await signed({ exp: undefined }),
      "of nobody": await signed({ sub: undefined, client_id: undefined }),
      "signed by another key": await signed({}, others.privateKey),
      "with a key that there is not": await made()
        .setProtectedHeader({ ...header, kid: "none" })
        .sign(issuer.privateKey),
      unsigned: new UnsecuredJWT({ ...claims, sub: "ada" })
        .setIssuer(issuer.issuer)
        .setAudience(one)
        .setExpirationTime("5 min")
        .encode(),
      "signed with the public key as a secret": await made()
        .setProtectedHeader({ ...header, alg: "HS256" })
        .sign(publicPem),
      changed: [head, Buffer.from(more).toString("base64url"), signature].join("."),
      "with another head": [Buffer.from('{"alg":"none"}').toString("base64url"), body, ""].join("."),
      "an identity token": await made()
        .setProtectedHeader({ ...header, typ: "id+jwt" })
        .sign(issuer.privateKey),
      "no token at all": "e30.e30.e30",
    };
    for (const [which, token] of Object.entries(bad)) {
      const refused = await say(one, token);
      assert.equal(refused.status, 401, which);
      assert.ok(!refused.text.includes(token), which);
      assert.match(refused.headers.get("www-authenticate")!, /resource_metadata=/, which);
    }
  });

  it("C8 the official client finds the authorization server, registers, gets a token, and calls", async () => {
    const ada = new Ada();
    const client = await connectAs(ada, one, issuer);
    assert.equal(ada.asked?.searchParams.get("resource"), one);
    assert.equal(ada.asked?.searchParams.get("code_challenge_method"), "S256");
    const called = await client.callTool({ name: "say", arguments: {} });
    assert.deepEqual(called.content, [{ type: "text", text: "hello" }]);
    await client.close();
  });
});
