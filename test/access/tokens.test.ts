import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { before, describe, it, test } from "node:test";
import { pino } from "pino";
import { readTokenRequest } from "../../src/access/token-request.ts";
import { newToken } from "../../src/access/token-text.ts";
import { Tokens } from "../../src/access/tokens.ts";
import { readConfig } from "../../src/config.ts";
import { BerthError } from "../../src/lib/errors.ts";
import { logOptions } from "../../src/lib/log.ts";
import type { TokenRecords } from "../../src/store/store.ts";
import { apiOf } from "../support/api.ts";
import { post, request, withStatus, type Reply } from "../support/berth.ts";
import { read } from "../support/legacy-client.ts";
import { lower } from "../support/lowered-limits.ts";
import { rows } from "../support/rows.ts";
import { berthInSuite } from "../support/suite.ts";
import { addTenant, listenTo, onStoreOf } from "../support/tenants.ts";
import { bearer, makeToken, revoke } from "../support/tokens.ts";
import { until } from "../support/until.ts";

const ADMIN = "the-operators-own-token";
const ONE = `
/** @resource test://one */
export const place = (): string => "of one";
export const first = (): string => "first";
export const second = (): string => "second";
`;
const TWO = `
export const third = (): string => "third";
/** @resource test://two */
export const where = (): string => "of two";
`;

const TELLS = `import type { ToolContext } from "berth";
/** @resource test://servers */
export async function servers(context: ToolContext): Promise<string> { return (await context.variable("berth:servers")) ?? ""; }
export async function tool(context: ToolContext): Promise<string> { return (await context.variable("berth:servers")) ?? ""; }
/** @prompt */
export async function told(context: ToolContext): Promise<string> { return (await context.variable("berth:servers")) ?? ""; }
`;

describe("access with tokens", () => {
  const lines: string[] = [];
  const berth = berthInSuite({
    files: ["reference_templates/mcp.ts"],
    texts: { "one.ts": ONE, "two.ts": TWO, "tells.ts": TELLS },
    mcps: { two: { definition: "two.ts", variables: [] } },
    variables: { colour: "blue" },
    env: { BERTH_ACCESS: "required", BERTH_ADMIN_TOKEN: ADMIN },
    log: pino(logOptions("trace", []), { write: (line: string) => void lines.push(line) }),
  });
  const api = apiOf(berth);
  before(async () => {
    await onStoreOf(berth, (store) => addTenant(store, "acme", { servers: { theirs: TWO } }));
  });

  const list = async (path: string, token: string): Promise<string[]> => {
    const { body } = await post(`${berth.url}${path}`, request("tools/list"), bearer(token));
    return body.result.tools.map(({ name }: { name: string }) => name);
  };
  const callTool = (path: string, name: string, token: string): Promise<Reply> =>
    post(`${berth.url}${path}`, request("tools/call", { name, arguments: {} }), bearer(token));
  const get = (path: string, token?: string, headers: Record<string, string> = {}): Promise<Response> =>
    fetch(`${berth.url}${path}`, { headers: { ...(token && bearer(token)), ...headers }, redirect: "manual" });

  it("nobody without a token gets anything but signs of life", async () => {
    const closed: [string, RequestInit][] = [
      ["/mcp", { method: "POST" }],
      ["/mcp/one", { method: "POST" }],
      ["/mcp/one", { method: "DELETE" }],
      ["/mcp/one", { headers: { Accept: "text/event-stream" } }],
      ["/mcp/one/sse", { headers: { Accept: "text/event-stream" } }],
      ["/mcp/one/messages?sessionId=x", { method: "POST" }],
      ["/servers/one/first", { method: "POST" }],
      ["/servers/one/first?x=1", {}],
      ["/api/servers", {}],
      ["/api/tokens", {}],
      ["/api/variables/colour", { method: "PUT" }],
      ["/metrics", {}],
      ["/nowhere", {}],
      ["/t/acme/mcp/theirs", { method: "POST" }],
      ["/t/nobody/mcp/theirs", { method: "POST" }],
    ];
    for (const [path, init] of closed) {
      const response = await fetch(`${berth.url}${path}`, init);
      assert.equal(response.status, 401, path);
      assert.match(response.headers.get("www-authenticate") ?? "", /^Bearer realm="Berth"$/, path);
      assert.doesNotMatch(await response.text(), /first|second|blue/, path);
    }
    for (const path of ["/healthz", "/readyz", "/sign-in"]) assert.equal((await get(path)).status, 200, path);
    const page = await withStatus(401, get("/mcp/meta/one", undefined, { Accept: "text/html" }));
    const signIn = await page.text();
    assert.match(signIn, /name="next" value="\/mcp\/meta\/one"/);
    assert.ok(signIn.includes(`<dd>${new URL(berth.url).host}</dd>`) && signIn.includes("<dd>default</dd>"), signIn);
    const missing = await get("/.well-known/oauth-protected-resource/mcp/on", undefined, { Accept: "text/html" });
    assert.deepEqual([missing.status, /Did you mean/.test(await missing.text())], [404, false]);
  });

  it("is no authorization server, and says so to clients that look for one", async () => {
    const wellKnown = ["oauth-authorization-server", "oauth-authorization-server/mcp/one", "openid-configuration"];
    const paths = [...wellKnown.map((name) => `/.well-known/${name}`), "/authorize", "/token", "/register"];
    for (const path of [...paths, "/t/acme/register", "/t/nobody/register"]) {
      const response = await fetch(`${berth.url}${path}`, { method: path.includes("known") ? "GET" : "POST" });
      assert.equal(response.status, 404, path);
      assert.equal(response.headers.get("www-authenticate"), null, path);
      assert.match(await response.text(), /berth token create/, path);
    }
  });

  it("forged, expired, revoked and other tenants' tokens are refused, and repeated nowhere", async () => {
    const expired = await makeToken(berth, { can: ["call"], expires: "1m" }, { now: Date.now() - 61_000 });
    const revoked = await makeToken(berth, { can: ["call"] });
    assert.equal((await callTool("/mcp/one", "first", revoked.token)).status, 200);
    await revoke(berth, revoked.id);
    await until(async () => (await callTool("/mcp/one", "first", revoked.token)).status === 401);
    const theirs = await makeToken(berth, { can: ["call", "read", "admin"] }, { tenant: "acme" });
    const mine = await makeToken(berth, { can: ["admin"] });
    const wrong: [string, string, RegExp][] = [
      ["/mcp/one", newToken(), /no such token/],
      ["/mcp/one", newToken().slice(0, -1), /mistyped/],
      ["/mcp/one", `${ADMIN}x`, /mistyped/],
      ["/mcp/one", expired.token, /expired/],
      ["/mcp/one", revoked.token, /revoked/],
      ["/mcp/one", theirs.token, /no such token/],
      ["/t/acme/mcp/theirs", mine.token, /no such token/],
      ["/t/nobody/mcp/theirs", mine.token, /no such token/],
    ];
    for (const [path, token, message] of wrong) {
      const { status, text, headers } = await callTool(path, "first", token);
      assert.equal(status, 401, `${path} ${message}`);
      assert.match(text, message);
      assert.match(headers.get("www-authenticate")!, /^Bearer error="invalid_token", error_description="/);
      assert.ok(!text.includes(token) && !headers.get("www-authenticate")!.includes(token), "the token was repeated");
    }
    const { body } = await callTool("/t/acme/mcp/theirs", "third", theirs.token);
    assert.equal(body.result.content[0].text, "third");
    for (const scheme of [`Basic ${mine.token}`, mine.token, "Bearer"]) {
      const { status } = await post(`${berth.url}/mcp/one`, request("ping"), { Authorization: scheme });
      assert.equal(status, 401, "another scheme was taken");
    }
  });

  it("a list shows only what may be called, at every endpoint, and a call checks again", async () => {
    const { token: one } = await makeToken(berth, { can: ["call", "read"], servers: ["one"] });
    const { token: second } = await makeToken(berth, { can: ["call", "read"], servers: ["one"], tools: ["second"] });
    const { token: whole } = await makeToken(berth, { can: ["call", "read"], servers: ["one", "two"] });
    assert.deepEqual(await list("/mcp", whole), ["one.first", "one.second", "two.third"]);
    assert.deepEqual(await list("/mcp", one), ["one.first", "one.second"]);
    assert.deepEqual(await list("/mcp", second), ["one.second"]);
    assert.deepEqual(await list("/mcp/one", second), ["second"]);
    const two = await post(`${berth.url}/mcp/two`, request("tools/list"), bearer(one));
    const none = await post(`${berth.url}/mcp/none`, request("tools/list"), bearer(one));
    assert.deepEqual([two.status, none.status], [403, 403]);
    assert.match(two.headers.get("www-authenticate")!, /^Bearer error="insufficient_scope"/);
    assert.equal((await callTool("/mcp", "one.second", second)).body.result.content[0].text, "second");
    for (const name of ["one.first", "two.third"]) {
      assert.match((await callTool("/mcp", name, second)).body.error.message, /Unknown tool/, name);
      const native = await post(`${berth.url}/mcp`, request(name, {}), bearer(second));
      assert.match(native.body.error.message, /No such method/, name);
    }
    const [hidden, missing] = await Promise.all(
      ["two.third", "none.third"].map((name) => post(`${berth.url}/mcp`, request(name, {}), bearer(one))),
    );
    assert.equal(hidden!.body.error.message, missing!.body.error.message.replace("none", "two"));
    const resources = await post(`${berth.url}/mcp`, request("resources/list"), bearer(one));
    assert.deepEqual(rows(resources.body.result.resources, "uri"), ["test://one"]);
    for (const [path, uri] of [
      ["/mcp", "test://two"],
      ["/mcp", "server://two/third"],
      ["/mcp/one", "server://two/third"],
    ] as const) {
      const { body } = await post(`${berth.url}${path}`, request("resources/read", { uri }), bearer(one));
      assert.match(body.error.message, /No such resource/, `${path} ${uri}`);
    }
    const read = (uri: string, token: string): Promise<Reply> =>
      post(`${berth.url}/mcp/one`, request("resources/read", { uri }), bearer(token));
    assert.equal((await read("server://one/first", one)).body.result.contents[0].text, "first");
    assert.match((await read("server://one/first", second)).body.error.message, /No such resource/);
    assert.equal((await get("/servers/one/second", second)).status, 200);
    assert.equal((await get("/servers/one/first", second)).status, 404);
    assert.equal((await get("/servers/two/third", second)).status, 403);
  });

  it("pages and the API tell of what a token may read, and of nothing else", async () => {
    const { token } = await makeToken(berth, { can: ["call", "read"], servers: ["one"], tools: ["second"] });
    const pages = await get("/mcp", token, { Accept: "text/html" });
    const text = await pages.text();
    assert.match(text, /second/);
    assert.doesNotMatch(text, /third|<code>first|meta\/two/);
    assert.match(pages.headers.get("cache-control")!, /private/);
    const meta = await (await get("/mcp/meta/one", token, { Accept: "text/html" })).text();
    assert.match(meta, /id="tool-second"/);
    assert.doesNotMatch(meta, /id="tool-first"/);
    const asJson = ["/mcp/meta/one?tool=second", "/mcp/meta/one?tool=first", "/mcp/meta/two?tool=third"];
    const statuses = await Promise.all(asJson.map(async (path) => (await get(path, token)).status));
    assert.deepEqual(statuses, [200, 404, 403]);
    const servers = await api.send("GET", "/servers", undefined, bearer(token));
    assert.deepEqual(rows(servers.body.servers, "name"), ["one"]);
    for (const path of [
      "/definitions/two",
      "/variables/colour",
      "/servers/two/releases",
      "/tokens",
      "/definitions/no",
    ]) {
      const { status, body } = await api.send("GET", path, undefined, bearer(token));
      assert.deepEqual([path, status, body.error.code], [path, 403, "forbidden"]);
    }
    assert.deepEqual((await api.send("GET", "/variables", undefined, bearer(token))).status, 403);
    for (const path of ["/mcp/meta/two", "/mcp/meta/no", "/servers/two", "/variables", "/variables/colour"]) {
      assert.equal((await get(path, token, { Accept: "text/html" })).status, 403, path);
    }
    const { token: caller } = await makeToken(berth, { can: ["call"] });
    assert.equal((await get("/mcp/meta/one", caller, { Accept: "text/html" })).status, 403);
    assert.equal((await get("/metrics", token)).status, 403);
  });

  it("administrators make, list and revoke their tenant's tokens, and see none of them again", async () => {
    const { token: admin } = await makeToken(berth, { can: ["admin"], name: "the boss" });
    const { token: editor } = await makeToken(berth, { can: ["edit", "call"] });
    const wish = { can: ["call"], servers: ["one"], name: "made here", expires: "1h" };
    assert.equal((await api.send("POST", "/tokens", wish, bearer(editor))).status, 403);
    const made = await withStatus(201, api.send("POST", "/tokens", wish, bearer(admin)));
    const { token, id, hash, ...rest } = made.body;
    assert.equal(hash, undefined);
    assert.deepEqual([rest.name, rest.can, rest.servers, rest.tenant], ["made here", ["call"], ["one"], "default"]);
    assert.deepEqual(await list("/mcp", token), ["one.first", "one.second"]);
    const listed = await api.send("GET", "/tokens", undefined, bearer(admin));
    assert.ok(listed.body.tokens.some((each: { id: string }) => each.id === id));
    assert.ok(!JSON.stringify(listed.body).includes(token), "the list shows the token");
    assert.equal((await api.send("DELETE", `/tokens/${id}`, undefined, bearer(admin))).status, 200);
    assert.equal((await callTool("/mcp/one", "first", token)).status, 401);
    assert.equal((await api.send("DELETE", `/tokens/${id}`, undefined, bearer(admin))).status, 404);
    const bad = await api.send("POST", "/tokens", { can: [] }, bearer(admin));
    assert.deepEqual([bad.status, bad.body.error.code], [422, "token_invalid"]);
    await withStatus(401, fetch(`${berth.url}/t/acme/api/tokens`, { headers: bearer(admin) }));
  });

  it("a tenant has so many tokens, of which those that have ended make room, made no faster than saves", async (t) => {
    t.after(lower({ tokensPerTenant: 3 }));
    await onStoreOf(berth, async (store) => {
      await addTenant(store, "crowded", {});
      let paced = 0;
      const options = {
        databaseOutageMs: 0,
        checkPace: () => void paced++,
        onRevoked: () => {},
      };
      const tokens = new Tokens(store.tokens, options);
      const make = (expires?: string) =>
        tokens.create("crowded", readTokenRequest({ can: ["call"], expires }, expires ? 0 : Date.now()), "test");
      const expired = await make("1h");
      const [first, second] = [await make(), await make()];
      const third = await make();
      await assert.rejects(make(), { code: "token_invalid", message: /there are already 3/ });
      await tokens.revoke("crowded", first.id, "test");
      const fourth = await make();
      const ids = (await tokens.list("crowded")).map(({ id }) => id);
      assert.deepEqual(ids.sort(), [second.id, third.id, fourth.id].sort());
      assert.ok(!ids.includes(expired.id));
      assert.equal(paced, 6);
      tokens.close();
    });
    const names = Array.from({ length: 100 }, (_, at) => String(at).padEnd(256, "x"));
    assert.throws(() => readTokenRequest({ can: ["call"], servers: names }), {
      code: "token_invalid",
      message: /8192/,
    });
  });

  it("a page of tokens ends where it is long enough, and the next goes on there", async () => {
    const { token: admin } = await makeToken(berth, { can: ["admin"] });
    await onStoreOf(berth, async (store) => {
      for (let at = 0; at < 45; at++) {
        const grant = { can: ["call"], servers: Array.from({ length: 100 }, () => `${at}`.padEnd(256, "x")) };
        const id = `long${at}`;
        await store.tokens.add({ id, tenant: "default", hash: id, name: id, grant, expiresAt: null }, "test");
      }
    });
    const seen: string[] = [];
    let pages = 0;
    for (let next: string | undefined = ""; next !== undefined; pages++) {
      const { body } = await api.send(
        "GET",
        `/tokens?limit=1000${next && `&cursor=${next}`}`,
        undefined,
        bearer(admin),
      );
      seen.push(...body.tokens.map(({ id }: { id: string }) => id).filter((id: string) => id.startsWith("long")));
      next = body.next;
    }
    assert.equal(new Set(seen).size, 45);
    assert.equal(seen.length, 45);
    assert.ok(pages > 1);
  });

  it("tells a guest of what its caller may use, also while others call it", async () => {
    const answers = [
      { can: ["call", "read"] },
      { can: ["call"], servers: ["mcp", "one"] },
      { can: ["call"], servers: ["mcp", "one"], tools: ["list_servers", "second"] },
      { can: ["call"], servers: ["mcp"] },
    ].map(async (wish): Promise<Record<string, string[]>> => {
      const { token } = await makeToken(berth, wish);
      const { body } = await callTool("/mcp/mcp", "list_servers", token);
      const listed = JSON.parse(body.result.content[0].text) as { name: string; tools: string[] }[];
      return Object.fromEntries(listed.map(({ name, tools }) => [name, tools]));
    });
    const [everything, ofOne, ofSecond, ofNone] = await Promise.all(answers);
    assert.deepEqual(Object.keys(everything!), ["mcp", "one", "tells", "two"]);
    assert.deepEqual(ofOne, { mcp: everything!["mcp"], one: ["first", "second"] });
    assert.deepEqual(ofSecond, { mcp: ["list_servers"], one: ["second"] });
    assert.deepEqual(ofNone, { mcp: everything!["mcp"] });
  });

  it("tells a guest's resources and prompts of nothing else either", async () => {
    const { token } = await makeToken(berth, { can: ["call", "read"], servers: ["tells"] });
    for (const [method, params] of [
      ["resources/read", { uri: "test://servers" }],
      ["resources/read", { uri: "server://tells/tool" }],
      ["prompts/get", { name: "told" }],
    ] as const) {
      const { text, body } = await post(`${berth.url}/mcp/tells`, request(method, params), bearer(token));
      assert.ok(body.result, text);
      assert.match(text, /tells/, method);
      assert.doesNotMatch(text, /list_servers|second|\/mcp\/one/, `${method} ${JSON.stringify(params)}`);
    }
  });

  it("the operator's token is good for every tenant", async () => {
    assert.deepEqual(await list("/mcp/one", ADMIN), ["first", "second"]);
    assert.deepEqual(await list("/t/acme/mcp/theirs", ADMIN), ["third"]);
    const made = await fetch(`${berth.url}/t/acme/api/tokens`, {
      method: "POST",
      headers: { ...bearer(ADMIN), "Content-Type": "application/json" },
      body: JSON.stringify({ can: ["call"] }),
    });
    const { tenant, token } = (await made.json()) as { tenant: string; token: string };
    assert.equal(tenant, "acme");
    assert.equal((await callTool("/t/acme/mcp/theirs", "third", token)).status, 200);
    assert.equal((await get("/metrics", ADMIN)).status, 200);
  });

  it("a stream that is open ends with the token that opened it", async () => {
    const { token, id } = await makeToken(berth, { can: ["call", "read"] });
    const sse = await read(`${berth.url}/mcp/one/sse`, { headers: { Accept: "text/event-stream", ...bearer(token) } });
    const streams = [sse, await listenTo(`${berth.url}/mcp/one`, bearer(token))];
    for (const stream of streams) {
      assert.equal(stream.status, 200);
      await stream.next();
    }
    await revoke(berth, id);
    for (const stream of streams) {
      await assert.rejects(async () => {
        while (await stream.next());
      }, /terminated/);
    }
  });

  it("what a token that was just made has opened stays open when the service hears that there is one", async () => {
    const earlier = await makeToken(berth, { can: ["call"] });
    await callTool("/mcp/one", "first", earlier.token);
    const { token } = await makeToken(berth, { can: ["call", "read"] });
    const open = await fetch(`${berth.url}/mcp/one/sse`, {
      headers: { Accept: "text/event-stream", ...bearer(token) },
    });
    const stream = open.body!.getReader();
    await stream.read();
    let isOver = false;
    const note = (): void => void (isOver = true);
    stream.closed.then(note, note);
    // Noticed later than the new token.
    await revoke(berth, earlier.id);
    await until(async () => (await callTool("/mcp/one", "first", earlier.token)).status === 401);
    assert.equal((await callTool("/mcp/one", "first", token)).status, 200);
    assert.equal(isOver, false);
    await stream.cancel();
    const data = join(berth.folder, "data");
    for (const text of [lines.join(""), ...readdirSync(data).map((file) => readFileSync(join(data, file), "latin1"))])
      for (const each of [ADMIN, token, earlier.token]) assert.ok(!text.includes(each), "a token is stored or logged");
  });
});

test("access is open on this machine alone, unless it is required there, too", () => {
  assert.equal(readConfig({}).access, "open");
  assert.equal(readConfig({ BERTH_ACCESS: "required" }).access, "required");
  assert.equal(readConfig({ BERTH_HOST: "0.0.0.0" }).access, "required");
  assert.throws(() => readConfig({ BERTH_HOST: "0.0.0.0", BERTH_ACCESS: "open" }), /would let anyone in/);
  assert.throws(() => readConfig({ BERTH_ACCESS: "maybe" }), /BERTH_ACCESS must be open or required/);
});

describe("a token that is known", () => {
  it("is looked up again after a while, so that a revocation counts whose news was lost", async (t) => {
    const made: { revokedAt: number | null; hash: string }[] = [];
    const records = {
      add: async (token: { hash: string }) => made[made.push({ ...token, revokedAt: null }) - 1],
      byHash: async (hash: string) => made.find((each) => each.hash === hash),
      onRevoke: () => () => {},
    } as unknown as TokenRecords;
    const revoked: string[] = [];
    const options = { databaseOutageMs: 60_000, onRevoked: (id: string) => void revoked.push(id) };
    for (const [knownTokenMs, isNoticed] of [
      [60_000, false],
      [0, true],
    ] as const) {
      t.after(lower({ knownTokenMs }));
      const tokens = new Tokens(records, options);
      const { token, id } = await tokens.create("acme", readTokenRequest({ can: ["call"] }, 0), "test");
      await tokens.principalOf(token, "acme");
      made.at(-1)!.revokedAt = 1;
      const again = (async () => tokens.principalOf(token, "acme"))();
      if (isNoticed) await assert.rejects(again, { code: "unauthorized" });
      else assert.equal((await again).id, `token:${id}`);
      assert.deepEqual(revoked, isNoticed ? [`token:${id}`] : []);
      tokens.close();
    }
  });

  for (const [what, unreached] of [
    ["is out of reach", () => Promise.reject(new BerthError("store_failed", "the database cannot be reached"))],
    ["does not answer", () => new Promise<never>(() => {})],
  ] as const) {
    it(`stays known while the store ${what}, as long as a node may serve without it`, async (t) => {
      t.after(lower({ knownTokenMs: 0 }));
      const made: { revokedAt: number | null; hash: string }[] = [];
      let isReached = true;
      const records = {
        add: async (token: { hash: string }) => made[made.push({ ...token, revokedAt: null }) - 1],
        byHash: async (hash: string) => (isReached ? made.find((each) => each.hash === hash) : unreached()),
        onRevoke: () => () => {},
      } as unknown as TokenRecords;
      const open = async (databaseOutageMs: number) => {
        isReached = true;
        const tokens = new Tokens(records, { databaseOutageMs, onRevoked: () => {} });
        const [one, other] = await Promise.all(
          [1, 2].map(() => tokens.create("acme", readTokenRequest({ can: ["call"] }, 0), "test")),
        );
        await tokens.principalOf(one!.token, "acme");
        isReached = false;
        return {
          one: one!,
          other: other!,
          use: async (token: string, tenant: string) => tokens.principalOf(token, tenant),
        };
      };
      const known = await open(60_000);
      assert.equal((await known.use(known.one.token, "acme")).id, `token:${known.one.id}`);
      await assert.rejects(known.use(known.one.token, "other"), { code: "unauthorized" });
      if (what === "does not answer") return;
      // No other token is refused as wrong.
      await assert.rejects(known.use(known.other.token, "acme"), { code: "store_failed" });
      const unknown = await open(0);
      for (const tenant of ["acme", "other"])
        await assert.rejects(unknown.use(unknown.one.token, tenant), { code: "store_failed" });
    });
  }

  it("a token that is refused again and again costs the store a question at a time", async () => {
    let asked = 0;
    const records = { byHash: async () => void asked++, onRevoke: () => () => {} } as unknown as TokenRecords;
    const tokens = new Tokens(records, { databaseOutageMs: 0, onRevoked: () => {} });
    const token = newToken();
    for (let turn = 0; turn < 50; turn++)
      await assert.rejects(async () => tokens.principalOf(token, "acme"), { code: "unauthorized" });
    assert.ok(asked < 50, `${asked}`);
    tokens.close();
  });
});
