import assert from "node:assert/strict";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { pathToFileURL } from "node:url";
import formats from "ajv-formats";
import { Ajv2020 } from "ajv/dist/2020.js";
import { packageRoot } from "../../../src/config.ts";
import type { Discovery } from "../../../src/discover/discovery.ts";
import { budgets } from "../../../src/discover/typescript/budget.ts";
import { discover } from "../../../src/discover/typescript/discover.ts";
import { caseExpected, caseNames, caseSource, checkDiscovery } from "../../support/discovery-check.ts";

for (const name of caseNames()) {
  test(`what types and comments say becomes a tool: ${name} (C3, T11.6)`, () => {
    checkDiscovery(discover(caseSource(name)), caseExpected(name));
  });
}

test("each kind of type has a case, and discovery of all together is the same a second time", () => {
  const names = caseNames();
  assert.ok(names.length >= 16, `${names.length} cases`);
  for (const name of names) assert.deepEqual(discover(caseSource(name)), discover(caseSource(name)), name);
});

test("dates inside recursive types are found level by level, down to a limit", () => {
  const text = "interface Node { at: Date; next?: Node; all: Node[] }\nexport function walk(node: Node): void {}";
  const { tools } = discover({ language: "typescript", server: "walk", entry: "a.ts", files: { "a.ts": text } });
  const paths = (tools[0]?.call.dates ?? []).map((path) => path.map(String).join("."));
  assert.deepEqual(paths.slice(0, 4).sort(), ["node.all.*.at", "node.at", "node.next.at", "node.next.next.at"]);
  assert.equal(paths.length, 1 + budgets.recursiveRevivals);
  assert.equal(new Set(paths).size, paths.length);
});

type Check = (actual: object, expected: object, tools: object) => string[];

/** Cases by others, beside the checkout on Berth's build machine. They bring their own checker. */
const shared = join(packageRoot, "..", "shared", "discovery-cases");
const sharedCases = existsSync(shared) ? readdirSync(shared).filter((file) => /^\d.*\.ts$/.test(file)) : [];

for (const file of sharedCases) {
  test(`the shared case ${file} passes under its own checker`, async () => {
    const { check } = (await import(pathToFileURL(join(shared, "check.mjs")).href)) as { check: Check };
    const files = { [file]: readFileSync(join(shared, file), "utf8") };
    const { tools, problems }: Discovery = discover({ language: "typescript", server: "shared", entry: file, files });
    const expected = JSON.parse(readFileSync(join(shared, file.replace(/\.ts$/, ".expected.json")), "utf8")) as object;
    const addFormats = formats.default;
    assert.deepEqual(check({ tools, errors: problems }, expected, { Ajv2020, addFormats }), []);
  });
}
