import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { applyImage } from "../../src/image/apply.ts";
import { claimedNow } from "../../src/image/claimed.ts";
import type { Image, Manifest } from "../../src/image/image.ts";
import { jsonBlock, rawBlock } from "../../src/lib/cid.ts";
import { openSqliteStore } from "../../src/store/sqlite/sqlite-store.ts";

test("an image of another version is applied without the compiled results that only that version can read", async () => {
  const folder = await mkdtemp(join(tmpdir(), "berth-image-"));
  const store = await openSqliteStore({ dataDir: folder });
  try {
    const definition = rawBlock("export const answer = (): number => 42;");
    const foreign = rawBlock(JSON.stringify({ tools: "in words of another version" }));
    const manifest: Manifest = {
      servers: [{ name: "answer", definition_cid: definition.cid, enabled: true }],
      variables: [],
      content: [definition.cid],
      derived: { "another version's key": foreign.cid },
    };
    const blocks = new Map([definition, foreign].map(({ cid, bytes }) => [cid, bytes]));
    const content = (cid: string): Uint8Array => blocks.get(cid)!;
    const image: Image = { name: "default", cid: jsonBlock(manifest).cid, manifest, content };

    const report = await applyImage(store, "default", image);
    assert.deepEqual(
      report.changed.map(({ name, outcome }) => [name, outcome]),
      [["answer", "added"]],
    );
    assert.equal(await store.derived("another version's key"), undefined);
    assert.equal(await claimedNow(store, "default", "another version's key"), undefined);
  } finally {
    await store.close();
    await rm(folder, { recursive: true, force: true });
  }
});
