import assert from "node:assert/strict";
import { join } from "node:path";
import { describe, it } from "node:test";
import Database from "#better-sqlite3";
import { compileKey } from "../../src/discover/key.ts";
import { findCurrentClaim } from "../../src/image/claimed.ts";
import { readCompiled } from "../../src/image/compiled.ts";
import { rawBlock } from "../../src/lib/cid.ts";
import { apiOf } from "../support/api.ts";
import { call, callText, NODES, withStatus } from "../support/berth.ts";
import { berthInSuite } from "../support/suite.ts";
import { exported, imported } from "../support/tenant-files.ts";
import { addTenant, listenTo, onStoreOf } from "../support/tenants.ts";
import { until } from "../support/until.ts";

const SHARED = `/** Says it. */\nexport function say(): string { return "shared"; }\n`;
const OWN = (what: string): string => `/** Says it. */\nexport function say(): string { return "${what}"; }\n`;
const CODE = `import type { ToolContext } from "berth";
export async function tell(context: ToolContext): Promise<string> { return (await context.secret("CODE")) ?? ""; }
export function echo(text: string): string { throw new Error(text); }
`;
const MCPS = JSON.stringify({ vault: { secrets: ["CODE"] } });

describe("what a deleted tenant leaves", () => {
  const berth = berthInSuite({ texts: { "own.ts": "export function own(): void {}" } });

  const say = (tenant: string, server = "say") => callText(`${berth.url}/t/${tenant}/mcp/${server}`, "say");
  const keyOf = (text: string): string => compileKey(rawBlock(text).cid, { language: "typescript", server: "say" });
  /** Tells if the compiled results of a text exist: the discovery and the bundle. */
  const compiled = (text: string): Promise<[boolean, boolean]> =>
    onStoreOf(berth, async (store) => {
      const bytes = await store.derived(keyOf(text));
      const bundle = bytes ? readCompiled(bytes).bundle! : (bundles.get(text) ?? "");
      bundles.set(text, bundle);
      return [bytes !== undefined, (await store.derived(bundle)) !== undefined];
    });
  const bundles = new Map<string, string>();
  const remove = (tenant: string) => onStoreOf(berth, (store) => store.tenants.delete(tenant, "test"));
  /** Everything in the database that does not belong to these tenants, by table. */
  const rowsOf = (tenants: readonly string[]): Record<string, unknown> => {
    const database = new Database(join(berth.folder, "data", "berth.sqlite"), { readonly: true });
    const marks = tenants.map(() => "?").join();
    const count = (table: string) =>
      database.prepare(`SELECT count(*) FROM ${table} WHERE tenant NOT IN (${marks})`).pluck().get(tenants);
    const tables = ["tenant_content", "tenant_derived", "name", "record", "secret", "token", "tenant_host"];
    const rows = Object.fromEntries(tables.map((table) => [table, count(table)]));
    const held = "SELECT 1 FROM tenant_content WHERE content_id = id UNION SELECT 1 FROM derived WHERE content_id = id";
    const unheld = database.prepare(`SELECT count(*) FROM content WHERE NOT EXISTS (${held})`).pluck().get();
    const unused = "SELECT 1 FROM tenant_derived AS held WHERE held.key = derived.key";
    const useless = database.prepare(`SELECT count(*) FROM derived WHERE NOT EXISTS (${unused})`).pluck().get();
    database.close();
    return { ...rows, unheld, useless };
  };

  it("what was compiled for it alone goes with it, of drafts nothing was kept; what another uses as well stays (C8)", async () => {
    const draft = OWN("draft of evil");
    await onStoreOf(berth, async (store) => {
      await addTenant(store, "acme", { servers: { say: SHARED } });
      await addTenant(store, "evil", { servers: { say: SHARED, other: OWN("own of evil") } });
    });
    for (const tenant of ["evil", "acme"]) assert.equal(await say(tenant), "shared");
    assert.equal(await say("evil", "other"), "own of evil");
    const api = apiOf({ url: `${berth.url}/t/evil` });
    assert.equal((await api.put("/definitions/say", OWN("saved of evil"))).status, 200);
    await withStatus(200, api.send("POST", "/definitions/say/review", draft));
    for (const text of [SHARED, OWN("saved of evil")]) assert.deepEqual(await compiled(text), [true, true], text);
    assert.deepEqual(await compiled(draft), [false, false]);

    await remove("evil");
    assert.deepEqual(await compiled(SHARED), [true, true]);
    for (const text of [draft, OWN("saved of evil")]) assert.deepEqual(await compiled(text), [false, false], text);
    assert.equal(await say("acme"), "shared");
    assert.deepEqual(new Set(Object.values(rowsOf(["acme", "default"]))), new Set([0]));

    // Once its process is replaced, acme can use its limits afresh.
    await onStoreOf(berth, (store) => store.tenants.change("acme", { by: "test", suspended: true }));
    await onStoreOf(berth, (store) => store.tenants.change("acme", { by: "test", suspended: false }));
    await until(async () => (await say("acme").catch(() => "")) === "shared");
    await remove("acme");
    assert.deepEqual(await compiled(SHARED), [false, false], "now nobody uses it");
    assert.deepEqual(new Set(Object.values(rowsOf(["default"]))), new Set([0]));
  });

  it("a result that one tenant found and another used first is not taken from under the other (C8)", async () => {
    await onStoreOf(berth, async (store) => {
      await addTenant(store, "finder", { servers: { say: OWN("found") } });
      await addTenant(store, "user", { servers: { say: OWN("found") } });
    });
    assert.equal(await say("finder"), "found");
    // It is loaded, and its code is not read before the finder is gone.
    const listed = await apiOf({ url: `${berth.url}/t/user` }).send("GET", "/servers");
    assert.equal(listed.body.servers[0].state, "ready", JSON.stringify(listed.body));
    await remove("finder");
    assert.equal(await say("user"), "found");
    await remove("user");
  });

  it("an image's results are default's, and stay when a tenant with the same definitions goes (C8)", async () => {
    const own = "export function own(): void {}";
    const key = compileKey(rawBlock(own).cid, { language: "typescript", server: "own" });
    await onStoreOf(berth, (store) => addTenant(store, "same", { servers: { own } }));
    await call(`${berth.url}/t/same/mcp/own`, "own");
    assert.ok(await onStoreOf(berth, (store) => store.derived(key)), "it was compiled for the other tenant");
    await remove("same");
    assert.ok(await onStoreOf(berth, (store) => findCurrentClaim(store, "default", key)));
  });

  it("what was compiled stays when a tenant is replaced: its earlier releases may need it (C8)", async () => {
    await onStoreOf(berth, (store) => addTenant(store, "again", { servers: { say: OWN("again") } }));
    assert.equal(await say("again"), "again");
    const file = await onStoreOf(berth, (store) => exported(store, "again"));
    const subscription = await listenTo(`${berth.url}/t/again/mcp/say`);
    await onStoreOf(berth, (store) => imported(store, file, { replace: true }));
    assert.deepEqual(await compiled(OWN("again")), [true, true]);
    // Until Berth has noticed it, a call is the earlier tenant's, and ends with it.
    while (await subscription.next());
    assert.equal(await say("again"), "again");
    await remove("again");
    assert.deepEqual(await compiled(OWN("again")), [false, false]);
  });

  it("its secrets are forgotten in memory, too: the next tenant of its name learns nothing of them (C8)", async () => {
    const api = apiOf({ url: `${berth.url}/t/heir` });
    const add = () =>
      onStoreOf(berth, (store) => addTenant(store, "heir", { servers: { vault: CODE }, variables: { mcps: MCPS } }));
    const echo = (text: string) => callText(`${berth.url}/t/heir/mcp/vault`, "echo", { text });
    await add();
    assert.equal((await api.put("/secrets/CODE", "jewels of the first")).status, 204);
    // A node hides the values that it has given to code itself.
    for (let node = 0; node < NODES; node++) await call(`${berth.url}/t/heir/mcp/vault`, "tell");
    for (let node = 0; node < NODES; node++) assert.match(await echo("jewels of the first"), /\[hidden\]/);
    await remove("heir");
    await add();
    // Hidden tools would reveal what it was.
    for (let node = 0; node < NODES; node++)
      await until(async () => /jewels of the first/.test(await echo("jewels of the first")));
    await remove("heir");
  });

  it("its figures go, so that others' tools have room (C8)", async () => {
    await onStoreOf(berth, (store) => addTenant(store, "counted", { servers: { say: OWN("counted") } }));
    for (let node = 0; node < NODES; node++) await say("counted");
    const figures = async (): Promise<string> => {
      const texts = [];
      for (let node = 0; node < NODES; node++) texts.push(await (await fetch(`${berth.url}/metrics`)).text());
      return texts.join("\n");
    };
    assert.match(await figures(), /tenant="counted"/);
    await remove("counted");
    await until(async () => !/tenant="counted"/.test(await figures()));
  });
});
