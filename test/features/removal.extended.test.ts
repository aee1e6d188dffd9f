import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { cpSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { describe, it } from "node:test";
import { promisify } from "node:util";
import { features } from "../../src/compose/features.ts";
import { packageRoot } from "../../src/config.ts";
import { entryFieldList, type EntryField } from "../../src/entry/entry-fields.ts";
import { apiOf } from "../support/api.ts";
import { call, withStatus } from "../support/berth.ts";
import { temporaryFolder } from "../support/suite.ts";

const run = promisify(execFile);

/** Values of fields, by type. */
const VALUES: Partial<Record<EntryField["type"], unknown>> = { text: "1h", list: ["echo"] };

/** Copies these parts of the project into a folder, with its packages. */
function copy(folder: string, ...paths: string[]): void {
  for (const path of paths) cpSync(join(packageRoot, path), join(folder, path), { recursive: true });
  symlinkSync(join(packageRoot, "node_modules"), join(folder, "node_modules"));
}

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
    copy(folder, "src", "package.json", "tsconfig.json");
    for (const { name } of features) remove(name, join(folder, "src"), "ts");
    // Programs that load commands of `profiles` directly.
    for (const entry of ["berth.ts", "berth-mcp.ts"]) rmSync(join(folder, "src", entry));
    const file = join(folder, "tsconfig.json");
    writeFileSync(file, JSON.stringify({ ...JSON.parse(readFileSync(file, "utf8")), include: ["src"] }));
    const tsc = join(packageRoot, "node_modules/typescript/bin/tsc");
    await run(process.execPath, [tsc, "-p", folder, "--noEmit"]).catch((error: { stdout: string }) => {
      throw new Error(error.stdout, { cause: error });
    });
  });

  for (const { name } of features) {
    it(`serves without ${name}, and refuses its fields`, async (t) => {
      const folder = temporaryFolder(t);
      copy(folder, "package.json", "reference_templates", "boot", "dist/src", "dist/views.cjs", "dist/browser");
      remove(name, join(folder, "dist/src"), "js");
      const cli = join(folder, "dist/src/cli.js");
      const serving = spawn(process.execPath, [cli, "serve", "--port", "0", "--data", join(folder, "data")], {
        stdio: ["ignore", "ignore", "pipe"],
      });
      const gone = new Promise((resolve) => serving.once("exit", resolve));
      t.after(async () => {
        serving.kill();
        await gone;
      });
      let [url, log] = ["", ""];
      for await (const line of createInterface({ input: serving.stderr })) {
        log += `${line}\n`;
        url = /Berth serves (http:\S+)\/mcp/.exec(line)?.[1] ?? "";
        if (url) break;
      }
      assert.ok(url, log);
      const { content } = await call(`${url}/mcp/echo`, "echo", { message: "hello" });
      assert.deepEqual(content, [{ type: "text", text: "hello" }]);
      for (const [field, { feature, type }] of entryFieldList as readonly (readonly [string, EntryField])[]) {
        if (feature !== name) continue;
        const value = VALUES[type];
        assert.ok(value, `a value of the type ${type}`);
        const entry = JSON.stringify({ definition: "echo.ts", [field]: value });
        const { body } = await withStatus(422, apiOf({ url }).put("/entries/echo", entry));
        assert.match(JSON.stringify(body), new RegExp(`${field}\\\\" needs the feature \\\\"${name}\\\\"`));
      }
    });
  }
});
