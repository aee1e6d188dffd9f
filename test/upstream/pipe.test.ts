import assert from "node:assert/strict";
import { test } from "node:test";
import type { CancelSignal } from "../../src/lib/cancellation.ts";
import type { JsonObject } from "../../src/lib/json.ts";
import type { UpstreamConnection } from "../../src/upstream/calls/connection.ts";
import { hostile, withUpstream } from "../support/upstreams.ts";

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
      message: /calling both: \{"text":"odd"\} \(-32603\)/,
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

test("a modern server that is listened to says what changes, or why it is not listened to", async () => {
  const listening = (way: string): string => hostile("is listened to", `&arg=${encodeURIComponent(way)}`);
  const filter = { toolsListChanged: true };
  const heard: string[] = [];
  const onNotification = (method: string): void => void heard.push(method);
  await withUpstream(
    listening("agrees"),
    async (upstream) => {
      await upstream.listen(filter, 60_000);
      assert.equal(await textOf(upstream.callTool("told", {})), "[]");
      assert.deepEqual(heard, ["notifications/tools/list_changed"]);
    },
    { onNotification },
  );
  for (const [way, code, message] of [
    ["refuses", "upstream_refused", /listening for changes: Nobody listens to me \(-32601\)$/],
    ["is over", "upstream_protocol", /listening for changes: it does not start$/],
  ] as const) {
    await withUpstream(listening(way), async (upstream) => {
      await assert.rejects(upstream.listen(filter, 60_000), { code, message });
    });
  }
  await withUpstream(listening("never agrees"), async (upstream) => {
    await assert.rejects(upstream.listen(filter, 50), { code: "upstream_timeout" });
    assert.equal(await textOf(upstream.callTool("told", {})), '["notifications/cancelled"]');
  });
});

test("a server that asks by itself is answered: whether somebody is there, what is known, and not what it takes back", async () => {
  const heard: unknown[] = [];
  const ask = ({ params }: { params: JsonObject }, signal?: CancelSignal): Promise<JsonObject> => {
    heard.push(params["message"] ?? null);
    if (params["message"] !== "Never mind") return Promise.resolve({ action: "decline" });
    return new Promise((resolve) => signal?.addEventListener("abort", () => resolve({ action: "accept" })));
  };
  await withUpstream(
    hostile("asks by itself"),
    async (upstream) => {
      const said = JSON.parse((await textOf(upstream.callTool("any", {}))) as string) as [string, unknown][];
      const answers = new Map(said);
      assert.deepEqual([...answers.keys()].toSorted(), ["a", "b", "d", "e"]);
      assert.deepEqual(answers.get("a"), {});
      assert.equal(answers.get("b"), -32601);
      assert.deepEqual([answers.get("d"), answers.get("e")], [{ action: "decline" }, { action: "decline" }]);
      assert.deepEqual(heard, ["Never mind", "Who?", null]);
    },
    { ask, capabilities: { elicitation: {} } },
  );
});
