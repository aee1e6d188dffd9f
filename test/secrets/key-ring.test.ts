import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, describe, it } from "node:test";
import Database from "#better-sqlite3";
import { openSecrets } from "../../src/features/secrets/secrets.ts";
import { keyOf, openKeyRing } from "../../src/secrets/key-ring.ts";
import { DATABASE_FILE } from "../../src/store/sqlite/open-database.ts";
import { rows } from "../support/rows.ts";
import { bytesIn, secretFolders } from "../support/secret-folders.ts";

const { parent, newFolder, open, close } = secretFolders();
after(close);

const VALUE = "correct horse battery staple";

const keyText = (): string => randomBytes(32).toString("base64");

describe("the key of secrets", () => {
  it("is made once for all processes, beside the seal key, for its owner alone", async () => {
    const folder = newFolder();
    const opened = [await open(folder), await open(folder), await open(folder)];
    assert.deepEqual(readdirSync(folder).includes("secret.key"), false);
    await Promise.all(opened.map(({ secrets }, index) => secrets.set("acme", `S${index}`, VALUE, "test")));
    for (const { secrets } of opened) assert.equal(await secrets.read("acme", "S1"), VALUE);
    assert.equal(statSync(join(folder, "secret.key")).mode & 0o777, 0o600);
    assert.equal(statSync(folder).mode & 0o777, 0o700);
  });

  it("that is lost is not silently replaced: what is sealed stays, and can be deleted and set anew", async () => {
    const { secrets, folder } = await open();
    await secrets.set("acme", "A", VALUE, "test");
    await secrets.set("acme", "B", VALUE, "test");
    rmSync(join(folder, "secret.key"));
    const without = (await open(folder)).secrets;
    for (const attempt of [
      without.read("acme", "A"),
      without.set("acme", "C", VALUE, "test"),
      without.rotate("test"),
    ]) {
      await assert.rejects(attempt, {
        code: "secrets_unavailable",
        message: /provide that key, or delete the secrets/,
      });
    }
    assert.equal((await without.list("acme")).length, 2);
    for (const name of ["A", "B"]) assert.equal(await without.remove("acme", name, "test"), true);
    await without.set("acme", "A", VALUE, "test");
    assert.equal(await without.read("acme", "A"), VALUE);
  });

  it("comes from a file or the environment, as base64 or hex, and is written to neither", async () => {
    const bytes = randomBytes(32);
    const file = join(parent, "given.key");
    for (const encoding of ["base64", "base64url", "hex"] as const) {
      writeFileSync(file, `${bytes.toString(encoding)}\n`);
      const before = readFileSync(file);
      const { secrets, store, folder } = await open(undefined, { file });
      await secrets.set("acme", "A", VALUE, "test");
      assert.equal(await store.secretKeyId(), keyOf(bytes).id);
      const fromText = await open(folder, { text: bytes.toString(encoding) });
      assert.equal(await fromText.secrets.read("acme", "A"), VALUE);
      assert.deepEqual(readFileSync(file), before);
      assert.ok(!readdirSync(folder).includes("secret.key"));
    }
  });

  it("that is none is refused with what to do, and is not said", async () => {
    for (const text of ["password", "p".repeat(32), Buffer.alloc(31).toString("base64"), " , ", "§".repeat(43)]) {
      const { secrets } = await open(undefined, { text });
      await assert.rejects(secrets.set("acme", "A", VALUE, "test"), (error: Error & { code: string }) => {
        assert.equal(error.code, "config_invalid");
        assert.match(error.message, /openssl rand -base64 32/);
        assert.ok(!error.message.includes(text));
        return true;
      });
    }
    const { secrets } = await open(undefined, { file: join(parent, "missing.key") });
    await assert.rejects(secrets.set("acme", "A", VALUE, "test"), { code: "config_invalid" });
  });
});

describe("a rotation of the key", () => {
  it("seals everything anew, forgets the old key, and needs no restart of those that read", async () => {
    const { secrets, store, folder } = await open();
    const reader = (await open(folder)).secrets;
    for (const tenant of ["acme", "other"]) await secrets.set(tenant, "A", `${VALUE} of ${tenant}`, "test");
    assert.equal(await reader.read("acme", "A"), `${VALUE} of acme`);
    const [oldKey, oldFile] = [await store.secretKeyId(), readFileSync(join(folder, "secret.key"), "latin1")];
    const [sealed, changed] = [(await store.secret("acme", "A"))!.sealed, (await store.secret("acme", "A"))!.changedAt];

    const { keyId, secrets: count } = await secrets.rotate("test");
    assert.equal(count, 2);
    assert.notEqual(keyId, oldKey);
    assert.equal(await store.secretKeyId(), keyId);
    for (const tenant of ["acme", "other"]) {
      assert.equal(await reader.read(tenant, "A"), `${VALUE} of ${tenant}`);
      assert.equal(await secrets.read(tenant, "A"), `${VALUE} of ${tenant}`);
    }
    await reader.set("acme", "B", VALUE, "test");
    assert.equal(await secrets.read("acme", "B"), VALUE);
    const file = readFileSync(join(folder, "secret.key"), "latin1");
    assert.ok(!file.includes(oldFile.trim()));
    assert.equal(file.trim().split("\n").length, 1);
    assert.equal((await store.secret("acme", "A"))!.changedAt, changed);
    await store.close();
    assert.ok(!bytesIn(folder).includes(Buffer.from(sealed)), "what the old key opens is gone from the disk");
  });

  it("that broke off is taken up: the old key reads until all is sealed anew", async () => {
    const { secrets, store, folder } = await open();
    await secrets.set("acme", "A", VALUE, "test");
    // The state after the new key was written, and before anything was sealed with it.
    const ring = openKeyRing(folder, {});
    const next = ring.next(await store.secretKeyId());
    const after = (await open(folder)).secrets;
    assert.equal(await after.read("acme", "A"), VALUE);
    await after.set("acme", "B", VALUE, "test");
    assert.equal(await secrets.read("acme", "B"), VALUE);
    const { keyId } = await after.rotate("test");
    assert.notEqual(keyId, next.id);
    assert.deepEqual(rows(ring.keys(), "id"), [keyId]);
    for (const name of ["A", "B"]) assert.equal(await secrets.read("acme", name), VALUE);
  });

  it("changes nothing at all when one secret cannot be opened", async () => {
    const { secrets, store, folder } = await open();
    for (const name of ["A", "B", "C"]) await secrets.set("acme", name, VALUE, "test");
    const before = await store.secrets("acme");
    const database = new Database(join(folder, DATABASE_FILE));
    database.exec("UPDATE secret SET sealed = x'00112233' WHERE name = 'B'");
    database.close();
    await assert.rejects(secrets.rotate("test"), { code: "secrets_unavailable", message: /"B" was damaged/ });
    for (const name of ["A", "C"]) assert.equal(await secrets.read("acme", name), VALUE);
    const kept = (await store.secrets("acme")).find(({ name }) => name === "A")!;
    assert.deepEqual(kept.sealed, before[0]!.sealed);
  });

  it("of many processes at once, among writers, loses no secret", async () => {
    const folder = newFolder();
    const opened = await Promise.all(Array.from({ length: 4 }, () => open(folder)));
    await opened[0]!.secrets.set("acme", "A", VALUE, "test");
    await Promise.all(
      opened.flatMap(({ secrets }, index) => [
        secrets.rotate("test"),
        secrets.set("acme", `S${index}`, `${VALUE} ${index}`, "test"),
        secrets.rotate("test"),
      ]),
    );
    for (const { secrets } of opened) {
      assert.equal(await secrets.read("acme", "A"), VALUE);
      for (const index of opened.keys()) assert.equal(await secrets.read("acme", `S${index}`), `${VALUE} ${index}`);
    }
    assert.equal(openKeyRing(folder, {}).keys().length, 1);
  });

  for (const [when, before] of [
    ["the only one", VALUE],
    ["the first one of all", undefined],
  ] as const) {
    it(`that comes between the sealing and the writing of ${when} loses nothing that was acknowledged`, async () => {
      const { secrets: command, store, folder } = await open();
      if (before !== undefined) await command.set("acme", "A", before, "test");
      let rotations = 0;
      const behind: typeof store = {
        ...store,
        async putSecret(tenant, put) {
          // As a process that waits for the rotation's lock would.
          if (rotations++ === 0) await command.rotate("test");
          return store.putSecret(tenant, put);
        },
      };
      await openSecrets(behind, openKeyRing(folder, {})).set("acme", "A", "acknowledged", "test");
      const { secrets } = await open(folder);
      assert.equal(await secrets.read("acme", "A"), "acknowledged");
      await secrets.set("acme", "A", "set again", "test");
      await secrets.rotate("test");
      assert.equal(await secrets.read("acme", "A"), "set again");
    });
  }

  it("to a key of the operator's takes the first one that is given, and says what to do when there is none", async () => {
    const [old, next] = [keyText(), keyText()];
    const file = join(parent, "rotating.key");
    writeFileSync(file, old);
    const { secrets, store, folder } = await open(undefined, { file });
    await secrets.set("acme", "A", VALUE, "test");
    await assert.rejects(secrets.rotate("test"), { code: "config_invalid", message: /write a new key before it/ });
    writeFileSync(file, `${next}\n${old}\n`);
    await secrets.rotate("test");
    assert.equal(await store.secretKeyId(), keyOf(Buffer.from(next, "base64")).id);
    writeFileSync(file, next);
    assert.equal(await (await open(folder, { file })).secrets.read("acme", "A"), VALUE);
    const fromText = await open(folder, { text: `${old},${next}` });
    assert.equal((await fromText.secrets.rotate("test")).keyId, keyOf(Buffer.from(old, "base64")).id);
  });
});
