import assert from "node:assert/strict";
import { before, describe, it } from "node:test";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { startAuthorizationServer } from "../support/authorization-server.ts";
import { post, request, withStatus } from "../support/berth.ts";
import { LegacyClient } from "../support/legacy-client.ts";
import { Ada, connectAs } from "../support/oauth-client.ts";
import { connectRaw, rawPost } from "../support/raw-http.ts";
import { berthInSuite, inSuite } from "../support/suite.ts";
import { addTenant, onStoreOf } from "../support/tenants.ts";
import { bearer, makeToken } from "../support/tokens.ts";

const ORIGIN = "https://client.example";
/** A tool that says whose it is. */
const named = (name: string): string =>
  `/** Says its server's name. */\nexport const whose = (): string => "${name}";\n`;

describe("the address of a server with one more /mcp at its end", () => {
  const names = ["one", "mcp", "sse", "messages"];
  const berth = berthInSuite({
    texts: Object.fromEntries(names.map((name) => [`${name}.ts`, named(name)])),
    env: { BERTH_ALLOWED_ORIGINS: ORIGIN },
  });
  let release: string;
  before(async () => {
    await onStoreOf(berth, (store) => addTenant(store, "acme", { servers: { one: named("acme's one") } }));
    const listed = (await (await fetch(`${berth.url}/api/servers`)).json()) as {
      servers: { name: string; release: string }[];
    };
    release = listed.servers.find(({ name }) => name === "one")!.release;
  });

  const whose = async (path: string): Promise<unknown> => {
    const { body, status } = await post(`${berth.url}${path}`, request("tools/call", { name: "whose", arguments: {} }));
    return body?.result?.content[0].text ?? status;
  };

  it("is the same endpoint in both eras, of a server, of a release, and of a tenant's server (C2)", async () => {
    for (const path of ["/mcp/one/mcp", "/mcp/one/mcp/", `/mcp/one@${release}/mcp`, "/t/acme/mcp/one/mcp"]) {
      for (const mode of ["auto", "legacy"] as const) {
        const client = new Client({ name: "test", version: "1" }, { versionNegotiation: { mode } });
        await client.connect(new StreamableHTTPClientTransport(new URL(`${berth.url}${path}`)));
        const { content } = await client.callTool({ name: "whose", arguments: {} });
        assert.deepEqual(content, [{ type: "text", text: path.startsWith("/t/") ? "acme's one" : "one" }], path);
        await client.close();
      }
    }
  });

  it("shares the sessions of the server: one begun there is listened to and ended at either address (T7.1)", async () => {
    const long = await LegacyClient.start(`${berth.url}/mcp/one/mcp`);
    const short = new LegacyClient(`${berth.url}/mcp/one`, long.version);
    short.session = long.session;
    for (const client of [long, short]) {
      const stream = await withStatus(200, client.listen());
      stream.close();
    }
    assert.equal(await long.end(), 204);
    assert.equal((await short.request("ping")).status, 404);
  });

  it("makes no address ambiguous: a server may be called mcp, sse or messages (C2)", async () => {
    for (const [path, expected] of [
      ["/mcp/mcp", "mcp"],
      ["/mcp/mcp/mcp", "mcp"],
      ["/mcp/sse/mcp", "sse"],
      ["/mcp/messages/mcp", "messages"],
      ["/mcp/one/mcp/mcp", 404],
      ["/mcp/one/MCP", 404],
      ["/mcp/one/mcp/one", 404],
      ["/mcp//mcp", 404],
      ["/mcp/one%2Fmcp", 404],
      ["/mcp/meta/mcp", 404],
      ["/mcp/met%61/mcp", 404],
      ["/mcp/none/mcp", 404],
    ] as const) {
      assert.equal(await whose(path), expected, path);
    }
    const page = await fetch(`${berth.url}/mcp/meta/mcp`, { headers: { Accept: "text/html" } });
    assert.deepEqual([page.status, /<h1[^>]*>[^<]*mcp/.test(await page.text())], [200, true]);
  });

  it("leads a browser to the server's page, and refuses other methods (T9.2)", async () => {
    const opened = await fetch(`${berth.url}/mcp/one/mcp`, { headers: { Accept: "text/html" }, redirect: "manual" });
    assert.deepEqual([opened.status, opened.headers.get("location")], [303, "/mcp/meta/one"]);
    for (const method of ["GET", "PUT"]) {
      const { status, headers } = await fetch(`${berth.url}/mcp/one/mcp`, { method });
      assert.deepEqual([status, headers.get("allow")], [405, "POST"]);
    }
  });

  it("may be called by pages that may call the server, and opens no page of Berth's to them (T9.6)", async () => {
    const preflight = { Origin: ORIGIN, "Access-Control-Request-Method": "POST" };
    const allowed = await fetch(`${berth.url}/mcp/one/mcp`, { method: "OPTIONS", headers: preflight });
    assert.deepEqual([allowed.status, allowed.headers.get("access-control-allow-origin")], [204, ORIGIN]);
    const called = await post(`${berth.url}/mcp/one/mcp`, request("ping"), { Origin: ORIGIN });
    assert.deepEqual([called.status, called.headers.get("access-control-allow-origin")], [200, ORIGIN]);
    for (const method of ["GET", "OPTIONS"]) {
      const headers = { ...preflight, Accept: "text/html" };
      const page = await fetch(`${berth.url}/mcp/meta/mcp`, { method, headers });
      assert.equal(page.headers.get("access-control-allow-origin"), null, method);
    }
  });
});

describe("attacks by the address with one more /mcp", () => {
  const issuer = inSuite(startAuthorizationServer);
  const berth = berthInSuite(() => ({
    texts: { "one.ts": named("one"), "two.ts": named("two"), "mcp.ts": named("mcp") },
    env: {
      BERTH_ACCESS: "required",
      BERTH_OAUTH_ISSUER: issuer.issuer,
      BERTH_OAUTH_PRIVATE_ISSUERS: new URL(issuer.issuer).host,
    },
  }));
  before(() => onStoreOf(berth, (store) => addTenant(store, "acme", { servers: { one: named("acme's one") } })));

  const statusOf = async (path: string, token?: string): Promise<number> => {
    const call = request("tools/call", { name: "whose", arguments: {} });
    return (await post(`${berth.url}${path}`, call, token === undefined ? {} : bearer(token))).status;
  };

  it("it takes the same token as the server, and none gains a right by it", async () => {
    const { token } = await makeToken(berth, { can: ["call"], servers: ["one"] });
    const wide = await makeToken(berth, { can: ["call"], servers: ["mcp"] });
    assert.equal(await statusOf("/mcp/one/mcp", token), 200);
    for (const [path, sent, status] of [
      ["/mcp/one/mcp", undefined, 401],
      ["/mcp/two/mcp", token, 403],
      ["/mcp/mcp/mcp", token, 403],
      ["/mcp/none/mcp", token, 403],
      ["/t/acme/mcp/one/mcp", token, 401],
      // A right to the server named mcp is none to every address that ends so.
      ["/mcp/one/mcp", wide.token, 403],
      ["/mcp", wide.token, 200],
    ] as const) {
      assert.equal(await statusOf(path, sent), status, `${path} ${sent === token}`);
    }
    const raw = await connectRaw(berth.url);
    const host = { Host: new URL(berth.url).host, Connection: "close", ...bearer(token) };
    raw.socket.write(rawPost("/mcp/one/mcp/../../two/mcp", request("ping"), host));
    assert.match(await raw.closed, /^HTTP\/1\.1 (?:401|404) /);
  });

  it("the official client signs in at it: each address has metadata of its own name", async () => {
    const url = `${berth.url}/mcp/one/mcp`;
    const ada = new Ada();
    const client = await connectAs(ada, url, issuer);
    assert.deepEqual((await client.callTool({ name: "whose", arguments: {} })).content, [
      { type: "text", text: "one" },
    ]);
    await client.close();
    assert.equal(ada.asked?.searchParams.get("resource"), url);

    const metadataOf = (path: string): Promise<Response> =>
      fetch(`${berth.url}/.well-known/oauth-protected-resource${path}`);
    for (const path of ["/mcp/one", "/mcp/one/mcp", "/mcp/mcp", "/mcp/mcp/mcp", "/mcp"]) {
      const { resource } = (await (await metadataOf(path)).json()) as { resource: string };
      assert.equal(resource, `${berth.url}${path}`);
      const refused = await post(`${berth.url}${path}`, request("ping"));
      const place = `resource_metadata="${berth.url}/.well-known/oauth-protected-resource${path}"`;
      assert.ok(refused.headers.get("www-authenticate")?.includes(place), path);
    }
    for (const path of ["/mcp/meta/mcp", "/mcp/one/mcp/mcp", "/mcp/one/sse"]) {
      assert.equal((await metadataOf(path)).status, 404, path);
    }
  });

  it("an access token for one server at either address is valid for it at both, and for no other", async () => {
    for (const end of ["", "/mcp"]) {
      const token = await issuer.tokenFor(`${berth.url}/mcp/one${end}`, "mcp:call");
      assert.equal(await statusOf("/mcp/one", token), 200);
      assert.equal(await statusOf("/mcp/one/mcp", token), 200);
      for (const path of ["/mcp/two/mcp", "/mcp/mcp", "/mcp/mcp/mcp", "/mcp"]) {
        assert.equal(await statusOf(path, token), 401, `${end} ${path}`);
      }
    }
    const ofMcp = await issuer.tokenFor(`${berth.url}/mcp/mcp`, "mcp:call");
    assert.equal(await statusOf("/mcp/mcp/mcp", ofMcp), 200);
    assert.equal(await statusOf("/mcp/one/mcp", ofMcp), 401);
  });
});
