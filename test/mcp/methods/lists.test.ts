import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { ContractList } from "../../../src/contract/contract.ts";
import type { Catalog } from "../../../src/host/catalog/catalog.ts";
import { viewRoom } from "../../../src/host/catalog/view-room.ts";
import { defaultLimits } from "../../../src/limits/limits.ts";
import { shapeOf } from "../../../src/mcp/legacy/shape.ts";
import { listPage, type ListedLimits, type ListForm } from "../../../src/mcp/methods/lists.ts";

const lists = ["tools", "resources", "resourceTemplates", "prompts"] as const;
const written: string[] = [];
const legacy = shapeOf("2025-11-25");
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

async function page(
  catalog: Catalog,
  list: ContractList,
  limits: Partial<ListedLimits>,
  cursor?: string,
): Promise<Page> {
  const params = cursor === undefined ? {} : { cursor };
  const result = JSON.parse(await listPage(list, { catalog, params }, form, { ...defaultLimits, ...limits }));
  const { [list]: items, ...rest } = result;
  return { names: items.map(({ name }: { name: string }) => name), ...rest };
}

async function allPages(catalog: Catalog, list: ContractList, limits: Partial<ListedLimits>): Promise<string[][]> {
  const pages: string[][] = [];
  let cursor: string | undefined;
  do {
    const { names, nextCursor } = await page(catalog, list, limits, cursor);
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
      assert.deepEqual(await allPages(hundreds, list, {}), [names]);
    });

    it(`of ${list} comes in pages above listPageBytes, and above listPageItems where that is set`, async () => {
      const byBytes = await allPages(catalogOf(700, 2_000), list, { listPageBytes: 100_000 });
      assert.deepEqual(byBytes.flat(), names);
      assert.deepEqual(byBytes.map(({ length }) => length).slice(0, -1), Array(byBytes.length - 1).fill(48));
      const byItems = await allPages(catalogOf(120, 10), list, { listPageItems: 50 });
      assert.deepEqual(
        byItems.map(({ length }) => length),
        [50, 50, 20],
      );
    });
  }

  it("has an item on each page, however long it is, and none where it is empty", async () => {
    assert.deepEqual(await allPages(catalogOf(3, 1_000), "tools", { listPageBytes: 100 }), [["n0"], ["n1"], ["n2"]]);
    assert.deepEqual(await allPages(catalogOf(0, 0), "tools", {}), [[]]);
  });

  it("is written once for everybody who asks, at once or later", async () => {
    const catalog = catalogOf(100, 10_000);
    written.length = 0;
    await Promise.all(Array.from({ length: 5 }, () => page(catalog, "tools", {})));
    await page(catalog, "tools", {});
    assert.equal(written.length, 100);
  });

  it("goes on at any of its items, and keeps no more pages than there is room for", async () => {
    const catalog = catalogOf(100, 1_000_000);
    const one = { listPageBytes: 1_100_000 };
    await page(catalog, "tools", one);
    for (let start = 1; start < 90; start++) {
      const cursor = Buffer.from(`tools:${start}`).toString("base64url");
      assert.deepEqual((await page(catalog, "tools", one, cursor)).names, [`n${start}`]);
    }
    const [pages] = catalog.memo.values();
    const kept = [...(pages as { written: Map<string, { page: string }> }).written];
    const units = kept.reduce((sum, [, { page: text }]) => sum + text.length, 0);
    assert.ok(2 * units <= viewRoom.bytes && viewRoom.bytes <= 128 * 1024 * 1024, `${units} characters`);
    assert.ok(kept.length < 90);
    assert.equal(kept.at(-1)![0], "89");
  });
});
