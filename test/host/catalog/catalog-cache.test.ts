import assert from "node:assert/strict";
import { it } from "node:test";
import { CatalogCache } from "../../../src/host/catalog/catalog-cache.ts";
import type { Catalog } from "../../../src/host/offers/catalog.ts";

it("catalogs that are kept are as many as there is room for in bytes that their contracts take", async () => {
  const cache = new CatalogCache({ catalogBytes: 1_000 });
  const load = (server: string, heldBytes: number, ifRoom = false): Promise<Catalog> =>
    cache.load("t", server, {} as never, async () => ({ server, heldBytes }) as Catalog, { ifRoom });
  const kept = (): string[] => ["a", "b", "c", "d", "e"].filter((server) => cache.peek("t", server));
  await load("a", 600);
  await load("b", 400);
  await load("c", 1, true);
  assert.deepEqual(kept(), ["a", "b"]);
  await load("c", 500);
  assert.deepEqual(kept(), ["b", "c"]);
  cache.drop("t", "b");
  await load("d", 500);
  assert.deepEqual(kept(), ["c", "d"]);
  await load("e", 5_000);
  assert.deepEqual(kept(), ["e"]);
});
