import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { existsSync, readdirSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { readConfig } from "../../src/config.ts";
import { openKeys, proofsOf, readSealKey } from "../../src/secrets/keys.ts";
import { temporaryFolder } from "../support/suite.ts";

const SEAL_KEY_FILE = "seal.key";

describe("the seal key of a data folder", () => {
  const parent = temporaryFolder();

  it("is made once, whoever is first, and read by everybody from then on", async () => {
    const folder = join(parent, "data");
    const keys = await Promise.all(Array.from({ length: 10 }, () => readSealKey(folder)));
    for (const key of [...keys, await readSealKey(folder)]) assert.deepEqual(key, keys[0]);
    assert.equal(keys[0]!.byteLength, 32);
    assert.deepEqual(readdirSync(folder), [SEAL_KEY_FILE]);
  });

  it("is for nobody else on the machine to read, and differs from folder to folder", async () => {
    const [one, other] = [join(parent, "one"), join(parent, "other")];
    assert.notDeepEqual(await readSealKey(one), await readSealKey(other));
    assert.equal(statSync(join(one, SEAL_KEY_FILE)).mode & 0o777, 0o600);
    assert.equal(statSync(one).mode & 0o777, 0o700);
  });

  it("that is none is refused, with what to do", async () => {
    writeFileSync(join(parent, SEAL_KEY_FILE), "short");
    await assert.rejects(readSealKey(parent), { code: "config_invalid", message: /delete it/ });
  });
});

describe("the keys of a service", () => {
  const folder = temporaryFolder();
  const database = { BERTH_DATABASE: "postgres://berth@localhost/berth" };
  const key = (): string => randomBytes(32).toString("base64");
  const open = (env: NodeJS.ProcessEnv) => openKeys(readConfig({ BERTH_DATA: join(folder, "data"), ...env }));

  it("are the operator's where he gives them, several at a time, from a file or the environment", async () => {
    const [one, two] = [key(), key()];
    const file = join(folder, "seal-keys");
    writeFileSync(file, `${one}\n${two}\n`);
    for (const env of [{ BERTH_SEAL_KEY: `${one},${two}` }, { BERTH_SEAL_KEY_FILE: file }]) {
      const { seal, proofs } = await open(env);
      const sealKeys = seal.map((bytes) => Buffer.from(bytes).toString("base64"));
      assert.deepEqual(sealKeys, [one, two]);
      assert.equal(proofs, undefined);
    }
    assert.ok(!existsSync(join(folder, "data")), "no key was made");
  });

  it("that are wrong are refused by their setting, and never told", async () => {
    const wrong = key().slice(0, 30);
    for (const env of [
      { BERTH_SEAL_KEY: wrong },
      { BERTH_SEAL_KEY: `${key()},${wrong}` },
      { BERTH_SEAL_KEY_FILE: join(folder, "nowhere") },
    ]) {
      await assert.rejects(open(env), (error: Error) => {
        assert.match(error.message, /BERTH_SEAL_KEY/);
        return !error.message.includes(wrong);
      });
    }
    const both = { BERTH_SEAL_KEY: key(), BERTH_SEAL_KEY_FILE: "x" };
    await assert.rejects(async () => open(both), /both set the key/);
  });

  it("must be given where nodes have a database in common, and are not made in a folder", async () => {
    await assert.rejects(open(database), /BERTH_DATABASE needs BERTH_SEAL_KEY_FILE .* and BERTH_SECRET_KEY_FILE/);
    const seal = { ...database, BERTH_SEAL_KEY: key() };
    await assert.rejects(open(seal), /BERTH_DATABASE needs BERTH_SECRET_KEY_FILE/);
    assert.ok(!existsSync(join(folder, "data")));
    const { proofs } = await open({ ...seal, BERTH_SECRET_KEY: `${key()},${key()}` });
    assert.deepEqual([proofs!.seal!.length, proofs!.secret!.length], [1, 2]);
  });

  it("are known to other nodes by proofs, which differ by the kind of key, and hold nothing of it", () => {
    const bytes = randomBytes(32);
    const ring = { source: "x", keys: () => [{ id: "x", bytes }] };
    const { seal, secret } = proofsOf({ seal: [bytes], secrets: ring as never });
    assert.deepEqual(seal, proofsOf({ seal: [bytes] }).seal);
    assert.notDeepEqual(seal, secret);
    for (const text of [...seal!, ...secret!]) assert.ok(!text.includes(bytes.toString("base64url").slice(0, 8)));
  });
});
