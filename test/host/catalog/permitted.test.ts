import assert from "node:assert/strict";
import { after, describe, it } from "node:test";
import { createPrincipal, type Principal } from "../../../src/access/principal.ts";
import { permittedCatalog } from "../../../src/host/catalog/permitted.ts";
import type { Catalog } from "../../../src/host/offers/catalog.ts";
import { ViewRoom, viewRoom, type Kept } from "../../../src/host/offers/view-cache.ts";
import { listPage } from "../../../src/mcp/methods/lists.ts";
import { lower } from "../../support/lowered-limits.ts";

const ROOM = 128 * 1024 * 1024;

function catalogOf(names: readonly string[], description = ""): Catalog {
  const tools = names.map((name) => ({ name, description, inputSchema: { type: "object" } }));
  const contract = { tools, prompts: [], resources: [], resourceTemplates: [] };
  const catalog: Partial<Catalog> = { server: "s", contract, problems: [], memo: new Map(), identity: () => undefined };
  return catalog as Catalog;
}

const principalOf = (id: string, ...tools: string[]): Principal =>
  createPrincipal({ id, tenant: "default" }, [{ can: ["call"], tools }]);

const form = {
  name: "test",
  listItem: (_list: string, item: object) => item,
  listPage: (_catalog: Catalog, page: object) => JSON.stringify(page),
};
after(lower({ listPageBytes: 16_000_000 }));
const listed = async (catalog: Catalog): Promise<string> => listPage("tools", { catalog, params: {} }, form);

it("a principal that may only call is given nothing to read, listed or not", async () => {
  const found = {} as never;
  const catalog: Catalog = {
    ...catalogOf(["a"]),
    hasUnlisted: true,
    readsUris: true,
    tool: () => found,
    resource: () => Promise.resolve(found),
    servesUri: () => true,
    prompt: () => found,
    completer: () => found,
  };
  const view = await permittedCatalog(catalog, principalOf("ada", "a"));
  assert.equal(view.tool("a"), found);
  assert.deepEqual(
    [
      await view.resource("far://one"),
      view.servesUri("far://one"),
      view.readsUris,
      view.prompt("p"),
      view.completer("p", "x"),
    ],
    [undefined, false, false, undefined, undefined],
  );
});

describe("what is kept for those who may use a part of a server", () => {
  it("is one for all who may use the same, however their rights say it", () => {
    const catalog = catalogOf(["a", "b", "c"]);
    const view = permittedCatalog(catalog, principalOf("ada", "a", "b"));
    assert.equal(permittedCatalog(catalog, principalOf("ada", "a", "b")), view);
    assert.equal(permittedCatalog(catalog, principalOf("bea", "b", "a")), view);
    assert.equal(permittedCatalog(catalog, principalOf("cem", "b", "a", "nothing")), view);
    assert.notEqual(permittedCatalog(catalog, principalOf("dan", "a")), view);
    const everything = createPrincipal({ id: "eva", tenant: "default" }, [{ can: ["admin"] }]);
    assert.equal(permittedCatalog(catalog, everything), catalog);
    assert.equal(permittedCatalog(catalog, everything), catalog);
  });

  it("is one catalog of all servers for all who have the same rights", async () => {
    let narrowings = 0;
    const narrow = async (): Promise<Catalog> => {
      narrowings += 1;
      return catalogOf(["a"]);
    };
    const all = { ...catalogOf(["a", "b"]), narrow };
    const view = await permittedCatalog(all, principalOf("ada", "a"));
    assert.equal(await permittedCatalog(all, principalOf("bea", "a")), view);
    await permittedCatalog(all, principalOf("cem", "b"));
    assert.equal(narrowings, 2);
  });

  it("has room for so many lists, and those are made again that nobody has asked for", async () => {
    const names = Array.from({ length: 12 }, (_, index) => `t${index}`);
    const catalog = catalogOf(names, "d".repeat(1_000_000));
    const before = viewRoom.bytes;
    const viewWithout = (name: string): Catalog => {
      const view = permittedCatalog(catalog, principalOf(name, ...names.filter((each) => each !== name)));
      return view as Catalog;
    };
    const first = viewWithout("t0");
    assert.ok((await listed(first)).length > 11_000_000);
    assert.ok(viewRoom.bytes - before > 22_000_000, "its list counts");
    for (const name of names.slice(1, 10)) {
      assert.ok((await listed(viewWithout(name))).length > 11_000_000);
      assert.ok(viewRoom.bytes <= ROOM, `${viewRoom.bytes} bytes`);
    }
    assert.notEqual(viewWithout("t0"), first);
    assert.equal(await listed(viewWithout("t0")), await listed(first));
  });

  it("is dropped in the order in which it was last used, but for the newest, however large", () => {
    const room = new ViewRoom(100);
    const where = new Map<string, { readonly kept: Kept }>();
    const put = (key: string, bytes: number): void => void where.set(key, { kept: room.keep(where, key, bytes) });
    for (const key of ["a", "b", "c", "d", "e"]) put(key, 25);
    assert.deepEqual([...where.keys()], ["b", "c", "d", "e"]);
    where.get("b")!.kept.used = true;
    put("f", 25);
    assert.deepEqual([...where.keys()], ["b", "d", "e", "f"]);
    put("large", 500);
    assert.deepEqual([[...where.keys()], room.bytes], [["large"], 500]);
  });
});
