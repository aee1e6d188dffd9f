import assert from "node:assert/strict";
import { test } from "node:test";
import { post, request } from "../../support/berth.ts";
import { host, open, scripted } from "../../support/hosted-upstreams.ts";
import { processesWith } from "../../support/processes.ts";
import { berthInSuite } from "../../support/suite.ts";
import { inOneOf } from "../../support/until.ts";
import { everything } from "../../support/upstreams.ts";

const EVERY = `${everything}&env.BERTH_TEST_MARK=hosting-${process.pid}`;
const berth = berthInSuite({ mcps: { every: { upstream: EVERY } }, env: { BERTH_UPSTREAM_PROGRAMS: "on" } });

test("progress of a hosted server reaches the caller, a cancelled call ends, and all clients share a process (J9)", async (t) => {
  for (const mode of ["legacy", "auto"] as const) {
    const client = await open(t, berth, "every", mode);
    const name = "trigger-long-running-operation";
    // The client forgets progress that comes in one piece with the result.
    await inOneOf(10, async () => {
      const steps: number[] = [];
      await client.callTool(
        { name, arguments: { duration: 1, steps: 4 } },
        { onprogress: ({ progress }) => steps.push(progress) },
      );
      assert.deepEqual(steps, [1, 2, 3, 4]);
    });

    const cancelling = new AbortController();
    const long = client.callTool(
      { name, arguments: { duration: 60, steps: 600 } },
      { signal: cancelling.signal, onprogress: () => cancelling.abort() },
    );
    await assert.rejects(long);
    assert.equal((await client.callTool({ name: "echo", arguments: { message: "hi" } })).isError, undefined);
  }
  assert.equal(processesWith(`hosting-${process.pid}`).length, 1);
});

test("a call without arguments reaches the upstream with empty ones (J9)", async (t) => {
  const tool = { name: "repeats", inputSchema: { type: "object" } };
  const answers = { "tools/list": { result: { tools: [tool] } }, "tools/call repeats": { repeats: "arguments" } };
  const { url } = await host(t, { far: { upstream: scripted(t, { capabilities: { tools: {} }, answers }).uri } });
  const { body } = await post(`${url}/mcp/far`, request("tools/call", { name: "repeats" }));
  assert.equal(body.result.content[0].text, "{}");
});
