import assert from "node:assert/strict";
import { join } from "node:path";
import { beforeEach, describe, it } from "node:test";
import Database from "#better-sqlite3";
import { rawBlock } from "../../src/lib/cid.ts";
import { appendChecksum, takeChecksum } from "../../src/store/sqlite/checksum.ts";
import type { SecretStore, Store } from "../../src/store/store.ts";
import { exits } from "../support/commands.ts";
import { berthInProcess as berth } from "../support/in-process.ts";
import { setVariable, testFolders, withStore } from "../support/store.ts";

const newFolder = testFolders("backup");
let folder: string;
let data: string;
beforeEach(() => {
  folder = newFolder();
  data = join(folder, "data");
});

const onStore = <T>(work: (store: Store & SecretStore) => Promise<T>): Promise<T> => withStore(data, work);
const save = (tenant: string, text: string): Promise<unknown> =>
  onStore((store) => store.change(tenant, setVariable(text)));

describe("backups and deleted tenants", () => {
  it("a backup says by when to delete it, and a restore what it brought back and that it is overdue", async () => {
    await onStore(async (store) => {
      await store.tenants.create("acme", { by: "test" });
      await store.change("acme", { by: "test", put: [rawBlock("of acme")] });
    });
    const file = join(folder, "backup.sqlite");
    const made = await berth(["backup", file, "--data", data]);
    const day = new Date(Date.now() + 90 * 86_400_000).toISOString().slice(0, 10);
    assert.match(
      made.stderr,
      new RegExp(`stays in it until you delete the file: do so by ${day} \\(BERTH_BACKUP_DAYS\\)`),
    );

    const deleted = await berth(["tenant", "delete", "acme", "--yes", "--data", data]);
    assert.match(deleted.stderr, /Backups that were made before hold it until you delete them/);
    const restored = await exits(0, berth(["restore", file, "--data", data]));
    assert.match(restored.stderr, /It brought back tenants .*: berth tenant delete acme$/m);
    assert.doesNotMatch(restored.stderr, /was to be deleted by/);
    assert.equal(await onStore(async (store) => (await store.use("acme")).content), "of acme".length);

    const again = await berth(["tenant", "delete", "acme", "--yes", "--data", data]);
    assert.match(
      again.stderr,
      /What the store held before is also in before-restore-\S+\.sqlite \(in .*\): delete that, too/,
    );
  });

  it("a restore of a backup that was to be deleted by now says so", async () => {
    await save("default", "one");
    const file = join(folder, "backup.sqlite");
    await berth(["backup", file, "--data", data]);
    await takeChecksum(file);
    const database = new Database(file);
    const [madeAt, deleteBy] = [Date.UTC(2025, 0, 2), Date.UTC(2025, 3, 2)];
    database.prepare("UPDATE record SET value = ? WHERE kind = 'copy'").run(JSON.stringify({ madeAt, deleteBy }));
    database.close();
    await appendChecksum(file);
    const restored = await exits(0, berth(["restore", file, "--data", data]));
    assert.match(restored.stderr, /It was made on 2025-01-02 and was to be deleted by 2025-04-02\./);
    const kept = new Database(join(data, "berth.sqlite"), { readonly: true });
    assert.equal(kept.prepare("SELECT count(*) FROM record WHERE kind = 'copy'").pluck().get(), 0);
    kept.close();
  });
});
