import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { shownArguments } from "../../../src/features/consents/format-arguments.ts";

const show = (args: object, charactersMax = 400): string => shownArguments(JSON.stringify(args), charactersMax);

describe("arguments that are shown for approval", () => {
  it("are shown line by line, as JSON", () => {
    const args = { path: "/tmp/a b", deep: { list: [1, "x, y: {z}"], 'in"side': "\\" }, none: null, 文: "字é" };
    const lines = [
      '"path": "/tmp/a b"',
      '"deep": {"list":[1,"x, y: {z}"],"in\\"side":"\\\\"}',
      '"none": null',
      '"文": "字é"',
    ];
    assert.deepEqual(show(args).split("\n"), lines);
    assert.equal(show({}), "(none)");
  });

  it("hide nothing: what is not plainly visible is escaped", () => {
    const hidden: Record<string, string> = {
      "a line break": "\n",
      "an escape character": "\u001b",
      "a direction override": "\u202e",
      "an isolate": "\u2066",
      "a space without width": "\u200b",
      "a tag character": "\u{e0041}",
      "a variation selector": "\u{e0100}",
      "a blank letter": "\u3164",
      "a blank Braille cell": "\u2800",
      "a wide space": "\u2003",
      "a line separator": "\u2028",
      "a lone surrogate": "\ud800",
      "a private character": "\ue000",
      "a tag": "<!--",
      "an entity": "&lt;",
      "a fence": "```",
    };
    for (const [what, text] of Object.entries(hidden)) {
      const shown = show({ [text]: `a${text}b` });
      assert.match(shown, /^"[\x20-\x7e]*": "a[\x20-\x7e]*b"$/, what);
      assert.ok(!/[<>&`]/.test(shown), what);
      const read = JSON.parse(`{${shown}}`) as object;
      assert.deepEqual(read, { [text]: `a${text}b` }, what);
    }
  });

  it("push nothing out of sight with spaces or with marks on one letter", () => {
    assert.ok(!show({ a: `x${" ".repeat(100)}y` }).includes(" ".repeat(9)));
    assert.ok(!/\p{M}{4}/u.test(show({ a: `x${"\u0301".repeat(20)}y` })));
  });

  it("are cut where they are longest, in the middle, and say how long they are", () => {
    const shown = show({ content: `begin${"x".repeat(100_000)}end`, path: "/etc/passwd" });
    assert.match(shown, /"path": "\/etc\/passwd"/);
    assert.match(shown, /"content": "beginx+\[… cut here: 100010 characters in all …\]x*end"/);
    assert.ok(shown.length < 600);
    const escaped = show({ content: "\u202e".repeat(100_000), path: "/etc/passwd" });
    assert.ok(escaped.length < 600, String(escaped.length));
    assert.match(escaped, /\[… cut here: 100002 characters in all …\](?:\\u202e)+"/);
  });

  it("say how many members are not shown", () => {
    const many = Object.fromEntries(Array.from({ length: 70 }, (_, at) => [`k${at}`, at]));
    assert.match(show(many), /… and 20 more, which are not shown$/);
  });

  it("are shown where the tool names them, however many others come before", () => {
    const many = Object.fromEntries(Array.from({ length: 100_000 }, (_, at) => [`a${at}`, at]));
    const shown = shownArguments(JSON.stringify({ ...many, path: "/etc/passwd" }), 400, new Set(["path", "absent"]));
    assert.match(shown, /^"path": "\/etc\/passwd"\n"a0": 0\n/);
    assert.match(shown, /… and 99951 more, which are not shown$/);
  });

  it("are read as they came, whatever stands between them", () => {
    assert.equal(shownArguments('{ "a" : [ {"b": 1} , 2 ] ,\n "c":"}" }', 400), '"a": [ {"b": 1} , 2 ]\n"c": "}"');
  });
});
