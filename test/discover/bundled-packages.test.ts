import assert from "node:assert/strict";
import { SourceMap, type SourceMapPayload } from "node:module";
import { describe, it } from "node:test";
import { bundleDefinition } from "../../src/discover/bundle.ts";
import { discover } from "../../src/discover/discover.ts";
import type { DefinitionSource } from "../../src/discover/discovery.ts";
import { PackageFiles, tarballsToSend } from "../../src/discover/package-files.ts";
import { packagesInReach } from "../../src/packages/package-set.ts";
import { packageSet, type MadePackage } from "../support/tarballs.ts";

type Made = Record<string, MadePackage & { version?: string }>;

const limits = { packageUnpackedBytes: 1_000_000 };

async function withPackages(code: string, made: Made): Promise<{ source: DefinitionSource; files: PackageFiles }> {
  const { set, tarballs } = packageSet(made);
  const packages = packagesInReach(set, Object.keys(set.dependencies))!;
  tarballsToSend(packages);
  const files = await PackageFiles.read(packages, (cid) => tarballs.get(cid), limits);
  return { source: { language: "typescript", server: "s", entry: "s.ts", files: { "s.ts": code }, packages }, files };
}

async function bundled(code: string, made: Made) {
  const { source, files } = await withPackages(code, made);
  return bundleDefinition(source, undefined, files);
}

/** Imports the bundle. */
async function loaded(code: string, made: Made): Promise<Record<string, unknown>> {
  const { bundle, problems } = await bundled(code, made);
  assert.deepEqual(problems, []);
  return (await import(`data:text/javascript;base64,${Buffer.from(bundle!).toString("base64")}`)) as Record<
    string,
    unknown
  >;
}

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

  it("is the same whatever the order of the lines in the set is", async () => {
    const made: Made = {
      "node_modules/a": { dependencies: ["b"], files: { "index.js": `exports.a = require("b").b;` } },
      "node_modules/b": { dependencies: ["a"], files: { "index.js": `exports.b = () => require("a").a;` } },
    };
    const code = `import { a } from "a"; export const f = a;`;
    const one = await bundled(code, made);
    const other = await bundled(code, Object.fromEntries(Object.entries(made).toReversed()));
    assert.equal(one.bundle, other.bundle);
  });

  it("goes on without what a package only tries, and is refused without what it imports", async () => {
    const tries = `let found = "none"; try { found = require("optional"); } catch (error) { found = error.code; } exports.found = found;`;
    const found = await loaded(`export { found } from "tries";`, {
      "node_modules/tries": { files: { "index.js": tries } },
    });
    assert.equal(found["found"], "MODULE_NOT_FOUND");

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
    assert.match(hidden.problems[0]!.message, /"a\/hidden\.js" is no file of the package/);
    const unknown = await bundled(`import "unknown-thing"; export const x = 1;`, made);
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

  it("goes on without a native addon that a package only tries", async () => {
    const tries = `try { exports.fast = require("./fast.node"); } catch (error) { exports.why = error.message; }`;
    const found = await loaded(`export { why } from "tries";`, {
      "node_modules/tries": { files: { "index.js": tries, "fast.node": "binary" } },
    });
    assert.match(String(found["why"]), /"tries" is a native addon, which does not run here/);
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
    const { tried, calendar } = (await loaded(code, made)) as {
      tried: (() => unknown)[];
      calendar: Record<string, (to?: string) => unknown>;
    };
    for (const each of tried) await assert.rejects(async () => each());
    assert.deepEqual([calendar["import"]!("a"), calendar["require"]!()], ["a", "./here"]);
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
      .then(fails as () => never)
      .catch((error: Error) => error.stack!);
    const [, line, column] = /:(\d+):(\d+)\)?\n/.exec(stack)!.map(Number) as [number, number, number];
    const json = Buffer.from(/base64,(.*)\n$/.exec(bundle!)![1]!, "base64").toString();
    const map = JSON.parse(json) as SourceMapPayload;
    assert.deepEqual(map.sources, ["definition:s.ts"], "of packages the map says nothing");
    const entry = new SourceMap(map).findEntry(line - 1, column - 1);
    assert.ok("originalSource" in entry);
    assert.deepEqual([entry.originalSource, entry.originalLine + 1], ["definition:s.ts", 4]);
  });

  it("tells a package nothing of the machine that made it, and reads no map that a package names", async () => {
    const asks = `
      exports.place = __dirname; exports.file = __filename; exports.mode = process.env.NODE_ENV;
      //# sourceMappingURL=file:///etc/passwd`;
    const made: Made = {
      "node_modules/asks": { files: { "index.js": asks } },
      "node_modules/meta": {
        manifest: { type: "module" },
        files: { "index.js": `export const url = import.meta.url;` },
      },
    };
    const exports = await loaded(`export { place, file, mode } from "asks"; export { url } from "meta";`, made);
    assert.deepEqual(
      ["place", "file", "mode", "url"].map((name) => exports[name]),
      ["/bundle", "/bundle/index.mjs", "production", "file:///bundle/index.mjs"],
    );
  });

  it("has builtins for packages, and for refused ones a stand-in that says so when it is used", async () => {
    const uses = `
      const { join } = require("path"); const cp = require("child_process"); const { isMainThread } = require("worker_threads");
      exports.joined = join("a", "b"); exports.isMain = isMainThread;
      exports.run = () => cp.execSync("id");`;
    const exports = await loaded(`export { joined, isMain, run } from "uses";`, {
      "node_modules/uses": { files: { "index.js": uses } },
    });
    assert.deepEqual([exports["joined"], exports["isMain"]], ["a/b", true]);
    assert.throws(exports["run"] as () => void, /cannot start processes/);
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
    assert.deepEqual(
      problems.map(({ line, message }) => [line, message]),
      [[7, "Property 'missing' does not exist on type 'Plain'."]],
    );
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
    assert.deepEqual(
      problems.map(({ line, message }) => [line, message]),
      [[4, "Type 'string' is not assignable to type 'number'."]],
    );
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
          '"@scope/bare" has no types, so that everything from it is any: add @types/scope__bare, if there is such a ' +
            "package, or declare what you use in a .d.ts file.",
        ],
      ],
    );
  });
});
