import assert from "node:assert/strict";
import { type IncomingHttpHeaders } from "node:http";
import { before, describe, it } from "node:test";
import { Client, StreamableHTTPClientTransport, UnauthorizedError } from "@modelcontextprotocol/client";
import { decodeJwt, exportSPKI, generateKeyPair, SignJWT, UnsecuredJWT } from "jose";
import { scopesFor } from "../../src/access/oauth/scopes.ts";
import { readConfiguredOauth, type OauthSettings } from "../../src/access/oauth/settings.ts";
import { readConfig } from "../../src/config.ts";
import { startAuthorizationServer } from "../support/authorization-server.ts";
import { post, request, withStatus, type Reply } from "../support/berth.ts";
import { forwarding } from "../support/forwarding.ts";
import { Ada, connectAs } from "../support/oauth-client.ts";
import { connectRaw } from "../support/raw-http.ts";
import { berthFor, berthInSuite, inSuite, serve } from "../support/suite.ts";
import { addTenant, listenTo, onStoreOf } from "../support/tenants.ts";
import { bearer } from "../support/tokens.ts";

const SAY = `/** Says hello. */\nexport function say(): string { return "hello"; }\n`;
const TELLS = `import type { ToolContext } from "berth";
/** Tells all that it was given. */
export function tell(context: ToolContext): string {
  return JSON.stringify([context, Object.getOwnPropertyNames(context), process.env, process.argv]);
}
`;
const SCOPE = "mcp:call mcp:read";

describe("attacks on authorization", () => {
  const issuer = inSuite(startAuthorizationServer);
  const berth = berthInSuite(() => ({
    texts: { "one.ts": SAY, "two.ts": SAY, "tells.ts": TELLS },
    env: {
      BERTH_ACCESS: "required",
      BERTH_OAUTH_ISSUER: issuer.issuer,
      BERTH_OAUTH_PRIVATE_ISSUERS: new URL(issuer.issuer).host,
    },
  }));
  let one: string;
  before(() => void (one = `${berth.url}/mcp/one`));

  const call = (url: string, headers: Record<string, string>, name = "say"): Promise<Reply> =>
    post(url, request("tools/call", { name, arguments: {} }), headers);
  const signed = (changes: Record<string, unknown> = {}): Promise<string> => {
    const claims = { iss: issuer.issuer, aud: one, sub: "ada", client_id: "x", scope: SCOPE };
    return new SignJWT({ ...claims, exp: Math.floor(Date.now() / 1_000) + 300, ...changes })
      .setProtectedHeader({ alg: "RS256", kid: issuer.keyId, typ: "at+jwt" })
      .sign(issuer.privateKey);
  };

  it("no token counts that the issuer has not made, for here, for now, and as it is", async () => {
    const now = Math.floor(Date.now() / 1_000);
    const claims = { iss: issuer.issuer, aud: one, sub: "ada", client_id: "x", scope: SCOPE, exp: now + 300 };
    const made = (): SignJWT => new SignJWT(claims);
    const header = { alg: "RS256", kid: issuer.keyId, typ: "at+jwt" };

    // Tokens below are refused for their fault alone.
    const good = await signed();
    assert.equal((await call(one, bearer(good))).status, 200);

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
      "signed by another key": await made().setProtectedHeader(header).sign(others.privateKey),
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
      const refused = await call(one, bearer(token));
      assert.equal(refused.status, 401, which);
      assert.ok(!refused.text.includes(token), which);
      assert.match(refused.headers.get("www-authenticate")!, /resource_metadata=/, which);
    }
  });

  it("the official client steps up to the scope that a refused call has named", async () => {
    const ada = new Ada();
    await (await connectAs(ada, one, issuer)).close();
    // A right that a person has agreed to before, and no more.
    const { access_token: full } = ada.tokens()!;
    const narrow = await signed({ ...decodeJwt(full), scope: "mcp:read" });
    ada.saveTokens({ access_token: narrow, token_type: "Bearer", scope: "mcp:read", issuer: issuer.issuer });
    const transport = new StreamableHTTPClientTransport(new URL(one), { authProvider: ada });
    const client = new Client({ name: "test", version: "1" });
    await client.connect(transport);
    await assert.rejects(client.callTool({ name: "say", arguments: {} }), UnauthorizedError);
    const asked = new Set(ada.asked?.searchParams.get("scope")?.split(" "));
    assert.ok(asked.has("mcp:call") && asked.has("mcp:read"), [...asked].join());
    await transport.finishAuth((await issuer.browse(ada.asked!)).searchParams);
    const called = await client.callTool({ name: "say", arguments: {} });
    assert.deepEqual(called.content, [{ type: "text", text: "hello" }]);
    await client.close();
  });

  it("a token in the address or in the body is none", async () => {
    const token = await issuer.tokenFor(one, SCOPE);
    for (const url of [`${one}?access_token=${token}`, `${one}?token=${token}`]) {
      const refused = await withStatus(401, call(url, {}));
      assert.ok(!`${refused.text}${refused.headers.get("www-authenticate")}`.includes(token));
    }
    const form = { method: "POST", body: new URLSearchParams({ access_token: token }) };
    assert.equal((await fetch(one, form)).status, 401);
    await withStatus(401, fetch(`${berth.url}/servers?access_token=${token}`, { headers: { Accept: "text/html" } }));
  });

  it("two tokens at once are refused: what is in front may have looked at the other one", async () => {
    const token = await signed();
    const { host } = new URL(berth.url);
    const raw = await connectRaw(berth.url);
    const body = JSON.stringify(request("ping"));
    const lines = ["POST /mcp/one HTTP/1.1", `Host: ${host}`, "Connection: close", "Content-Type: application/json"];
    const both = [`Authorization: Bearer ${token}`, "authorization: Bearer berth_other"];
    raw.socket.write([...lines, ...both, `Content-Length: ${body.length}`, "", body].join("\r\n"));
    assert.match(await raw.closed, /^HTTP\/1\.1 400 [^]*more than one Authorization header/);
  });

  it("other tokens of the same issuer and the same keys are no access tokens", async () => {
    assert.equal((await call(one, bearer(await signed()))).status, 200);
    for (const claims of [
      { nonce: "n" },
      { at_hash: "h" },
      { c_hash: "h" },
      { events: { "http://schemas.openid.net/event/backchannel-logout": {} } },
      { cnf: { jkt: "thumbprint" } },
    ]) {
      const refused = await call(one, bearer(await signed(claims)));
      assert.equal(refused.status, 401, JSON.stringify(claims));
    }
  });

  it("claims of any kind are refused or do no harm", async () => {
    for (const claims of [
      { sub: { toString: "x" }, client_id: 5 },
      { sub: ["a"], client_id: undefined, azp: {} },
      { aud: [{}, null, 5] },
      { aud: {} },
      { exp: "tomorrow" },
    ]) {
      assert.equal((await call(one, bearer(await signed(claims)))).status, 401, JSON.stringify(claims));
    }
    for (const scope of [{ "mcp:call": true }, 5, ["mcp:call", { x: 1 }, null].slice(1), "mcp:fly mcp:call:other"]) {
      assert.equal((await call(one, bearer(await signed({ scope })))).status, 403, JSON.stringify(scope));
    }
    assert.equal((await call(one, bearer(await signed({ sub: "line\n\u001b[2J\u2028end" })))).status, 200);
  });

  it("an audience counts letter by letter, but for upper case in scheme and host", async () => {
    const { port } = new URL(berth.url);
    const named = `http://localhost:${port}/mcp/one`;
    assert.equal((await call(named, bearer(await signed({ aud: `HTTP://LocalHost:${port}/mcp/one` })))).status, 200);
    for (const aud of [
      `http://localhost:${port}/MCP/one`,
      `http://localhost:${port}/mcp/one/`,
      `http://localhost:${port}/mcp/one?x`,
      `http://localhost:${port}/mcp/../mcp/one`,
      `http://localhost:${port}/mcp/on%65`,
      `http://user@localhost:${port}/mcp/one`,
      `https://localhost:${port}/mcp/one`,
      `http://localhost/mcp/one`,
      berth.url,
    ]) {
      assert.equal((await call(named, bearer(await signed({ aud })))).status, 401, aud);
    }
  });

  it("a token for one release of a server stays one for it, whatever it was shown at before", async () => {
    const { body } = await post(one, request("tools/list"), bearer(await signed({ scope: "mcp:read mcp:call" })));
    assert.equal(body.result.tools.length, 1);
    const listed = await fetch(`${berth.url}/api/servers`, {
      headers: bearer(await signed({ aud: `${berth.url}/mcp` })),
    });
    const { servers } = (await listed.json()) as { servers: { name: string; release: string }[] };
    const release = `${one}@${servers.find(({ name }) => name === "one")!.release}`;
    const token = await signed({ aud: release });
    assert.equal((await call(release, bearer(token))).status, 200);
    assert.equal((await call(one, bearer(token))).status, 401);
  });

  it("a token reaches no code of guests and no upstream", async (t) => {
    const seen: IncomingHttpHeaders[] = [];
    const other = await berthFor(t, { texts: { "say.ts": SAY } });
    const between = forwarding(
      (path) => other.url + path,
      (headers) => (seen.push(headers), headers),
    );
    const hosting = await berthFor(t, {
      texts: { "tells.ts": TELLS },
      mcps: { say: { upstream: `mcp+${await serve(t, between)}/mcp/say` } },
      env: { BERTH_ACCESS: "required", BERTH_OAUTH_ISSUER: issuer.issuer },
    });
    const token = await issuer.tokenFor(`${hosting.url}/mcp`, SCOPE);
    const headers = { ...bearer(token), Cookie: `berth_token=${token}` };
    const called = await call(`${hosting.url}/mcp/say`, headers);
    assert.equal(called.body.result.content[0].text, "hello", called.text);
    assert.ok(seen.length > 0);
    assert.ok(!JSON.stringify(seen).includes(token) && seen.every((each) => !each.authorization && !each.cookie));
    const told = await call(`${hosting.url}/mcp/tells`, headers, "tell");
    assert.match(told.body.result.content[0].text, /elicit|progress|server/);
    assert.ok(!told.text.includes(token), "a guest was given the token of its caller");
  });

  it("a stream ends when the authorization server of its token is a tenant's no more", async () => {
    await onStoreOf(berth, (store) =>
      addTenant(store, "acme", { servers: { one: SAY }, oauth: { issuer: issuer.issuer } }),
    );
    const url = `${berth.url}/t/acme/mcp/one`;
    const token = await issuer.tokenFor(url, SCOPE);
    const stream = await withStatus(200, listenTo(url, bearer(token)));
    await stream.next();
    await onStoreOf(berth, (store) => store.tenants.change("acme", { by: "test", oauth: null }));
    await assert.rejects(async () => {
      while (await stream.next());
    }, /terminated/);
  });
});

describe("scopes that are asked for", () => {
  const settings = (scopes: OauthSettings["scopes"]): OauthSettings => ({
    issuer: "https://x",
    ...(scopes && { scopes }),
  });

  it("permit what it takes and no more, and broader ones stand for narrower ones", () => {
    const scopes = settings({
      root: { can: ["admin"] },
      staff: { can: ["call", "read"] },
      reader: { can: ["read"] },
      "one.reader": { can: ["read"], servers: ["one"] },
      "one.say": { can: ["call"], tools: ["say"] },
    });
    assert.deepEqual(scopesFor(["read"], undefined, scopes), ["reader"]);
    assert.deepEqual(scopesFor(["read"], "one", scopes), ["one.reader"]);
    assert.deepEqual(scopesFor(["call"], "one", scopes), ["staff"]);
    assert.deepEqual(scopesFor(["read", "call"], "one", scopes), ["staff"]);
    assert.deepEqual(scopesFor(["edit"], "one", scopes), ["root"]);
    assert.deepEqual(scopesFor(["read"], "one", settings({ writer: { can: ["edit"] } })), ["writer"]);
    assert.deepEqual(scopesFor(["call"], "one", settings({ writer: { can: ["edit"] } })), []);
    assert.deepEqual(scopesFor(["call"], "one", settings({ say: { can: ["call"], tools: ["say"] } })), ["say"]);
  });

  it("are for services that clients reach over https, or on their own machine", () => {
    const config = (url: string) =>
      readConfig({ BERTH_OAUTH_ISSUER: "https://login.example", BERTH_PUBLIC_URL: url, BERTH_ACCESS: "required" });
    assert.throws(() => readConfiguredOauth(config("http://mcp.example.com")), /must not be sent over plain HTTP/);
    assert.ok(readConfiguredOauth(config("https://mcp.example.com")));
    assert.ok(readConfiguredOauth(config("http://localhost:8080")));
  });
});
