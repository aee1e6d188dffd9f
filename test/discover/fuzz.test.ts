import assert from "node:assert/strict";
import { test } from "node:test";
import { Ajv2020 } from "ajv/dist/2020.js";
import { discover } from "../../src/discover/discover.ts";
import type { Discovery } from "../../src/discover/discovery.ts";
import { discoverShell } from "../../src/discover/shell.ts";
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
  const files = { "a.sh": text };
  checkSound(discoverShell({ language: "shell", server: "fuzz", entry: "a.sh", files }), files);
};

test("no text at all makes discovery throw", () => {
  fc.assert(fc.property(fc.string({ unit: "binary", maxLength: 200 }), typescript), runs);
  fc.assert(
    fc.property(fc.string({ unit: "binary", maxLength: 200 }), (text) => shell(`#!/bin/sh\n# ${text}`)),
    runs,
  );
});

test("no heap of words and signs makes discovery throw", () => {
  const words =
    "export function const async * type interface class enum A B a b ( ) { } [ ] < > = => : ; , . ... ? | & string number null undefined keyof typeof infer extends readonly unique symbol Record Partial Promise Date Map `${ } ` ' \" 1 -1 @param @minimum @pattern /** */ // import from default as const satisfies this new void never any \n";
  const soup = fc.array(fc.constantFrom(...words.split(" ")), { maxLength: 60 }).map((parts) => parts.join(" "));
  fc.assert(
    fc.property(soup, (text) => typescript(`export function f(a: ${text}): void {}\n${text}`)),
    runs,
  );
  const header =
    "# @param {string number integer boolean | [] } [ ] = - text name \" ' @minimum @pattern @title 1 \n".split(" ");
  const lines = fc.array(fc.constantFrom(...header, "\n# @param"), { maxLength: 40 }).map((parts) => parts.join(" "));
  fc.assert(
    fc.property(lines, (text) => shell(`#!/bin/sh\n# ${text}`)),
    runs,
  );
});

test("no piece cut out of a sound definition makes discovery throw", () => {
  const texts = caseNames().map((name) => Object.values(caseSource(name).files)[0]!);
  const cut = fc.tuple(
    fc.constantFrom(...texts),
    fc.nat(3_000),
    fc.nat(40),
    fc.constantFrom("", "?", "[]", "| null", "<T>"),
  );
  fc.assert(
    fc.property(cut, ([text, at, length, instead]) =>
      typescript(text.slice(0, at) + instead + text.slice(at + length)),
    ),
    runs,
  );
});
