import assert from "node:assert/strict";
import { describe, it, test } from "node:test";
import { decodeJwt, SignJWT, type JWTPayload } from "jose";
import { Issuers } from "../../src/access/oauth/issuers.ts";
import { clock } from "../../src/lib/clock.ts";
import { startAuthorizationServer, type AuthorizationServer } from "../support/authorization-server.ts";
import { post, request, startTestBerth, type Reply, type TestBerth } from "../support/berth.ts";
import { lower } from "../support/lowered-limits.ts";
import { Ada, connectAs } from "../support/oauth-client.ts";
import { closeAfter, inSuite } from "../support/suite.ts";
import { bearer } from "../support/tokens.ts";

const SAY = `/** Says hello. */\nexport function say(): string { return "hello"; }\n`;
const SCOPE = "mcp:call mcp:read";
const start = (issuer: AuthorizationServer, env: Record<string, string>): Promise<TestBerth> =>
  startTestBerth({
    texts: { "one.ts": SAY },
    env: { BERTH_ACCESS: "required", BERTH_OAUTH_ISSUER: issuer.issuer, ...env },
  });
const say = (berth: TestBerth, token: string): Promise<Reply> =>
  post(`${berth.url}/mcp/one`, request("tools/call", { name: "say", arguments: {} }), bearer(token));
const tokenFor = (berth: TestBerth, issuer: AuthorizationServer): Promise<string> =>
  issuer.tokenFor(`${berth.url}/mcp/one`, SCOPE);
/** As the issuer makes them, but with claims and a key of one's own choice. */
const signed = (issuer: AuthorizationServer, claims: JWTPayload, kid = issuer.keyId): Promise<string> =>
  new SignJWT(claims).setProtectedHeader({ alg: "RS256", kid, typ: "at+jwt" }).sign(issuer.privateKey);

describe("the keys of an authorization server", () => {
  const issuer = inSuite(startAuthorizationServer);
  const berth = inSuite(() => start(issuer, { BERTH_JWKS_COOLDOWN_MS: "0" }));

  it("a new one is found without a restart, and those that stay go on counting", async () => {
    const before = await tokenFor(berth, issuer);
    assert.equal((await say(berth, before)).status, 200);
    await issuer.rotate("key-2", ["key-1"]);
    const after = await tokenFor(berth, issuer);
    assert.equal((await say(berth, after)).status, 200);
    assert.equal((await say(berth, await signed(issuer, decodeJwt(after)))).status, 200);
  });

  it("an official client whose access token has expired renews it and goes on, without asking the person", async () => {
    const ada = new Ada();
    const client = await connectAs(ada, `${berth.url}/mcp/one`, issuer);
    const { asked, renewals } = ada;
    const tokens = ada.tokens()!;
    assert.ok(tokens.refresh_token, "there is nothing to renew it with");
    const ended = { ...decodeJwt(tokens.access_token), exp: Math.floor(Date.now() / 1_000) - 60 };
    ada.saveTokens({ ...tokens, access_token: await signed(issuer, ended) });
    assert.equal((await say(berth, ada.tokens()!.access_token)).status, 401);
    const called = await client.callTool({ name: "say", arguments: {} });
    assert.deepEqual(called.content, [{ type: "text", text: "hello" }]);
    assert.deepEqual([ada.asked, ada.renewals], [asked, renewals + 2]);
    assert.equal((await say(berth, ada.tokens()!.access_token)).status, 200);
    await client.close();
  });

  it("are kept while the issuer does not answer, whoever asks for one that there is not", async () => {
    const claims = decodeJwt(await tokenFor(berth, issuer));
    await issuer.close();
    for (const kid of ["none", "neither"])
      assert.equal((await say(berth, await signed(issuer, claims, kid))).status, 503);
    assert.equal((await say(berth, await signed(issuer, { ...claims, jti: "another" }))).status, 200);
  });
});

test("a removed key is refused once its keys are read again, though the wall clock was set back", async (t) => {
  const issuer = closeAfter(t, await startAuthorizationServer());
  const berth = closeAfter(t, await start(issuer, {}));
  const old = await tokenFor(berth, issuer);
  assert.equal((await say(berth, old)).status, 200);
  const claims = decodeJwt(old);
  const unknown = await Promise.all(
    Array.from({ length: 200 }, (_, index) => signed(issuer, claims, `key-${index + 10}`)),
  );
  const refused = await Promise.all(unknown.map((token) => say(berth, token)));
  assert.ok(refused.every(({ status }) => status === 401));
  const asked = [...issuer.asked].reduce((sum, [path, times]) => sum + (/jwks|well-known/.test(path) ? times : 0), 0);
  assert.ok(asked <= 4, `unknown keys made Berth ask ${asked} times`);

  await issuer.rotate("key-2");
  const { now } = Date;
  t.mock.method(Date, "now", () => now() - 3_600_000);
  assert.equal((await say(berth, old)).status, 200);
  clock.leap(600_001);
  assert.equal((await say(berth, old)).status, 401);
  t.mock.restoreAll();
  assert.equal((await say(berth, await tokenFor(berth, issuer))).status, 200);
});

describe("the authorization servers that are kept", () => {
  const asking = { checkedFetch: (): Promise<Response> => new Promise(() => {}), log: { warn: () => {} } };
  const settings = { issuer: "https://login.example" };

  it("are so many and no more, one of each tenant", (t) => {
    t.after(lower({ issuers: 2 }));
    const issuers = new Issuers(asking);
    const [first, second] = [issuers.of("a", settings), issuers.of("b", settings)];
    assert.notEqual(first, second);
    assert.equal(issuers.of("a", settings), first);
    const third = issuers.of("c", settings);
    assert.equal(issuers.of("a", settings), first);
    assert.notEqual(issuers.of("b", settings), second);
    assert.notEqual(issuers.of("c", settings), third);
    assert.notEqual(issuers.of("c", { ...settings }), issuers.of("c", settings));
  });

  it("hold up so many requests and no more while they do not answer", async () => {
    const issuer = new Issuers(asking).of("a", settings);
    const key = (): Promise<unknown> => Promise.resolve(issuer.key({ alg: "RS256" }, { payload: "", signature: "" }));
    void Promise.allSettled(Array.from({ length: 256 }, key));
    await assert.rejects(key(), /too many tokens are waiting for its keys/);
  });
});
