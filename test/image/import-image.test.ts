import assert from "node:assert/strict";
import { after, describe, test } from "node:test";
import { importImage } from "../../src/image/tenant/import-tenant.ts";
import { addressOfJson, rawBlock, type Cid } from "../../src/lib/cid.ts";
import { openSqliteStore } from "../../src/store/sqlite/sqlite-store.ts";
import {
  countingCompiling,
  definitionOf,
  imageOf,
  removeTemporaryFolders,
  temporaryFolder,
} from "../support/image-sources.ts";

after(removeTemporaryFolders);

describe("importing an image", () => {
  test("C8 of elsewhere is merged into a tenant, and what it says was compiled is believed by nobody", async (context) => {
    const store = await openSqliteStore({ dataDir: temporaryFolder() });
    context.after(() => store.close());
    const image = await imageOf({ servers: { mcp: "one" }, variables: { greeting: "Ahoy" } });
    const importing = { by: "import" };
    await importImage(store, "acme", image, importing);
    const key = countingCompiling().key(rawBlock(definitionOf("one")).cid, { language: "typescript", server: "mcp" });
    assert.ok(await store.name("acme", "server", "mcp"));
    assert.equal(await store.derived(key), undefined);
    const set = [{ kind: "variable", name: "greeting", cid: rawBlock("Hello").cid }] as const;
    await store.change("acme", { by: "person", put: [rawBlock("Hello")], set });
    const { kept } = await importImage(store, "acme", await imageOf({ variables: { greeting: "Hey" } }), importing);
    assert.deepEqual(
      kept.map(({ name, outcome }) => [name, outcome]),
      [["greeting", "conflict"]],
    );
    await assert.rejects(importImage(store, "default", image, importing), { code: "tenant_invalid" });

    const path = { name: "../up", definition_cid: image.manifest.variables[0]!.definition_cid, enabled: true };
    const tricky = { ...image, manifest: { ...image.manifest, servers: [path] } };
    await assert.rejects(importImage(store, "evil", tricky, importing), { code: "image_invalid" });
    const spaced = new TextEncoder().encode('{"tools" : []}');
    const cid = addressOfJson(spaced);
    const content = (each: Cid): Uint8Array => (each === cid ? spaced : image.content(each));
    const manifest = { ...image.manifest, content: [...image.manifest.content, cid] };
    await assert.rejects(importImage(store, "evil", { ...image, manifest, content }, importing), {
      code: "image_invalid",
      message: /cannot be kept: it is not canonical JSON/,
    });
    assert.equal(await store.tenants.find("evil"), undefined);
  });
});
