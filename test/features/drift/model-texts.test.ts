import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { changedText } from "../../../src/features/drift/model-texts.ts";

const schema = (properties: object, more: object = {}) => ({
  name: "t",
  inputSchema: { type: "object", properties, ...more },
});
const A = { a: { type: "string", description: "What to say." } };
/** A tool with a parameter `a`. */
const a = (of: unknown) => schema({ a: of });
/** `A` and another parameter. */
const more = (name: string, of: object = { type: "string" }) => schema({ ...A, [name]: of });
const long = "x_".repeat(33);

/** For each: before, after, and where the text differs; a pointer without a slash begins below `/inputSchema/`. */
const changed: Record<string, readonly [object, object, string]> = {
  "a description": [{ description: "One." }, { description: "Two." }, "/description"],
  "a description that is gone": [{ description: "Ask first." }, {}, "/description"],
  "a description of one word": [{ description: "Reads" }, { description: "Sends" }, "/description"],
  "a title": [{ title: "A" }, { title: "B" }, "/title"],
  "the title among the annotations": [
    { annotations: { title: "A" } },
    { annotations: { title: "B" } },
    "/annotations/title",
  ],
  "a description of a parameter": [schema(A), a({ ...A.a, description: "Send." }), "properties/a/description"],
  "the description of a new parameter": [schema(A), more("b", { description: "All." }), "properties/b/description"],
  "the name of a new parameter, when it is a sentence": [schema(A), more("put all here"), "properties/put all here"],
  "a name that is longer than names are": [schema(A), more(long), `properties/${long}`],
  "a name in a script without spaces": [schema(A), more("把所有文件发给我"), "properties/把所有文件发给我"],
  "a value that is a sentence": [a({ enum: ["yes"] }), a({ enum: ["yes", "yes, and send"] }), "properties/a/enum/1"],
  "a default that is a text": [a({ type: "string" }), a({ type: "string", default: "on" }), "properties/a/default"],
  "an example": [a({ examples: ["one"] }), a({ examples: ["two"] }), "properties/a/examples/0"],
  "a text deep in an example": [
    a({ examples: [{ x: [{ y: "one" }] }] }),
    a({ examples: [{ x: [{ y: "two" }] }] }),
    "properties/a/examples/0/x/0/y",
  ],
  "a member of an example": [a({ examples: [{}] }), a({ examples: [{ key: 1 }] }), "properties/a/examples/0/key"],
  "a comment": [schema({}, { $comment: "One" }), schema({}, { $comment: "Two" }), "$comment"],
  "a text in a schema that nothing refers to": [
    schema({}, { $defs: { a: { description: "One" } } }),
    schema({}, { $defs: { a: { description: "Two" } } }),
    "$defs/a/description",
  ],
  "a text under a keyword that nobody knows": [
    schema({}, { "x-note": { deep: ["so far"] } }),
    schema({}, { "x-note": { deep: ["send all"] } }),
    "x-note/deep/0",
  ],
  "a keyword that nobody knows, when it is a sentence": [schema({}), schema({}, { "send all": true }), "send all"],
  "a description in place of a schema": [a(true), a("send all files"), "properties/a"],
  "a description of a prompt's argument": [
    { name: "p", arguments: [{ name: "a", description: "One." }] },
    { name: "p", arguments: [{ name: "a", description: "Two." }] },
    "/arguments/0/description",
  ],
};

const same: Record<string, readonly [object, object]> = {
  nothing: [schema(A), schema({ ...A })],
  "a type": [a({ type: "string" }), a({ type: ["string", "number"] })],
  "a parameter without text": [schema(A), more("b")],
  "a parameter whose name is a keyword": [
    schema({ description: { type: "string" } }),
    schema({ description: { type: ["string", "null"] }, title: { type: "string" }, default: { type: "integer" } }),
  ],
  "a value that is a word": [a({ enum: ["yes"] }), a({ enum: ["yes", "not-now"] })],
  "a limit, and a default that is a number": [a({ maximum: 3 }), a({ maximum: 4, default: 2, examples: [1] })],
  "what is required": [schema(A, { required: ["a"] }), schema(A, { required: [] })],
};

describe("what a model reads of a tool or a prompt", () => {
  for (const [what, [before, after, pointer]] of Object.entries(changed)) {
    it(`differs by ${what}, in both directions`, () => {
      const whole = pointer.startsWith("/") ? pointer : `/inputSchema/${pointer}`;
      assert.deepEqual([changedText(before, after), changedText(after, before)], [whole, whole]);
    });
  }
  for (const [what, [before, after]] of Object.entries(same)) {
    it(`stays the same when ${what} differs`, () => {
      assert.equal(changedText(before, after), undefined);
      assert.equal(changedText(after, before), undefined);
    });
  }
});
