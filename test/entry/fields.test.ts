import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { cidFields, entryFields } from "../../src/entry/fields.ts";
import { readMcpsSource } from "../../src/image/mcps-source.ts";
import { openSourceFolder } from "../../src/image/source-folder.ts";
import { parseJsonSource } from "../../src/lib/json-source.ts";
import type { Json } from "../../src/lib/json.ts";
import { temporaryFolder } from "../support/image-sources.ts";

const names = Object.keys(entryFields) as (keyof typeof entryFields)[];
const isFile = (name: string): boolean => cidFields.some((field) => field === name);
const values = { text: "x", boolean: false, object: {}, list: [] } as const satisfies Record<string, Json>;

describe("the table of entry fields", () => {
  it("lets the check of mcps.source.json see every field that does not name a file", () => {
    const checked = names.filter((name) => name !== "config_cid" && !isFile(name));
    const entry = Object.fromEntries(checked.map((name) => [name, values[entryFields[name]]]));
    const seen: string[] = [];
    const { root } = parseJsonSource("mcps.source.json", JSON.stringify({ a: entry }));
    readMcpsSource(root!, openSourceFolder(temporaryFolder(), 1024), (_, value) => {
      seen.push(...Object.keys(value));
      return [];
    });
    assert.deepEqual(seen, checked);
  });
});
