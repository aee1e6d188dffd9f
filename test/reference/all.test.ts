import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { readdir, readFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { test } from "node:test";
import { packageRoot } from "../../src/config.ts";
import { compile } from "../support/compiler.ts";
import { compileTemplate, templates } from "../support/reference.ts";
import { pluck } from "../support/rows.ts";

test("every reference definition compiles without a problem, and offers just its tools", async () => {
  const expected: Record<string, string[]> = {
    "checksum.sh": ["checksum"],
    "date.ts": ["date", "now", "format", "convert", "add", "difference"],
    "echo.ts": ["echo", "repeat", "dictate"],
    "jq.ts": ["jq", "query"],
    "markdown.ts": ["convert", "outline", "contents", "links"],
    "mcp.ts": ["list_servers", "describe_server", "find_tools", "how_to_connect"],
  };
  const definitions = (await readdir(templates)).filter((file) => /(?<!\.d)\.(ts|sh)$/.test(file));
  assert.deepEqual(definitions.toSorted(), Object.keys(expected));
  for (const [entry, names] of Object.entries(expected)) {
    const { tools } = await compileTemplate(entry);
    assert.deepEqual(pluck(tools, "name"), names);
    for (const { name, description, annotations, inputSchema } of tools) {
      assert.ok(description, `${name} has no description`);
      assert.equal(annotations.readOnlyHint, true, name);
      for (const [argument, schema] of Object.entries(
        inputSchema["properties"] as Record<string, { description?: string }>,
      )) {
        assert.ok(schema.description, `${name}: ${argument} has no description`);
      }
    }
  }
});

test("mcps.source.json names every definition but mcp, which the boot images bring", async () => {
  const read = async (file: string) => JSON.parse(await readFile(join(templates, file), "utf8")) as unknown;
  const { $schema: _schema, ...mcps } = (await read("mcps.source.json")) as Record<string, { definition?: string }>;
  const definitions = Object.entries(mcps).map(([name, { definition }]) => [name, definition]);
  assert.deepEqual(definitions, [
    ["checksum", "checksum.sh"],
    ["date", "date.ts"],
    ["echo", "echo.ts"],
    ["jq", "jq.ts"],
    ["markdown", "markdown.ts"],
    ["mcp", undefined],
  ]);
  const transformFiles = Object.values(mcps).flatMap((entry) =>
    Object.entries(entry).flatMap(([field, file]) => (field.endsWith("_transform_cid") ? [basename(file)] : [])),
  );
  assert.deepEqual(await readdir(join(templates, "transforms")), transformFiles);
  for (const image of ["default", "readonly"]) {
    assert.deepEqual(await read(`${image}.boot.source.json`), {
      servers: [{ name: "mcp", definition_cid: "mcp.ts", enabled: true }],
      variables: [{ name: "mcps", definition: "GENERATED:mcps.json", enabled: true }],
    });
  }
});

test("the packages of the reference definitions are installed in a clone, for editors, in the versions of the image", async () => {
  const read = async (folder: string): Promise<Record<string, Record<string, string>>> =>
    JSON.parse(await readFile(join(folder, "package.json"), "utf8"));
  const [{ dependencies }, own] = [await read(templates), await read(packageRoot)];
  for (const [name, version] of Object.entries(dependencies!)) {
    assert.match(version, /^\d+\.\d+\.\d+/, name);
    assert.equal(own["devDependencies"]![name], version, name);
    assert.equal(own["dependencies"]![name], undefined, `Berth itself does not need ${name}`);
  }
});

test("an editor finds no fault with the reference definitions", () => {
  const compiler = join(packageRoot, "node_modules/typescript/bin/tsc");
  const { status, stdout } = spawnSync(process.execPath, [compiler, "-p", templates], { encoding: "utf8" });
  assert.equal(stdout, "");
  assert.equal(status, 0);
});

test("the definition that the README begins with works as it stands", async () => {
  const readme = await readFile(join(templates, "README.md"), "utf8");
  const code = /```ts\n([\s\S]*?)```/.exec(readme)![1]!;
  const source = { language: "typescript", server: "greet", entry: "greet.ts", files: { "greet.ts": code } } as const;
  const { tools, problems, bundle } = await compile(source);
  assert.deepEqual(problems, []);
  assert.ok(bundle);
  assert.equal(tools[0]!.description, "Greets somebody.");
  assert.deepEqual(tools[0]!.inputSchema["required"], ["name"]);
});
