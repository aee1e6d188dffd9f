import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import type { ToolContract } from "../../../src/contract/contract.ts";
import { readNamedEntry } from "../../../src/entry/mcps.ts";
import { identitiesOf } from "../../../src/host/offers/identity.ts";
import { jsonBlock, rawBlock } from "../../../src/lib/cid.ts";

setFlagsFromString("--expose-gc");
const collect = runInNewContext("gc") as () => void;

/** The bytes of the heap that each of many values keeps. */
function bytesEach(count: number, of: (at: number) => unknown): number {
  const kept: unknown[] = Array(count).fill(undefined);
  const used = (): number => {
    collect();
    return process.memoryUsage().heapUsed;
  };
  const before = used();
  for (let at = 0; at < count; at++) kept[at] = of(at);
  const bytes = (used() - before) / count;
  assert.equal(kept.length, count);
  return bytes;
}

describe("the memory of thousands of servers", () => {
  it("holds a CID as one string", () => {
    const bytes = bytesEach(10_000, (at) => rawBlock(`content ${at}`).cid);
    assert.ok(bytes < 200, `${bytes} bytes each`);
  });

  it("holds entries of the same fields with the same hidden class", () => {
    const { cid } = rawBlock("a definition");
    const bytes = bytesEach(5_000, (at) => readNamedEntry(`server-${at}`, { definition: cid }).entry);
    assert.ok(bytes < 1_250, `${bytes} bytes each`);
  });

  it("holds what identifies a tool, and not what implements it", () => {
    const tools = [{ name: "tool", inputSchema: { type: "object" } }] as unknown as ToolContract[];
    const implementation = (at: number): object => ({
      bundle: `bundle ${at}`,
      call: Array.from({ length: 9 }, () => ({})),
    });
    const bytes = bytesEach(5_000, (at) => {
      const own = implementation(at);
      return identitiesOf(tools, () => own);
    });
    assert.ok(bytes < 800, `${bytes} bytes each`);
  });

  it("is spared nothing of an identity: it is that of the structures", () => {
    const contract = { name: "tool", inputSchema: { type: "object" } } as unknown as ToolContract;
    const identity = identitiesOf([contract], () => ({ b: 1, a: undefined, c: [2] }));
    const made = { contract: jsonBlock(contract).cid, implementation: jsonBlock({ b: 1, c: [2] }).cid };
    assert.deepEqual([identity("tool"), identity("tool"), identity("other")], [made, made, undefined]);
  });
});
