import assert from "node:assert/strict";
import { test } from "node:test";
import type { Compiled, DefinitionSource } from "../../../src/discover/discovery.ts";
import { rawBlock } from "../../../src/lib/cid.ts";
import { compile } from "../../support/compiler.ts";
import { rows } from "../../support/rows.ts";
import { hostedFor } from "../../support/suite.ts";

const TEXT = 'export function say(): string {\n  return "one";\n}\n';

test("a release serves the code that its own compiler made, after another compiler has come", async (t) => {
  const hosted = await hostedFor(t, { words: TEXT });
  const { release } = await hosted.catalog("words");

  const identity = rawBlock("another compiler").cid;
  const compileOtherwise = async (source: DefinitionSource): Promise<Compiled> => {
    const compiled = await compile(source);
    return { ...compiled, bundle: compiled.bundle?.replace("one", "two") ?? "" };
  };
  await hosted.restart({ compiler: { identity, compile: compileOtherwise } });
  const now = await hosted.catalog("words");
  assert.notEqual(now.release, release);
  const earlier = await hosted.catalog(`words@${release}`);
  assert.equal(earlier.release, release);
  const said = await Promise.all([now, earlier].map((catalog) => catalog.tool("say")!.call({}, {})));
  assert.deepEqual(rows(said as { structuredContent: string }[], "structuredContent"), ["two", "one"]);
});
