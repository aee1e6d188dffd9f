import assert from "node:assert/strict";
import { SourceMap, type SourceMapPayload } from "node:module";
import { describe, it } from "node:test";
import { bundleDefinition } from "../../../src/discover/bundle/bundle.ts";
import { openCompiler } from "../../../src/discover/compiler.ts";
import type { DefinitionSource } from "../../../src/discover/discovery.ts";
import { findPackageImports } from "../../../src/discover/files/imports.ts";
import { PackageFiles, tarballsToSend } from "../../../src/discover/packages/package-files.ts";
import { discover } from "../../../src/discover/typescript/discover.ts";
import { changeFixed } from "../../../src/limits/fixed.ts";
import { defaultLimits } from "../../../src/limits/limits.ts";
import { packagesInReach } from "../../../src/packages/package-set.ts";
import { importBundle } from "../../support/discovered.ts";
import { rows } from "../../support/rows.ts";
import { packageSet, type MadePackage } from "../../support/tarballs.ts";

type Made = Record<string, MadePackage & { version?: string }>;

const limits = { packageUnpackedBytes: 1_000_000 };

async function withPackages(code: string, made: Made): Promise<{ source: DefinitionSource; files: PackageFiles }> {
  const { set, tarballs } = packageSet(made);
  const imports = findPackageImports({ language: "typescript", files: { "s.ts": code } });
  const packages = packagesInReach(set, imports)!;
  tarballsToSend(packages);
  const files = await PackageFiles.read(packages, (cid) => tarballs.get(cid), limits);
  return { source: { language: "typescript", server: "s", entry: "s.ts", files: { "s.ts": code }, packages }, files };
}

async function bundled(code: string, made: Made) {
  const { source, files } = await withPackages(code, made);
  return bundleDefinition(source, undefined, files);
}

async function loaded(code: string, made: Made) {
  const { bundle, problems } = await bundled(code, made);
  assert.deepEqual(problems, []);
  return importBundle(bundle!);
}

/** The exports of a bundle whose definition exports all of one package. */
const ofPackage = (files: Record<string, string>) =>
  loaded('export * from "p";', { "node_modules/p": { manifest: { exports: "./index.mjs" }, files } });

describe("a bundle with npm packages", () => {
  it("holds what is used of them, in both forms of modules, and says what each adds", async () => {
    const made: Made = {
      "node_modules/esm": {
        manifest: { type: "module", exports: "./index.js", sideEffects: false },
        files: {
          "index.js": `export const used = 1; export { heavy } from "./heavy.js";`,
          "heavy.js": `export const heavy = "never used";`,
        },
      },
      "node_modules/cjs": {
        dependencies: ["deep"],
        files: { "index.js": `const { deep } = require("deep"); exports.double = (n) => deep(n) * 2;` },
      },
      "node_modules/deep": {
        version: "2.1.0",
        files: { "index.js": `exports.deep = (n) => n + require("./data.json").one;`, "data.json": `{"one": 1}` },
      },
    };
    const code = `import { used } from "esm"; import { double } from "cjs"; export const result = double(used);`;
    const { bundle, packages } = await bundled(code, made);
    assert.doesNotMatch(bundle!, /never used/);
    assert.deepEqual(packages?.map(({ name, version }) => `${name}@${version}`).sort(), [
      "cjs@1.0.0",
      "deep@2.1.0",
      "esm@1.0.0",
    ]);
    assert.ok(packages.every(({ bytes }) => bytes > 0));
    assert.equal((await loaded(code, made))["result"], 4);
  });

  it("has the same bytes whatever the compiler has bundled before", async (context) => {
    const { set, tarballs } = packageSet({
      "node_modules/a": {
        manifest: { type: "module", exports: "./index.js", sideEffects: false },
        files: {
          "index.js": `import { text } from "./text.js"; export const a = text; export const spare = "spare";`,
          "text.js": `export const text = "a";`,
        },
      },
      "node_modules/b": { files: { "index.js": `exports.b = (n) => n;` } },
    });
    const packages = packagesInReach(set, ["a", "b"])!;
    const definition = (entry: string, text: string, more = {}): DefinitionSource => ({
      language: "typescript",
      server: "s",
      entry,
      files: { [entry]: text, ...more },
      packages,
    });
    const both = `import { b } from "b"; import { a } from "a"; export const both = () => b(a);`;
    const definitions = [
      definition("s.ts", `import { a } from "a"; export const f = () => a;`),
      definition("s.ts", `import { a } from "a"; export const g = () => a + "!";`),
      definition("other.ts", both),
      definition("s.ts", `import { spare } from "a"; export { text } from "./text.js"; export const h = () => spare;`, {
        "text.js": `export const text = () => "own";`,
      }),
      definition("s.ts", `import { missing } from "a"; export const f = () => missing;`),
      definition("other.ts", both),
    ];
    const compiler = openCompiler(defaultLimits);
    context.after(() => compiler.close());
    for (const source of definitions) {
      const warm = await compiler.compile(source, { tarballs: async (cid) => tarballs.get(cid) });
      const cold = await bundleDefinition(
        source,
        undefined,
        await PackageFiles.read(packages, (cid) => tarballs.get(cid), limits),
      );
      assert.equal(warm.bundle, cold.bundle);
      assert.deepEqual(warm.packages, cold.packages);
    }
  });

  it("goes on without what a package only tries, and is refused without what it imports", async () => {
    const tries = `try { exports.found = require("optional"); } catch (error) { exports.found = error.code; }
      try { exports.fast = require("./fast.node"); } catch (error) { exports.why = error.message; }`;
    const { found, why } = await loaded(`export { found, why } from "tries";`, {
      "node_modules/tries": { files: { "index.js": tries, "fast.node": "binary" } },
    });
    assert.equal(found, "MODULE_NOT_FOUND");
    assert.match(why, /"tries" is a native addon, which does not run here/);

    const needs: Made = {
      "node_modules/needs": {
        manifest: { type: "module" },
        files: { "index.js": `import x from "needed"; export const y = x;` },
      },
    };
    const { bundle, problems } = await bundled(`export { y } from "needs";`, needs);
    assert.equal(bundle, undefined);
    assert.match(
      problems[0]!.message,
      /The package file needs@1\.0\.0\/index\.js imports "needed", which is not in the set/,
    );
  });

  it("has no way to a package that only another one may import, nor to a file inside that a package hides", async () => {
    const made: Made = {
      "node_modules/a": { manifest: { exports: "./index.js" }, files: { "index.js": "", "hidden.js": "" } },
    };
    const hidden = await bundled(`import "a/hidden.js"; export const x = 1;`, made);
    assert.match(hidden.problems[0]!.message, /"a\/hidden\.js" is not a file of the package/);
    const unknown = await bundled(`import "unknown-thing"; import "a"; export const x = 1;`, made);
    assert.match(unknown.problems[0]!.message, /run berth add unknown-thing/);
    assert.deepEqual([unknown.problems[0]!.line, unknown.problems[0]!.column], [1, 8]);
  });

  it("is refused for a native addon, with what to use instead", async () => {
    const native: Made = {
      "node_modules/sharp": {
        files: { "index.js": `module.exports = require("./build/sharp.node");`, "build/sharp.node": "binary" },
      },
    };
    const { problems } = await bundled(`import sharp from "sharp"; export const f = sharp;`, native);
    assert.match(problems[0]!.message, /"sharp" is a native addon, which does not run here: use jimp/);
  });

  it("leaves to the run what a package computes, and never expands a pattern on the disk of the host", async () => {
    const computes = [
      "const own = require; exports.tried = [",
      `  () => require("./" + name), () => import("./scripts/" + name), () => import(\`./docs/\${name}\`),`,
      "  () => require(name), () => own(name), () => import(name),",
      "]; const name = process.argv0;",
      `exports.calendar = { import(to) { return to; }, require(to = "./here") { return to; } };`,
    ];
    const made: Made = { "node_modules/computes": { files: { "index.js": computes.join("\n") } } };
    const code = `export { tried, calendar } from "computes";`;
    const { bundle, problems } = await bundled(code, made);
    assert.deepEqual(problems, []);
    assert.doesNotMatch(bundle!, /check-reference|contributing/);
    const { tried, calendar } = await loaded(code, made);
    for (const each of tried) await assert.rejects(async () => each());
    assert.deepEqual([calendar.import("a"), calendar.require()], ["a", "./here"]);
  });

  it("gives an ES module of a package what Node gives it as the default of a CommonJS module", async () => {
    const made: Made = {
      "node_modules/esm": {
        manifest: { type: "module", dependencies: { cjs: "*" } },
        dependencies: ["cjs"],
        files: { "index.js": `import cjs from "cjs"; export const keys = Object.keys(cjs);` },
      },
      "node_modules/cjs": {
        files: { "index.js": `exports.__esModule = true; exports.default = { inner: 1 }; exports.other = 2;` },
      },
    };
    const { keys } = await loaded(`export { keys } from "esm";`, made);
    assert.deepEqual(keys, ["__esModule", "default", "other"]);
  });

  it("leads from its positions to the definition, though it holds no white space", async () => {
    const made: Made = { "node_modules/a": { files: { "index.js": `exports.a = (f) => f();` } } };
    const code = `import { a } from "a";\nexport function fails(): void {\n  a(() => {\n    throw new Error("no");\n  });\n}\n`;
    const { bundle } = await bundled(code, made);
    const { fails } = await loaded(code, made);
    const stack = await Promise.resolve()
      .then(fails)
      .catch((error: Error) => error.stack!);
    const [, line, column] = /:(\d+):(\d+)\)?\n/.exec(stack as string)!.map(Number) as [number, number, number];
    const json = Buffer.from(/base64,(.*)\n$/.exec(bundle!)![1]!, "base64").toString();
    const map = JSON.parse(json) as SourceMapPayload;
    assert.deepEqual(map.sources, ["definition:s.ts"], "of packages the map says nothing");
    const entry = new SourceMap(map).findEntry(line - 1, column - 1);
    assert.ok("originalSource" in entry);
    assert.deepEqual([entry.originalSource, entry.originalLine + 1], ["definition:s.ts", 4]);
  });

  it("finds a refused module's names in each way that a package imports them, and fails when it calls one", async () => {
    const exports = await ofPackage({
      "index.mjs": `
        export { exec, default as whole } from "child_process";
        export * as all from "node:child_process";
        export { required } from "./common.cjs";
        import { Worker } from "worker_threads";
        export class Mine extends Worker {}`,
      "common.cjs": `
        const { promisify } = require("util");
        const { spawn, exec } = require("child_process");
        exports.required = { spawn, run: promisify(exec) };`,
    });
    const denied = { code: "ERR_ACCESS_DENIED", message: /child_process\.\w+\(\) is refused\. .* shell definition/ };
    assert.throws(() => exports["exec"]("ls"), denied);
    assert.throws(() => exports["whole"].execFileSync("ls"), denied);
    assert.throws(() => exports["all"].fork("ls"), denied);
    assert.throws(() => exports["required"].spawn("ls"), denied);
    await assert.rejects(exports["required"].run("ls"), denied);
    const worker = { code: "ERR_ACCESS_DENIED", message: /new worker_threads\.Worker/ };
    assert.throws(() => new exports["Mine"]("x.js"), worker);
  });

  it("answers a package that asks where it runs", async () => {
    const { answers } = await ofPackage({
      "index.mjs": `
        import * as threads from "worker_threads";
        import cluster from "cluster";
        import inspector from "inspector";
        import { isSea } from "node:sea";
        threads.setEnvironmentData("a", 1);
        cluster.on("exit", () => {}).once("online", () => {});
        export const answers = [
          threads.isMainThread, threads.parentPort, threads.threadId, threads.getEnvironmentData("a"),
          threads.MessageChannel === globalThis.MessageChannel, threads.markAsUncloneable({}),
          cluster.isPrimary, cluster.isWorker, inspector.url(), isSea(),
        ];`,
    });
    assert.deepEqual(answers, [true, null, 0, 1, true, undefined, true, false, undefined, false]);
  });

  it("gives a require with a computed name Node's modules that a guest may use, and nothing else", async () => {
    const { answers, isMain, resolved, cached } = await ofPackage({
      "index.mjs": `export { answers, isMain, resolved, cached } from "./common.cjs";`,
      "common.cjs": `
        const ask = (name) => { try { return typeof require(name); } catch (error) { return error.code; } };
        const names = ["fs", "node:path", "child_process", "node:sqlite", "node:no_such", "./x.js", "/etc/passwd"];
        exports.answers = names.map(ask);
        exports.isMain = require.main === module;
        exports.resolved = require.resolve("f" + "s");
        exports.cached = Object.keys(require.cache).length;`,
    });
    assert.deepEqual(answers, ["object", "object", ...Array(5).fill("MODULE_NOT_FOUND")]);
    assert.deepEqual([isMain, resolved, cached], [false, "node:fs", 0]);
  });

  it("loads a package with a require of its own, and tells it nothing of the machine that built the bundle", async () => {
    const { answers, names, mode, url } = await ofPackage({
      "index.mjs": `
        import { createRequire } from "node:module";
        import { sep } from "./common.cjs";
        const require = createRequire(import.meta.url);
        export const answers = [require("path").sep === sep, import.meta.dirname, import.meta.filename];
        export const url = import.meta.url;
        export { mode, names } from "./common.cjs";`,
      "common.cjs": `
        exports.sep = require("path").sep; exports.names = [__dirname, __filename]; exports.mode = process.env.NODE_ENV;
        //# sourceMappingURL=file:///etc/passwd`,
    });
    assert.deepEqual(answers, [true, "/bundle", "/bundle/index.mjs"]);
    assert.deepEqual([names, mode, url], [["/bundle", "/bundle/index.mjs"], "production", "file:///bundle/index.mjs"]);
  });
});

describe("types of npm packages", () => {
  it("count in schemas: a package's own, those of @types, and what is inferred from values", async () => {
    const made: Made = {
      "node_modules/own": {
        manifest: { types: "./index.d.ts" },
        files: {
          "index.js": "",
          "index.d.ts": `
            export interface Issue { /** Its title. */ title: string; labels?: ("bug" | "idea")[] }
            export interface Schema<T> { parse(value: unknown): T }
            export type infer<S> = S extends Schema<infer T> ? T : never;
            export declare function object<T>(shape: T): Schema<T>;`,
        },
      },
      "node_modules/plain": { files: { "index.js": "" } },
      "node_modules/@types/plain": {
        manifest: { types: "index.d.ts" },
        files: { "index.d.ts": `declare function rows(text: string): { count: number }; export = rows;` },
      },
    };
    const code = `
      import type { Issue } from "own";
      import * as own from "own";
      import rows from "plain";
      const shape = own.object({ name: "", age: 1 });
      export function open(issue: Issue): void {}
      export function add(person: own.infer<typeof shape>): ReturnType<typeof rows> { return rows(person.name); }`;
    const { source, files } = await withPackages(code, made);
    const { tools, problems } = discover(source, files);
    assert.deepEqual(problems, []);
    const [open, add] = tools;
    assert.deepEqual(open!.inputSchema["properties"], {
      issue: {
        type: "object",
        properties: {
          title: { type: "string", description: "Its title." },
          labels: { type: "array", items: { type: "string", enum: ["bug", "idea"] } },
        },
        required: ["title"],
        additionalProperties: false,
      },
    });
    assert.deepEqual((add!.inputSchema["properties"] as Record<string, unknown>)["person"], {
      type: "object",
      properties: { name: { type: "string" }, age: { type: "number" } },
      required: ["name", "age"],
      additionalProperties: false,
    });
    assert.deepEqual(add!.outputSchema, {
      type: "object",
      properties: { count: { type: "number" } },
      required: ["count"],
    });
  });

  it("that extend Node's, where nothing says what those are, make no mistakes of what is right", async () => {
    const made: Made = {
      "node_modules/parser": {
        manifest: { types: "index.d.ts" },
        files: {
          "index.js": "",
          "index.d.ts": `
            import { Transform } from "node:stream";
            export declare class Parser extends Transform { own: number }
            export declare class Plain { own: number }`,
        },
      },
    };
    const code = `
      import { Parser, Plain } from "parser";
      export async function read(): Promise<number> {
        const parser = new Parser();
        parser.write("a");
        for await (const record of parser) String(record);
        return new Plain().missing + parser.own;
      }`;
    const { source, files } = await withPackages(code, made);
    const { problems } = discover(source, files);
    assert.deepEqual(rows(problems, "line", "message"), ["7 Property 'missing' does not exist on type 'Plain'."]);
  });

  it("of Node itself count where the set asks for them, for packages as for the definition", async () => {
    const made: Made = {
      "node_modules/client": {
        manifest: { types: "index.d.ts" },
        files: {
          "index.js": "",
          "index.d.ts": `
            import { Options } from "tls";
            export interface ClientOptions extends Partial<Options> { name: string }
            export declare function connect(options: ClientOptions): string;`,
        },
      },
      "node_modules/@types/node": {
        manifest: { types: "index.d.ts" },
        files: { "index.d.ts": `declare module "tls" { interface Options { port: number } }` },
      },
    };
    const code = `
      import { connect } from "client";
      export function one(): string { return connect({ name: "a", port: 1 }); }
      export function other(): string { return connect({ name: "a", port: "1" }); }`;
    const { source, files } = await withPackages(code, made);
    assert.ok(source.packages!.packages["node_modules/@types/node"]);
    const { problems } = discover(source, files);
    assert.deepEqual(rows(problems, "line", "message"), ["4 Type 'string' is not assignable to type 'number'."]);
  });

  it("count without code, and as globals of Node where the set has its types", async () => {
    const made: Made = {
      "node_modules/@types/geojson": {
        manifest: { types: "index.d.ts" },
        files: { "index.d.ts": "export interface Point { coordinates: number[] }" },
      },
      "node_modules/@types/node": {
        manifest: { types: "index.d.ts" },
        files: { "index.d.ts": `declare namespace NodeJS { type Platform = "aix" | "linux" }` },
      },
    };
    const code = `import type { Point } from "geojson"; export function f(at: Point, on: NodeJS.Platform): void {}`;
    const properties = async (made: Made) => {
      const { source, files } = await withPackages(code, made);
      const { tools, problems } = discover(source, files);
      return tools[0]?.inputSchema["properties"] ?? rows(problems, "severity", "message");
    };
    const coordinates = { type: "array", items: { type: "number" } };
    assert.deepEqual(await properties(made), {
      at: { type: "object", properties: { coordinates }, required: ["coordinates"], additionalProperties: false },
      on: { type: "string", enum: ["aix", "linux"] },
    });
    const { "node_modules/@types/node": _, ...without } = made;
    assert.deepEqual(await properties(without), [
      "error f: the type NodeJS.Platform cannot be found: add the package @types/node, which has it: Cannot find namespace 'NodeJS'. (at on)",
    ]);
  });

  it("are an error at the import that loads most of them, if they exceed the memory of the compiler", async () => {
    const made: Made = {
      "node_modules/sdk": {
        manifest: { types: "index.d.ts" },
        dependencies: ["generated"],
        files: { "index.js": "", "index.d.ts": 'export * from "generated";' },
      },
      "node_modules/generated": { manifest: { types: "index.d.ts" }, files: { "index.d.ts": "//".padEnd(500) } },
      "node_modules/small": { files: { "index.d.ts": "export const one: 1;" } },
    };
    const code = `import { one } from "small";\nimport * as sdk from "sdk";\nexport const f = (): void => {};`;
    const { source, files } = await withPackages(code, made);
    const revert = changeFixed({ declarationUnits: 400 });
    const { tools, problems } = discover(source, files);
    revert();
    assert.deepEqual(tools, []);
    assert.deepEqual(rows(problems, "severity", "line", "column"), ["error 2 22"]);
    assert.match(problems[0]!.message, /type declarations, most of them for "sdk"; import/);
  });

  it("that nobody has written are a warning that says where they may be found", async () => {
    const made: Made = { "node_modules/@scope/bare": { files: { "index.js": "exports.x = 1;" } } };
    const code = `import { x } from "@scope/bare";\nexport function f(): number { return x; }`;
    const { source, files } = await withPackages(code, made);
    const { problems } = discover(source, files);
    assert.deepEqual(
      problems.map(({ severity, line, message }) => [severity, line, message]),
      [
        [
          "warning",
          1,
          '"@scope/bare" has no types, so everything from it is any: add @types/scope__bare, if there is such a ' +
            "package, or declare what you use in a .d.ts file.",
        ],
      ],
    );
  });
});
