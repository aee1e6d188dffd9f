import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, describe, test } from "node:test";
import { pathToFileURL } from "node:url";
import { openCompiler } from "../src/discover/compiler.ts";
import type { CompilerMode } from "../src/discover/compiler-command.ts";
import type { Compiled, DefinitionSource } from "../src/discover/discovery.ts";

const limits = { compileMs: 600_000, compileElapsedMs: 600_000, compileMemoryMb: 384 };

const source = (text: string, more: Record<string, string> = {}): DefinitionSource => ({
  language: "typescript",
  server: "m",
  entry: "m.ts",
  files: { "m.ts": text, ...more },
});

const folder = mkdtempSync(join(tmpdir(), "berth-confined-"));
const secret = "c9f1e0-a-secret-that-nobody-is-told";
const secretFile = join(folder, "secret.key");
writeFileSync(secretFile, `{"version":3, ${secret}`);
after(() => rmSync(folder, { recursive: true }));

const modes: readonly CompilerMode[] = process.platform === "linux" ? ["sandboxed", "trusted"] : ["trusted"];

for (const mode of modes) {
  describe(`what a definition can have the compiler read, ${mode}`, () => {
    const compiler = openCompiler(limits, { mode });
    after(() => compiler.close());

    const compile = async (text: string, more?: Record<string, string>): Promise<Compiled> => {
      const compiled = await compiler.compile(source(text, more));
      assert.ok(!JSON.stringify(compiled).includes(secret), "nothing of the host's file is in the answer");
      return compiled;
    };

    test("no comment leads to a file outside of the definition", async () => {
      const url = pathToFileURL(secretFile).href;
      const targets = [url, secretFile, "./secret.key", "../../../../../../../../../../etc/passwd", "file:///dev/zero"];
      const comments = targets.flatMap((target) => [
        `//# sourceMappingURL=${target}`,
        `//@ sourceMappingURL=${target}`,
        `/*# sourceMappingURL=${target} */`,
        `/*@ sourceMappingURL=${target}\n*/`,
        `const a = 1; //# sourceMappingURL=${target}\n//# sourceMappingURL=${target}`,
        `const text = \`\${1 /*# sourceMappingURL=${target} */}\``,
      ]);
      const inline = `{"version":3,"sources":["${url}"],"names":[],"mappings":"AAAA" ${secret.slice(0, 4)}`;
      comments.push(
        `//# sourceMappingURL=data:application/json,${encodeURIComponent(inline)}`,
        `//# sourceMappingURL=data:application/json;base64,${Buffer.from(inline).toString("base64")}`,
      );
      for (const comment of comments) {
        const beside = `export function x(): string { return "" }\n${comment}\n`;
        const { problems, tools, bundle } = await compile(beside);
        assert.deepEqual(problems, [], comment);
        assert.equal(tools.length, 1);
        assert.ok(bundle);
        const nested = await compile('export { x } from "./nested.js";', {
          "nested.js": beside.replace(": string", ""),
        });
        assert.deepEqual(nested.problems, [], comment);
      }
    });

    test("a program that speaks of source maps means what it meant", async () => {
      const text = [
        'const one = "//# sourceMappingURL=file:///a";',
        "const two = `/*# sourceMappingURL=${one} */`;",
        "const three = /\\/\\/# sourceMappingURL=(.*)/.exec(one)![1];",
        "class Four { #sourceMappingURL = 4; get() { return this.#sourceMappingURL; } }",
        'import data from "./data.json";',
        "export function x(): string { return JSON.stringify([one, two, three, new Four().get(), data]); }",
      ].join("\n");
      const { problems, bundle } = await compile(text, {
        "data.json": '{"//# sourceMappingURL=": "//@ sourceMappingURL"}',
      });
      assert.deepEqual(problems, []);
      const file = join(folder, `${mode}.mjs`);
      writeFileSync(file, bundle!);
      const { x } = (await import(pathToFileURL(file).href)) as { x: () => string };
      assert.deepEqual(JSON.parse(x()), [
        "//# sourceMappingURL=file:///a",
        "/*# sourceMappingURL=//# sourceMappingURL=file:///a */",
        "file:///a",
        4,
        { "//# sourceMappingURL=": "//@ sourceMappingURL" },
      ]);
      const raw = await compile(
        "const a = 1;\nexport function x(): string { return String.raw`${a}//# sourceMappingURL=${a}` }",
      );
      assert.equal(raw.bundle, undefined);
      assert.deepEqual(
        raw.problems.map(({ severity, line, column }) => [severity, line, column]),
        [["error", 2, 52]],
      );
    });

    test("no import, reference or tag leads to a file outside of the definition", async () => {
      const url = pathToFileURL(secretFile).href;
      const refused = [
        `import x from ${JSON.stringify(secretFile)} with { type: "text" };`,
        `import x from ${JSON.stringify(secretFile)} with { type: "json" };`,
        `import x from ${JSON.stringify(url)};`,
        `import x from "../secret.key";`,
        `import x from "./../../../../../../../../../../../../${secretFile}";`,
        `import x from "/etc/passwd";`,
        `const x = require(${JSON.stringify(secretFile)});`,
        `const x = require.resolve(${JSON.stringify(secretFile)});`,
        `const x = await import(${JSON.stringify(url)});`,
        `const x = await import(\`${folder}/\${"secret.key"}\`);`,
        `import x from "data:text/plain,${secretFile}";`,
        `import x from "luxon/../../secret.key";`,
        `import x from "luxon/../../../../../../../../../../${secretFile}";`,
      ];
      for (const line of refused) {
        const { bundle, problems } = await compile(`${line}\nexport function f(): string { return String(x); }`);
        assert.equal(bundle, undefined, line);
        assert.ok(
          problems.some(({ severity }) => severity === "error"),
          line,
        );
      }
      const ignored = [
        `/// <reference path="${secretFile}" />`,
        `/// <reference path="/etc/passwd" />`,
        `/// <reference types="${secretFile}" />`,
        `/// <reference types="node" />`,
        `/// <reference lib="../../../../../..${secretFile}" />`,
        `/// <amd-dependency path="${secretFile}" />`,
        `/** @jsxImportSource ${secretFile} */\n/** @jsxRuntime automatic */`,
        `/** @typedef {import("${secretFile}")} X */`,
      ];
      for (const line of ignored) {
        const { tools, problems } = await compile(`${line}\nexport function f(): string { return import.meta.url; }`);
        assert.deepEqual([tools.length, problems], [1, []], line);
      }
    });
  });
}
