import assert from "node:assert/strict";
import { test } from "node:test";
import { compileDefinition } from "../../../src/discover/compile.ts";
import type { Compiled } from "../../../src/discover/discovery.ts";
import { findPackageImports } from "../../../src/discover/files/imports.ts";
import { gatherDefinition } from "../../../src/discover/gather.ts";
import { PackageFiles, tarballsToSend } from "../../../src/discover/packages/package-files.ts";
import { defaultLimits } from "../../../src/limits/limits.ts";
import { packagesInReach } from "../../../src/packages/package-set.ts";
import { importBundle, signatures } from "../../support/discovered.ts";
import { rows } from "../../support/rows.ts";
import { folderWith } from "../../support/suite.ts";
import { packageSet } from "../../support/tarballs.ts";

type Files = Readonly<Record<string, string>>;

/** Gathers and compiles `a.ts` in a folder with these files. */
async function compiled(files: Files, packages?: PackageFiles): Promise<Compiled & { files: string[] }> {
  const gathered = await gatherDefinition(folderWith(files), "a.ts");
  const source = { language: "typescript", server: "a", entry: "a.ts", files: gathered.files } as const;
  const found = await compileDefinition("compile", source, Infinity, packages);
  return { ...found, problems: [...gathered.problems, ...found.problems], files: Object.keys(gathered.files) };
}

const paths = (paths: unknown, more?: object): string => JSON.stringify({ compilerOptions: { paths, ...more } });

const made = packageSet({
  "node_modules/@scope/pkg": {
    manifest: { type: "module", types: "index.d.ts" },
    files: {
      "index.js": "export const where = 'the package';",
      "index.d.ts": "export declare const where: string;",
    },
  },
});
const inReach = packagesInReach(made.set, ["@scope/pkg"])!;
tarballsToSend(inReach);
const packages = await PackageFiles.read(inReach, (cid) => made.tarballs.get(cid), defaultLimits);

test("an import by an alias is gathered, typed, bundled, and run, and so is what it imports in turn", async () => {
  const result = await compiled({
    "tsconfig.json": `{
      // What the editor reads.
      "extends": "./other.json",
      "compilerOptions": { /* aliases */ "paths": { "@/*": ["./src/*"], "~/*": ["./*"], "settings": ["./src/settings.json"], }, },
    }`,
    "a.ts": `
      import { shout } from "@/lib/shout";
      import type { Order } from "~/src/types";
      import settings from "settings" with { type: "json" };
      import note from "@/note.md";
      export * from "@/more.js";
      export function a(order: Order): string { return shout(order.item + settings.mark + note); }`,
    "src/lib/shout.ts": 'import { upper } from "@/lib/upper"; export const shout = (text: string) => upper(text);',
    "src/lib/upper.ts": "export const upper = (text: string) => text.toUpperCase();",
    "src/types.ts": "export interface Order { item: string }",
    "src/settings.json": '{ "mark": "!" }',
    "src/note.md": "note",
    "src/more.ts": "export function more(count: number): number { return count + 1; }",
    "src/unused.ts": "",
  });
  assert.deepEqual(result.problems, []);
  assert.deepEqual(result.files, [
    "a.ts",
    "src/lib/shout.ts",
    "src/lib/upper.ts",
    "src/more.ts",
    "src/note.md",
    "src/settings.json",
    "src/types.ts",
    "tsconfig.json",
  ]);
  assert.deepEqual(signatures(result).sort(), ["a(order: { item: string })", "more(count: number)"]);
  const run = await importBundle(result.bundle!);
  assert.deepEqual([run["a"]({ item: "x" }), run["more"](1)], ["X!NOTE", 2]);
});

test("the exact name wins, then the longest pattern, then the first target that is a file, relative to baseUrl", async () => {
  const where = (name: string) => `export const where = "${name}";`;
  const result = await compiled({
    "tsconfig.json": paths(
      {
        "*": ["any/*"],
        "@/*": ["all/*"],
        "@/lib/*": ["./none/*", "../../outside/*", "./lib/*"],
        "@/lib/one": ["one.ts"],
      },
      { baseUrl: "./src" },
    ),
    "a.ts": `
      import { where as all } from "@/x";
      import { where as lib } from "@/lib/x";
      import { where as one } from "@/lib/one";
      import { where as any } from "x";
      import { basename } from "path";
      import type { ToolContext } from "berth";
      export const a = (context: ToolContext): string => [all, lib, one, any, basename("/b")].join();`,
    "src/all/x.ts": where("all"),
    "src/all/lib/x.ts": where("all/lib"),
    "src/lib/x.ts": where("lib"),
    "src/lib/one.ts": where("lib/one"),
    "src/one.ts": where("one"),
    "src/any/x.ts": where("any"),
    "src/any/berth.ts": "",
  });
  assert.deepEqual(result.problems, []);
  assert.equal((await importBundle(result.bundle!))["a"](), "all,lib,one,any,b");
});

test("the file of aliases is part of a definition only where an import is one of them", async () => {
  const { files } = await compiled({
    "tsconfig.json": paths({ "@/*": ["./src/*"] }),
    "a.ts": 'import { where } from "@scope/pkg"; import "./b.ts"; export const a = (): string => where;',
    "b.ts": "",
  });
  assert.deepEqual(files, ["a.ts", "b.ts"]);
});

test("an alias is no package, and a package that a pattern matches without a file stays one", async () => {
  const source = 'import { where } from "@scope/pkg"; import "@scope/own"; export const a = (): string => where;';
  const files = { "a.ts": source, "tsconfig.json": paths({ "@scope/*": ["./own/*"] }), "own/own.ts": "" };
  const elsewhere = { "a.ts": source.replace('import "@scope/own";', ""), "tsconfig.json": paths({ "*": ["../*"] }) };
  assert.deepEqual((await compiled(elsewhere, packages)).problems, []);
  assert.deepEqual(findPackageImports({ language: "typescript", files }), ["@scope/pkg"]);
  const result = await compiled(files, packages);
  assert.deepEqual(result.problems, []);
  assert.equal((await importBundle(result.bundle!))["a"](), "the package");
});

test("an alias that leads outside of the folder of sources is refused", async () => {
  const inside = "./src/*";
  for (const [target, name] of [
    ["../shared/*", "@/x"],
    ["/etc/*", "@/x"],
    ["./src/../../*", "@/x"],
    ["..\\*", "@/x"],
    [inside, "@/../../x"],
  ]) {
    const { problems } = await compiled({
      "tsconfig.json": paths({ "@/*": [target] }),
      "a.ts": `import { x } from "${name}";\nexport const a = (): string => x;`,
    });
    assert.deepEqual(rows(problems, "code", "file", "line", "column"), ["import-refused a.ts 1 19"], target);
    assert.match(problems[0]!.message, /^"@\/.*x" is outside the folder of sources/);
  }
});

test("an alias that names no file is refused with what was tried", async () => {
  const { problems } = await compiled({
    "tsconfig.json": paths({ "@/*": ["./src/*", "./lib/*.ts"] }),
    "a.ts": 'import { x } from "@/x";\nexport const a = (): string => x;',
  });
  assert.deepEqual(rows(problems, "code", "file", "line", "column"), ["missing-file a.ts 1 19"]);
  assert.match(problems[0]!.message, /"@\/x" is not among .*looked for src\/x\.ts, .*, lib\/x\.ts\)\.$/);
  const other = await compiled({
    "tsconfig.json": paths({ "*": ["./src/*"] }),
    "a.ts": 'import { z } from "zod/mini";\nexport const a = (): string => z;',
  });
  assert.match(other.problems[0]!.message, /looked for src\/zod\/mini\.ts.* If it is a package, run berth add zod\.$/);
});

test("aliases that cannot be read are a problem with its place, where an import may be one", async () => {
  const broken = '{\n  "compilerOptions": {\n    "paths": { "@/*": ["./src/*" }\n  }\n}\n';
  const { problems } = await compiled({
    "tsconfig.json": broken,
    "a.ts": 'import type { T } from "@/x";\nimport { x } from "@/x";\nexport const a = (): string => x;',
    "src/x.ts": 'export const x = "x"; export type T = string;',
  });
  assert.deepEqual(rows(problems, "code", "file", "line", "column"), ["bad-tsconfig tsconfig.json 3 34"]);
  assert.match(problems[0]!.message, /^The aliases in tsconfig\.json cannot be read: "}" is unexpected here\.$/);
  assert.match(problems[0]!.frame!, /^> 3 \|     "paths"/);

  const files = {
    "tsconfig.json": broken,
    "a.ts":
      'import { where } from "@scope/pkg"; import { join } from "path"; export const a = (): string => join(where);',
  };
  assert.deepEqual((await compiled(files, packages)).problems, []);

  const many = await compiled({
    "tsconfig.json": paths({ "@/*": Array.from({ length: 257 }, (_, index) => `./${index}/*`) }),
    "a.ts": 'import { x } from "@/x";\nexport const a = (): string => x;',
  });
  assert.match(many.problems[0]!.message, /more than 256 targets/);
});

test("a configuration without aliases, empty, with a byte-order mark, or of another shape has none", async () => {
  for (const text of ["", "\uFEFF{}", "[]", "null", '{"compilerOptions":[]}', paths([]), paths({ "@/*": 1, x: [2] })]) {
    const { problems } = await compiled({
      "tsconfig.json": text,
      "a.ts": 'import { x } from "@/x";\nexport const a = (): string => x;',
    });
    assert.deepEqual(rows(problems, "code", "file"), ["import-refused a.ts"], text);
    assert.match(
      problems[0]!.message,
      /looks like a path alias .*add it there, or write a relative path, as in "\.\/x"/,
    );
  }
});
