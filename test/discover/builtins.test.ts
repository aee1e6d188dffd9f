import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { builtinModules } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { pathToFileURL } from "node:url";
import { build } from "esbuild";
import {
  builtinFor,
  builtinName,
  bundleNames,
  importableBuiltins,
  requireBanner,
} from "../../src/discover/builtins.ts";

function stubOf(builtin: string): string {
  const answer = builtinFor(builtin, "package");
  assert.equal(answer.kind, "stub", builtin);
  return answer.kind === "stub" ? answer.code : "";
}

/** Bundles modules of a package as the compiler does, each refused module as its stub, and imports the bundle. */
// oxlint-disable-next-line typescript/no-explicit-any -- a bundle exports anything, and tests look into it freely
async function load(context: TestContext, files: Record<string, string>, define = {}): Promise<Record<string, any>> {
  const { outputFiles } = await build({
    entryPoints: ["index.mjs"],
    bundle: true,
    platform: "node",
    target: "node20",
    format: "esm",
    write: false,
    logLevel: "silent",
    define,
    banner: { js: requireBanner() },
    plugins: [
      {
        name: "package",
        setup(plugin) {
          plugin.onResolve({ filter: /.*/ }, ({ path }) => {
            const builtin = builtinName(path);
            if (builtin === undefined) return { path: path.replace("./", ""), namespace: "package" };
            if (builtinFor(builtin, "package").kind === "external") return { path: `node:${builtin}`, external: true };
            return { path: builtin, namespace: "stub" };
          });
          plugin.onLoad({ filter: /.*/, namespace: "package" }, ({ path }) => ({ contents: files[path]! }));
          plugin.onLoad({ filter: /.*/, namespace: "stub" }, ({ path }) => ({ contents: stubOf(path) }));
        },
      },
    ],
  });
  const folder = await mkdtemp(join(tmpdir(), "berth-builtins-"));
  context.after(() => rm(folder, { recursive: true, force: true }));
  const file = join(folder, "bundle.mjs");
  await writeFile(file, outputFiles[0]!.text);
  return (await import(pathToFileURL(file).href)) as Record<string, unknown>;
}

test("definitions and packages may import what works in a guest's own room, with and without node:", () => {
  for (const name of ["fs", "fs/promises", "http", "net", "tls", "dns", "os", "process", "zlib", "stream/web"]) {
    for (const importer of ["definition", "package"] as const) {
      assert.equal(builtinName(name), name);
      assert.equal(builtinName(`node:${name}`), name);
      assert.deepEqual(builtinFor(name, importer), { kind: "external" });
    }
  }
});

test("every module of this Node has an answer", () => {
  const names = builtinModules.filter((name) => !name.startsWith("node:"));
  const without = names.filter((name) => builtinName(name) === undefined);
  // Deprecated, and inner.
  assert.deepEqual(
    without.filter((name) => name !== "_stream_wrap"),
    [],
  );
});

test("names that Node has only with its prefix are packages without it", () => {
  for (const name of ["sqlite", "test", "test/reporters", "sea"]) {
    assert.equal(builtinName(name), undefined);
    assert.equal(builtinName(`node:${name}`), name);
  }
  assert.equal(builtinName("punycode/"), undefined);
  assert.equal(builtinName("constructor"), undefined);
});

test("a definition that imports a refused module is told what to use instead", () => {
  const refused = ["child_process", "cluster", "inspector", "repl", "sea", "sqlite", "test", "trace_events", "wasi"];
  for (const name of [...refused, "worker_threads", "_http_agent", "no_such", "toString"]) {
    const answer = builtinFor(name, "definition");
    assert.equal(answer.kind, "refused", name);
    assert.match(answer.kind === "refused" ? answer.why : "", /^[A-Z].{30,}\.$/, name);
  }
  const { why } = builtinFor("child_process", "definition") as { why: string };
  assert.match(why, /write a shell definition \(\.sh\)/);
});

test("a package finds a refused module's names in each way that it imports them, and is refused when it calls", async (context) => {
  const loaded = await load(context, {
    "index.mjs": `
      export { exec, default as whole } from "child_process";
      export * as all from "node:child_process";
      export { required } from "./common.cjs";
      import { Worker, isMainThread } from "worker_threads";
      export class Mine extends Worker {}
      export { isMainThread };`,
    "common.cjs": `
      const { promisify } = require("util");
      const { spawn, exec } = require("child_process");
      exports.required = { spawn, run: promisify(exec) };`,
  });
  const denied = { code: "ERR_ACCESS_DENIED", message: /child_process\.\w+\(\) is refused\. .* shell definition/ };
  assert.throws(() => loaded["exec"]("ls"), denied);
  assert.throws(() => loaded["whole"].execFileSync("ls"), denied);
  assert.throws(() => loaded["all"].fork("ls"), denied);
  assert.throws(() => loaded["required"].spawn("ls"), denied);
  await assert.rejects(loaded["required"].run("ls"), denied);
  assert.throws(() => new loaded["Mine"]("x.js"), { code: "ERR_ACCESS_DENIED", message: /new worker_threads\.Worker/ });
  assert.equal(loaded["isMainThread"], true);
});

test("a package that only asks where it runs gets true answers", async (context) => {
  const loaded = await load(context, {
    "index.mjs": `
      import * as threads from "worker_threads";
      import cluster from "cluster";
      import inspector from "inspector";
      import { isSea } from "node:sea";
      threads.setEnvironmentData("a", 1);
      cluster.on("exit", () => {}).once("online", () => {});
      export const answers = {
        parentPort: threads.parentPort, threadId: threads.threadId, data: threads.getEnvironmentData("a"),
        channel: threads.MessageChannel === globalThis.MessageChannel, marked: threads.markAsUncloneable({}),
        isPrimary: cluster.isPrimary, isWorker: cluster.isWorker, url: inspector.url(), isSea: isSea(),
      };`,
  });
  assert.deepEqual(loaded["answers"], {
    parentPort: null,
    threadId: 0,
    data: 1,
    channel: true,
    marked: undefined,
    isPrimary: true,
    isWorker: false,
    url: undefined,
    isSea: false,
  });
});

test("a module that no Node of a guest has is missing for those that try it", async (context) => {
  const loaded = await load(context, {
    "index.mjs": `
      export let code;
      try { require("node:no_such"); } catch (error) { code = error.code; }`,
  });
  assert.equal(loaded["code"], "MODULE_NOT_FOUND");
});

test("a require with a computed name finds Node's modules that a guest may use, and nothing else", async (context) => {
  const loaded = await load(context, {
    "index.mjs": `export { answers, main, resolved, kept } from "./common.cjs";`,
    "common.cjs": `
      const ask = (name) => { try { return typeof require(name); } catch (error) { return error.code; } };
      exports.answers = ["fs", "node:path", "child_process", "node:sqlite", "./x.js", "/etc/passwd"].map(ask);
      exports.main = require.main === module;
      exports.resolved = require.resolve("f" + "s");
      exports.kept = Object.keys(require.cache).length;`,
  });
  const missing = "MODULE_NOT_FOUND";
  assert.deepEqual(loaded["answers"], ["object", "object", missing, missing, missing, missing]);
  assert.equal(loaded["main"], false);
  assert.equal(loaded["resolved"], "node:fs");
  assert.equal(loaded["kept"], 0);
});

test("a package with a require of its own beside CommonJS packages loads", async (context) => {
  const loaded = await load(
    context,
    {
      "index.mjs": `
        import { createRequire } from "node:module";
        import { sep } from "./common.cjs";
        const require = createRequire(import.meta.url);
        export const answers = [require("path").sep === sep, import.meta.dirname, import.meta.filename];
        export { names } from "./common.cjs";`,
      "common.cjs": "exports.sep = require('path').sep; exports.names = [__dirname, __filename];",
    },
    bundleNames,
  );
  assert.deepEqual(loaded["answers"], [true, "/bundle", "/bundle/index.mjs"]);
  assert.deepEqual(loaded["names"], ["/bundle", "/bundle/index.mjs"]);
});

test("the banner is one line, and nothing of the machine is in it", () => {
  const banner = requireBanner(["path", "fs"]);
  assert.doesNotMatch(banner, /\n/);
  assert.match(banner, /\["fs","path"\]/);
  assert.equal(requireBanner(["fs", "path"]), banner);
  for (const name of importableBuiltins) assert.ok(requireBanner().includes(JSON.stringify(name)), name);
});
