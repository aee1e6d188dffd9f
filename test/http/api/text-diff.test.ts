import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { textDiff } from "../../../src/http/api/text-diff.ts";
import { openAssets } from "../../../src/http/assets.ts";
import { openViews } from "../../../src/http/pages/pages.ts";
import { compareDrafts } from "../../../src/http/pages/subject.ts";

const draftOf = (text: string) => ({ entry: "a.txt", files: { "a.txt": text } });
const linesOf = (word: string, count: number): string =>
  Array.from({ length: count }, (_, index) => `${word} ${index}\n`).join("");

describe("two versions that have nothing in common", () => {
  const before = draftOf(linesOf("before", 3_000));
  const after = draftOf(linesOf("after", 3_000));

  it("are not compared line by line for a page, which says so", () => {
    const files = compareDrafts(before, after);
    assert.deepEqual(files, [{ path: "a.txt", hunks: [], tooDifferent: true, tooLong: false }]);
    const comparison = { from: "a", to: "b", fromShort: "a", toShort: "b", files, same: false, setup: "{}" };
    const html = openViews(openAssets()).partial("pages/comparison", { title: "", base: "", comparison });
    assert.match(html, /too different to be compared line by line/);
  });

  it("are all replaced in a diff", () => {
    const diff = textDiff(before, after);
    assert.match(diff, /^@@ -1,3000 \+1,3000 @@$/m);
    assert.equal(diff.match(/^-before/gm)?.length, 3_000);
    assert.equal(diff.match(/^\+after/gm)?.length, 3_000);
  });

  it("are not cut into lines where they are too long, which is said", () => {
    const [long, longer] = [draftOf("a\n".repeat(200_000)), draftOf(`${"a\n".repeat(200_000)}b\n`)];
    assert.equal(textDiff(long, longer), "a/a.txt and b/a.txt differ, and are too long to be compared line by line\n");
    assert.deepEqual(compareDrafts(long, longer), [{ path: "a.txt", hunks: [], tooDifferent: false, tooLong: true }]);
  });

  it("are compared line by line where they have nearly all in common", () => {
    const few = linesOf("before", 20);
    const [file] = compareDrafts(draftOf(few), draftOf(few.replace("before 7\n", "after 7\n")));
    assert.equal(file?.tooDifferent, false);
    assert.deepEqual(
      file?.hunks.flatMap(({ lines }) => lines.filter(({ change }) => change !== "same").map(({ text }) => text)),
      ["before 7", "after 7"],
    );
  });
});
