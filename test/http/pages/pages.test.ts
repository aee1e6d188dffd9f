import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { ToolContract } from "../../../src/contract/contract.ts";
import { openAssets } from "../../../src/http/assets.ts";
import { createPages } from "../../../src/http/pages/pages.ts";
import { renderTools } from "../../../src/http/pages/parts/offers.ts";
import { rows } from "../../support/rows.ts";

const toolsNamed = (count: number): ToolContract[] =>
  Array.from({ length: count }, (_, index) => ({ name: `tool_${index}`, inputSchema: { type: "object" } }));

describe("the making of pages", () => {
  const pages = createPages(openAssets());

  it("escapes a long text with turns for others, and cuts no letter in two", async () => {
    let [turns, isOver] = [0, false];
    const count = (): void => {
      turns += 1;
      if (!isOver) setImmediate(count);
    };
    setImmediate(count);
    const { bytes } = await pages.text(`a${"\u{1f4a1}".repeat(100_000)}${"<&\r".repeat(1_000_000)}`);
    isOver = true;
    const text = bytes.toString();
    assert.ok(text === `a${"\u{1f4a1}".repeat(100_000)}${"&lt;&amp;&#13;".repeat(1_000_000)}`);
    assert.ok(turns >= 5, `${turns} turns`);
  });

  it("shows each tool of a server once, in order", async () => {
    const { bytes } = await renderTools(pages, { tools: toolsNamed(9) });
    const ids = [...bytes.toString().matchAll(/ id="tool-(\w+)"/g)].map(([, id]) => id);
    assert.deepEqual(ids, rows(toolsNamed(9), "name"));
  });

  it("gives others their turn where it takes long, and goes on from there", async () => {
    function* slowly() {
      for (const item of [[], [], []]) {
        const until = performance.now() + 5;
        while (performance.now() < until);
        yield item;
      }
    }
    let turns = 0;
    let others = false;
    setImmediate(() => (others = true));
    await pages.fragment("tools", slowly());
    assert.ok(others, "others waited for all of it");
    await pages.fragment("tools", slowly(), async () => void (turns += 1));
    assert.equal(turns, 3);
  });
});
