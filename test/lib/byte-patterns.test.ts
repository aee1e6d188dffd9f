import assert from "node:assert/strict";
import { it } from "node:test";
import { BytePatterns } from "../../src/lib/byte-patterns.ts";
import { array, assert as forAll, property, string } from "../support/fast-check.ts";

function patternsOf(texts: readonly string[]): BytePatterns {
  return new BytePatterns(texts.map((text) => ({ bytes: Buffer.from(text), before: text.length, after: 0 })));
}

it("byte patterns find the longest pattern that ends at each place, and the longest beginning of one", () => {
  const few = string({ unit: "grapheme-ascii", maxLength: 6 }).map((text) => text.replace(/[^ab]/g, "a"));
  const filled = few.filter((text) => text !== "");
  forAll(
    property(array(filled, { maxLength: 8 }), array(few, { maxLength: 8 }), (texts, parts) => {
      const text = parts.join("b");
      const patterns = patternsOf(texts);
      let state = 0;
      for (let at = 1; at <= text.length; at++) {
        state = patterns.next(state, text.charCodeAt(at - 1));
        const read = text.slice(0, at);
        const longest = Math.max(0, ...texts.filter((each) => read.endsWith(each)).map(({ length }) => length));
        assert.equal(patterns.before[state], longest, `${texts.join()} in ${read}`);
        const begun = texts.flatMap((each) => Array.from(each, (_, end) => each.slice(0, end + 1)));
        const depth = Math.max(0, ...begun.filter((each) => read.endsWith(each)).map(({ length }) => length));
        assert.equal(patterns.depth[state], depth, `${texts.join()} begun in ${read}`);
      }
    }),
  );
});
