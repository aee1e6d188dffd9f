import assert from "node:assert/strict";
import { test } from "node:test";
import type { Catalog } from "../../../src/host/offers/catalog.ts";
import { UPDATES_MAX, Watchers } from "../../../src/host/serving/watchers.ts";
import { threadMs } from "../../support/stopwatch.ts";
import { turnsIn } from "../../support/turns-in.ts";
import { until } from "../../support/until.ts";

const failed = (error: unknown): void => assert.fail(String(error));

/** The number of notifications in each turn of the event loop until all are sent. */
async function toldInTurns(all: number, told: () => number): Promise<number[]> {
  const turns: number[] = [];
  for (let before = 0; before < all; before = told()) {
    await new Promise((resolve) => setImmediate(resolve));
    turns.push(told() - before);
  }
  return turns;
}

test("updates of many resources are told to many in turns with calls of others, each once and in their order", async () => {
  const watchers = new Watchers(failed);
  const heard: string[] = [];
  let told = 0;
  const listener = (): void => {
    // As long as a write to a client takes.
    for (const since = performance.now(); performance.now() - since < 0.05;);
    told += 1;
  };
  watchers.add("a", "server", (change) => void (change.kind === "resource" && heard.push(change.uri)));
  for (let one = 0; one < 10; one++) watchers.add("a", "server", listener);
  watchers.addForTenant("a", listener);
  const uris = Array.from({ length: 1_500 }, (_, at) => `a://${at}`);
  const before = threadMs();
  for (const uri of [...uris, ...uris]) assert.equal(watchers.resourceUpdated("a", "server", uri), true);
  assert.ok(told === 0 && threadMs() - before < 250, "nothing is told meanwhile");
  const turns = await toldInTurns(uris.length * 11, () => told);
  assert.ok(Math.max(...turns) < 200, `${Math.max(...turns)} in one turn`);
  await until(() => heard.length === uris.length);
  assert.deepEqual(heard, uris);
});

test("of one server a limited number of updated resources waits to be told, which is said once", async () => {
  const full: string[] = [];
  const watchers = new Watchers(failed, (...which) => void full.push(which.join()));
  const heard: string[] = [];
  const end = watchers.add("a", "server", (change) => void (change.kind === "resource" && heard.push(change.uri)));
  const update = (uri: string): boolean => watchers.resourceUpdated("a", "server", uri);
  for (let at = 0; at < UPDATES_MAX; at++) update(`a://${at}`);
  assert.deepEqual([update("a://more"), update("a://still/more"), update("a://7")], [false, false, true]);
  assert.deepEqual(full, ["a,server"]);
  assert.equal(watchers.resourceUpdated("a", "other", "a://more"), true);
  await until(() => heard.length === UPDATES_MAX);
  await until(() => update("a://more"));
  await until(() => heard.at(-1) === "a://more");
  end();
});

test("long contracts are compared in turns with other work, one after the other, and each change is told once", async () => {
  const watchers = new Watchers(failed);
  const kinds: string[] = [];
  watchers.add("a", "server", ({ kind }) => void kinds.push(kind));
  const catalogWith = (names: readonly string[]): Catalog => {
    const properties = Object.fromEntries(Array.from({ length: 60 }, (_, at) => [`p${at}`, {}]));
    const tools = names.map((name) => ({ name, inputSchema: { type: "object", properties } }));
    const contract = { tools, resources: [], resourceTemplates: [], prompts: [] };
    return { contract, contractCid: names.join() } as unknown as Catalog;
  };
  const names = Array.from({ length: 500 }, (_, at) => `t${at}`);
  const [first, second] = [catalogWith(names), catalogWith(names.slice(1))];
  const turns = await turnsIn(() => watchers.compare("a", "server", first));
  assert.ok(turns > 1, `${turns} turns`);
  assert.ok(watchers.hasContract("a", "server"));
  await Promise.all([second, second, first].map((catalog) => watchers.compare("a", "server", catalog)));
  assert.deepEqual(kinds, ["tools", "tools"]);
});
