import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { CompletionContext } from "@codemirror/autocomplete";
import { json } from "@codemirror/lang-json";
import { EditorState } from "@codemirror/state";
import { completeJson } from "../../src/browser/editor/complete-json.ts";
import { mergeDrafts, mergeTexts } from "../../src/browser/editor/draft.ts";
import type { Schema } from "../../src/browser/editor/schema.ts";
import { jsonPlaceAt, rangeOf } from "../../src/browser/editor/text-places.ts";

describe("the editor's merge of two people's texts", () => {
  const base = "one\ntwo\nthree\nfour\nfive\nsix";

  it("keeps both changes where they are about other lines", () => {
    const mine = base.replace("one", "ONE").replace("five", "five\nfive and a half");
    const theirs = base.replace("three", "THREE");
    assert.deepEqual(mergeTexts({ base, mine, theirs }), {
      text: "ONE\ntwo\nTHREE\nfour\nfive\nfive and a half\nsix",
      conflicts: 0,
    });
  });

  it("keeps mine, and counts it, where both changed the same lines in other ways", () => {
    const mine = base.replace("three", "mine");
    const theirs = base.replace("three", "theirs").replace("six", "SIX");
    assert.deepEqual(mergeTexts({ base, mine, theirs }), { text: mine.replace("six", "SIX"), conflicts: 1 });
  });

  it("counts no conflict where both changed the same lines alike", () => {
    const both = base.replace("three", "3");
    assert.deepEqual(mergeTexts({ base, mine: both, theirs: both }), { text: both, conflicts: 0 });
  });

  it("takes in what they added and removed at the ends", () => {
    const mine = base.replace("three", "3");
    assert.equal(mergeTexts({ base, mine, theirs: `${base}\nseven` }).text, `${mine}\nseven`);
    assert.equal(mergeTexts({ base, mine, theirs: `zero\n${base}` }).text, `zero\n${mine}`);
    assert.equal(mergeTexts({ base, mine, theirs: base.replace("\nsix", "") }).text, mine.replace("\nsix", ""));
    assert.equal(mergeTexts({ base, mine, theirs: base.replace("one\n", "") }).text, mine.replace("one\n", ""));
  });

  it("keeps files that either added, and loses none that either changed", () => {
    const begun = { entry: "a.ts", files: { "a.ts": "a", "old.ts": "old", "both.ts": "x" } };
    const mine = { entry: "a.ts", files: { "a.ts": "a", "old.ts": "old", "mine.ts": "m", "both.ts": "changed" } };
    const theirs = { entry: "a.ts", files: { "a.ts": "A", "theirs.ts": "t" } };
    assert.deepEqual(mergeDrafts({ base: begun, mine, theirs }), {
      draft: { entry: "a.ts", files: { "a.ts": "A", "mine.ts": "m", "both.ts": "changed", "theirs.ts": "t" } },
      conflicts: 1,
    });
  });
});

describe("the editor of JSON", () => {
  const schema: Schema = {
    $defs: {
      server: {
        type: "object",
        properties: {
          description: { type: "string", description: "What it is for" },
          enabled: { type: "boolean", default: true },
          tools: { type: "object", additionalProperties: { $ref: "#/$defs/tool" } },
          mode: { enum: ["warn", "error"] },
          tags: { type: "array", items: { enum: ["fast", "slow"] } },
        },
      },
      tool: { anyOf: [{ properties: { title: { type: "string" } } }, { properties: { options: { type: "object" } } }] },
    },
    type: "object",
    additionalProperties: { $ref: "#/$defs/server" },
  };

  /** `|` marks the cursor. */
  const offered = (marked: string): string[] => {
    const position = marked.indexOf("|");
    const state = EditorState.create({ doc: marked.replace("|", ""), extensions: [json()] });
    const result = completeJson(schema)(new CompletionContext(state, position, true));
    assert.ok(!(result instanceof Promise));
    return (result?.options ?? []).map(({ displayLabel, label }) => displayLabel ?? label);
  };

  it("offers the members that an entry does not have yet", () => {
    assert.deepEqual(offered('{"echo": {"|"}}'), ["description", "enabled", "tools", "mode", "tags"]);
    assert.deepEqual(offered('{"echo": {"enabled": true, "|": 1}}'), ["description", "tools", "mode", "tags"]);
    assert.deepEqual(offered('{"echo": { | }}'), ["description", "enabled", "tools", "mode", "tags"]);
    assert.deepEqual(offered('{"echo": {"mode": "warn", de| }}'), ["description", "enabled", "tools", "tags"]);
  });

  it("offers members of every alternative, through references", () => {
    assert.deepEqual(offered('{"echo": {"tools": {"say": {"|"}}}}'), ["title", "options"]);
  });

  it("offers the values that the schema names", () => {
    assert.deepEqual(offered('{"echo": {"enabled": |}}'), ["true", "false"]);
    assert.deepEqual(offered('{"echo": {"mode": "|"}}'), ['"warn"', '"error"']);
    assert.deepEqual(offered('{"echo": {"tags": ["fast", |]}}'), ['"fast"', '"slow"']);
  });

  it("offers nothing where the schema says nothing", () => {
    assert.deepEqual(offered('{"|"}'), []);
    assert.deepEqual(offered('{"echo": {"other": {"|"}}}'), []);
    assert.deepEqual(offered("|"), []);
  });

  it("knows the place in a text that is not JSON yet", () => {
    const state = EditorState.create({ doc: '{"a/b": [1, {"c": ', extensions: [json()] });
    assert.deepEqual(jsonPlaceAt(state, state.doc.length)?.path, ["a/b", 1, "c"]);
  });

  it("finds the place of a problem by its line and column, and else by its pointer", () => {
    const state = EditorState.create({ doc: '{\n  "a/b": {"c": [1, 22]}\n}', extensions: [json()] });
    const marked = (problem: { line?: number; column?: number; pointer?: string }): string => {
      const { from, to } = rangeOf(state, { code: "x", message: "x", severity: "error", ...problem });
      return state.sliceDoc(from, to);
    };
    assert.equal(marked({ line: 2, column: 3 }), '"a/b"');
    assert.equal(marked({ pointer: "/a~1b/c/1" }), "22");
    assert.equal(marked({ pointer: "/a~1b/c" }), '"c"');
    assert.equal(marked({ line: 3, column: 2 }), "}");
    assert.equal(marked({ line: 99, column: 2 }), "");
  });
});
