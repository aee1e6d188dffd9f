import assert from "node:assert/strict";
import { before, describe, it } from "node:test";
import { berthInProcess } from "../../support/in-process.ts";
import { AMPLE, withStore } from "../../support/store.ts";
import { temporaryFolder } from "../../support/temporary-folder.ts";
import { addTenant } from "../../support/tenants.ts";

describe("berth state", () => {
  const data = temporaryFolder();
  before(() =>
    withStore(data, async (store) => {
      const limits = { stateBytes: 100 };
      await addTenant(store, "acme", { servers: { notes: "export const one = () => 1;" }, limits });
      const kept = { value: Buffer.from("1"), isJson: true, expiresAt: null, room: AMPLE };
      await store.values.set("acme", "state", "gone", "a\u202eb", kept);
    }),
  );

  const run = (args: readonly string[], input = "") =>
    berthInProcess(["state", ...args, "--tenant", "acme", "--data", data], { input });

  it("sets, shows, lists and deletes what a server keeps", async () => {
    const set = await run(["set", "notes", "a/b"], '{"title": "ü"}\n');
    assert.deepEqual(
      [set.code, /Saved for the server notes, with version \d+/.test(set.stderr)],
      [0, true],
      set.stderr,
    );
    assert.equal((await run(["get", "notes", "a/b"])).stdout, '{"title": "ü"}\n');
    assert.equal((await run(["set", "notes", "raw", "--bytes"], "\u0000\u0001")).code, 0);
    assert.equal((await run(["get", "notes", "raw"])).stdout, "\u0000\u0001");
    assert.match((await run(["list"])).stdout, /^gone\t1 keys\t6 bytes\tremoved\nnotes\t2 keys\t23 bytes\n$/);
    const listed = await run(["list", "notes", "--prefix", "a"]);
    assert.match(listed.stdout, /^a\/b\t15 bytes of JSON\tversion \d+\t20\S+Z\n$/);
    assert.match((await run(["list", "gone"])).stdout, /^a\ufffdb\t/, "nothing that turns a terminal's text around");
    assert.equal((await run(["delete", "notes", "a/b"])).code, 0);
    assert.match((await run(["delete", "notes", "--all"])).stderr, /Deleted 1 key of/);
    assert.match((await run(["delete", "gone", "--all"])).stderr, /Deleted 1 key of/);
    assert.equal((await run(["list"])).stdout, "");
  });

  it("says what is wrong, and changes nothing", async () => {
    const wrong: [string[], string, RegExp][] = [
      [["set", "notes", "a"], "{", /it is not JSON/],
      [["set", "notes", "a"], "\ufeff1", /it is not JSON/],
      [["set", "nobody", "a"], "1", /No such server: "nobody"/],
      [["set", "notes", "a"], `"${"x".repeat(100)}"`, /stateBytes/],
      [["get", "notes", "a"], "", /has no state under the key "a"/],
      [["delete", "notes", "a"], "", /has no state under the key "a"/],
      [["delete", "notes"], "", /name one key, or use --all/],
      [["delete", "notes", "a", "--all"], "", /name one key, or use --all/],
    ];
    for (const [args, input, message] of wrong) {
      const { code, stderr } = await run(args, input);
      assert.deepEqual([code, message.test(stderr)], [2, true], `${args.join(" ")}: ${stderr}`);
    }
    assert.equal((await run(["list"])).stdout, "");
  });
});
