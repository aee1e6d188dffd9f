import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { startTestBerth, type TestBerth } from "./berth.ts";
import { everySession } from "./clients/every-session.ts";

/** What types forbid, but a function can return all the same. */
const CARELESS = `
import type { ContentBlock, PromptMessage } from "berth";
const empty = { type: "resource", resource: { uri: "a:b" } } as unknown as ContentBlock;
/** An embedded resource without content. */
export function embed(): ContentBlock { return empty; }
/** @prompt */
export function quote(): PromptMessage[] { return [{ role: "user", content: empty }]; }
`;

/** A client throws away a whole answer in which one block is not as the protocol has it. */
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
        await assert.rejects(session.prompt("quote"), { code: -32603, message: /what are no messages/ });
      } finally {
        await session.close();
      }
    });
  }
});
