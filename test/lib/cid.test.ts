import assert from "node:assert/strict";
import { test } from "node:test";
import { decodeJson, isCid, isStructure, jsonBlock, matches, rawBlock } from "../../src/lib/cid.ts";
import { assert as assertProperty, jsonValue, property, uint8Array } from "../support/fast-check.ts";

// Computed apart from this code: base32 of 01 55 12 20 and the digest that `sha256sum` prints.
const HELLO = "bafkreifzjut3te2nhyekklss27nh3k72ysco7y32koao5eei66wof36n5e";
const EMPTY = "bafkreihdwdcefgh4dqkjv67uzcmw7ojee6xedzdetojuzjevtenxquvyku";

test("the CID of bytes is CIDv1, raw, sha2-256, base32", () => {
  assert.equal(rawBlock("hello world").cid, HELLO);
  assert.equal(rawBlock(new TextEncoder().encode("hello world")).cid, HELLO);
  assert.equal(rawBlock("").cid, EMPTY);
});

test("equal structures have equal bytes and CIDs, whatever the order of their keys", () => {
  const one = jsonBlock({ b: [1, { d: null, c: "x" }], a: undefined });
  const other = jsonBlock({ b: [1, { c: "x", d: null }] });
  assert.deepEqual(one, other);
  assert.equal(new TextDecoder().decode(one.bytes), '{"b":[1,{"c":"x","d":null}]}');
  assert.ok(isStructure(one.cid) && !isStructure(HELLO) && !isStructure("nothing"));
});

test("a structure is read back as it was written", () => {
  assertProperty(
    property(jsonValue({ noUnicodeString: false }), (value) => {
      const written: unknown = JSON.parse(JSON.stringify(value));
      if (JSON.stringify(written).includes('"/"')) return;
      assert.deepEqual(decodeJson(jsonBlock(written).bytes), written);
    }),
  );
});

test("bytes match their own CID and no other", () => {
  assertProperty(
    property(uint8Array(), uint8Array(), (one, other) => {
      assert.ok(matches(rawBlock(one).cid, one));
      assert.equal(matches(rawBlock(one).cid, other), Buffer.from(one).equals(other));
    }),
  );
  assert.equal(matches(HELLO, new TextEncoder().encode("hello worlds")), false);
  assert.equal(matches("nothing", new Uint8Array()), false);
});

test("other spellings, versions, codecs and hashes are no CIDs of Berth", () => {
  assert.ok(isCid(HELLO));
  const others = [
    "",
    "hello",
    HELLO.toUpperCase(),
    ` ${HELLO}`,
    HELLO.slice(0, -1),
    `${HELLO}a`,
    "QmYwAPJzv5CZsnA625s3Xf2nemtYgPpHdWEz79ojWnPbdG", // version 0
    "bafybeigdyrzt5sfp7udm7hu76uh7y26nf3efuylqabf3oclgtqy55fbzdi", // dag-pb
    "zb2rhe5P4gXftAwvA4eXQ5HJwsER2owDyS9sKaQRRVQPn93bA", // base58
    "../../etc/passwd",
  ];
  for (const other of others) assert.equal(isCid(other), false, other);
});
