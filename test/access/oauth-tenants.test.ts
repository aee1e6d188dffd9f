import assert from "node:assert/strict";
import { type RequestListener } from "node:http";
import { before, describe, it } from "node:test";
import { SignJWT } from "jose";
import { pino } from "pino";
import { logOptions } from "../../src/lib/log.ts";
import { startAuthorizationServer, type AuthorizationServer } from "../support/authorization-server.ts";
import { post, request, withStatus, type Reply } from "../support/berth.ts";
import { lower } from "../support/lowered-limits.ts";
import { connectRaw, rawPost } from "../support/raw-http.ts";
import { berthFor, berthInSuite, closeAfter, inSuite, serverInSuite } from "../support/suite.ts";
import { addTenant, onStoreOf } from "../support/tenants.ts";
import { bearer } from "../support/tokens.ts";
import { until } from "../support/until.ts";

const SAY = `/** Says hello. */\nexport function say(): string { return "hello"; }\n`;
const SCOPE = "mcp:call mcp:read";
const metadataOf = (resource: string): string => {
  const { origin, pathname } = new URL(resource);
  return `${origin}/.well-known/oauth-protected-resource${pathname}`;
};
const say = (url: string, token: string): Promise<Reply> =>
  post(url, request("tools/call", { name: "say", arguments: {} }), bearer(token));

describe("authorization servers of tenants", () => {
  const ours = inSuite(startAuthorizationServer);
  const theirs = inSuite(startAuthorizationServer);
  const berth = berthInSuite(() => ({
    texts: { "x.ts": SAY },
    env: {
      BERTH_ACCESS: "required",
      BERTH_OAUTH_PRIVATE_ISSUERS: [ours, theirs].map(({ issuer }) => new URL(issuer).host).join(),
    },
  }));
  const at = (tenant: string, server = "x"): string =>
    `${berth.url}${tenant === "default" ? "" : `/t/${tenant}`}/mcp/${server}`;
  before(async () => {
    await onStoreOf(berth, async (store) => {
      const servers = { x: SAY, y: SAY };
      await addTenant(store, "acme", { servers, oauth: { issuer: ours.issuer } });
      await addTenant(store, "blue", { servers, oauth: { issuer: ours.issuer } });
      const scopes = { staff: { can: ["call", "read"], servers: ["x"] }, "mcp:read": { can: ["read"] } };
      await addTenant(store, "carol", { servers, oauth: { issuer: theirs.issuer, audience: "urn:carol", scopes } });
      await addTenant(store, "plain", { servers });
    });
  });

  it("a refusal names the tenant's own metadata and scopes, which name its own authorization server", async () => {
    for (const [tenant, issuer, scopes] of [
      ["acme", ours.issuer, ["mcp:read", "mcp:call"]],
      ["carol", theirs.issuer, ["staff"]],
    ] as const) {
      const refused = await withStatus(401, post(at(tenant), request("tools/list")));
      const challenge = refused.headers.get("www-authenticate")!;
      assert.ok(challenge.includes(`resource_metadata="${metadataOf(at(tenant))}"`), challenge);
      assert.ok(challenge.includes(`scope="${scopes.join(" ")}"`), challenge);
      const metadata = (await (await fetch(metadataOf(at(tenant)))).json()) as Record<string, unknown>;
      assert.equal(metadata["resource"], at(tenant));
      assert.deepEqual(metadata["authorization_servers"], [issuer]);
      assert.deepEqual(metadata["scopes_supported"], scopes);
    }
  });

  it("who has no authorization server has no metadata, and is told apart from no tenant by nothing", async () => {
    const missing = await withStatus(404, fetch(metadataOf(at("nobody"))));
    const text = await missing.text();
    for (const tenant of ["plain", "default", "Acme", "acme%2F"]) {
      const response = await fetch(
        metadataOf(at("nobody")).replace("/t/nobody", tenant === "default" ? "" : `/t/${tenant}`),
      );
      assert.equal(response.status, 404, tenant);
      if (tenant === "plain") assert.equal(await response.text(), text.replaceAll("nobody", tenant));
    }
    assert.equal(
      (await post(at("plain"), request("tools/list"))).headers.get("www-authenticate"),
      'Bearer realm="Berth"',
    );
  });

  it("a token for one tenant's resource is refused at every other one's", async () => {
    const token = await ours.tokenFor(at("acme"), SCOPE);
    assert.equal((await say(at("acme"), token)).body.result.content[0].text, "hello");
    const elsewhere = [at("acme", "y"), at("blue"), at("carol"), at("plain"), at("default"), at("nobody")];
    for (const url of elsewhere) assert.equal((await say(url, token)).status, 401, url);

    const whole = await ours.tokenFor(`${berth.url}/t/acme/mcp`, SCOPE);
    assert.equal((await say(at("acme", "y"), whole)).status, 200);
    for (const url of [at("blue"), at("carol"), at("default")]) assert.equal((await say(url, whole)).status, 401, url);
  });

  it("a token of another tenant's issuer is refused, whatever it says it was made for", async () => {
    const token = await theirs.tokenFor(at("acme"), SCOPE);
    assert.equal((await say(at("acme"), token)).status, 401);
    const now = Math.floor(Date.now() / 1_000);
    const claims = { iss: ours.issuer, aud: at("acme"), sub: "ada", client_id: "x", scope: SCOPE, exp: now + 300 };
    const header = { alg: "RS256", kid: theirs.keyId, typ: "at+jwt" };
    const forged = await new SignJWT(claims).setProtectedHeader(header).sign(theirs.privateKey);
    assert.equal((await say(at("acme"), forged)).status, 401);
  });

  it("a tenant's own scopes and audience say what its tokens permit", async () => {
    const now = Math.floor(Date.now() / 1_000);
    const tokenOf = (scope: string): Promise<string> =>
      new SignJWT({ iss: theirs.issuer, aud: "urn:carol", sub: "carol", client_id: "x", scope, exp: now + 300 })
        .setProtectedHeader({ alg: "RS256", kid: theirs.keyId, typ: "at+jwt" })
        .sign(theirs.privateKey);
    const staff = await tokenOf("staff");
    assert.equal((await say(at("carol"), staff)).status, 200);
    assert.equal((await say(at("carol", "y"), staff)).status, 403);
    assert.equal((await say(at("acme"), staff)).status, 401);
    const refused = await withStatus(403, say(at("carol"), await tokenOf("mcp:read mcp:call")));
    assert.match(refused.headers.get("www-authenticate")!, /error="insufficient_scope".*scope="staff"/);
  });

  it("a tenant's authorization server is set, changed and ended while Berth runs, that of default, too", async () => {
    const both = ["plain", "default"];
    const set = (oauth: { issuer: string } | null): Promise<unknown> =>
      onStoreOf(berth, async (store) => {
        for (const tenant of both) await store.tenants.change(tenant, { by: "test", oauth });
      });
    const made = async (by: AuthorizationServer): Promise<(status: number) => Promise<boolean>> => {
      const shown = await Promise.all(
        both.map(async (tenant) => [at(tenant), await by.tokenFor(at(tenant), SCOPE)] as const),
      );
      return async (status) => {
        const replies = await Promise.all(shown.map(([url, token]) => say(url, token)));
        return replies.every((reply) => reply.status === status);
      };
    };
    const [byOurs, byTheirs] = [await made(ours), await made(theirs)];
    assert.ok(await byOurs(401));
    await set({ issuer: ours.issuer });
    await until(() => byOurs(200));
    await set({ issuer: theirs.issuer });
    await until(() => byOurs(401));
    assert.ok(await byTheirs(200));
    await set(null);
    await until(async () => (await byTheirs(401)) && (await fetch(metadataOf(at("plain")))).status === 404);
  });
});

it("authorization servers of tenants at host names are told of at the host name, and take what was made for it", async (t) => {
  const issuer = closeAfter(t, await startAuthorizationServer());
  const env = {
    BERTH_ACCESS: "required",
    BERTH_PUBLIC_URL: "https://mcp.example.com",
    BERTH_OAUTH_PRIVATE_ISSUERS: new URL(issuer.issuer).host,
  };
  const berth = await berthFor(t, { env });
  const oauth = { issuer: issuer.issuer };
  await onStoreOf(berth, (store) => addTenant(store, "acme", { servers: { x: SAY }, hosts: ["acme.example"], oauth }));
  const sent = async (bytes: string): Promise<string> => {
    const raw = await connectRaw(berth.url);
    raw.socket.write(bytes);
    return raw.closed;
  };
  const calls = (host: string, token?: string, path = "/mcp/x"): Promise<string> => {
    const headers = { Host: host, Connection: "close", Accept: "application/json" };
    const call = request("tools/call", { name: "say", arguments: {} });
    return sent(rawPost(path, call, { ...headers, ...(token !== undefined && bearer(token)) }));
  };
  const get = (host: string, path: string): Promise<string> =>
    sent(`GET ${path} HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`);
  const well = "/.well-known/oauth-protected-resource";

  // Soon after the change, the host name selects the tenant.
  await until(async () => (await calls("acme.example")).includes(" 401 "));
  assert.match(
    await calls("acme.example"),
    /resource_metadata="https:\/\/acme\.example\/\.well-known\/oauth-protected-resource\/mcp\/x"/,
  );
  assert.match(await get("acme.example", `${well}/mcp/x`), /"resource":"https:\/\/acme\.example\/mcp\/x"/);
  assert.match(
    await get("mcp.example.com", `${well}/t/acme/mcp/x`),
    /"resource":"https:\/\/mcp\.example\.com\/t\/acme\/mcp\/x"/,
  );
  for (const [host, path] of [
    ["acme.example", "/t/acme/mcp/x"],
    ["mcp.example.com", "/mcp/x"],
    ["acme.example", "/t/other/mcp/x"],
  ] as const) {
    assert.match(await get(host, `${well}${path}`), /^HTTP\/1\.1 404 /, `${host}${path}`);
  }

  const token = await issuer.tokenFor("https://acme.example/mcp/x", SCOPE);
  assert.match(await calls("acme.example", token), /^HTTP\/1\.1 200 [^]*hello/);
  assert.match(await calls("mcp.example.com", token, "/t/acme/mcp/x"), /^HTTP\/1\.1 401 /);
  assert.match(await calls("127.0.0.1", token), /^HTTP\/1\.1 401 /);
});

describe("an issuer of a tenant that cannot be trusted", () => {
  let issuer: string;
  let answer: RequestListener;
  const server = serverInSuite((asked, response) => answer(asked, response));
  const askedInside: string[] = [];
  /** An address that no tenant may have Berth ask. */
  const inside = serverInSuite((asked, response) => {
    askedInside.push(asked.url!);
    response.end("{}");
  });
  const logged: string[] = [];
  const berth = berthInSuite(() => ({
    env: {
      BERTH_ACCESS: "required",
      BERTH_OAUTH_PRIVATE_ISSUERS: new URL((issuer = server.url)).host,
      BERTH_ISSUER_BYTES: "20000",
    },
    log: pino(logOptions("warn", []), { write: (line: string) => void logged.push(line) }),
  }));

  /** The answer to a token at a tenant with this issuer. */
  let made = 0;
  const refusedBy = async (from: string): Promise<Reply> => {
    const tenant = `t${++made}`;
    await onStoreOf(berth, (store) => addTenant(store, tenant, { servers: { x: SAY }, oauth: { issuer: from } }));
    const url = `${berth.url}/t/${tenant}/mcp/x`;
    const refused = await withStatus(503, say(url, "eyJhbGciOiJSUzI1NiIsImtpZCI6ImsifQ.e30.AAAA"));
    assert.match(refused.body.error.message, /^The authorization server does not answer: /);
    return refused;
  };
  const metadata =
    (changes: object = {}): RequestListener =>
    (_asked, response) =>
      void response.end(JSON.stringify({ issuer, jwks_uri: `${issuer}/jwks`, ...changes }));

  it("is not asked at an address of a private network, by whatever name or detour", async () => {
    const { port } = new URL(inside.url);
    for (const from of [`http://127.0.0.1:${port}`, `http://localhost:${port}`, `http://[::1]:${port}`]) {
      assert.doesNotMatch((await refusedBy(from)).text, /ECONN|refused|address/, from);
    }
    // The operator reads why.
    assert.ok(logged.some((line) => /"tenant":"t1".*may not be reached: it has no public address/.test(line)));
    answer = metadata({ jwks_uri: `http://127.0.0.1:${port}/jwks` });
    await refusedBy(issuer);
    answer = (_asked, response) => void response.writeHead(302, { Location: `http://127.0.0.1:${port}/moved` }).end();
    await refusedBy(issuer);
    answer = (asked, response) => {
      if (asked.url !== "/jwks") return metadata()(asked, response);
      response.writeHead(307, { Location: `http://127.0.0.1:${port}/moved` }).end();
    };
    await refusedBy(issuer);
    assert.deepEqual(askedInside, []);
  });

  it("takes no memory and no time beyond the limits", async (t) => {
    answer = (_asked, response) => void response.end(Buffer.alloc(50_000, " "));
    assert.match((await refusedBy(issuer)).text, /more than 20000 bytes/);
    t.after(lower({ issuerMs: 100 }));
    const silences: RequestListener[] = [() => {}, (_asked, response) => void response.write("{")];
    answer = (asked, response) => silences.pop()!(asked, response);
    for (const { text } of await Promise.all([refusedBy(issuer), refusedBy(issuer)])) {
      assert.match(text, /takes too long/);
    }
    assert.deepEqual(silences, []);
  });

  it("is believed nothing that is not its own", async () => {
    answer = metadata({ issuer: "https://login.example" });
    assert.match((await refusedBy(issuer)).text, /no metadata document of its own/);
    answer = metadata({ jwks_uri: "file:///etc/passwd" });
    await refusedBy(issuer);
    answer = metadata({ jwks_uri: "http://login.example/jwks" });
    await refusedBy(issuer);
    for (const keys of ["<html>", "{}", '{"keys": 1}', "null"]) {
      answer = (asked, response) => (asked.url === "/jwks" ? void response.end(keys) : metadata()(asked, response));
      assert.match((await refusedBy(issuer)).text, /its keys cannot be read/, keys);
    }
  });
});
