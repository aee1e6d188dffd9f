import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { parsePackageVariable } from "../../src/edits/package-text.ts";
import { packageSetText } from "../../src/edits/plan-packages.ts";
import { prettyJson } from "../../src/lib/pretty-json.ts";
import { famousLookalike } from "../../src/packages/famous.ts";
import { NEEDS_MAX, parsePackages, readPackageSet, SET_VALUES_MAX } from "../../src/packages/package-set.ts";
import { turnsIn } from "../support/turns-in.ts";

const named = <Value>(count: number, value: (at: number) => Value): Record<string, Value> =>
  Object.fromEntries(Array.from({ length: count }, (_, at) => [`name-${at}`, value(at)]));
const locked = { name: "name-0", version: "1.0.0", integrity: `sha512-${"a".repeat(86)}==` };
/** A range of the greatest length, which takes about 0.1 ms to read. */
const range = (at: number): string => `${`>=1.${at}.0 `.repeat(19)}|| 1`;

describe("The variable packages", () => {
  it("is not parsed when it has more values than any set", (t) => {
    const text = JSON.stringify({ dependencies: named(75_000, () => "1") });
    const parse = t.mock.method(JSON, "parse");
    assert.equal(parsePackages(text), undefined);
    assert.equal(readPackageSet(text), undefined);
    assert.equal(parse.mock.callCount(), 0);
  });

  it("is refused with one problem that names the limit", async () => {
    const said = await parsePackageVariable(undefined);
    assert.equal(said.kind, "wrong");
    const [problem, ...others] = said.kind === "wrong" ? said.problems : [];
    assert.match(problem!.message, new RegExp(`at most ${SET_VALUES_MAX} values`));
    assert.deepEqual(others, []);
  });

  it("has as many dependencies as a set may have packages, counted before one is read", async () => {
    const said = await parsePackageVariable({ dependencies: named(1_001, () => "not a range") });
    assert.deepEqual(said.kind === "wrong" && said.problems.map(({ code, pointer }) => [code, pointer]), [
      ["too-many-packages", "/dependencies"],
    ]);
  });

  it("lets other calls run while its ranges are read", async () => {
    const dependencies = named(1_000, range);
    assert.ok((await turnsIn(() => parsePackageVariable({ dependencies }))) > 10);
  });

  it("refuses a package that needs more than any package does", async () => {
    const needs = Array.from({ length: NEEDS_MAX + 1 }, (_, at) => `name-${at}`);
    const packages = { "node_modules/name-0": { ...locked, dependencies: needs } };
    const said = await parsePackageVariable({ dependencies: named(1, () => "1"), packages });
    assert.match(said.kind === "wrong" ? said.problems[0]!.message : "", /must be up to 2000 names/);
  });

  it("that nests too deep is refused", () => {
    assert.equal(parsePackages(`{"lines":${'{"a":'.repeat(5_000)}1${"}".repeat(5_000)}}`), undefined);
  });

  it("is written in turns with other calls, as all sets are written", async () => {
    const places = Array.from({ length: 2_000 }, (_, at) => [`node_modules/name-${at}`, locked] as const);
    const lines = Object.fromEntries(places.map(([place]) => [place, { dependencies: named(10, () => "1") }]));
    const packages = Object.fromEntries(places.toReversed());
    const set = { dependencies: named(3, () => "\n1"), npm: undefined!, packages, lines };
    let text = "";
    assert.ok((await turnsIn(async () => (text = await packageSetText(set)))) > 3);
    assert.equal(text, prettyJson(set));
    assert.equal(
      await packageSetText({ dependencies: {}, packages: {} }),
      prettyJson({ dependencies: {}, packages: {} }),
    );
  });
});

describe("A look-alike of a well-known name", () => {
  it("is found wherever its letter differs", () => {
    for (const famous of ["axios", "cors", "express", "fast-xml-parser"]) {
      for (let at = 0; at < famous.length; at++) {
        const [before, letter, after] = [famous.slice(0, at), famous[at]!, famous.slice(at + 1)];
        const swapped = at === 0 ? [] : [famous.slice(0, at - 1) + letter + famous[at - 1]! + after];
        for (const name of [`${before}0${after}`, `${before}0${letter}${after}`, before + after, ...swapped]) {
          if (name.length >= 4 && name !== famous) assert.equal(famousLookalike(name) !== undefined, true, name);
        }
      }
    }
  });
});
