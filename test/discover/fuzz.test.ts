import assert from "node:assert/strict";
import { test } from "node:test";
import { Ajv2020 } from "ajv/dist/2020.js";
import type { Discovery } from "../../src/discover/discovery.ts";
import { discoverShell } from "../../src/discover/shell/shell.ts";
import { discover } from "../../src/discover/typescript/discover.ts";
import { caseNames, caseSource } from "../support/discovery-check.ts";
import * as fc from "../support/fast-check.ts";

const runs = { numRuns: fc.runs(60) };

/** Checks that any source gives sound results: positions are in the text, and schemas compile. */
function checkSound({ tools, problems }: Discovery, files: Readonly<Record<string, string>>): void {
  for (const { message, file, line, column } of problems) {
    if (file === undefined) continue;
    const lines = files[file]!.split(/\r\n|\n|\r/);
    assert.ok(line! >= 1 && line! <= lines.length, `line ${line} of ${message}`);
    assert.ok(column! >= 1 && column! <= lines[line! - 1]!.length + 1, `column ${column} of ${message}`);
  }
  const refused = new Set(problems.filter(({ severity }) => severity === "error").map(({ tool }) => tool));
  for (const { name, inputSchema, outputSchema } of tools) {
    assert.ok(!refused.has(name), `${name} is offered in spite of an error`);
    assert.equal(inputSchema["type"], "object");
    for (const schema of [inputSchema, outputSchema ?? {}]) {
      const ajv = new Ajv2020({ strict: false, validateFormats: false, logger: false });
      assert.ok(ajv.compile(schema));
    }
  }
}

const typescript = (text: string) => {
  const files = { "a.ts": text };
  checkSound(discover({ language: "typescript", server: "fuzz", entry: "a.ts", files }), files);
};

const shell = (text: string) => {
  const files = { "a.sh": `#!/bin/sh\n# ${text}` };
  checkSound(discoverShell({ language: "shell", server: "fuzz", entry: "a.sh", files }), files);
};

const words = (text: string) => fc.array(fc.constantFrom(...text.split(" ")), { maxLength: 60 });
const code =
  "export function const async * type interface class enum A B a b ( ) { } [ ] < > = => : ; , . ... ? | & string number null undefined keyof typeof infer extends readonly unique symbol Record Partial Promise Date Map `${ } ` ' \" 1 -1 @param @minimum @pattern /** */ // import from default as const satisfies this new void never any \n";
const header =
  "# @param {string number integer boolean | [] } [ ] = - text name \" ' @minimum @pattern @title 1 \n \n#";
const sound = caseNames().map((name) => Object.values(caseSource(name).files)[0]!);
const instead = fc.constantFrom("", "?", "[]", "| null", "<T>");
const any = fc.string({ unit: "binary", maxLength: 200 });

const sources: [what: string, text: fc.Arbitrary<string>, check: (text: string) => void][] = [
  ["text", any, typescript],
  ["text in a header", any, shell],
  ["heap of words", words(code).map((all) => `export function f(a: ${all.join(" ")}): void {}`), typescript],
  ["heap of words in a header", words(header).map((all) => all.join(" ")), shell],
  [
    "piece cut out of a sound definition",
    fc
      .tuple(fc.constantFrom(...sound), fc.nat(3_000), fc.nat(40), instead)
      .map(([text, at, length, by]) => text.slice(0, at) + by + text.slice(at + length)),
    typescript,
  ],
];
for (const [what, text, check] of sources) {
  test(`no ${what} makes discovery throw`, () => fc.assert(fc.property(text, check), runs));
}
