import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { startTestBerth, type TestBerth } from "../support/berth.ts";
import { everySession } from "../support/clients/every-session.ts";

/** Values that types forbid, but a function can return all the same. */
const CARELESS = `
import type { ContentBlock, PromptMessage } from "berth";
const empty = { type: "resource", resource: { uri: "a:b" } } as unknown as ContentBlock;
/** An embedded resource without content. */
export function embed(): ContentBlock { return empty; }
/** @prompt */
export function quote(): PromptMessage[] { return [{ role: "user", content: empty }]; }
`;

const TUPLES = `
/** Gives a pair back the other way round. */
export function swap(pair: [string, number]): [number, string] { return [pair[1], pair[0]]; }
/** Gives a text and any number of numbers. */
export function measures(name: string): { row: [string, ...number[]] } { return { row: [name, 1, 2] }; }
`;

/** Clients validate a result against the output schema that they were given, most of them by draft 7. */
describe("tuples", () => {
  let berth: TestBerth;
  before(async () => {
    berth = await startTestBerth({ texts: { "tuples.ts": TUPLES } });
  });
  after(() => berth.close());

  for (const opener of everySession) {
    it(`${opener.name} takes tuples as results`, async () => {
      const session = await opener.open(`${berth.url}/mcp/tuples`);
      try {
        await session.tools();
        const swapped = (await session.call("swap", { pair: ["a", 1] })).structuredContent;
        assert.deepEqual(swapped, session.era === "legacy" ? { result: [1, "a"] } : [1, "a"]);
        const { structuredContent } = await session.call("measures", { name: "a" });
        assert.deepEqual(structuredContent, { row: ["a", 1, 2] });
      } finally {
        await session.close();
      }
    });
  }
});

/** A client rejects a whole answer if one block violates the protocol. */
describe("content that is none", () => {
  let berth: TestBerth;
  before(async () => {
    berth = await startTestBerth({ texts: { "careless.ts": CARELESS } });
  });
  after(() => berth.close());

  for (const opener of everySession) {
    it(`S8 ${opener.name} gets an answer that it can read, and is told what a prompt did wrong`, async () => {
      const session = await opener.open(`${berth.url}/mcp/careless`);
      try {
        const [block] = (await session.call("embed")).content;
        assert.deepEqual(JSON.parse(block?.text ?? ""), { type: "resource", resource: { uri: "a:b" } });
        await assert.rejects(session.prompt("quote"), { code: -32603, message: /did not return messages/ });
      } finally {
        await session.close();
      }
    });
  }
});
