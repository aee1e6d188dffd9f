import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { jsonBlock } from "../src/cid.ts";
import type { Contract, ToolContract } from "../src/contract/contract.ts";
import { driftOf, judge } from "../src/host/upstream/judge.ts";
import { cidOf, makeCids } from "../src/host/upstream/structure-cid.ts";

const MANY = 400;

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

  it("are compared in what differs, as if all of them were compared", async () => {
    const [approved, observed] = [contractOf(30), contractOf(30)];
    assert.deepEqual(await driftOf(approved, observed), []);
    assert.deepEqual((await judge(approved, observed, "warn")).held.tools, []);
    const other = { ...observed.tools[3]!, description: "Something else." };
    const tools = [other, ...observed.tools.slice(4), { ...observed.tools[0]!, name: "renamed" }];
    const changes = await driftOf(approved, { ...observed, tools });
    assert.deepEqual(
      changes.map(({ name, effect, renamedTo }) => [name, effect, renamedTo]),
      [
        ["tool-0", "breaking", "renamed"],
        ["tool-1", "breaking", undefined],
        ["tool-2", "breaking", undefined],
        ["tool-3", "review", undefined],
      ],
    );
    assert.deepEqual(
      (await judge(approved, { ...observed, tools }, "warn")).held.tools.map(({ name }) => name),
      ["tool-3"],
    );
  });
});

function contractOf(count: number): Contract {
  const tools = Array.from({ length: count }, (_, number): ToolContract => {
    const properties = Object.fromEntries(
      "a b c d e f g h"
        .split(" ")
        .map((name) => [`${name}${number}`, { type: "string", description: "What it is. ".repeat(20) }]),
    );
    return { name: `tool-${number}`, description: `Tool ${number}.`, inputSchema: { type: "object", properties } };
  });
  return { tools, resources: [], resourceTemplates: [], prompts: [] };
}
