import assert from "node:assert/strict";
import { test } from "node:test";
import { lower } from "../../support/lowered-limits.ts";
import { rows } from "../../support/rows.ts";
import { connect, everything, hostile, notes, withUpstream } from "../../support/upstreams.ts";

test("a Python script of the standard library is reached in the modern era (J1)", async () => {
  await withUpstream(`${notes}?arg=--quick&arg=two%20words`, async (upstream) => {
    assert.deepEqual([upstream.era, upstream.protocolVersion, upstream.transport], ["modern", "2026-07-28", "stdio"]);
    assert.deepEqual(upstream.serverInfo, { name: "notes", version: "1.0.0" });
    const result = await upstream.callTool("where", {});
    const where = result.structuredContent as { folder: string; files: string[]; arguments: string[] };
    assert.deepEqual([where.arguments, where.files], [["--quick", "two words"], []]);
    assert.match(where.folder, /berth-upstream-/);
    assert.deepEqual((await upstream.readResource("note://1")).contents[0]!["text"], "Buy milk.");
    const prompt = await upstream.getPrompt("review", { what: "this" });
    assert.deepEqual(prompt.messages[0]!.content, { type: "text", text: "Review this." });
  });
});

test("a list is read page by page; entries that are not sound are told and take no other away (J2)", async () => {
  await withUpstream(notes, async (upstream) => {
    const { items, problems } = await upstream.listTools();
    assert.deepEqual(rows(items, "name"), ["list_notes", "search", "loose", "fail", "where"]);
    assert.deepEqual(items[2]!.inputSchema["type"], "object");
    assert.deepEqual(rows(problems, "severity", "tool"), ["warning loose", "warning broken"]);
    assert.deepEqual((await upstream.listResources()).items.length, 1);
    assert.deepEqual((await upstream.listResourceTemplates()).items[0]!.uriTemplate, "note://{id}");
    assert.deepEqual((await upstream.listPrompts()).items[0]!.arguments, [{ name: "what", required: true }]);
  });
});

test("a legacy server is greeted its own way: lists, calls, progress, completions, log messages (J1)", async () => {
  const notified: string[] = [];
  const options = { onNotification: (method: string) => void notified.push(method) };
  await withUpstream(
    everything,
    async (upstream) => {
      assert.deepEqual([upstream.era, upstream.protocolVersion], ["legacy", "2025-11-25"]);
      assert.deepEqual((await upstream.listTools()).items.length, 13);
      assert.deepEqual((await upstream.listResources()).items.length, 7);
      assert.deepEqual((await upstream.listResourceTemplates()).items.length, 2);
      assert.deepEqual((await upstream.listPrompts()).items.length, 4);
      const echoed = await upstream.callTool("echo", { message: "hi" });
      assert.deepEqual(echoed.content, [{ type: "text", text: "Echo: hi" }]);
      const steps: number[] = [];
      const onProgress = ({ progress }: { progress: number }): void => void steps.push(progress);
      await upstream.callTool("trigger-long-running-operation", { duration: 0.3, steps: 3 }, { onProgress });
      assert.deepEqual(steps, [1, 2, 3]);
      const ref = { type: "ref/prompt", name: "completable-prompt" };
      const completed = await upstream.complete({ ref, argument: { name: "department", value: "E" } });
      assert.deepEqual(completed.values, ["Engineering"]);
    },
    options,
  );
  assert.ok(notified.includes("notifications/tools/list_changed"), notified.join());
});

const ends = "ends at a modern hello";
const silent = "is silent to a modern hello";
for (const [what, uri, era, bounds] of [
  [`${ends} is started again`, hostile(ends), "legacy", {}],
  [`${silent} is greeted again`, hostile(silent), "legacy", { upstreamProbeMs: 300 }],
  ["takes long to start is still found modern", notes, "modern", { upstreamProbeMs: 0 }],
] as const) {
  test(`a server that ${what} (${era})`, async (t) => {
    t.after(lower(bounds));
    await withUpstream(uri, async (upstream) => assert.equal(upstream.era, era));
  });
}

test("a launcher URI restricts the handshake to one era (J1)", async () => {
  for (const uri of [`${notes}?era=legacy`, hostile("ends at a modern hello", "&era=legacy")]) {
    await withUpstream(uri, async (upstream) => assert.equal(upstream.era, "legacy", uri));
  }
  await withUpstream(`${notes}?era=modern`, async (upstream) => assert.equal(upstream.era, "modern"));
  for (const way of ["asks first", "ends at a modern hello"]) {
    await assert.rejects(connect(hostile(way, "&era=modern")), { code: "upstream_not_started" });
  }
  await assert.rejects(connect(hostile("asks first", "&era=modern")), /does not support the era .*\(era=modern\)/);
});

test("a legacy server's question goes to the call that can answer it", async () => {
  const capabilities = { elicitation: {} };
  await withUpstream(
    hostile("asks first"),
    async (upstream) => {
      const ask = ({ method, params }: { method: string; params: object }) => {
        assert.deepEqual([method, "message" in params], ["elicitation/create", true]);
        return Promise.resolve({ action: "accept", content: { name: "Ada" } });
      };
      assert.deepEqual((await upstream.callTool("any", {}, { ask })).content[0]!["text"], "Hello Ada");
      assert.match(String((await upstream.callTool("any", {})).content[0]!["text"]), /^Nobody: Method not found/);
    },
    { capabilities },
  );
});
