import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { contentLine } from "../../../src/features/tenant-files/tenant-file.ts";
import { jsonBlock, rawBlock } from "../../../src/lib/cid.ts";
import { apiOf } from "../../support/api.ts";
import { recordsOf } from "../../support/audit.ts";
import { call, post, request, withStatus, type TestBerth } from "../../support/berth.ts";
import { changing, tool } from "../../support/hosted-upstreams.ts";
import { LegacyClient } from "../../support/legacy-client.ts";
import { rows } from "../../support/rows.ts";
import { berthInSuite } from "../../support/suite.ts";
import { exported, forged, imported } from "../../support/tenant-files.ts";
import { addTenant, onStoreOf } from "../../support/tenants.ts";
import { until } from "../../support/until.ts";

const DOOR = `import type { ToolContext } from "berth";
/** Says who it is. */
export function say(): string { return "one"; }
export function treasure(): string { return "gold"; }
export async function close(context: ToolContext): Promise<void> { await context.hide("treasure"); }
export const keep = (key: string, value: string, { state }: ToolContext): Promise<number> => state.set(key, value);
export const kept = async (key: string, { state }: ToolContext): Promise<string> => (await state.get(key)) ?? "nothing";
export async function code(context: ToolContext): Promise<string> { return (await context.secret("CODE")) ?? "not set"; }
`;
const HELLO = tool("hello", "Says hello.", "name");
const OTHER = tool("hello", "Says hello to files.", "name", "files");
const ENV = { BERTH_TENANT_UPSTREAMS: "on" };

/** A tenant with every kind of data, and its destination. */
describe("a tenant that moves", () => {
  const [old, fresh] = [1, 2].map(() =>
    berthInSuite({ texts: { "own.ts": "export function own(): void {}" }, env: ENV }),
  ) as [TestBerth, TestBerth];
  let file: string;
  const ends: (() => unknown)[] = [];
  after(() => ends.forEach((end) => end()));
  before(async () => {
    const upstream = changing({ after: (end) => void ends.push(end) }, [HELLO]);
    const mcps = { door: { secrets: ["CODE"], description: "A door" }, hosted: { upstream: upstream.uri } };
    await onStoreOf(old, (store) =>
      addTenant(store, "acme", {
        servers: { door: DOOR, script: "#!/bin/sh\n# Says so.\necho so\n" },
        variables: { mcps: JSON.stringify(mcps), plan: "first" },
        hosts: ["acme.localhost"],
        limits: { calls: 7 },
      }),
    );
    const api = apiOf({ url: `${old.url}/t/acme` });
    const done = async (reply: Promise<{ status: number; body: unknown }>): Promise<void> => {
      const { status, body } = await reply;
      assert.ok(status < 300, `${status} ${JSON.stringify(body)}`);
    };
    await done(api.put("/secrets/CODE", "the code of acme"));
    assert.equal(await textOf(old, "door", "say"), "one");
    await done(api.put("/variables/plan", "second"));
    await done(api.put("/variables/gone", "soon"));
    await done(api.send("DELETE", "/variables/gone", undefined, { "If-Match": "*" }));
    await done(api.put("/definitions/door", DOOR.replace('"one"', '"two"')));
    assert.equal(await textOf(old, "door", "say"), "two");
    const { releases } = (await api.send("GET", "/servers/door/releases")).body;
    await done(api.send("POST", `/servers/door/releases/${releases[1].release}/restore`));
    await call(`${old.url}/t/acme/mcp/door`, "keep", { key: "key \u2028 of 😀", value: "kept at the old place" });
    await call(`${old.url}/t/acme/mcp/door`, "close");
    assert.equal(await textOf(old, "script", "script"), "so\n");

    const hosted = `${old.url}/t/acme/mcp/hosted`;
    await call(hosted, "hello", { name: "x" });
    upstream.offer([OTHER]);
    await post(hosted, request("ping"));
    const pending = async () => (await api.send("GET", "/servers/hosted/upstream")).body.pending;
    await until(async () => {
      await call(hosted, "hello", { name: "x" });
      return (await pending()) !== undefined;
    });
    await done(api.send("POST", "/servers/hosted/approve", { contract: (await pending()).contract }));
    await until(async () => (await list(old, "hosted")) === "hello");

    file = await onStoreOf(old, (store) => exported(store, "acme"));
    await onStoreOf(fresh, (store) => imported(store, file));
  });

  const list = async ({ url }: TestBerth, server: string): Promise<string> => {
    const { body } = await post(`${url}/t/acme/mcp/${server}`, request("tools/list"));
    return body.result.tools.map(({ name }: { name: string }) => name).join();
  };
  const textOf = async ({ url }: TestBerth, server: string, name: string): Promise<string> => {
    const { content } = await call(`${url}/t/acme/mcp/${server}`, name);
    return content[0].text;
  };
  const both = async <T>(ask: (berth: TestBerth) => Promise<T>): Promise<[T, T]> => [await ask(old), await ask(fresh)];

  it("is served at once where it goes, by a Berth that runs: the same lists, calls, releases and problems (C8)", async () => {
    for (const server of ["door", "script", "hosted"]) {
      const [there, here] = await both((berth) => list(berth, server));
      assert.equal(here, there);
    }
    assert.deepEqual(await both((berth) => list(berth, "door")), [
      "say,close,keep,kept,code",
      "say,close,keep,kept,code",
    ]);
    assert.deepEqual(await both((berth) => textOf(berth, "door", "say")), ["one", "one"]);
    assert.deepEqual(await both((berth) => textOf(berth, "script", "script")), ["so\n", "so\n"]);
    const { content } = await call(`${fresh.url}/t/acme/mcp/door`, "kept", { key: "key \u2028 of 😀" });
    assert.equal(content[0].text, "kept at the old place");
    const summaries = async ({ url }: TestBerth) => {
      const { servers } = (await apiOf({ url: `${url}/t/acme` }).send("GET", "/servers")).body;
      for (const server of servers) delete server.problems;
      return servers;
    };
    const [there, here] = await both(summaries);
    assert.deepEqual(here, there);
  });

  it("keeps what a person approved of an upstream: nothing is held back (C8)", async () => {
    const result = await call(`${fresh.url}/t/acme/mcp/hosted`, "hello", { name: "x", files: "y" });
    assert.equal(result.content[0].text, "called Says hello to files.");
  });

  it("serves its earlier releases by the same addresses, made anew from what they consist of (C8)", async () => {
    const api = apiOf({ url: `${fresh.url}/t/acme` });
    const { releases } = (await api.send("GET", "/servers/door/releases")).body;
    const said = new Set<string>();
    for (const { release } of releases) {
      const [there, here] = await both((berth) => textOf(berth, `door@${release}`, "say"));
      assert.equal(here, there);
      said.add(here);
    }
    assert.deepEqual([...said].sort(), ["one", "two"]);
  });

  it("brings no value of a secret, and no token or host name (C8)", async () => {
    await withStatus(404, post(`${fresh.url}/mcp/door`, request("tools/list"), { Host: "acme.localhost" }));
    const moved = await onStoreOf(fresh, (store) => store.tenants.find("acme"));
    assert.deepEqual([moved!.hosts, moved!.limits], [[], { calls: 7 }]);
    assert.ok(!file.includes("the code of acme") && !file.includes("acme.localhost"));
    assert.equal(await textOf(fresh, "door", "code"), "not set");
    const found = await onStoreOf(fresh, async (store) => imported(store, file, { as: "again" }));
    assert.deepEqual(found.secretNames, ["CODE"]);
  });

  it("gives the same bytes again, however often it is written, and where it went once its secrets are set (C8)", async () => {
    await withStatus(204, apiOf({ url: `${fresh.url}/t/acme` }).put("/secrets/CODE", "another code"));
    assert.deepEqual(await both((berth) => onStoreOf(berth, (store) => exported(store, "acme"))), [file, file]);
  });

  it("replaces what was there: it ends what runs, keeps secrets, tokens and hosts, and is served from the next call on (C8)", async () => {
    await onStoreOf(fresh, async (store) => {
      await addTenant(store, "swapped", { servers: { say: SAY("before") }, hosts: ["swapped.localhost"] });
      const grant = { permissions: ["call"] };
      const token = { id: "tok_kept", tenant: "swapped", hash: "h", name: "kept", grant, expiresAt: null };
      await store.tokens.add(token, "test");
    });
    const made = await onStoreOf(fresh, async (store) => (await store.tenants.find("swapped"))!.createdAt);
    const url = `${fresh.url}/t/swapped/mcp/say`;
    assert.equal((await call(url, "say")).content[0].text, "before");
    const client = await LegacyClient.start(url);
    const stream = await client.listen();
    await assert.rejects(
      onStoreOf(fresh, (store) => imported(store, file, { as: "swapped" })),
      { code: "tenant_exists" },
    );
    assert.equal((await call(url, "say")).content[0].text, "before");

    const other = await onStoreOf(old, async (store) => {
      await addTenant(store, "swapped", { servers: { say: SAY("after") } });
      return exported(store, "swapped");
    });
    await onStoreOf(fresh, (store) => imported(store, other, { replace: true }));
    while (await stream.next());
    assert.equal((await call(url, "say")).content[0].text, "after");
    await onStoreOf(fresh, async (store) => {
      assert.deepEqual((await store.tenants.find("swapped"))!.hosts, ["swapped.localhost"]);
      assert.deepEqual(rows(await store.tokens.list("swapped"), "id"), ["tok_kept"]);
      assert.equal(await store.content("swapped", rawBlock(SAY("before")).cid), undefined);
      assert.equal((await store.history("swapped", "server", "say")).length, 1);
      const [noted] = (await recordsOf(store.audit, { tenant: "swapped", kind: "tenant" })).slice(-1);
      assert.deepEqual(
        [noted!["action"], noted!["by"], noted!["replaced"], noted!["changes"]],
        ["imported", "import", true, 1],
      );
      assert.equal((await store.tenants.find("swapped"))!.createdAt, made);
    });
    const { body } = await apiOf({ url: `${fresh.url}/t/swapped` }).send("GET", "/audit?kind=tenant");
    assert.deepEqual(
      rows(body.records, "action"),
      ["imported", "created"],
      "whoever answers for it sees what happened before, too",
    );
  });

  it("code that a file says was compiled of a definition is never run, nor is a release served that it made up (C8)", async () => {
    const definition = rawBlock(SAY("as it is written"));
    const bundle = rawBlock(`export function say() { return "as somebody else compiled it"; }`);
    const contract = jsonBlock({
      tools: [{ name: "say", inputSchema: {} }],
      resources: [],
      resourceTemplates: [],
      prompts: [],
    });
    const config = rawBlock("{}");
    const parts = { definition: definition.cid, bundle: bundle.cid, config: config.cid, contract: contract.cid };
    const [release, record] = [jsonBlock(parts), jsonBlock({ definition: definition.cid, enabled: true })];
    const at = "2026-01-01T00:00:00.000Z";
    const header = { format: "berth-tenant", version: 1, berth: "0.1.0", tenant: "tricky", changedAt: at, limits: {} };
    const blocks = [definition, bundle, contract, config, release, record];
    const names = { release, server: record };
    const tricky = forged([
      JSON.stringify(header),
      ...blocks.toSorted((a, b) => (a.cid < b.cid ? -1 : 1)).map(({ cid, bytes }) => contentLine(cid, bytes)),
      ...Object.entries(names).map(([change, { cid }]) => JSON.stringify({ change, name: "say", cid, at, by: "x" })),
    ]);
    await onStoreOf(fresh, (store) => imported(store, tricky));
    const url = `${fresh.url}/t/tricky/mcp/say`;
    assert.equal((await post(`${url}@${release.cid}`, request("tools/list"))).status, 404);
    assert.equal((await call(url, "say")).content[0].text, "as it is written");
    assert.equal((await post(`${url}@${release.cid}`, request("tools/list"))).status, 404);
  });

  it("default can be exported under another name, and be replaced while it is served (C8)", async () => {
    const ofDefault = await onStoreOf(old, (store) => exported(store, "default"));
    await onStoreOf(fresh, (store) => imported(store, ofDefault, { as: "guest" }));
    assert.equal((await post(`${fresh.url}/t/guest/mcp/own`, request("tools/list"))).status, 200);
    await onStoreOf(fresh, (store) => imported(store, file, { as: "default", replace: true }));
    await until(async () => (await post(`${fresh.url}/mcp/door`, request("tools/list"))).status === 200);
    assert.equal((await call(`${fresh.url}/mcp/door`, "say")).content[0].text, "one");
    assert.equal((await post(`${fresh.url}/mcp/own`, request("tools/list"))).status, 404);
  });
});

function SAY(who: string): string {
  return `export function say(): string { return "${who}"; }\n`;
}
