import assert from "node:assert/strict";
import { test } from "node:test";
import { withUpstream } from "../support/upstreams.ts";

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
