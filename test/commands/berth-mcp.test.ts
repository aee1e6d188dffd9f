import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { chmod, copyFile, readdir } from "node:fs/promises";
import { builtinModules } from "node:module";
import { join } from "node:path";
import { before, test } from "node:test";
import { build } from "esbuild";
import { packageRoot, packageVersion } from "../../src/config.ts";
import { temporaryFolder } from "../support/temporary-folder.ts";
import { everything } from "../support/upstreams.ts";

const folder = temporaryFolder();
const file = join(folder, "berth-mcp.mjs");

before(async () => {
  await copyFile(join(packageRoot, "dist", "berth-mcp.mjs"), file);
  await chmod(file, 0o755);
});

test("the one file imports parts of Node and nothing else (J10)", async () => {
  const { metafile } = await build({
    entryPoints: [file],
    bundle: true,
    write: false,
    metafile: true,
    platform: "node",
    format: "esm",
    packages: "external",
    logLevel: "silent",
  });
  const imported = Object.values(metafile.outputs).flatMap(({ imports }) => imports.map(({ path }) => path));
  const others = imported.filter((path) => !builtinModules.includes(path.replace(/^node:/, "")));
  assert.deepEqual(others, []);
  assert.ok(imported.includes("node:child_process"), "it was looked into");
});

test("the one file runs by itself in an empty folder and inspects, calls and remembers a real server (J10)", async () => {
  assert.deepEqual(await readdir(folder), ["berth-mcp.mjs"]);
  assert.equal((await run(["--version"])).stdout.trim(), packageVersion());

  const inspected = await run(["inspect", everything]);
  assert.match(inspected.stdout, /\nTools \(13\)\n/);
  const called = await run(["cat", `${everything}&tool=get-sum&a=1&b=2`]);
  assert.equal(JSON.parse(called.stdout).text, "The sum of 1 and 2 is 3.");
  const put = await run(["put", `${everything}&tool=echo`], '{"message":"one"}\n{"message":"two"}\n');
  assert.deepEqual(texts(put.stdout), ["Echo: one", "Echo: two"]);
  for (const [command, name] of [
    ["head", "echo"],
    ["tail", "simulate-research-query"],
  ] as const) {
    const { stdout } = await run([command, "-n", "1", `${everything}&list=tools`]);
    assert.equal(JSON.parse(stdout).name, name);
  }

  assert.equal((await run(["profile", "create", "everything", "--from", everything])).code, 0);
  assert.equal((await run(["profile", "validate", "@everything"])).stdout.split("\n")[0], "@everything: valid");
  const reached = await run(["cat", "@everything/echo?message=hi"]);
  assert.deepEqual([reached.stderr, texts(reached.stdout)], ["", ["Echo: hi"]]);
  const { schema_hash: hash } = JSON.parse((await run(["mcp", "hash", everything])).stdout) as { schema_hash: string };
  assert.match((await run(["profile", "info", "@everything"])).stdout, new RegExp(hash));
});

test("the one file says what is wrong as berth does (J10)", async () => {
  const refused = await run(["cat", "mcp+pip://x"]);
  assert.deepEqual([refused.code, JSON.parse(refused.stderr).error.code], [2, "launcher_invalid"]);
});

function run(args: readonly string[], input = ""): Promise<{ code: number; stdout: string; stderr: string }> {
  return new Promise((resolve) => {
    const env = { PATH: process.env["PATH"], HOME: folder, XDG_DATA_HOME: join(folder, "data") };
    const child = execFile(file, args, { cwd: folder, env, timeout: 240_000 }, (error, stdout, stderr) => {
      resolve({ code: Number(error?.code ?? 0), stdout, stderr });
    });
    child.stdin!.end(input);
  });
}

function texts(lines: string): string[] {
  return lines
    .trim()
    .split("\n")
    .map((line) => (JSON.parse(line) as { text: string }).text);
}
