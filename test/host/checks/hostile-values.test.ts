import assert from "node:assert/strict";
import { before, describe, it } from "node:test";
import { call, modern, post, request, type Reply } from "../../support/berth.ts";
import { berthInSuite } from "../../support/suite.ts";
import { inOneOf } from "../../support/until.ts";

const source = `
/** @param list @uniqueItems */
export function unique(list: { a?: number }[]): number { return list.length; }

/** @param text @format url */
export function address(text: string): string { return text; }

export function texts(list: string[]): number { return list.length; }

export function named(name: string): string { return name; }

/** @param text @pattern (a?){500}a{500}$ */
export function matched(text: string): string { return text; }

/**
 * @resource note:{text}
 * @param text @pattern (a?){500}a{500}$
 */
export function note(text: string): string { return text; }

type Sum = { op: "add" | "sub"; left?: Term; right?: Term } | { op: "mul"; left?: Term; right?: Term } | { op: "nil" };
type Term = Sum | { op: "neg"; left?: Term; right?: Term };
export function calculate(term: Term): string { return typeof term; }
`;

/** The order of answers shows the effect on other callers, independent of any clock. */
describe("a value that takes long to check", () => {
  const texts = { "hostile.ts": source, "calm.ts": "export function hi(): string { return 'hi'; }" };
  const berth = berthInSuite({ texts, env: { BERTH_CHECK_MS: "20000", BERTH_SILENT_CALL_MS: "600000" } });
  before(async () => assert.equal((await hi()).content[0].text, "hi"));

  const hi = () => call(`${berth.url}/mcp/calm`, "hi");

  /** Sends a call over and over, then one to another server; returns the answers in order. */
  async function calledBeside(
    tool: string,
    args: object,
    times = 3,
  ): Promise<{ order: string[]; result: Reply["body"] }> {
    const order: string[] = [];
    const body = JSON.stringify(request("tools/call", { name: tool, arguments: args }));
    const hostile = Array.from({ length: times }, async () => {
      const reply = await post(`${berth.url}/mcp/hostile`, body, { "MCP-Protocol-Version": "2025-06-18" });
      order.push(tool);
      return reply.body.result;
    });
    const calm = hi().then(() => order.push("calm"));
    const [result] = await Promise.all([...hostile, calm]);
    return { order, result };
  }

  const cases = [
    { what: "items that have to be different", tool: "unique", args: { list: items(100_000) }, says: /^100000$/ },
    {
      what: "a text that is nearly an address",
      tool: "address",
      args: { text: `http://${"a:".repeat(1_900_000)} ` },
      says: /must match format "url"/,
    },
    {
      what: "a long list of what is none of it right",
      tool: "texts",
      args: { list: Array.from({ length: 1_900_000 }, () => 1) },
      says: /\/list\/0 must be string; and more/,
    },
    {
      what: "many properties that nobody knows",
      tool: "named",
      args: Object.fromEntries(Array.from({ length: 50_000 }, (_, n) => [`k${n}`, 1])),
      says: /needs the property "name"/,
    },
  ];
  for (const { what, tool, args, says } of cases) {
    it(`holds up nobody else: ${what}`, async () => {
      await inOneOf(3, async () => {
        const { order, result } = await calledBeside(tool, args);
        assert.match(result.content[0].text, says);
        assert.notEqual(order.at(-1), "calm", order.join(" "));
      });
    });
  }

  it("holds up nobody else: variables of a template in a URI", async () => {
    const uri = `note:${"a".repeat(8_000)}b`;
    await inOneOf(3, async () => {
      const order: string[] = [];
      const reads = Array.from({ length: 3 }, async () => {
        const { body } = await modern(`${berth.url}/mcp/hostile`, "resources/read", { uri });
        assert.equal(body.error.data.uri, uri);
        order.push("read");
      });
      await Promise.all([...reads, hi().then(() => order.push("calm"))]);
      assert.notEqual(order.at(-1), "calm", order.join(" "));
    });
  });

  it("is checked at once where alternatives are nested", async () => {
    let term: object = { op: "nul" };
    for (let level = 0; level < 100; level++) term = { op: "mul", left: term, right: { op: "nil" } };
    const { result } = await calledBeside("calculate", { term });
    assert.equal(result.isError, true);
    assert.match(result.content[0].text, /^Invalid arguments for the tool "calculate": \/term/);
  });
});

function items(count: number): object[] {
  return Array.from({ length: count }, (_, a) => ({ a }));
}
