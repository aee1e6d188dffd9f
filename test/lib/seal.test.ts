import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { describe, it } from "node:test";
import { createSealer } from "../../src/lib/seal.ts";

describe("a sealer", () => {
  it("refuses what is too old", () => {
    let now = 1000;
    const sealer = createSealer([randomBytes(32)], () => now);
    const text = sealer.seal(["a"], { kept: true }, 500);
    now = 1499;
    assert.deepEqual(sealer.unseal(["a"], text), { kept: true });
    now = 1500;
    assert.throws(() => sealer.unseal(["a"], text), /expired/);
  });

  it("tells equal values apart and shows nothing of them", () => {
    const sealer = createSealer([randomBytes(32)]);
    const texts = ["a", "a"].map((value) => sealer.seal(["x"], { value, secret: "swordfish" }, 1000));
    assert.notEqual(texts[0], texts[1]);
    for (const text of texts) {
      assert.doesNotMatch(Buffer.from(text.slice(2), "base64url").toString("latin1"), /swordfish/);
    }
  });

  it("refuses every change of every byte, another spelling of the same bytes, and another binding", () => {
    const sealer = createSealer([randomBytes(32)]);
    const text = sealer.seal(["a", "b"], 1, 1000);
    const bytes = Buffer.from(text.slice(2), "base64url");
    for (let at = 0; at < bytes.length; at++) {
      const changed = Buffer.from(bytes);
      changed[at]! ^= 1;
      assert.throws(() => sealer.unseal(["a", "b"], `1.${changed.toString("base64url")}`), { code: "invalid_params" });
    }
    for (const spelled of [`${text}=`, `${text}!`, `1. ${text.slice(2)}`]) {
      assert.throws(() => sealer.unseal(["a", "b"], spelled), { code: "invalid_params" });
    }
    for (const binding of [["a"], ["ab"], ["a", "b", ""], ["b", "a"]]) {
      assert.throws(() => sealer.unseal(binding, text), { code: "invalid_params" });
    }
  });

  it("seals with its first key, and opens with each, so that keys can be changed while clients hold what they sealed", () => {
    const [old, next] = [randomBytes(32), randomBytes(32)];
    const [before, during, after] = [[old], [next, old], [next]].map((keys) => createSealer(keys));
    const [early, late] = [before!.seal(["a"], 1, 1000), during!.seal(["a"], 2, 1000)];
    assert.deepEqual([during!.unseal(["a"], early), during!.unseal(["a"], late)], [1, 2]);
    assert.equal(after!.unseal(["a"], late), 2);
    assert.throws(() => after!.unseal(["a"], early), { code: "invalid_params" });
    assert.throws(() => before!.unseal(["a"], late), { code: "invalid_params" });
  });

  it("takes no key that could be guessed", () => {
    assert.throws(() => createSealer([randomBytes(16)]), TypeError);
    assert.throws(() => createSealer([randomBytes(32), randomBytes(16)]), TypeError);
  });
});
