import assert from "node:assert/strict";
import { test } from "node:test";
import { installed, withUpstream } from "../support/upstreams.ts";

test("file servers and memory servers list and are called as their own client would", async () => {
  const filesystem = `${installed("@modelcontextprotocol/server-filesystem/dist/index.js")}?arg=${process.cwd()}`;
  await withUpstream(filesystem, async (upstream) => {
    assert.deepEqual((await upstream.listTools()).items.length, 14);
    const path = `${process.cwd()}/package.json`;
    const { structuredContent } = await upstream.callTool("read_text_file", { path, head: 2 });
    assert.match(JSON.stringify(structuredContent), /berth-mcp/);
  });
  await withUpstream(installed("@modelcontextprotocol/server-memory/dist/index.js"), async (upstream) => {
    assert.deepEqual((await upstream.listTools()).items.length, 9);
  });
});

test("a real server whose tools lack a type in their schemas is listed and called all the same", async () => {
  const filesystem = `${installed("filesystem-2025.8.21/dist/index.js")}?arg=${process.cwd()}`;
  await withUpstream(filesystem, async (upstream) => {
    const { items, problems } = await upstream.listTools();
    assert.deepEqual([items.length, problems.length, problems[0]!.severity], [14, 13, "warning"]);
    const result = await upstream.callTool("read_text_file", { path: `${process.cwd()}/package.json`, head: 2 });
    assert.match(String(result.content[0]!["text"]), /berth-mcp/);
  });
});

test("an npm package is installed and started by its launcher URI, and found modern", async () => {
  await withUpstream("mcp+npx://@upstash/context7-mcp@4.1.1", async (upstream) => {
    assert.deepEqual([upstream.era, upstream.serverInfo?.name], ["modern", "Context7"]);
    const { items } = await upstream.listTools();
    assert.deepEqual(
      items.map(({ name }) => name),
      ["resolve-library-id", "query-docs"],
    );
  });
});
