import assert from "node:assert/strict";
import { before, describe, it } from "node:test";
import { callText, post, request, withStatus } from "../support/berth.ts";
import { LegacyClient, read } from "../support/legacy-client.ts";
import { berthInSuite } from "../support/suite.ts";
import { addTenant, listenTo, onStoreOf } from "../support/tenants.ts";
import { until } from "../support/until.ts";

const SAY = (who: string): string => `/** Says who it is of. */\nexport function say(): string { return "${who}"; }\n`;

const SLOW = `import { setTimeout } from "node:timers/promises";
import type { ToolContext } from "berth";
/** Never ends by itself. */
export async function slow(context: ToolContext): Promise<void> {
  context.progress("on my way");
  await setTimeout(1e9);
}
`;

describe("tenants", () => {
  const berth = berthInSuite({ texts: { "say.ts": SAY("default") } });
  before(async () => {
    await onStoreOf(berth, async (store) => {
      await addTenant(store, "acme", { servers: { say: SAY("acme"), own: SAY("own") }, hosts: ["acme.example"] });
      await addTenant(store, "umbrella", { servers: { say: SAY("umbrella") } });
      await addTenant(store, "slow", { servers: { slow: SLOW } });
    });
  });

  const textOf = (url: string, name = "say"): Promise<string> => callText(url, name);

  it("each tenant has its own servers at /t/<tenant>/mcp, and default has its own without a prefix (C8)", async () => {
    assert.equal(await textOf(`${berth.url}/mcp/say`), "default");
    assert.equal(await textOf(`${berth.url}/t/acme/mcp/say`), "acme");
    assert.equal(await textOf(`${berth.url}/t/umbrella/mcp/say`), "umbrella");
    assert.equal(await textOf(`${berth.url}/t/acme/mcp`, "own.say"), "own");
    assert.equal((await post(`${berth.url}/t/umbrella/mcp/own`, request("tools/list"))).status, 404);
    assert.equal((await post(`${berth.url}/mcp/own`, request("tools/list"))).status, 404);
  });

  it("a tenant that does not exist is told from one that is suspended, and from a wrong name (C8)", async () => {
    const at = (tenant: string) => post(`${berth.url}/t/${tenant}/mcp/say`, request("tools/list"));
    const unknown = await withStatus(404, at("nobody"));
    assert.equal(unknown.body.error.message, 'No such tenant: "nobody"');

    assert.equal((await at("umbrella")).status, 200);
    await onStoreOf(berth, (store) => store.tenants.change("umbrella", { by: "test", suspended: true }));
    await until(async () => (await at("umbrella")).status === 403);
    assert.match((await at("umbrella")).body.error.message, /^This tenant is suspended: "umbrella"/);
    await onStoreOf(berth, (store) => store.tenants.change("umbrella", { by: "test", suspended: false }));
    await until(async () => (await at("umbrella")).status === 200);
  });

  it("suspending a tenant ends its calls, its processes, its sessions' streams and its subscriptions (C8)", async () => {
    const url = `${berth.url}/t/slow/mcp/slow`;
    const client = await LegacyClient.start(url);
    const stream = await client.listen();
    const oldClient = await read(`${url}/sse`, { headers: { Accept: "text/event-stream" } });
    assert.match((await oldClient.next())!.data, /^\/t\/slow\/mcp\/slow\/messages\?sessionId=/);
    const subscription = await listenTo(url);
    assert.equal((await subscription.nextMessage()).method, "notifications/subscriptions/acknowledged");
    const calling = await client.call("slow");
    assert.equal((await calling.nextMessage()).params.message, "on my way");

    await onStoreOf(berth, (store) => store.tenants.change("slow", { by: "test", suspended: true }));
    for (const reader of [stream, oldClient, calling]) while (await reader.next());
    assert.equal((await subscription.nextMessage()).result.resultType, "complete");
    assert.equal((await client.request("tools/list")).status, 403);

    await onStoreOf(berth, (store) => store.tenants.change("slow", { by: "test", suspended: false }));
    await until(async () => (await client.request("ping")).status === 200);
    assert.equal((await client.result("tools/list")).tools[0].name, "slow", "its session can be taken up again");
  });

  it("a tenant that another process creates is served at once (C8)", async () => {
    await onStoreOf(berth, (store) => addTenant(store, "late", { servers: { say: SAY("late") } }));
    assert.equal(await textOf(`${berth.url}/t/late/mcp/say`), "late");
  });
});
