import assert from "node:assert/strict";
import { before, describe, it } from "node:test";
import { rawBlock } from "../../src/lib/cid.ts";
import type { JsonObject } from "../../src/lib/json.ts";
import { apiOf, type Api } from "../support/api.ts";
import { callText, modern, NODES, post, request, withStatus, type Reply } from "../support/berth.ts";
import { LegacyClient, read } from "../support/legacy-client.ts";
import { declaring, openStream } from "../support/mcp-host.ts";
import { connectRaw, rawPost } from "../support/raw-http.ts";
import { rows } from "../support/rows.ts";
import { berthInSuite } from "../support/suite.ts";
import { nameOf, WITH_TASKS } from "../support/task-offer.ts";
import { addTenant, onStoreOf } from "../support/tenants.ts";
import { until } from "../support/until.ts";

/** Stands in all data of the one tenant, and must be in nothing that the other gets. */
const MARK = "jewels-of-acme";

/** The same definition for both tenants, so that only the tenant tells them apart. */
const VAULT = `import type { ToolContext } from "berth";
const held: string[] = [];
/** Keeps something in the process. */
export function keep(what: string): number { return held.push(what); }
export function kept(): string { return held.join(); }
export async function variable(name: string, context: ToolContext): Promise<string> { return (await context.variable(name)) ?? "nothing"; }
export async function secret(name: string, context: ToolContext): Promise<string> { return (await context.secret(name)) ?? "nothing"; }
export async function cid(cid: string, context: ToolContext): Promise<string> {
  const bytes = await context.cid(cid);
  return bytes ? new TextDecoder().decode(bytes) : "nothing";
}
export async function servers(context: ToolContext): Promise<string> { return (await context.variable("berth:servers")) ?? ""; }
/** Asks, and goes on with the answer. */
export async function ask(what: string, context: ToolContext): Promise<string> {
  const { content } = await context.elicit({
    message: "Sure of ${MARK}?",
    schema: { type: "object", properties: { sure: { type: "boolean" } } },
  });
  return what + JSON.stringify(content);
}
/** @task required */
export async function long(context: ToolContext): Promise<string> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => resolve("${MARK}"), 60_000);
    context.signal.addEventListener("abort", () => { clearTimeout(timer); reject(new Error("stopped")); });
  });
}
export async function put(key: string, value: string, context: ToolContext): Promise<number> { return context.state.set(key, value); }
export async function got(key: string, context: ToolContext): Promise<string> { return (await context.state.get(key)) ?? "nothing"; }
export async function keys(context: ToolContext): Promise<string> { return JSON.stringify(await context.state.list({ values: true })); }
export async function hide(name: string, context: ToolContext): Promise<void> { await context.hide(name); }
export async function touch(context: ToolContext): Promise<void> { await context.resourceUpdated("vault://state"); }
/** @resource vault://state text/plain */
export function state(): string { return "locked"; }
`;
const PRIVATE = `/** Only acme has it. */\nexport function treasure(): string { return "${MARK}"; }\n`;
const PLAIN = `export function tool0(): string { return "0"; }`;
const TRANSFORM = `export async function generateTools(name: string, context: any) {
  return [{ name: "told", function: "tool0", description: await context.variable("told") }];
}`;
const MANY = Array.from({ length: 60 }, (_, n) => `export function tool${n}(): string { return "${n}"; }`).join("\n");
const MCPS = JSON.stringify({ vault: { secrets: ["CODE"] } });

describe("what one tenant has is out of reach of another", () => {
  let acme: string;
  let evil: string;
  let evilApi: Api;
  /** CIDs of what acme has. */
  const cids: Record<string, string> = {};
  const env = { BERTH_EXPLORE: "on", BERTH_LIST_PAGE_BYTES: "5000" };
  const berth = berthInSuite({ texts: { "vault.ts": VAULT }, env });
  before(async () => {
    acme = `${berth.url}/t/acme`;
    evil = `${berth.url}/t/evil`;
    evilApi = apiOf({ url: evil });
    await onStoreOf(berth, async (store) => {
      await addTenant(store, "acme", {
        servers: { vault: VAULT, private: PRIVATE, many: MANY },
        variables: { plan: MARK, mcps: MCPS },
        hosts: ["acme.localhost"],
      });
      await addTenant(store, "evil", {
        servers: { vault: VAULT, many: MANY.replace("tool0", "other0") },
        variables: { mcps: MCPS },
        hosts: ["evil.localhost"],
      });
    });
    await withStatus(200, modern(`${acme}/mcp/private`, "tools/list"));
    const acmeApi = apiOf({ url: acme });
    assert.equal((await acmeApi.put("/secrets/CODE", MARK)).status, 204);
    const releasesOf = async (server: string) =>
      (await acmeApi.send("GET", `/servers/${server}/releases`)).body.releases;
    const releases = await releasesOf("private");
    Object.assign(cids, {
      variable: rawBlock(MARK).cid,
      definition: rawBlock(PRIVATE).cid,
      mcps: (await acmeApi.send("GET", "/variables/plan")).cid,
      release: releases[0].release,
      contract: releases[0].contract,
    });
    const release = await (await fetch(`${acme}/cid/${cids["release"]}?raw`)).json();
    cids["bundle"] = (release as { bundle: string }).bundle;
  });

  const page = async (path: string): Promise<{ status: number; text: string }> => {
    const response = await fetch(`${evil}${path}`, { headers: { Accept: "text/html" }, redirect: "manual" });
    return { status: response.status, text: await response.text() };
  };

  it("content: no page, resource, function or version of the other gives what a CID of the one stands for (C8)", async () => {
    for (const [what, cid] of Object.entries(cids)) {
      for (const path of [`/cid/${cid}`, `/cid/${cid}?raw`, `/mcp/meta/private@${cid}`, `/mcp/meta/vault@${cid}x`]) {
        const { status, text } = await page(path);
        assert.equal(status, 404, `${what} at ${path}`);
        assert.ok(!text.includes(MARK), `${what} at ${path}`);
      }
      for (const server of ["vault", ""]) {
        const { body } = await post(`${evil}/mcp/${server}`, request("resources/read", { uri: `cid://${cid}` }));
        assert.match(body.error?.message ?? "", /^No such resource/, `${what} of "${server}": ${JSON.stringify(body)}`);
      }
      assert.equal(await callText(`${evil}/mcp/vault`, "cid", { cid }), "nothing", what);
      for (const kind of ["variables/plan", "definitions/private", "definitions/vault", "entries/vault"]) {
        const { status } = await evilApi.send("GET", `/${kind}/versions/${cid}`);
        assert.equal(status, 404, `${what} as a version of ${kind}`);
      }
    }
  });

  it("state: no key, page or request of the other gives what a server of the one keeps, or changes it", async () => {
    await callText(`${acme}/mcp/vault`, "put", { key: "plan", value: MARK });
    for (const key of ["plan", "acme/vault/plan", "../acme/vault/plan", "vault\u0020plan"]) {
      assert.equal(await callText(`${evil}/mcp/vault`, "got", { key }), "nothing");
    }
    await callText(`${evil}/mcp/vault`, "put", { key: "plan", value: "of evil" });
    assert.doesNotMatch(await callText(`${evil}/mcp/vault`, "keys"), new RegExp(MARK));
    for (const path of ["/state", "/state/vault", "/state/vault?key=plan", "/api/state/vault/value?key=plan"]) {
      const { text } = await page(path);
      assert.ok(!text.includes(MARK), path);
    }
    assert.equal((await evilApi.send("DELETE", "/state/vault")).status, 200);
    assert.equal(await callText(`${acme}/mcp/vault`, "got", { key: "plan" }), MARK);
  });

  it("content: a configuration that names a CID of the one gets nothing of it (C8)", async () => {
    const entries = {
      definition: { definition: cids["definition"] },
      config: { config_cid: cids["mcps"] },
      transform: { definition: rawBlock(VAULT).cid, tools_transform_cid: cids["definition"] },
      linked: { resources: [{ uri: "x://y", name: "y", uri_target: `cid://${cids["variable"]}` }] },
    };
    for (const [name, entry] of Object.entries(entries)) {
      const reply = await evilApi.put(`/entries/stolen-${name}`, JSON.stringify(entry));
      assert.ok(!JSON.stringify(reply.body).includes(MARK), name);
      const listed = await post(`${evil}/mcp/stolen-${name}`, request("tools/list"));
      assert.ok(!listed.text.includes("treasure"), `${name}: ${listed.text}`);
    }
    await withStatus(422, evilApi.put("/variables/mcps", cids["mcps"]!, { "Berth-Allow-Breaking": "true" }));
    const restored = await evilApi.send("POST", `/servers/vault/releases/${cids["release"]}/restore`, undefined, {
      "If-Match": "*",
    });
    assert.equal(restored.status, 404, JSON.stringify(restored.body));
  });

  it("transforms: what one returned for the one is not kept for the other, though all of their texts are the same (C8)", async () => {
    const told = async (tenant: string, plan: string): Promise<string> => {
      const api = apiOf({ url: tenant });
      await api.put("/variables/told", plan);
      await api.put("/definitions/transform", TRANSFORM);
      await api.put("/definitions/plain", PLAIN);
      const entry = { definition: rawBlock(PLAIN).cid, tools_transform_cid: rawBlock(TRANSFORM).cid };
      assert.equal((await api.put("/entries/transformed", JSON.stringify(entry))).status, 201);
      return (await post(`${tenant}/mcp/transformed`, request("tools/list"))).text;
    };
    assert.match(await told(acme, MARK), new RegExp(MARK));
    assert.ok(!(await told(evil, "nothing")).includes(MARK));
  });

  it("variables, secrets and servers: neither guests nor addresses of the other know them (C8)", async () => {
    assert.equal(await callText(`${acme}/mcp/vault`, "variable", { name: "plan" }), MARK);
    assert.equal(await callText(`${acme}/mcp/vault`, "secret", { name: "CODE" }), MARK);
    assert.equal(await callText(`${evil}/mcp/vault`, "variable", { name: "plan" }), "nothing");
    assert.equal(await callText(`${evil}/mcp/vault`, "secret", { name: "CODE" }), "nothing");
    const known = JSON.parse(await callText(`${evil}/mcp/vault`, "servers")) as { name: string; url: string }[];
    const vaults = known.filter(({ name }) => ["many", "vault", "private"].includes(name));
    assert.deepEqual(rows(vaults, "name", "url"), ["many /t/evil/mcp/many", "vault /t/evil/mcp/vault"]);
    for (const uri of ["variable://plan", "server://private/treasure", "server://acme/private/treasure"]) {
      const { body } = await post(`${evil}/mcp/vault`, request("resources/read", { uri }));
      assert.ok(body.error && !JSON.stringify(body).includes(MARK), `${uri}: ${JSON.stringify(body)}`);
    }
    for (const path of ["/api/variables/plan", "/api/secrets/CODE", "/api/definitions/private", "/variables/plan"]) {
      assert.ok([404, 405].includes((await page(path)).status), path);
    }
    for (const path of ["/servers/private", "/servers/private/treasure", "/mcp/private/sse"]) {
      assert.equal((await fetch(`${evil}${path}?`)).status, 404, path);
    }
    for (const method of ["private.treasure", "private_treasure"]) {
      const { body } = await post(`${evil}/mcp`, request(method, {}));
      assert.equal(body.error.code, -32601, method);
    }
  });

  it("guests: the same definition runs in another process for each tenant, and hides its tools for one alone (C8)", async () => {
    // Each node has a process of its own for it.
    for (let node = 0; node < NODES; node++) await callText(`${acme}/mcp/vault`, "keep", { what: MARK });
    for (let node = 0; node < NODES; node++) assert.equal(await callText(`${acme}/mcp/vault`, "kept"), MARK);
    for (let node = 0; node < NODES; node++) assert.equal(await callText(`${evil}/mcp/vault`, "kept"), "");
    await callText(`${evil}/mcp/vault`, "hide", { name: "servers" });
    const tools = async (at: string): Promise<string[]> =>
      rows((await post(`${at}/mcp/vault`, request("tools/list"))).body.result.tools, "name");
    // The answer may be another node's, which hears of it a moment later.
    await until(async () => !(await tools(evil)).includes("servers"));
    assert.ok((await tools(acme)).includes("servers"));
    const { text } = await page("/mcp/meta/vault");
    assert.ok(!/>keep<\/[^>]*>[^]*1 call/.test(text.slice(text.indexOf('id="calls"'))), "no calls of the other");
  });

  it("sessions: a session of the one is none of the other, and cannot be ended from there (C8)", async () => {
    const mine = await LegacyClient.start(`${acme}/mcp/vault`, "2025-11-25", { elicitation: {} });
    const stream = await mine.listen();
    const thief = await LegacyClient.start(`${evil}/mcp/vault`);
    const own = thief.session;
    thief.session = mine.session;
    assert.equal((await thief.request("tools/list")).status, 404);
    assert.equal((await thief.listen()).status, 404);
    assert.equal(await thief.end(), 404);
    // The id of an event that it was not sent tells a session only that the event is lost.
    const calling = await mine.call("ask", { what: "x" });
    let asked = (await calling.next())!;
    while (asked.data === "") asked = (await calling.next())!;
    assert.ok(asked.id !== undefined && asked.data.includes(MARK), asked.data);
    thief.session = own;
    const taken = await thief.listen(asked.id);
    for (let event = await taken.next(); event; event = await taken.next()) {
      assert.ok(event.data === "" || event.message.error, event.data);
    }
    assert.equal((await mine.request("ping")).status, 200, "the session goes on");
    calling.close();
    stream.close();
  });

  it("HTTP+SSE: messages are taken for a connection at its own tenant's address alone (C8)", async () => {
    const connection = await read(`${acme}/mcp/vault/sse`, { headers: { Accept: "text/event-stream" } });
    const endpoint = (await connection.next())!.data;
    const at = (path: string): Promise<Reply> => post(`${berth.url}${path}`, request("ping"));
    assert.equal((await at(endpoint.replace("/t/acme", "/t/evil"))).status, 404);
    assert.equal((await at(endpoint.replace("/t/acme", ""))).status, 404);
    assert.equal((await at(endpoint)).status, 202);
    connection.close();
  });

  it("tasks: the other can neither ask for one, answer it, cancel it, nor listen to it (C8)", async () => {
    const at = (tenant: string, method: string, params: JsonObject): Promise<Reply> =>
      modern(`${tenant}/mcp/vault`, method, { _meta: WITH_TASKS, ...params }, nameOf(params));
    const { taskId } = (await at(acme, "tools/call", { name: "long", arguments: {} })).body.result;
    assert.equal(typeof taskId, "string");
    for (const method of ["tasks/get", "tasks/update", "tasks/cancel"]) {
      const { body } = await at(evil, method, { taskId, inputResponses: {} });
      assert.equal(body.error?.code, -32602, `${method}: ${JSON.stringify(body)}`);
    }
    const notifications = { taskIds: [taskId], toolsListChanged: true };
    const asked = { _meta: WITH_TASKS, notifications };
    const listening = await openStream(`${evil}/mcp/vault`, "subscriptions/listen", asked);
    assert.deepEqual((await listening.next()).params.notifications, { toolsListChanged: true });
    listening.close();
    assert.equal((await at(acme, "tasks/get", { taskId })).body.result.status, "working");
    await at(acme, "tasks/cancel", { taskId });
    await until(async () => (await at(acme, "tasks/get", { taskId })).body.result.status === "cancelled");
  });

  it("requestState: what the one was asked cannot be answered at the other, though all else is the same (C8)", async () => {
    const asked = { name: "ask", arguments: { what: "x" } };
    const meta = declaring({ elicitation: {} });
    const at = (tenant: string, more: Record<string, unknown> = {}): Promise<Reply> =>
      modern(`${tenant}/mcp/vault`, "tools/call", { _meta: meta, ...asked, ...more });
    const { requestState, inputRequests } = (await at(acme)).body.result;
    const answers = Object.keys(inputRequests).map((key) => [key, { action: "accept", content: { sure: true } }]);
    const again = { requestState, inputResponses: Object.fromEntries(answers) };
    assert.equal((await at(evil, again)).body.error?.code, -32602);
    assert.equal((await at(berth.url, again)).body.error?.code, -32602);
    assert.equal((await at(acme, again)).body.result.content[0].text, 'x{"sure":true}');
  });

  it("cursors: one that the other gave leads to the tenant's own list (C8)", async () => {
    const list = (tenant: string, cursor?: string): Promise<Reply> =>
      post(`${tenant}/mcp/many`, request("tools/list", cursor === undefined ? {} : { cursor }));
    const names = (reply: Reply): string[] => rows(reply.body.result.tools, "name");
    const { nextCursor } = (await list(acme)).body.result;
    assert.ok(nextCursor);
    const own = (await list(evil)).body.result.nextCursor;
    assert.deepEqual(names(await list(evil, nextCursor)), names(await list(evil, own)));
  });

  it("pinned releases and resource updates: those of the other are not there, even of the same server (C8)", async () => {
    for (const name of [`private@${cids["release"]}`, `vault@${cids["release"]}`]) {
      assert.equal((await post(`${evil}/mcp/${encodeURIComponent(name)}`, request("tools/list"))).status, 404, name);
    }
    const notifications = { resourceSubscriptions: ["vault://state"], toolsListChanged: true };
    const listening = await openStream(`${evil}/mcp/vault`, "subscriptions/listen", { notifications });
    await listening.next();
    await callText(`${acme}/mcp/vault`, "touch");
    await callText(`${evil}/mcp/vault`, "hide", { name: "touch" });
    assert.equal((await listening.next()).method, "notifications/tools/list_changed", "the next is its own");
    listening.close();
  });

  it("explore: the server that starts programs is for default alone (C8)", async () => {
    assert.equal((await post(`${berth.url}/mcp/explore`, request("tools/list"))).status, 200);
    assert.equal((await post(`${evil}/mcp/explore`, request("tools/list"))).status, 404);
    assert.ok(!(await page("/mcp")).text.includes("/mcp/explore"));
  });

  it("paths: no other spelling of an address leads to a tenant (C8)", async () => {
    const tricks = [
      "/t/evil/../acme/mcp/private",
      "/t/evil/%2e%2e/acme/mcp/private",
      "/t/evil/..%2facme/mcp/private",
      "/t/evil/t/acme/mcp/private",
      "/t/evil//t/acme/mcp/private",
      "/t/evil/mcp/../../acme/mcp/private",
      "/t/evil/mcp/..%2f..%2f..%2facme%2fmcp%2fprivate",
      "/t/ACME/mcp/private",
      "/T/acme/mcp/private",
      "/%74/acme/mcp/private",
      "/t/%61cme/mcp/private",
      "/t/acme%2fmcp/private",
      "/t/acme%00/mcp/private",
      "/t/acme;/mcp/private",
      "/t/acme./mcp/private",
      "/t/acme\\mcp/private",
      "/t\\acme/mcp/private",
      "//t/acme/mcp/private",
      "/t//acme/mcp/private",
      "/./t/acme/mcp/private",
      "/mcp/../t/acme/mcp/private",
      "/t/default/mcp/private",
      "/t/acme@evil/mcp/private",
      "/t/ａｃｍｅ/mcp/private",
      "/t/аcme/mcp/private",
      "/t/evil/mcp/private?tenant=acme",
      "/t/evil/mcp/acme%2fprivate",
      "/t/evil/mcp/%2e%2e/private",
      "/t/__proto__/mcp/private",
      "/t/constructor/mcp/private",
      "/t//mcp/private",
      "/t/",
      "/t",
    ];
    const calling = request("tools/call", { name: "treasure", arguments: {} });
    for (const path of tricks) {
      const text = await raw(rawPost(Buffer.from(path).toString("latin1"), calling));
      assert.match(text, /^HTTP\/1\.1 4\d\d /, path);
      assert.ok(!text.includes(MARK), path);
    }
    const own = await raw(rawPost("/t/acme/mcp/private", calling));
    assert.ok(own.includes(MARK), "and the one spelling does");
  });

  it("hosts: a host name leads to its own tenant, whatever else a request says (C8)", async () => {
    const calling = request("tools/call", { name: "treasure", arguments: {} });
    const at = (path: string, headers: Record<string, string | string[]>): Promise<string> =>
      raw(rawPost(path, calling, headers));
    assert.ok((await at("/mcp/private", { Host: "acme.localhost" })).includes(MARK));
    assert.ok((await at("/mcp/private", { Host: "ACME.localhost:80" })).includes(MARK));
    assert.ok((await at("/t/acme/mcp/private", { Host: "acme.localhost" })).includes(MARK));
    const refused: [string, Record<string, string | string[]>][] = [
      ["/t/acme/mcp/private", { Host: "evil.localhost" }],
      [
        "/mcp/private",
        { Host: "evil.localhost", "X-Forwarded-Host": "acme.localhost", Forwarded: "host=acme.localhost" },
      ],
      ["/mcp/private", { Host: ["evil.localhost", "acme.localhost"] }],
      ["/mcp/private", { Host: "127.0.0.1", "X-Forwarded-Host": "acme.localhost" }],
      ["/mcp/private", { Host: "acme.localhost." }],
      ["/mcp/private", { Host: "acme.localhost.evil.localhost" }],
      ["/mcp/private", { Host: "evil.localhost/acme.localhost" }],
      ["http://acme.localhost/mcp/private", { Host: "evil.localhost" }],
      ["http://acme.localhost/t/acme/mcp/private", { Host: "127.0.0.1" }],
      // Pages at a tenant's host name are its own pages, and may call no other tenant.
      ["/mcp/private", { Host: "acme.localhost", Origin: "http://evil.localhost" }],
      ["/t/acme/mcp/private", { Host: "127.0.0.1", Origin: "http://evil.localhost" }],
      ["/mcp/vault", { Host: "127.0.0.1", Origin: "http://acme.localhost" }],
    ];
    for (const [path, headers] of refused) {
      const text = await at(path, headers);
      assert.match(text, /^HTTP\/1\.1 4\d\d /, `${path} ${JSON.stringify(headers)}`);
      assert.ok(!text.includes(MARK), `${path} ${JSON.stringify(headers)}`);
    }
    assert.ok((await at("/mcp/private", { Host: "acme.localhost", Origin: "http://acme.localhost" })).includes(MARK));
  });

  it("writes: what the other saves under the same name changes nothing of the one (C8)", async () => {
    const before = await apiOf({ url: acme }).send("GET", "/variables/plan");
    assert.equal((await evilApi.put("/variables/plan", "other")).status, 201);
    assert.equal((await evilApi.put("/definitions/private", PRIVATE.replace(MARK, "fake"))).status, 201);
    assert.equal((await evilApi.send("DELETE", "/secrets/CODE")).status, 404);
    assert.equal((await apiOf({ url: acme }).send("GET", "/variables/plan")).cid, before.cid);
    assert.equal(await callText(`${acme}/mcp/private`, "treasure"), MARK);
    const stale = await evilApi.send("PUT", "/variables/plan", "x", { "If-Match": `"${cids["variable"]}"` });
    assert.equal(stale.status, 412);
    assert.ok(!JSON.stringify(stale.body).includes(MARK));
  });

  /** Sends raw bytes, and returns the head and the body of the answer. */
  async function raw(bytes: string): Promise<string> {
    const connection = await connectRaw(berth.url);
    connection.socket.write(bytes.replace("\r\n", "\r\nConnection: close\r\n"), "latin1");
    const text = await connection.closed;
    connection.socket.destroy();
    return text;
  }
});
