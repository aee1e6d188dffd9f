import assert from "node:assert/strict";
import { once } from "node:events";
import { request as httpRequest, type IncomingMessage, type ServerResponse } from "node:http";
import { before, describe, it } from "node:test";
import { exportJWK, generateKeyPair, SignJWT } from "jose";
import { newToken } from "../../src/access/token-text.ts";
import { AnonymousLimits } from "../../src/admission/anonymous-limits.ts";
import { peerOf } from "../../src/http/peer.ts";
import { defaultLimits } from "../../src/limits/limits.ts";
import { post, request, type Reply } from "../support/berth.ts";
import { lower } from "../support/lowered-limits.ts";
import { connectRaw, rawPost } from "../support/raw-http.ts";
import { berthFor, berthInSuite, serve } from "../support/suite.ts";
import { addTenant, onStoreOf } from "../support/tenants.ts";
import { bearer, makeToken } from "../support/tokens.ts";
import { until } from "../support/until.ts";

const SAY = `/** Says hello. */\nexport function say(): string { return "hello"; }\n`;
const LIMITS = {
  BERTH_ANONYMOUS_REQUESTS_PER_SECOND: "1",
  BERTH_ANONYMOUS_REQUEST_BURST: "5",
  BERTH_REQUESTS_PER_SECOND_PER_TENANT: "1",
  BERTH_REQUEST_BURST_PER_TENANT: "40",
};

describe("a caller without a token", () => {
  const berth = berthInSuite({ texts: { "one.ts": SAY }, env: { BERTH_ACCESS: "required", ...LIMITS } });
  before(() => onStoreOf(berth, (store) => addTenant(store, "acme", { servers: { one: SAY } })));

  const flood = (count: number, send: (index: number) => Promise<number>): Promise<number[]> =>
    Promise.all(Array.from({ length: count }, (_, index) => send(index)));

  it("uses none of the capacity of a tenant and its callers, by whatever path (C8)", async () => {
    const { token } = await makeToken(berth, { can: ["call", "read"] }, { tenant: "acme" });
    const url = `${berth.url}/t/acme/mcp/one`;
    const call = (headers: Record<string, string>): Promise<Reply> =>
      post(url, request("tools/call", { name: "say", arguments: {} }), headers);
    assert.equal((await call(bearer(token))).status, 200);
    const ways: Record<string, (index: number) => Promise<number>> = {
      "without a token": async () => (await call({})).status,
      "with tokens that nobody made": async () => (await call(bearer(newToken()))).status,
      "with what is no token": async (index) => (await call(bearer(`e30.e30.${index}`))).status,
      "by a cookie": async () => (await call({ Cookie: "berth_sign_in_acme=x" })).status,
      "at pages": async () => (await fetch(`${berth.url}/t/acme/servers`)).status,
      "at tenants that there are not": async (index) =>
        (await post(`${berth.url}/t/t${index}/mcp`, request("ping"), bearer(newToken()))).status,
    };
    for (const [way, send] of Object.entries(ways)) {
      const statuses = await flood(60, send);
      assert.ok(statuses.includes(429), `${way}: ${statuses.join()}`);
      const areRefused = statuses.every((status) => status === 401 || status === 429);
      assert.ok(areRefused, `${way}: ${statuses.join()}`);
      assert.equal((await call(bearer(token))).status, 200, way);
    }
  });

  it("is told when to retry, and cannot guess tokens at the sign-in page or exhaust public pages", async () => {
    const guess = (): Promise<Response> =>
      fetch(`${berth.url}/sign-in`, {
        method: "POST",
        headers: { "Content-Type": "application/json", Authorization: "Bearer x" },
        body: JSON.stringify({ token: newToken() }),
      });
    const refused = (await Promise.all(Array.from({ length: 20 }, guess))).find(({ status }) => status === 429);
    assert.equal(refused!.headers.get("retry-after"), "1");
    assert.match(await refused!.text(), /your address is limited to 1 requests without a valid token per second/);
    for (const path of ["/sign-in", "/", "/.well-known/oauth-protected-resource/mcp/one"]) {
      const headers = { Authorization: "Bearer x" };
      const statuses = await flood(
        20,
        async () => (await fetch(`${berth.url}${path}`, { headers, redirect: "manual" })).status,
      );
      assert.ok(statuses.includes(429), `${path}: ${statuses.join()}`);
    }
  });
});

describe("a caller that leaves before it is authenticated", () => {
  it("occupies no slot of the tenant (C8)", async (t) => {
    const { privateKey, publicKey } = await generateKeyPair("RS256", { extractable: true });
    let held: ServerResponse | undefined;
    const issuer: string = await serve(t, (asked, response) => {
      if (asked.url === "/jwks") held = response;
      else response.end(JSON.stringify({ issuer, jwks_uri: `${issuer}/jwks` }));
    });
    const env = { BERTH_ACCESS: "required", BERTH_OAUTH_ISSUER: issuer, BERTH_REQUESTS_PER_TENANT: "2" };
    const berth = await berthFor(t, { texts: { "one.ts": SAY }, env });
    const claims = {
      iss: issuer,
      aud: `${berth.url}/mcp`,
      sub: "ada",
      scope: "mcp:call",
      exp: Date.now() / 1_000 + 300,
    };
    const token = bearer(await new SignJWT(claims).setProtectedHeader({ alg: "RS256", kid: "k" }).sign(privateKey));
    const { host } = new URL(berth.url);
    const gone = [await connectRaw(berth.url), await connectRaw(berth.url)];
    for (const { socket } of gone) socket.write(rawPost("/mcp/one", request("ping"), { Host: host, ...token }));
    await until(async () => held !== undefined);
    for (const { socket, closed } of gone) {
      socket.destroy();
      await closed;
    }
    // Berth has seen it by the time that it answers a later request.
    assert.equal((await post(`${berth.url}/mcp/one`, request("ping"))).status, 401);
    held!.end(JSON.stringify({ keys: [{ ...(await exportJWK(publicKey)), kid: "k", alg: "RS256" }] }));
    // It waits for the same keys, and the abandoned ones are the first to get them.
    assert.equal((await post(`${berth.url}/mcp/one`, request("ping"), token)).status, 200);
  });
});

describe("the addresses of anonymous callers", () => {
  const limits = { ...defaultLimits, anonymousRequestsPerSecond: 1, anonymousRequestBurst: 1 };

  it("are counted separately, and together when there are too many", (t) => {
    t.after(lower({ anonymousAddresses: 3 }));
    const strangers = new AnonymousLimits(limits);
    for (const address of ["a", "b", "c", "d"]) strangers.enter(address, 0).leave();
    for (const address of ["a", "b", "c", "d", "e"])
      assert.throws(() => strangers.enter(address, 1), { code: "too_many_requests" });
    // Idle ones are forgotten, and make room.
    for (const address of ["e", "f", "g"]) strangers.enter(address, 5_000).leave();
    assert.throws(() => strangers.enter("e", 5_001), { code: "too_many_requests" });
  });

  it("are those of the sender: of IPv6 its network, and behind a proxy the last one that it reports", () => {
    const at = (remoteAddress: string, forwarded?: string, isProxied = forwarded !== undefined): string => {
      const headers = forwarded === undefined ? {} : { "x-forwarded-for": forwarded };
      return peerOf({ headers, socket: { remoteAddress } } as unknown as IncomingMessage, isProxied);
    };
    assert.equal(at("203.0.113.9"), "203.0.113.9");
    assert.equal(at("::ffff:203.0.113.9"), "203.0.113.9");
    assert.equal(at("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2");
    assert.equal(at("2001:db8:1:2::6"), "2001:db8:1:2");
    assert.equal(at("2001:db8::1"), "2001:db8:0:0");
    assert.equal(at("::1"), "0:0:0:0");
    assert.equal(at("127.0.0.1", "10.0.0.1, 203.0.113.9"), "203.0.113.9");
    assert.equal(at("127.0.0.1", "198.51.100.1, 2001:db8:1:2::9"), "2001:db8:1:2");
    assert.equal(at("127.0.0.1", "203.0.113.9, nonsense"), "127.0.0.1");
    assert.equal(at("127.0.0.1", "203.0.113.9", false), "127.0.0.1");
  });
});

describe("a path that looks like a public one", () => {
  it("leads no caller without a token to a protected one", async (t) => {
    const berth = await berthFor(t, {
      texts: { "one.ts": SAY },
      env: { BERTH_ACCESS: "required", BERTH_ANONYMOUS_REQUEST_BURST: "10000" },
    });
    // Sent as it is: fetch would resolve the dots.
    const statusOf = async (method: string, path: string): Promise<number> => {
      const sent = httpRequest(berth.url, { method, path, headers: { accept: "application/json" } }).end();
      const [response] = (await once(sent, "response")) as [IncomingMessage];
      response.resume();
      return response.statusCode!;
    };
    const open = ["/", "/assets/x", "/sign-in", "/token", "/register", "/.well-known/x"];
    const closed = ["mcp", "metrics", "api/servers", "variables", "servers/one/say"];
    const ways = open.flatMap((from) =>
      closed.flatMap((to) => [
        `${from}/../${to}`,
        `${from}/%2e%2e/${to}`,
        `${from}%2f..%2f${to}`,
        `/${from}/${to}`,
        `/${to}?${from}`,
      ]),
    );
    for (const path of [...ways, ...closed.map((to) => `/${to.toUpperCase()}`), "/SIGN-IN/../mcp", "/?/mcp"]) {
      for (const method of ["GET", "OPTIONS", "DELETE"]) {
        const status = await statusOf(method, path);
        const isLedOn = path.startsWith("/?") && status === 302;
        const isPreflight = method === "OPTIONS" && status === 204;
        assert.ok([400, 401, 404, 405].includes(status) || isLedOn || isPreflight, `${method} ${path}: ${status}`);
      }
    }
  });
});
