import assert from "node:assert/strict";
import { test } from "node:test";
import { summariesOf } from "../../support/host.ts";
import { lower } from "../../support/lowered-limits.ts";
import { rows } from "../../support/rows.ts";
import { hostedFor } from "../../support/suite.ts";

const DEFINITION = `
/** Adds. */
export function add(a: number, b: number): number { return a + b; }
/** Greets. */
export function greet(name: string): string { return "Hello, " + name; }
/** @resource note://all */
export const all = (): string => "all notes";
`;

test("listing all servers puts none out of memory that is called, and tells of those that have no room", async (t) => {
  t.after(lower({ catalogs: 2 }));
  const texts = Object.fromEntries(["a", "b", "c", "d"].map((name) => [name, DEFINITION]));
  const hosted = await hostedFor(t, texts);
  const hot = [await hosted.catalog("c"), await hosted.catalog("d")];
  for (const round of [1, 2]) {
    const listed = await summariesOf(hosted);
    assert.deepEqual(rows(listed, "name", "state"), ["a ready", "b ready", "c ready", "d ready"], `round ${round}`);
    for (const { catalog } of listed) assert.equal(catalog?.contract.tools.length, 2);
    assert.deepEqual([hosted.host.server("default", "c"), hosted.host.server("default", "d")], hot);
  }
  await hosted.catalog("a");
  const again = ["c", "d"].map((name) => hosted.host.server("default", name));
  assert.equal(again.filter((catalog) => catalog instanceof Promise).length, 1, "a call still makes room");
  for (const catalog of again) await catalog;
});
