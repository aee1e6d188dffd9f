import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { cidFields, entryFieldList } from "../../src/entry/entry-fields.ts";
import type { FieldType } from "../../src/entry/fields.ts";
import { readMcpsSource } from "../../src/image/mcps-source.ts";
import { openSourceFolder } from "../../src/image/source-folder.ts";
import { parseJsonSource } from "../../src/lib/json-source.ts";
import type { Json } from "../../src/lib/json.ts";
import { temporaryFolder } from "../support/image-sources.ts";

const isFile = (name: string): boolean => cidFields.some((field) => field === name);
const values: Partial<Record<FieldType, Json>> = { text: "x", boolean: false, object: {}, list: [] };

describe("the table of entry fields", () => {
  it("lets the check of mcps.source.json see every field that does not name a file", () => {
    const checked = entryFieldList.filter(([name]) => name !== "config_cid" && !isFile(name));
    const entry = Object.fromEntries(checked.map(([name, { type }]) => [name, values[type]]));
    const seen: string[] = [];
    const { root } = parseJsonSource("mcps.source.json", JSON.stringify({ a: entry }));
    readMcpsSource(root!, openSourceFolder(temporaryFolder(), 1024), (_, value) => {
      seen.push(...Object.keys(value));
      return [];
    });
    assert.deepEqual(seen, Object.keys(entry));
  });
});
