import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { ContractList } from "../../../src/contract/contract.ts";
import type { Catalog } from "../../../src/host/offers/catalog.ts";
import { viewRoom } from "../../../src/host/offers/view-cache.ts";
import { legacyShape } from "../../../src/mcp/legacy/shape.ts";
import { listPage, type ListForm } from "../../../src/mcp/methods/lists.ts";
import { lower } from "../../support/lowered-limits.ts";

const lists = ["tools", "resources", "resourceTemplates", "prompts"] as const;
const written: string[] = [];
const legacy = legacyShape("2025-11-25");
const form: ListForm = {
  ...legacy,
  listItem(list, item) {
    written.push((item as { name: string }).name);
    return legacy.listItem(list, item);
  },
};

/** `count` offers of each kind, each with about `bytes` bytes. */
function catalogOf(count: number, bytes: number): Catalog {
  const description = "d".repeat(bytes);
  const inputSchema = { type: "object" };
  const items = Array.from({ length: count }, (_, index) => ({ name: `n${index}`, description, inputSchema }));
  const contract = Object.fromEntries(lists.map((list) => [list, items]));
  return { contract, memo: new Map(), identity: () => undefined } as unknown as Catalog;
}

interface Page {
  readonly names: string[];
  readonly nextCursor?: string;
}

async function page(catalog: Catalog, list: ContractList, cursor?: string): Promise<Page> {
  const params = cursor === undefined ? {} : { cursor };
  const result = JSON.parse(await listPage(list, { catalog, params }, form));
  const { [list]: items, ...rest } = result;
  return { names: items.map(({ name }: { name: string }) => name), ...rest };
}

async function allPages(catalog: Catalog, list: ContractList): Promise<string[][]> {
  const pages: string[][] = [];
  let cursor: string | undefined;
  do {
    const { names, nextCursor } = await page(catalog, list, cursor);
    pages.push(names);
    cursor = nextCursor;
  } while (cursor !== undefined);
  return pages;
}

describe("a list", () => {
  const hundreds = catalogOf(700, 2_000);
  const names = hundreds.contract.tools.map(({ name }) => name);

  for (const list of lists) {
    it(`of hundreds of ${list} comes on one page`, async () => {
      assert.deepEqual(await allPages(hundreds, list), [names]);
    });

    it(`of ${list} comes in pages above listPageBytes`, async (t) => {
      t.after(lower({ listPageBytes: 100_000 }));
      const byBytes = await allPages(catalogOf(700, 2_000), list);
      assert.deepEqual(byBytes.flat(), names);
      assert.deepEqual(byBytes.map(({ length }) => length).slice(0, -1), Array(byBytes.length - 1).fill(48));
    });
  }

  it("has an item on each page, however long it is, and none where it is empty", async (t) => {
    t.after(lower({ listPageBytes: 100 }));
    assert.deepEqual(await allPages(catalogOf(3, 1_000), "tools"), [["n0"], ["n1"], ["n2"]]);
    assert.deepEqual(await allPages(catalogOf(0, 0), "tools"), [[]]);
  });

  it("is written once for everybody who asks, at once or later", async () => {
    const catalog = catalogOf(100, 10_000);
    written.length = 0;
    await Promise.all(Array.from({ length: 5 }, () => page(catalog, "tools")));
    await page(catalog, "tools");
    assert.equal(written.length, 100);
  });

  it("goes on at any of its items, and keeps no more pages than there is room for", async (t) => {
    const catalog = catalogOf(100, 1_000_000);
    t.after(lower({ listPageBytes: 1_100_000 }));
    await page(catalog, "tools");
    for (let start = 1; start < 90; start++) {
      const cursor = Buffer.from(`tools:${start}`).toString("base64url");
      assert.deepEqual((await page(catalog, "tools", cursor)).names, [`n${start}`]);
    }
    const [pages] = catalog.memo.values();
    const kept = [...(pages as { cached: Map<string, { page: string }> }).cached];
    const units = kept.reduce((sum, [, { page: text }]) => sum + text.length, 0);
    assert.ok(2 * units <= viewRoom.bytes && viewRoom.bytes <= 128 * 1024 * 1024, `${units} characters`);
    assert.ok(kept.length < 90);
    assert.equal(kept.at(-1)![0], "89");
  });
});
