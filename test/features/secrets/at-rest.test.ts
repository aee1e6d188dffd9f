import assert from "node:assert/strict";
import { join } from "node:path";
import { after, describe, it } from "node:test";
import Database from "#better-sqlite3";
import { seal, unseal } from "../../../src/features/secrets/sealing.ts";
import { rawBlock } from "../../../src/lib/cid.ts";
import { newKey } from "../../../src/secrets/key-ring.ts";
import { SECRET_BYTES } from "../../../src/secrets/secret-rules.ts";
import { DATABASE_FILE } from "../../../src/store/sqlite/open-database.ts";
import { assert as assertProperty, property, runs, string, uint8Array } from "../../support/fast-check.ts";
import { lower } from "../../support/lowered-limits.ts";
import { pluck } from "../../support/rows.ts";
import { bytesIn, secretFolders } from "../../support/secret-folders.ts";

const { open, close } = secretFolders();
after(close);

const VALUE = "correct horse battery staple";

describe("secrets at rest", () => {
  it("a secret is read by its tenant and name alone, and again after a restart", async () => {
    const { secrets, folder } = await open();
    await secrets.set("acme", "API_TOKEN", VALUE, "test");
    assert.equal(await secrets.read("acme", "API_TOKEN"), VALUE);
    assert.equal(await secrets.read("other", "API_TOKEN"), undefined);
    assert.equal(await secrets.read("acme", "API_TOKEN2"), undefined);
    assert.equal(await (await open(folder)).secrets.read("acme", "API_TOKEN"), VALUE);
    const [fact] = await secrets.list("acme");
    assert.deepEqual(Object.keys(fact!).sort(), ["by", "changedAt", "name"]);
    assert.deepEqual(await secrets.list("other"), []);
  });

  it("neither a value nor its CID stands in the folder, not of what was replaced or deleted either", async () => {
    const { secrets, store, folder } = await open();
    const values = [VALUE, `${VALUE} two`, `${VALUE} three`];
    for (const value of values) await secrets.set("acme", "API_TOKEN", value, "test");
    await secrets.set("acme", "GONE", values[0]!, "test");
    await secrets.remove("acme", "GONE", "test");
    const bytes = bytesIn(folder);
    for (const value of values) {
      const { cid } = rawBlock(value);
      for (const trace of [value, Buffer.from(value).toString("base64"), Buffer.from(value).toString("hex"), cid]) {
        assert.ok(!bytes.includes(trace), trace);
      }
      assert.equal(await store.content("acme", cid), undefined);
    }
    // The fact, time and author of a change are no secret.
    const history = await store.history("acme", "secret", "API_TOKEN");
    assert.deepEqual(
      pluck(history, "cid", "by"),
      values.map(() => [null, "test"]),
    );
  });

  it("what is sealed opens under its own key, tenant and name, and no bit of it can be changed", () => {
    const key = newKey();
    assertProperty(
      property(
        string(),
        string(),
        string({ unit: "grapheme" }),
        uint8Array({ minLength: 2, maxLength: 2 }),
        (...given) => {
          const [tenant, name, value, [place, bit]] = given;
          const sealed = seal(key, tenant, name, value);
          assert.equal(unseal(key, tenant, name, sealed), Buffer.from(value).toString());
          assert.equal(unseal(newKey(), tenant, name, sealed), undefined);
          assert.equal(unseal(key, `${tenant}x`, name, sealed), undefined);
          assert.equal(unseal(key, tenant, `${name}x`, sealed), undefined);
          assert.equal(unseal(key, tenant, name, sealed.subarray(0, place! % sealed.length)), undefined);
          const changed = Uint8Array.from(sealed);
          changed[place! % sealed.length]! ^= 1 << (bit! % 8);
          assert.equal(unseal(key, tenant, name, changed), undefined);
        },
      ),
      { numRuns: runs(200) },
    );
    assert.notDeepEqual(seal(key, "acme", "A", VALUE), seal(key, "acme", "A", VALUE));
    // The border between the two is part of the sealed data.
    assert.equal(unseal(key, "ab", "c", seal(key, "a", "bc", VALUE)), undefined);
    assert.equal(unseal(key, 'a","b', "c", seal(key, "a", 'b","c', VALUE)), undefined);
  });

  it("whoever writes into the database cannot have one secret read as another", async () => {
    const { secrets, store, folder } = await open();
    await secrets.set("acme", "MINE", "the value of acme", "test");
    await secrets.set("evil", "THEIRS", "the value of evil", "test");
    await store.close();
    const database = new Database(join(folder, DATABASE_FILE));
    database.exec("UPDATE secret SET sealed = (SELECT sealed FROM secret WHERE name = 'MINE') WHERE name = 'THEIRS'");
    database.close();
    const again = await open(folder);
    const message = /^(?!.*the value of)/s;
    await assert.rejects(again.secrets.read("evil", "THEIRS"), { code: "secrets_unavailable", message });
    assert.equal(await again.secrets.read("acme", "MINE"), "the value of acme");
  });

  it("names that programs have a use for, and values that could not be hidden, are refused without being said", async () => {
    const { secrets } = await open();
    const names = ["", "A-B", "1A", "A=B", "A\n", "Ä", "PATH", "LD_PRELOAD", "BERTH_SECRET_KEY", "A".repeat(129)];
    for (const name of names) {
      await assert.rejects(secrets.set("acme", name, VALUE, "test"), { code: "secret_invalid" }, name);
    }
    for (const value of ["", "12345", "zero\0zero", "x".repeat(SECRET_BYTES + 1)]) {
      await assert.rejects(secrets.set("acme", "A", value, "test"), (error: Error & { code: string }) => {
        assert.equal(error.code, "secret_invalid");
        assert.ok(value === "" || !error.message.includes(value));
        return true;
      });
    }
    assert.deepEqual(await secrets.list("acme"), []);
  });

  it("a tenant has so many secrets and no more", async (t) => {
    t.after(lower({ secretsPerTenant: 2 }));
    const { secrets } = await open();
    for (const name of ["A", "B", "A"]) await secrets.set("acme", name, VALUE, "test");
    await assert.rejects(secrets.set("acme", "C", VALUE, "test"), /no more are allowed/);
    await secrets.set("other", "C", VALUE, "test");
  });
});
