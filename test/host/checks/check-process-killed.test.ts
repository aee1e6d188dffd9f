import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { yieldToCalls } from "../../../src/lib/event-loop.ts";
import { apiOf } from "../../support/api.ts";
import { call, post, request } from "../../support/berth.ts";
import { commandOf, descendants } from "../../support/processes.ts";
import { berthInSuite } from "../../support/suite.ts";
import { until } from "../../support/until.ts";

const MANY = 40;
const NOT_READ = /it could not be checked because its process .+; try again/;
const LONG = "x".repeat(100_000);
const VERSION = { "MCP-Protocol-Version": "2025-06-18" };

/** The result of `work` while no check process lives for long. */
async function underKills<T>(work: () => Promise<T>): Promise<T> {
  const state = { isOver: false };
  const working = work().finally(() => (state.isOver = true));
  while (!state.isOver) {
    for (const pid of descendants().filter((each) => /checks\/child\.js/.test(commandOf(each)))) {
      try {
        process.kill(pid, "SIGKILL");
      } catch {
        // It has ended meanwhile.
      }
    }
    await yieldToCalls();
  }
  return working;
}

describe("a check process that is killed again and again", { skip: process.platform !== "linux" }, () => {
  const functions = Array.from(
    { length: MANY },
    (_, index) => `export function count${index}(by: number): { n: number } { return { n: by }; }\n`,
  );
  const texts = {
    "echo.ts": "export const echo = (text: string): number => text.length;\n",
    "counts.ts": functions.join(""),
  };
  const berth = berthInSuite({ texts });

  it("is no fault of who sends a long message: 503, and the next one is read", async () => {
    const send = () =>
      post(`${berth.url}/mcp/echo`, request("tools/call", { name: "echo", arguments: { text: LONG } }), VERSION);
    const refused = await until(async () => {
      const reply = await underKills(send);
      return reply.status === 200 ? undefined : reply;
    });
    assert.equal(refused.status, 503, refused.text);
    assert.equal(refused.body.error.code, -32603);
    assert.match(refused.body.error.message, NOT_READ);
    assert.doesNotMatch(refused.body.error.message, /Not a JSON-RPC/);
    assert.ok(Number(refused.headers.get("retry-after")) > 0);
    assert.deepEqual((await until(async () => (await send()).body.result)).structuredContent, { result: LONG.length });
  });

  it("is no fault of who saves a long draft: 503, and the next one is saved", async () => {
    const api = apiOf(berth);
    const files = { "main.ts": `/** ${LONG} */\nexport const one = (): number => 1;\n` };
    const save = () => api.send("PUT", "/definitions/long", { entry: "main.ts", files }, { "If-None-Match": "*" });
    let refused = await underKills(save);
    while (refused.status === 201) {
      await api.remove("/definitions/long");
      refused = await underKills(save);
    }
    assert.equal(refused.status, 503, JSON.stringify(refused.body));
    assert.equal(refused.body.error.code, "check_failed");
    assert.match(refused.body.error.message, NOT_READ);
    await until(async () => (await save()).status === 201);
  });

  it("is no fault of a function whose result it was to judge, and does not say that nothing was done", async () => {
    let tried = 0;
    const failed = await until(async () => {
      const name = `count${tried++ % MANY}`;
      // From now on its arguments are checked without that process.
      await until(async () => (await call(`${berth.url}/mcp/counts`, name, { by: "one" })).isError);
      const result = await underKills(() => call(`${berth.url}/mcp/counts`, name, { by: 1 }));
      return result.structuredContent ? undefined : result;
    });
    assert.equal(failed.isError, true, JSON.stringify(failed));
    assert.match(
      failed.content[0].text,
      /did not finish: its result could not be read: it could not be checked because/,
    );
    assert.doesNotMatch(failed.content[0].text, /its own type does not allow/);
  });
});
