import assert from "node:assert/strict";
import { test } from "node:test";
import type { UpstreamConnection } from "../src/upstream/connection.ts";
import { hostile, withUpstream } from "./upstream.rig.ts";

const uri = hostile("answers as it likes");
const textOf = async (called: ReturnType<UpstreamConnection["callTool"]>): Promise<unknown> =>
  (await called).content[0]!["text"];

test("each call gets its own first answer, whatever else a server answers, and however often", async () => {
  await withUpstream(uri, async (upstream) => {
    const said: unknown[] = [];
    for (const way of ["twice", "others", "words"]) said.push(await textOf(upstream.callTool(way, {})));
    assert.deepEqual(said, ["first", "mine", "mine"]);
    await assert.rejects(upstream.callTool("both", {}), {
      code: "upstream_refused",
      message: /calling both: it does not say why \(-32603\)/,
    });
  });
});

test("progress is told to the call whose token it has while that is under way; what is none is dropped", async () => {
  await withUpstream(uri, async (upstream) => {
    const other: unknown[] = [];
    const steps: unknown[] = [];
    const waiting = upstream.callTool("never", {}, { onProgress: (step) => void other.push(step), timeoutMs: 400 });
    const ended = assert.rejects(waiting, { code: "upstream_timeout" });
    await upstream.callTool("twice", {});
    const onProgress = (step: unknown): void => {
      steps.push(step);
      throw new Error("a listener that wants no more");
    };
    assert.equal(await textOf(upstream.callTool("steps", {}, { onProgress })), "done");
    assert.deepEqual(steps, [{ progress: 1 }, { progress: 2 }]);
    await upstream.callTool("twice", {});
    assert.deepEqual([steps.length, other], [2, []]);
    await ended;
  });
});

test("a call that is cancelled or takes too long is told to the server, once, and its signal is let go", async () => {
  await withUpstream(uri, async (upstream) => {
    const stop = new AbortController();
    const { signal } = stop;
    const waiting = upstream.callTool("never", {}, { signal });
    const late = upstream.callTool("never", {}, { timeoutMs: 50 });
    await upstream.callTool("twice", {}, { signal });
    stop.abort();
    await assert.rejects(waiting, { code: "cancelled", message: /calling never/ });
    await assert.rejects(late, { code: "upstream_timeout", message: /calling never/ });
    await assert.rejects(upstream.callTool("twice", {}, { signal }), { code: "cancelled" });
    assert.equal(await textOf(upstream.callTool("cancelled", {})), "[2,true]");
  });
});
