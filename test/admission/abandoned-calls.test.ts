import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { apiOf } from "../support/api.ts";
import { call, request, startTestBerth, type TestBerth } from "../support/berth.ts";
import { connectRaw, rawPost } from "../support/raw-http.ts";
import { until } from "../support/until.ts";

const DEAF = `
import type { ToolContext } from "berth";

let going = 0;

/** Hears of no cancellation, and lasts longer than any test waits. */
export async function wait(): Promise<string> {
  going++;
  await new Promise((resolve) => setTimeout(resolve, 600_000));
  return "waited";
}

/** Waits for the variable "go". */
export async function stand(context: ToolContext): Promise<number> {
  while ((await context.variable("go")) === undefined) await new Promise((resolve) => setTimeout(resolve, 20));
  return going;
}

/** How many calls of \`wait\` this process goes on with. */
export function state(): number {
  return going;
}
`;

const [CALLS, ABANDONED] = [4, 8];

describe("a call whose client has gone", () => {
  let berth: TestBerth;
  before(async () => {
    berth = await startTestBerth({
      texts: { "deaf.ts": DEAF, "other.ts": "export function one(): number { return 1; }" },
      env: {
        BERTH_CALLS_PER_TENANT: String(CALLS),
        BERTH_ABANDONED_CALLS_PER_PROCESS: String(ABANDONED),
        BERTH_CALL_MS: "600000",
      },
    });
  });
  after(() => berth.close());

  const going = async (): Promise<number> => {
    const state = await call(`${berth.url}/mcp/deaf`, "state");
    assert.ok(state.structuredContent, JSON.stringify(state));
    return state.structuredContent.result;
  };
  const inFlight = async (): Promise<number> => {
    const text = await (await fetch(`${berth.url}/metrics`)).text();
    return Number(/^berth_calls_in_flight (\d+)$/m.exec(text)![1]);
  };
  /** Sends `count` calls, and leaves as soon as they are under way or wait. */
  const abandon = async (count: number): Promise<void> => {
    const before = await inFlight();
    const connections = await Promise.all(Array.from({ length: count }, () => connectRaw(berth.url)));
    const body = request("tools/call", { name: "wait", arguments: {} });
    for (const { socket } of connections) socket.write(rawPost("/mcp/deaf", body));
    await until(async () => (await inFlight()) === before + count, "all of them are under way");
    for (const { socket } of connections) socket.resetAndDestroy();
    await until(async () => (await inFlight()) === before, "none of them takes a place");
  };

  it("holds no place of its tenant, though its guest goes on with it, nor one in the queue", async () => {
    await abandon(CALLS + 20);
    assert.equal((await call(`${berth.url}/mcp/other`, "one")).structuredContent.result, 1);
    assert.equal(await going(), CALLS, "none of those that waited has begun");
    assert.equal(await inFlight(), 0);
  });

  it("costs nobody else's call: a process that goes on with too many ends with the last one that is waited for", async () => {
    const standing = call(`${berth.url}/mcp/deaf`, "stand");
    await until(async () => (await inFlight()) === 1, "it stands");
    while ((await going()) > 0) await abandon(CALLS - 1);
    assert.equal((await apiOf(berth).put("/variables/go", "true")).status, 201);
    const stood = await standing;
    assert.equal(stood.isError, undefined, JSON.stringify(stood));
    const { result } = stood.structuredContent;
    assert.ok(result > ABANDONED, `it stood beside ${result} calls that nobody waits for`);
    assert.equal(await inFlight(), 0);
  });
});
