import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { post, request } from "../support/berth.ts";
import { Nodes, withClockAhead } from "../support/nodes.ts";
import { until } from "../support/until.ts";

describe("nodes behind a load balancer", () => {
  let nodes: Nodes;
  before(async () => {
    nodes = await Nodes.start({
      texts: { "echo.ts": 'export const echo = (): string => "hello";\n' },
      envs: [{}, withClockAhead(60)],
    });
  });
  after(() => nodes.close());

  it("share the requests, and the others serve on while one is away", async () => {
    const serving = async (): Promise<number> => {
      const used = new Set<string>();
      for (let count = 0; count < 6; count++) {
        const { body, headers } = await post(`${nodes.url}/mcp/echo`, request("tools/call", { name: "echo" }));
        assert.equal(body.result.content[0].text, "hello");
        used.add(headers.get("X-Node")!);
      }
      return used.size;
    };
    const all = nodes.urls.length;
    assert.equal(await serving(), all);
    await nodes.endNode(0, "SIGKILL");
    // The balancer closes its client's connection when it used one to the node before it noticed that this one ended.
    await until(async () => (await serving().catch(() => undefined)) === all - 1);
    await nodes.startNode(0);
    // On a busy machine, a node may be too slow for a health check or two.
    await until(async () => (await serving()) === all);
  });

  it("one of them takes the time to be a minute later", async () => {
    const dates = await Promise.all(
      nodes.urls.map(async (url) => Date.parse((await fetch(`${url}/healthz`)).headers.get("Date")!)),
    );
    assert.ok(dates[1]! - dates[0]! > 50_000, String(dates));
  });
});
