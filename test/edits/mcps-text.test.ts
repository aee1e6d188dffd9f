import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { withMember } from "../../src/edits/mcps-text.ts";
import {
  assert as assertProperty,
  asyncProperty,
  constantFrom,
  dictionary,
  jsonValue,
  runs,
  string,
} from "../support/fast-check.ts";

const name = string({ unit: "binary", maxLength: 6 }).filter((text) => text !== "__proto__");
const members = dictionary(name, jsonValue({ maxDepth: 4, stringUnit: "binary" }), { noNullPrototype: true });
const indent = constantFrom(undefined, 2, "\t");
const asWritten = (value: unknown): unknown => JSON.parse(JSON.stringify(value));

describe("a member of a JSON text", () => {
  it("is put in, changed and taken out, whatever the others are", async () => {
    await assertProperty(
      asyncProperty(members, name, jsonValue({ maxDepth: 2 }), indent, async (value, name, put, indent) => {
        const text = JSON.stringify(value, null, indent);
        const changed = await withMember(text, [name], JSON.stringify(put, null, indent));
        assert.deepEqual(JSON.parse(changed), asWritten({ ...value, [name]: put }));
        const { [name]: _, ...rest } = value;
        assert.deepEqual(JSON.parse(await withMember(changed, [name], null)), asWritten(rest));
        assert.deepEqual(JSON.parse(await withMember(text, [name], null)), asWritten(rest));
      }),
      { numRuns: runs(300) },
    );
  });

  it("is found inside of others", async () => {
    const text = '{\n  "a": {"b": {"c": 1}, "x": "}"},\n  "b": [{"c": "{"}]\n}\n';
    assert.equal(await withMember(text, ["a", "b", "c"], "2"), text.replace("1", "2"));
    assert.equal(await withMember(text, ["a", "b", "d"], "2"), text.replace("1", '1, "d": 2'));
    for (const path of [
      ["c", "d"],
      ["b", "c"],
    ]) {
      await assert.rejects(withMember(text, path, "2"), TypeError);
    }
  });

  it("leaves every other character as its author wrote it", async () => {
    const text = '\n{ "a" :\t1 ,\r\n  "\\"b\\\\": [ 1e2, {"c": "\\\\"} ] ,"c":null}  ';
    assert.equal(await withMember(text, ['"b\\'], "true"), '\n{ "a" :\t1 ,\r\n  "\\"b\\\\": true ,"c":null}  ');
    assert.equal(await withMember(text, ["a"], null), '\n{ "\\"b\\\\": [ 1e2, {"c": "\\\\"} ] ,"c":null}  ');
    assert.equal(await withMember(text, ["c"], null), '\n{ "a" :\t1 ,\r\n  "\\"b\\\\": [ 1e2, {"c": "\\\\"} ]}  ');
  });

  it("gets a line of its own where the others have one", async () => {
    assert.equal(
      await withMember('{\n  "a": 1\n}\n', ["b"], '{\n  "c": 2\n}'),
      '{\n  "a": 1,\n  "b": {\n    "c": 2\n  }\n}\n',
    );
    assert.equal(await withMember('{"a": 1}', ["b"], "2"), '{"a": 1, "b": 2}');
    assert.equal(await withMember("{}\n", ["b"], "2"), '{\n  "b": 2\n}\n');
    assert.equal(await withMember('{\n  "a": {}\n}', ["a", "b"], "2"), '{\n  "a": {\n    "b": 2\n  }\n}');
  });

  it("is the last of its name, as in JSON.parse", async () => {
    assert.equal(await withMember('{"a": 1, "a": 2}', ["a"], "3"), '{"a": 1, "a": 3}');
  });
});
