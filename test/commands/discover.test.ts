import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";
import type { DiscoveredTool } from "../../src/discover/discovery.ts";
import type { Problem } from "../../src/lib/problem.ts";
import { shareCompiler } from "../support/compiler.ts";
import { berthInProcess } from "../support/in-process.ts";
import { rows } from "../support/rows.ts";
import { folderWith } from "../support/suite.ts";

interface Printed {
  readonly tools: readonly DiscoveredTool[];
  readonly problems: readonly Problem[];
  readonly bundling?: readonly Problem[];
}

shareCompiler();

async function berth(...args: string[]) {
  const {
    code: status,
    stdout,
    stderr,
  } = await berthInProcess(["discover", ...args], {
    env: { BERTH_SOURCE_FILES: "2" },
  });
  return { status, stdout, stderr, json: () => JSON.parse(stdout) as Printed };
}

test("berth discover --json prints tools and problems for programs", async () => {
  const path = folderWith({
    "a.ts":
      'import { times } from "./b.ts";\n/** Hi. */\nexport function hi(n = times): void {}\nexport function bad(f: symbol): void {}',
    "b.ts": "export const times = 3;",
  });
  const run = await berth(join(path, "a.ts"), "--json");
  assert.equal(run.status, 1);
  const { tools, problems, ...others } = run.json();
  assert.deepEqual(others, {});
  const parameters = tools.map(({ name, inputSchema }) => [name, inputSchema["properties"]]);
  assert.deepEqual(parameters, [["hi", { n: { type: "number", default: 3 } }]]);
  assert.deepEqual(rows(problems, "tool", "file", "line", "column"), ["bad a.ts 4 21"]);
});

test("berth discover shows signatures to people, and problems with the line that is at fault", async () => {
  const path = folderWith({
    "a.ts":
      "/** Says hi.\n * @readOnly */\nexport function hi(who: string, ...n: (1 | 2)[]): { ok?: boolean } { return {}; }\nexport function bad(f: symbol): void {}",
  });
  const run = await berth(join(path, "a.ts"));
  assert.equal(run.status, 1);
  assert.match(
    run.stdout,
    /^hi\(who: string, n\?: \(1 \| 2\)\[\]\): \{ ok\?: boolean \} @readOnly\n {2}Says hi\.\n\n1 tool, 1 error\n$/,
  );
  assert.match(
    run.stderr,
    /a\.ts:4:21: error \(tool bad\): .*symbol.*\[unsupported-type\]\n.*> 4 \| export function bad\(f: symbol\)/s,
  );
});

test("berth discover tells apart what is wrong with tools and what keeps them from running", async () => {
  const path = folderWith({
    "a.ts": 'import x from "left-pad-9000";\nexport function hi(who: string) { return x(who); }',
  });
  const run = await berth(join(path, "a.ts"), "--json");
  const { tools, problems, bundling } = run.json();
  assert.deepEqual([run.status, tools.length, problems, bundling?.length], [1, 1, [], 1]);
});

test("berth discover tells type errors as warnings, and as errors with --strict", async () => {
  const path = folderWith({
    "a.ts": "export function size(text: string): number {\n  return text.lenght;\n}\n",
  });
  const run = await berth(join(path, "a.ts"));
  assert.deepEqual([run.status, run.stdout], [0, "size(text: string): number\n\n1 tool, 1 warning\n"]);
  assert.match(
    run.stderr,
    /^a\.ts:2:15: warning: .*Did you mean 'length'\? \[type-error\]\n +> 2 \| {3}return text\.lenght;/,
  );
  const strict = await berth(join(path, "a.ts"), "--strict");
  assert.deepEqual([strict.status, strict.stdout], [1, "size(text: string): number\n\n1 tool, 1 error\n"]);
  assert.match(strict.stderr, /^a\.ts:2:15: error: /);
});

test("berth discover takes scripts, and the name of their server", async () => {
  const path = folderWith({ "find.sh": "#!/bin/sh\n# Finds.\n# @param {string} text\n" });
  assert.equal((await berth(join(path, "find.sh"), "--json")).json().tools[0]!.name, "find");
  const named = await berth(join(path, "find.sh"), "--server", "search");
  assert.deepEqual([named.status, named.stdout], [0, "search(text: string)\n  Finds.\n\n1 tool\n"]);
});

test("berth discover says so when there is nothing to read", async () => {
  const run = await berth("/nowhere/at-all.ts");
  assert.deepEqual([run.status, run.stdout], [2, ""]);
  assert.match(run.stderr, /\/nowhere\/at-all\.ts cannot be read/);
});

test("berth discover shows resources and prompts, too", async () => {
  const path = folderWith({
    "a.ts":
      "/** Text. @resource a://text */\nexport const text = () => 1;\n" +
      "/** Asks.\n * @prompt */\nexport const ask = (it: string) => it;\n/** @completes ask.it */\nexport const it = () => [];",
  });
  const run = await berth(join(path, "a.ts"));
  assert.equal(run.stdout, "a://text\n  Text.\n\nprompt ask\n  Asks.\n\n0 tools, 1 resource, 1 prompt\n");
  assert.equal(run.status, 0);
  const printed = (await berth(join(path, "a.ts"), "--json")).json();
  assert.deepEqual(Object.keys(printed), ["tools", "problems", "resources", "prompts", "completions"]);
});

test("berth discover says which limit keeps it from reading a file, and where", async () => {
  const path = folderWith({
    "a.ts":
      'import { Port } from "./b.ts";\nimport { Pier } from "./c.ts";\nexport function dock(a: Port, b: Pier): void {}',
    "b.ts": "export interface Port { name: string }",
    "c.ts": "export interface Pier { name: string }",
  });
  const { bundling, problems } = (await berth(join(path, "a.ts"), "--json")).json();
  const [first] = bundling ?? [];
  assert.match(first?.message ?? "", /more than 2 files/);
  assert.deepEqual([first?.file, first?.line], ["a.ts", 2]);
  assert.match(problems[0]?.message ?? "", /the type Pier cannot be found/);
});
