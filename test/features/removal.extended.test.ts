import assert from "node:assert/strict";
import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { features } from "../../src/compose/features.ts";
import { entryFieldList, type EntryField } from "../../src/entry/entry-fields.ts";
import { apiOf } from "../support/api.ts";
import { call, withStatus } from "../support/berth.ts";
import { compileCopy, copyProject, serveCopy } from "../support/compiled-copy.ts";
import { temporaryFolder } from "../support/suite.ts";

/** Values of fields, by type. */
const VALUES: Partial<Record<EntryField["type"], unknown>> = { text: "1h", list: ["echo"] };

/** Deletes the folder of a feature and its lines in the list, as sources or compiled. */
function remove(feature: string, folder: string, ending: "ts" | "js"): void {
  rmSync(join(folder, "features", feature), { recursive: true });
  const file = join(folder, `compose/features.${ending}`);
  const list = readFileSync(file, "utf8");
  const [line, name] = new RegExp(`import { (\\w+) } from "../features/${feature}/feature.${ending}";\n`).exec(list)!;
  writeFileSync(file, list.replace(line, "").replace(new RegExp(`\\b${name}(?:,\\s*)?`), ""));
}

describe("the core without features", () => {
  it("type-checks without all of them", async (t) => {
    const folder = temporaryFolder(t);
    copyProject(folder, "src", "package.json", "tsconfig.json");
    for (const { name } of features) remove(name, join(folder, "src"), "ts");
    // Programs that load commands of `profiles` directly.
    for (const entry of ["berth.ts", "berth-mcp.ts"]) rmSync(join(folder, "src", entry));
    await compileCopy(folder, "--noEmit");
  });

  for (const { name } of features) {
    it(`serves without ${name}, and refuses its fields`, async (t) => {
      const folder = temporaryFolder(t);
      copyProject(folder, "package.json", "reference_templates", "boot", "dist/src", "dist/views.cjs", "dist/browser");
      remove(name, join(folder, "dist/src"), "js");
      const berth = await serveCopy(folder);
      t.after(() => berth.close());
      const { content } = await call(`${berth.url}/mcp/echo`, "echo", { message: "hello" });
      assert.deepEqual(content, [{ type: "text", text: "hello" }]);
      for (const [field, { feature, type }] of entryFieldList as readonly (readonly [string, EntryField])[]) {
        if (feature !== name) continue;
        const value = VALUES[type];
        assert.ok(value, `a value of the type ${type}`);
        const entry = JSON.stringify({ definition: "echo.ts", [field]: value });
        const { body } = await withStatus(422, apiOf(berth).put("/entries/echo", entry));
        assert.match(JSON.stringify(body), new RegExp(`${field}\\\\" needs the feature \\\\"${name}\\\\"`));
      }
    });
  }
});
