import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { packageRoot } from "../../src/config.ts";
import { entryFieldList } from "../../src/entry/entry-fields.ts";
import { readEntry, unnamedEntry } from "../../src/entry/entry.ts";
import { reduceGrants } from "../../src/host/calls/granted.ts";
import type { DirectoryEntry } from "../../src/host/directory/directory.ts";
import type { Json, JsonObject } from "../../src/lib/json.ts";
import { rows } from "../support/rows.ts";

interface Schema {
  readonly properties: Readonly<Record<string, Schema & { readonly items?: Schema }>>;
}

const read = (path: string): string => readFileSync(join(packageRoot, path), "utf8");
const names = entryFieldList.map(([name]) => name);

describe("the table of entry fields", () => {
  it("gives the reader the type of every field", () => {
    for (const name of names) {
      assert.deepEqual(rows(readEntry("a", { [name]: 7 }).problems.slice(0, 1), "code", "pointer"), [
        `wrong-type /a/${name}`,
      ]);
    }
  });

  it("gives an entry without fields the absent value of every field that is read by itself", () => {
    for (const [name, { as = name, read }] of entryFieldList) if (read) assert.ok(as in unnamedEntry, name);
  });

  it("is the entry in mcps.schema.json", () => {
    const { entry } = (
      JSON.parse(read("reference_templates/mcps.schema.json")) as { $defs: { entry: { properties: object } } }
    ).$defs;
    assert.deepEqual(Object.keys(entry.properties), names);
  });

  it("is the table of fields in docs/reference.md", () => {
    const reference = read("docs/reference.md");
    for (const name of names) assert.ok(reference.includes(`| \`${name}\` `), name);
  });

  it("names each field that takes a right of its own in docs/access.md", () => {
    const access = read("docs/access.md");
    for (const [name, { right, strictness }] of entryFieldList) {
      if (right ?? strictness) assert.ok(access.includes(`\`${name}\``), name);
    }
  });

  it("shows no field twice in the form", () => {
    const shown = entryFieldList.flatMap(([name, { form }]) =>
      form ? [name as string].concat(form.covers ?? []) : [],
    );
    assert.deepEqual(shown, [...new Set(shown)]);
    for (const name of shown) assert.ok((names as string[]).includes(name), name);
  });

  it("says which grants are taken from earlier releases when the entry no longer gives them", () => {
    const entryOf = (name: string, value: Json) => readEntry("a", { [name]: value }).entry;
    for (const [name, { right, read }] of entryFieldList) {
      if (right === undefined || !read) continue;
      const [then, entry] = [entryOf(name, ["A"]), entryOf(name, [])];
      const given = (refused: boolean): object => reduceGrants(then, { entry, refused } as DirectoryEntry);
      for (const now of [given(false), given(true)]) assert.deepEqual((now as Record<string, Json>)[name], [], name);
    }
  });
});

describe("mcps.schema.json", () => {
  const { $defs } = JSON.parse(read("reference_templates/mcps.schema.json")) as { $defs: Record<string, Schema> };
  const { tool, resource, prompt } = $defs as Record<"tool" | "resource" | "prompt", Schema>;
  const part = ({ properties }: Schema, name: string): Schema => properties[name]!.items ?? properties[name]!;
  const messages = [{ role: "user", content: "x", wrong: 1 }];
  const cases: Record<string, { schema: Schema; entry: JsonObject }> = {
    "a tool": { schema: tool, entry: { tools: { a: { wrong: 1 } } } },
    "annotations of a tool": {
      schema: part(tool, "annotations"),
      entry: { tools: { a: { annotations: { wrong: 1 } } } },
    },
    "a resource": { schema: resource, entry: { resources: { a: { wrong: 1 } } } },
    "a prompt": { schema: prompt, entry: { prompts: { a: { wrong: 1 } } } },
    "an argument of a prompt": {
      schema: part(prompt, "arguments"),
      entry: { prompts: { a: { arguments: [{ wrong: 1 }] } } },
    },
    "a message of a prompt": { schema: part(prompt, "messages"), entry: { prompts: { a: { messages } } } },
    limits: { schema: part($defs["entry"]!, "limits"), entry: { limits: { wrong: 1 } } },
  };
  for (const [name, { schema, entry }] of Object.entries(cases)) {
    it(`has the fields of ${name} that the reader has`, () => {
      const { message } = readEntry("a", entry).problems.find(({ code }) => code === "unknown-field")!;
      const [, fields = ""] = message.split("its fields are ");
      assert.deepEqual(fields.split(", ").sort(), Object.keys(schema.properties).sort());
    });
  }
});
