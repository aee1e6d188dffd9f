import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { LongObject, LongResult } from "../../src/host/offers/long-result.ts";
import { LongText, decodeUtf8 } from "../../src/lib/long-text.ts";
import { resultText } from "../../src/mcp/json-rpc.ts";
import { turnsIn } from "../support/turns-in.ts";

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);
const digest = { bytes: 0, sha256: "" };

describe("a long text in pieces", () => {
  it("is as long in bytes as it is when written at once", () => {
    const text = new LongText("[", bytes('"é𝄞"'), ',"é"]');
    assert.equal(String(text), '["é𝄞","é"]');
    assert.equal(text.bytes, Buffer.byteLength(String(text)));
  });

  it("is decoded in turns with calls of others, and no character of it is cut in two", async () => {
    for (const unit of ["é", "€", "😀", "aé€😀"]) {
      const piece = unit.repeat(2_000_000 / Buffer.byteLength(unit));
      const text = new LongText("[", bytes(piece), '"é"', bytes(piece));
      assert.ok((await turnsIn(() => text.decode())) >= 2, unit);
      assert.ok(String(text) === `[${piece}"é"${piece}`, unit);
    }
  });

  it("takes more members, and an answer around it, in the same bytes", () => {
    const given = bytes('{"contents":["é"]}');
    const result = new LongObject({ text: given, digest }).with({ ttlMs: 0 });
    const answer = resultText(1, result.text.closedBy('"more":1}'));
    assert.ok(answer instanceof LongText);
    const value = { jsonrpc: "2.0", id: 1, result: { contents: ["é"], ttlMs: 0, more: 1 } };
    assert.deepEqual(JSON.parse(String(answer)), value);
    assert.ok(answer.pieces.some((piece) => piece instanceof Uint8Array && piece.buffer === given.buffer));
  });

  it("is a result with its value, with another one or with none", () => {
    const parts = { blocks: 1, size: 1, digest };
    const content = bytes('[{"type":"text","text":"é"}]');
    const result = new LongResult({ ...parts, content, structured: bytes("[1]"), isError: true });
    const blocks = [{ type: "text", text: "é" }];
    assert.deepEqual(JSON.parse(JSON.stringify(result)), { content: blocks, structuredContent: [1], isError: true });
    assert.deepEqual(JSON.parse(String(result.written(["{}"]))), {
      content: blocks,
      structuredContent: {},
      isError: true,
    });
    assert.deepEqual(JSON.parse(String(result.written(undefined))), { content: blocks, isError: true });
    assert.deepEqual(JSON.parse(String(new LongResult({ ...parts, content, isError: false }).text)), {
      content: blocks,
    });
  });
});

it("bytes as text are what they are to Node, however long, well-formed or not", () => {
  const broken = [[0xff], [0xc3, 0x28], [0xe2, 0x82], [0xed, 0xa0, 0x80], [0xf5, 0x80, 0x80, 0x80]];
  for (const unit of ["a", "é", "€", "😀", "\ufeffaé€😀"].map((text) => Buffer.from(text))) {
    for (const length of [10, 20_000, 400_000]) {
      const whole = Buffer.concat(Array.from({ length: Math.ceil(length / unit.length) }, () => unit));
      for (const bytes of [whole, ...broken.map((rest) => Buffer.concat([whole, Buffer.from(rest), unit]))]) {
        assert.ok(decodeUtf8(bytes) === bytes.toString(), `${unit.toString("hex")} ${bytes.length}`);
      }
    }
  }
});
