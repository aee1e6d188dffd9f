import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Contract, ToolContract } from "../../../src/contract/contract.ts";
import { driftOf, judge } from "../../../src/features/drift/drift.ts";
import { cidOf, makeCids } from "../../../src/host/offers/contract-cids.ts";
import { decodeJson, decodeJsonYielding, decodeRecord, jsonBlock, jsonBlockYielding } from "../../../src/lib/cid.ts";
import { toContract as contractIn } from "../../../src/upstream/calls/survey.ts";
import { readPages, fixTool, readEntries } from "../../../src/upstream/messages/lists.ts";
import { longResult, readLongMessage } from "../../../src/upstream/messages/long-answers.ts";
import type { LongPage } from "../../../src/upstream/messages/results.ts";
import * as fc from "../../support/fast-check.ts";
import { lower } from "../../support/lowered-limits.ts";
import { rows } from "../../support/rows.ts";

const ANY = { changes: "any", texts: true, refuses: false } as const;
const MANY = 400;
const SLOW_MS = 0.2;

/**
 * The same contract, but each access to its tools takes a while; counts the accesses without a turn of the event loop
 * between.
 */
function slowly(contract: Contract) {
  const counts = { all: 0, longest: 0 };
  let atOnce = 0;
  const slow = <Item extends object>(item: Item, key: keyof Item): Item => {
    const value = item[key];
    return Object.defineProperty({ ...item }, key, {
      enumerable: true,
      get() {
        const end = performance.now() + SLOW_MS;
        while (performance.now() < end);
        counts.all += 1;
        counts.longest = Math.max(counts.longest, ++atOnce);
        return value;
      },
    });
  };
  const watch = async <T>(work: Promise<T>): Promise<T> => {
    let isDone = false;
    const turn = (): void => {
      atOnce = 0;
      if (!isDone) setImmediate(turn);
    };
    turn();
    return work.finally(() => (isDone = true));
  };
  return { contract: { ...contract, tools: contract.tools.map((tool) => slow(tool, "inputSchema")) }, counts, watch };
}

describe("contracts of hosted servers with many tools", () => {
  it("are addressed without holding up anything else, and as every other structure is", async () => {
    const contract = contractOf(MANY);
    const making = makeCids(contract);
    const first = await Promise.race([making, new Promise((resolve) => setImmediate(resolve, "another turn"))]);
    assert.equal(first, "another turn");
    await making;
    assert.equal(cidOf(contract), jsonBlock(contract).cid);
    assert.equal(cidOf(contract.tools[7]!), jsonBlock(contract.tools[7]).cid);
  });

  it("are written and read in turns as every structure is at once", async () => {
    const values = fc.oneof(fc.jsonValue(), fc.array(fc.jsonValue()), fc.constant(undefined));
    const lists = fc.dictionary(fc.string(), values);
    await fc.assert(
      fc.asyncProperty(lists, async (structure) => {
        // Short contracts are read at once.
        const long = { ...structure, "": "x".repeat(70_000) };
        const { cid, bytes } = jsonBlock(long);
        const block = await jsonBlockYielding(long);
        assert.equal(block.cid, cid);
        assert.deepEqual(Buffer.from(block.bytes), Buffer.from(bytes));
        assert.deepEqual(await decodeJsonYielding(bytes), decodeJson(bytes));
      }),
    );
    assert.deepEqual(await jsonBlockYielding({}), { ...jsonBlock({}), bytes: Buffer.from("{}") });
  });

  it("are not read where one item, or all of what is no object of lists, is longer than a record may be", async () => {
    const values = Array.from({ length: 60_000 }, () => ({}));
    for (const long of [{ tools: [{ values }] }, { tools: [], values: { values } }, values]) {
      const { bytes } = jsonBlock(long);
      assert.equal(await decodeJsonYielding(bytes), undefined);
      assert.equal(decodeRecord(bytes), undefined);
    }
    assert.equal(decodeRecord(jsonBlock({ text: "x".repeat(5_000_000) }).bytes), undefined);
    const { bytes } = jsonBlock({ tools: values });
    assert.deepEqual(await decodeJsonYielding(bytes), { tools: values });
  });

  it("are read and taken apart in turns", async () => {
    const { contract, counts, watch } = slowly(contractOf(MANY));
    const listed = await watch(readEntries("The tool", contract.tools, "name", fixTool));
    assert.equal(listed.items.length, MANY);
    await watch(contractIn({ ...contract, problems: [], bytes: 0 } as never));
    assert.ok(counts.all >= 2 * MANY && counts.longest < MANY / 4, JSON.stringify(counts));
  });

  it("have no names that are longer than what is said of them", async () => {
    const entries = ["a".repeat(3_000), "b"].map((name) => ({ name, inputSchema: {} }));
    const page = (): Promise<{ tools: object[] }> => Promise.resolve({ tools: entries });
    const { leftOut, ...read } = await readPages("tools/list", { key: "tools", nameKey: "name" }, page);
    assert.deepEqual(read.entries, [entries[1]]);
    assert.deepEqual(leftOut, [{ name: "a".repeat(128), why: "its name has more than 2048 characters" }]);
  });

  it("contractValues: have no more values than a list may have, whose further entries are left out", async (t) => {
    const examples = Array.from({ length: 60 }, () => ({}));
    const entries = ["a", "b"].map((name) => ({ name, inputSchema: { examples } }));
    const page = (): Promise<{ tools: object[] }> => Promise.resolve({ tools: entries });
    t.after(lower({ contractValues: 100 }));
    const read = await readPages("tools/list", { key: "tools", nameKey: "name" }, page);
    assert.deepEqual(read.entries, [entries[0]]);
    const why = "with it the list has more than 100 values";
    assert.deepEqual(read.leftOut, [{ name: "b", why }]);
  });

  it("have pages that a numeric cursor of a long message leads to, in order", async () => {
    const numbers = Array.from({ length: 3 }, (_, page) => page);
    const asked: unknown[] = [];
    const page = async (params: { cursor?: unknown }): Promise<LongPage> => {
      const at = numbers.indexOf(asked.push(params.cursor) - 1);
      const tools = [{ name: `t${at}`, inputSchema: {} }];
      // The reader takes each message with a number that JavaScript would write otherwise.
      const json = JSON.stringify({ jsonrpc: "2.0", id: 1, result: { tools, nextCursor: [10, 2.5, null][at] } });
      const { results } = readLongMessage(json.replace("10", "10.0"), 1_000);
      return longResult(results[0]!) as LongPage;
    };
    const { entries, cut } = await readPages("tools/list", { key: "tools", nameKey: "name" }, page);
    assert.deepEqual([entries.length, cut, asked], [3, undefined, [undefined, 10, 2.5]]);
  });

  it("are judged in turns", async () => {
    const [approved, observed] = [slowly(contractOf(MANY)), slowly(contractOf(MANY))];
    const tools = observed.contract.tools.slice(1);
    const judging = judge(approved.contract, { ...observed.contract, tools }, { hold: ANY });
    const { served } = await approved.watch(observed.watch(judging));
    assert.equal(served.tools.length, MANY - 1);
    for (const { counts } of [approved, observed]) {
      assert.ok(counts.all >= MANY - 1 && counts.longest < MANY / 4, JSON.stringify(counts));
    }
  });

  it("fill what is approved no further than a list may be long: what is new there waits for a person", async (t) => {
    t.after(lower({ upstreamListItems: 40 }));
    const approved = contractOf(30);
    const tools = contractOf(30).tools.map((tool) => Object.assign({}, tool, { name: `new-${tool.name}` }));
    const byItems = await judge(approved, { ...approved, tools }, { hold: ANY });
    const counts = ({ approved, served, held }: typeof byItems): number[] =>
      [approved, served, held].map((each) => each.tools.length);
    assert.deepEqual(counts(byItems), [40, 10, 20]);
    const size = jsonBlock(approved.tools).bytes.length;
    const restore = lower({ upstreamListItems: 1_000, upstreamListBytes: size * 1.5 });
    const byBytes = await judge(approved, { ...approved, tools }, { hold: ANY });
    restore();
    assert.ok(byBytes.held.tools.length > 10 && byBytes.served.tools.length > 10, String(counts(byBytes)));
    // Approved entries that are gone never make room, or they could return as something else.
    const returned = { ...approved, tools: [{ ...approved.tools[0]!, title: "Other" }] };
    const again = await judge(byItems.approved, returned, { hold: ANY });
    assert.deepEqual(counts(again), [40, 0, 1]);
  });

  it("have changes of which the first are told, and how many more there are", async () => {
    const [approved, observed] = [contractOf(700), contractOf(700)];
    const tools = observed.tools.map((tool) => Object.assign({}, tool, { name: `x${tool.name}` }));
    const changes = await driftOf(approved, { ...observed, tools });
    const [gone, come] = ["breaking", "compatible"].map((effect) => changes.filter((each) => each.effect === effect));
    assert.deepEqual([gone!.length, come!.length], [501, 501]);
    assert.match(gone!.at(-1)!.message, /^There are 200 more changes/);
  });

  it("are compared in what differs, as if all of them were compared", async () => {
    const [approved, observed] = [contractOf(30), contractOf(30)];
    assert.deepEqual(await driftOf(approved, observed), []);
    assert.deepEqual((await judge(approved, observed, { hold: ANY })).held.tools, []);
    const other = { ...observed.tools[3]!, description: "Something else." };
    const tools = [other, ...observed.tools.slice(4), { ...observed.tools[0]!, name: "renamed" }];
    const changes = await driftOf(approved, { ...observed, tools });
    assert.deepEqual(rows(changes, "name", "effect", "renamedTo"), [
      "tool-0 breaking renamed",
      "tool-1 breaking -",
      "tool-2 breaking -",
      "tool-3 review -",
    ]);
    assert.deepEqual(rows((await judge(approved, { ...observed, tools }, { hold: ANY })).held.tools, "name"), [
      "tool-3",
    ]);
  });
});

function contractOf(count: number): Contract {
  const tools = Array.from({ length: count }, (_, number): ToolContract => {
    const text = { type: "string", description: "What it is. ".repeat(20) };
    const properties = Object.fromEntries("abcdefgh".split("").map((name) => [`${name}${number}`, text]));
    return { name: `tool-${number}`, description: `Tool ${number}.`, inputSchema: { type: "object", properties } };
  });
  return { tools, resources: [], resourceTemplates: [], prompts: [] };
}
