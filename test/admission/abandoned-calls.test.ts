import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { apiOf } from "../support/api.ts";
import { call, request, startTestBerth, type TestBerth } from "../support/berth.ts";
import { connectRaw, rawPost } from "../support/raw-http.ts";
import { inOneOf, until } from "../support/until.ts";

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
  it("holds no place of its tenant, though its guest goes on with it, nor one in the queue", () =>
    inDeafBerth(async (berth) => {
      assert.equal(await going(berth), 0, "its process has started");
      await abandon(berth, CALLS + 20);
      assert.equal((await call(`${berth.url}/mcp/other`, "one")).structuredContent.result, 1);
      assert.equal(await going(berth), CALLS, "none of those that waited has begun");
      assert.equal(await inFlight(berth), 0);
    }));

  it("costs nobody else's call: a process that goes on with too many ends with the last one that is waited for", () =>
    inDeafBerth(async (berth) => {
      await abandon(berth, CALLS);
      let isStanding = true;
      const standing = call(`${berth.url}/mcp/deaf`, "stand").finally(() => (isStanding = false));
      await until(async () => (await inFlight(berth)) === 1, "it stands");
      while ((await going(berth)) > 0)
        await abandon(berth, CALLS - 1, () => assert.ok(isStanding, "it stands no more"));
      assert.equal((await apiOf(berth).put("/variables/go", "true")).status, 201);
      const stood = await standing;
      assert.equal(stood.isError, undefined, JSON.stringify(stood));
      const { result } = stood.structuredContent;
      assert.ok(result > ABANDONED, `it stood beside ${result} calls that nobody waits for`);
      assert.equal(await inFlight(berth), 0);
    }));
});

/** A guest that the machine stalls is ended, with all of its calls: then another Berth has to show it. */
async function inDeafBerth(act: (berth: TestBerth) => Promise<void>): Promise<void> {
  await inOneOf(5, async () => {
    const berth = await startTestBerth({
      texts: { "deaf.ts": DEAF, "other.ts": "export function one(): number { return 1; }" },
      env: {
        BERTH_CALLS_PER_TENANT: String(CALLS),
        BERTH_ABANDONED_CALLS_PER_PROCESS: String(ABANDONED),
        BERTH_CALL_MS: "600000",
      },
    });
    try {
      await act(berth);
    } finally {
      await berth.close();
    }
  });
}

async function going({ url }: TestBerth): Promise<number> {
  const state = await call(`${url}/mcp/deaf`, "state");
  assert.ok(state.structuredContent, JSON.stringify(state));
  return state.structuredContent.result;
}

async function inFlight({ url }: TestBerth): Promise<number> {
  const text = await (await fetch(`${url}/metrics`)).text();
  return Number(/^berth_calls_in_flight (\d+)$/m.exec(text)![1]);
}

/** Sends `count` calls, and leaves as soon as they are under way or wait; `check` fails when they never will be. */
async function abandon(berth: TestBerth, count: number, check: () => void = () => {}): Promise<void> {
  const before = await inFlight(berth);
  const inFlightAre = (wanted: number, what: string) =>
    until(async () => {
      check();
      return (await inFlight(berth)) === wanted;
    }, what);
  const connections = await Promise.all(Array.from({ length: count }, () => connectRaw(berth.url)));
  const body = request("tools/call", { name: "wait", arguments: {} });
  for (const { socket } of connections) socket.write(rawPost("/mcp/deaf", body));
  try {
    await inFlightAre(before + count, "all of them are under way");
  } finally {
    for (const { socket } of connections) socket.resetAndDestroy();
  }
  await inFlightAre(before, "none of them takes a place");
}
