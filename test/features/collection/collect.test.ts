import assert from "node:assert/strict";
import { join } from "node:path";
import { beforeEach, describe, it } from "node:test";
import { gzipSync } from "node:zlib";
import { rawBlock } from "../../../src/lib/cid.ts";
import type { SecretStore, Store } from "../../../src/store/store.ts";
import { berthInProcess as berth } from "../../support/in-process.ts";
import { setVariable, testFolders, withStore } from "../../support/store.ts";

const newFolder = testFolders("collect");
let folder: string;
let data: string;
beforeEach(() => {
  folder = newFolder();
  data = join(folder, "data");
});

const onStore = <T>(work: (store: Store & SecretStore) => Promise<T>): Promise<T> => withStore(data, work);
const save = (tenant: string, text: string): Promise<unknown> =>
  onStore((store) => store.change(tenant, setVariable(text)));

describe("berth collect", () => {
  it("tells by kind what it would free, what it has freed, and what follows", async () => {
    const tarball = rawBlock(gzipSync("a package"));
    const text = rawBlock("nobody named it");
    await save("default", "named");
    await onStore((store) => store.change("default", { by: "test", put: [tarball, text] }));

    const later = await berth(["collect", "--data", data]);
    assert.equal(later.code, 0, later.stderr);
    assert.match(later.stdout, /^There was nothing to free\.$/m);
    assert.match(later.stdout, /^waits {2}packages {2}1, \d+ bytes: .* 60 and again 60 minutes later/m);

    const env = { BERTH_COLLECT_GRACE_MS: "0" };
    const trial = await berth(["collect", "--data", data, "--dry-run"], { env });
    assert.deepEqual(trial.stdout.trim().split("\n"), [
      `would free  packages  1, ${tarball.bytes.length} bytes`,
      `would free  content  1, ${text.bytes.length} bytes`,
    ]);
    assert.ok(await onStore((store) => store.content("default", text.cid)));

    const done = await berth(["collect", "--data", data, "--json"], { env });
    const { freed, waiting, lapsed } = JSON.parse(done.stdout);
    assert.deepEqual(freed.packages, { count: 1, bytes: tarball.bytes.length });
    assert.deepEqual(freed.content, { count: 1, bytes: text.bytes.length });
    assert.deepEqual([waiting.content.count, lapsed], [0, 0]);
    assert.equal(await onStore((store) => store.content("default", text.cid)), undefined);
  });

  it("collects one tenant, and refuses one that there is not", async () => {
    await onStore(async (store) => {
      for (const tenant of ["acme", "zenith"]) {
        await store.tenants.create(tenant, { by: "test" });
        await store.change(tenant, { by: "test", put: [rawBlock(`orphan of ${tenant}`)] });
      }
    });
    const env = { BERTH_COLLECT_GRACE_MS: "0" };
    assert.equal((await berth(["collect", "--data", data, "--tenant", "acme"], { env })).code, 0);
    await onStore(async (store) => {
      assert.equal(await store.content("acme", rawBlock("orphan of acme").cid), undefined);
      assert.ok(await store.content("zenith", rawBlock("orphan of zenith").cid));
    });
    const none = await berth(["collect", "--data", data, "--tenant", "nobody"]);
    assert.notEqual(none.code, 0);
    assert.match(none.stderr, /No such tenant: "nobody"/);
    const nowhere = await berth(["collect", "--data", join(folder, "elsewhere")]);
    assert.match(nowhere.stderr, /there is no store in/);
  });
});
