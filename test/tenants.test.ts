import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { call, post, request, startTestBerth, type TestBerth } from "./berth.ts";
import { addTenant, onStoreOf, until } from "./tenants.rig.ts";

const SAY = (who: string): string => `/** Says who it is of. */\nexport function say(): string { return "${who}"; }\n`;

describe("tenants", () => {
  let berth: TestBerth;
  before(async () => {
    berth = await startTestBerth({ texts: { "say.ts": SAY("default") } });
    await onStoreOf(berth, async (store) => {
      await addTenant(store, "acme", { servers: { say: SAY("acme"), own: SAY("own") }, hosts: ["acme.example"] });
      await addTenant(store, "umbrella", { servers: { say: SAY("umbrella") } });
    });
  });
  after(() => berth.close());

  const textOf = async (url: string, name = "say"): Promise<string> => (await call(url, name)).content[0].text;

  it("C8 each tenant has its own servers at /t/<tenant>/mcp, and default has its own without a prefix", async () => {
    assert.equal(await textOf(`${berth.url}/mcp/say`), "default");
    assert.equal(await textOf(`${berth.url}/t/acme/mcp/say`), "acme");
    assert.equal(await textOf(`${berth.url}/t/umbrella/mcp/say`), "umbrella");
    assert.equal(await textOf(`${berth.url}/t/acme/mcp`, "own.say"), "own");
    assert.equal((await post(`${berth.url}/t/umbrella/mcp/own`, request("tools/list"))).status, 404);
    assert.equal((await post(`${berth.url}/mcp/own`, request("tools/list"))).status, 404);
  });

  it("C8 a tenant that does not exist is told from one that is suspended, and from a wrong name", async () => {
    const at = (tenant: string) => post(`${berth.url}/t/${tenant}/mcp/say`, request("tools/list"));
    const unknown = await at("nobody");
    assert.equal(unknown.status, 404);
    assert.equal(unknown.body.error.message, 'No such tenant: "nobody"');

    assert.equal((await at("umbrella")).status, 200);
    await onStoreOf(berth, (store) => store.tenants.change("umbrella", { by: "test", suspended: true }));
    await until(async () => (await at("umbrella")).status === 403);
    assert.match((await at("umbrella")).body.error.message, /^This tenant is suspended: "umbrella"/);
    await onStoreOf(berth, (store) => store.tenants.change("umbrella", { by: "test", suspended: false }));
    await until(async () => (await at("umbrella")).status === 200);
  });

  it("C8 a tenant that another process creates is served at once", async () => {
    await onStoreOf(berth, (store) => addTenant(store, "late", { servers: { say: SAY("late") } }));
    assert.equal(await textOf(`${berth.url}/t/late/mcp/say`), "late");
  });
});
