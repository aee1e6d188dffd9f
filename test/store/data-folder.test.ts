import assert from "node:assert/strict";
import { chmodSync, mkdtempSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, it } from "node:test";
import { openSqliteStore } from "../../src/store/sqlite/sqlite-store.ts";

describe("a data folder that others can read", () => {
  it("C8 is closed to them when Berth starts, unless others keep something in it", async () => {
    const folder = mkdtempSync(join(tmpdir(), "berth-folder-"));
    const modeOf = (): number => statSync(folder).mode & 0o777;
    const open = async (): Promise<void> => (await openSqliteStore({ dataDir: folder })).close();
    try {
      chmodSync(folder, 0o755);
      await open();
      assert.equal(modeOf(), 0o700);
      chmodSync(folder, 0o750);
      await open();
      assert.equal(modeOf(), 0o700);
      chmodSync(folder, 0o755);
      writeFileSync(join(folder, "notes.txt"), "of somebody else");
      await open();
      assert.equal(modeOf(), 0o755);
      assert.equal(statSync(join(folder, "berth.sqlite")).mode & 0o777, 0o600);
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  });
});
