import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import type { JsonObject } from "../../src/lib/json.ts";
import { call } from "../support/berth.ts";
import { Nodes } from "../support/nodes.ts";
import { processesWith } from "../support/processes.ts";
import { until } from "../support/until.ts";
import { everything, installed } from "../support/upstreams.ts";

const MARK = `one-upstream-${process.pid}`;
const memory = installed("@modelcontextprotocol/server-memory/dist/index.js");

describe("an upstream of two nodes", () => {
  let nodes: Nodes;
  before(async () => {
    nodes = await Nodes.start({
      env: { BERTH_UPSTREAM_PROGRAMS: "on", BERTH_NODE_LEASE_MS: "10000" },
      mcps: {
        memory: { upstream: `${memory}?env.BERTH_TEST_MARK=${MARK}-memory` },
        every: { upstream: `${everything}&env.BERTH_TEST_MARK=${MARK}-every` },
      },
    });
  });
  after(() => nodes.close());

  it("runs once: what was written through one node is read through the other", async () => {
    for (const [index, url] of nodes.urls.entries()) {
      const entities = [{ name: `of node ${index}`, entityType: "note", observations: [] }];
      const made = await call(`${url}/mcp/memory`, "create_entities", { entities });
      assert.equal(made.isError, undefined, JSON.stringify(made));
    }
    for (const url of nodes.urls) {
      const { content } = await call(`${url}/mcp/memory`, "read_graph");
      assert.match(content[0].text, /of node 0[^]*of node 1/);
    }
    assert.equal(processesWith(`${MARK}-memory`).length, 1);
  });

  it("goes on elsewhere when its node is killed, and calls fail at once meanwhile", async () => {
    const [first, second] = nodes.urls as [string, string];
    assert.equal((await call(`${first}/mcp/every`, "echo", { message: "hi" })).content[0].text, "Echo: hi");
    assert.equal((await call(`${second}/mcp/every`, "echo", { message: "ho" })).content[0].text, "Echo: ho");
    const long = call(`${second}/mcp/every`, "trigger-long-running-operation", { duration: 60, steps: 2 });
    await until(
      async () => ((await (await fetch(`${first}/api/servers/every/upstream`)).json()) as JsonObject)["requests"] === 1,
    );
    await nodes.endNode(0, "SIGKILL");
    const killedAt = performance.now();
    const lost = await long;
    assert.ok(performance.now() - killedAt < 2_000);
    assert.match(lost.content[0].text, /^The upstream has ended; try again/);
    for (;;) {
      const askedAt = performance.now();
      const answer = await call(`${second}/mcp/every`, "echo", { message: "again" });
      assert.ok(performance.now() - askedAt < 10_000, "no call hangs");
      if (!answer.isError) break;
      assert.match(answer.content[0].text, /try again/);
    }
    assert.ok(performance.now() - killedAt < 20_000);
    assert.equal(processesWith(`${MARK}-every`).length, 1);
  });
});
