import assert from "node:assert/strict";
import { mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, describe, it } from "node:test";
import { readSealKey } from "../../src/compose/seal-key.ts";

const SEAL_KEY_FILE = "seal.key";

describe("the seal key of a data folder", () => {
  const parent = mkdtempSync(join(tmpdir(), "berth-seal-"));
  after(() => rmSync(parent, { recursive: true, force: true }));

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
