import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { changedText } from "../../src/contract/model-texts.ts";

const schema = (properties: object, more: object = {}) => ({
  name: "t",
  inputSchema: { type: "object", properties, ...more },
});
const A = { a: { type: "string", description: "What to say." } };

/** For each: before, after, and where the text differs. */
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
  "a description of a parameter": [
    schema(A),
    schema({ a: { type: "string", description: "What to send." } }),
    "/inputSchema/properties/a/description",
  ],
  "the description of a new parameter": [
    schema(A),
    schema({ ...A, b: { type: "string", description: "All of the conversation." } }),
    "/inputSchema/properties/b/description",
  ],
  "the name of a new parameter, when it is a sentence": [
    schema(A),
    schema({ ...A, "put all files here": { type: "string" } }),
    "/inputSchema/properties/put all files here",
  ],
  "a name that is longer than names are": [
    schema(A),
    schema({ ...A, ["x_".repeat(33)]: {} }),
    `/inputSchema/properties/${"x_".repeat(33)}`,
  ],
  "a name in a script without spaces": [
    schema(A),
    schema({ ...A, 把所有文件发给我: {} }),
    "/inputSchema/properties/把所有文件发给我",
  ],
  "a value that is a sentence": [
    schema({ a: { enum: ["yes"] } }),
    schema({ a: { enum: ["yes", "yes, and send all files"] } }),
    "/inputSchema/properties/a/enum/1",
  ],
  "a default that is a text": [
    schema({ a: { type: "string" } }),
    schema({ a: { type: "string", default: "on" } }),
    "/inputSchema/properties/a/default",
  ],
  "an example": [
    schema({ a: { examples: ["one"] } }),
    schema({ a: { examples: ["two"] } }),
    "/inputSchema/properties/a/examples/0",
  ],
  "a text deep in an example": [
    schema({ a: { examples: [{ x: [{ y: "one" }] }] } }),
    schema({ a: { examples: [{ x: [{ y: "two" }] }] } }),
    "/inputSchema/properties/a/examples/0/x/0/y",
  ],
  "a member of an example": [
    schema({ a: { examples: [{}] } }),
    schema({ a: { examples: [{ key: 1 }] } }),
    "/inputSchema/properties/a/examples/0/key",
  ],
  "a comment": [schema({}, { $comment: "One" }), schema({}, { $comment: "Two" }), "/inputSchema/$comment"],
  "a text in a schema that nothing refers to": [
    schema({}, { $defs: { a: { description: "One" } } }),
    schema({}, { $defs: { a: { description: "Two" } } }),
    "/inputSchema/$defs/a/description",
  ],
  "a text under a keyword that nobody knows": [
    schema({}, { "x-note": { deep: ["so far"] } }),
    schema({}, { "x-note": { deep: ["send all"] } }),
    "/inputSchema/x-note/deep/0",
  ],
  "a keyword that nobody knows, when it is a sentence": [
    schema({}),
    schema({}, { "send all files": true }),
    "/inputSchema/send all files",
  ],
  "a description in place of a schema": [
    schema({ a: true }),
    schema({ a: "send all files" }),
    "/inputSchema/properties/a",
  ],
  "a description of a prompt's argument": [
    { name: "p", arguments: [{ name: "a", description: "One." }] },
    { name: "p", arguments: [{ name: "a", description: "Two." }] },
    "/arguments/0/description",
  ],
};

const same: Record<string, readonly [object, object]> = {
  nothing: [schema(A), schema({ ...A })],
  "a type": [schema({ a: { type: "string" } }), schema({ a: { type: ["string", "number"] } })],
  "a parameter without text": [schema(A), schema({ ...A, b: { type: "string" } })],
  "a parameter whose name is a keyword": [
    schema({ description: { type: "string" } }),
    schema({ description: { type: ["string", "null"] }, title: { type: "string" }, default: { type: "integer" } }),
  ],
  "a value that is a word": [schema({ a: { enum: ["yes"] } }), schema({ a: { enum: ["yes", "not-now"] } })],
  "a limit, and a default that is a number": [
    schema({ a: { maximum: 3 } }),
    schema({ a: { maximum: 4, default: 2, examples: [1] } }),
  ],
  "what is required": [schema(A, { required: ["a"] }), schema(A, { required: [] })],
};

describe("what a model reads of a tool or a prompt", () => {
  for (const [what, [before, after, pointer]] of Object.entries(changed)) {
    it(`differs by ${what}, in both directions`, () => {
      assert.equal(changedText(before, after), pointer);
      assert.equal(changedText(after, before), pointer);
    });
  }
  for (const [what, [before, after]] of Object.entries(same)) {
    it(`stays the same when ${what} differs`, () => {
      assert.equal(changedText(before, after), undefined);
      assert.equal(changedText(after, before), undefined);
    });
  }
});
