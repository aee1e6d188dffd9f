import assert from "node:assert/strict";
import { connect } from "node:net";
import { before, describe, it } from "node:test";
import { Refusals } from "../../src/admission/refusals.ts";
import { call, post, request, type Reply } from "../support/berth.ts";
import { berthInSuite } from "../support/suite.ts";
import { addTenant, onStoreOf } from "../support/tenants.ts";

const SAY = `/** Says hello. */\nexport function say(): string { return "hello"; }\n`;

describe("refusals of one tenant", () => {
  const next = (refusals: Refusals, count: number, now: number): (number | undefined)[] =>
    Array.from({ length: count }, () => refusals.next(now, 1_000));

  it("are told at once for the first ones, then later, and at last not at all", () => {
    const refusals = new Refusals();
    assert.deepEqual(new Set(next(refusals, 50, 0)), new Set([0]));
    assert.ok(next(refusals, 500, 10).every((ms) => ms !== undefined && ms >= 1_000));
    assert.deepEqual(next(refusals, 1, 15), [undefined]);
    refusals.told();
    const [later, never] = next(refusals, 2, 15);
    assert.ok(later! >= 1_000);
    assert.equal(never, undefined);
  });

  it("are told at once for fifty more in each second, spread over it", () => {
    const refusals = new Refusals();
    next(refusals, 50, 0);
    const atOnce = Array.from({ length: 1_000 }, (_, ms) => next(refusals, 1, ms)[0] === 0);
    const quarters = [0, 250, 500, 750].map((from) => atOnce.slice(from, from + 250).filter(Boolean).length);
    for (const count of quarters) assert.ok(count >= 12 && count <= 13, `${count} in a quarter of it`);
  });

  it("that wait are told one after the other", () => {
    const refusals = new Refusals();
    next(refusals, 50, 0);
    assert.deepEqual(next(refusals, 4, 0), [1_000, 1_010, 1_020, 1_030]);
    assert.deepEqual(refusals.next(1, 60_000), 5_000, "and none is kept for longer than that for its own sake");
  });

  it("wait for nobody who has gone", () => {
    const refusals = new Refusals();
    next(refusals, 50, 0);
    for (let gone = 0; gone < 10_000; gone++) {
      refusals.next(0, 1_000);
      refusals.told();
    }
    const ms = refusals.next(0, 1_000)!;
    assert.ok(ms <= 5_010, `it is told after ${ms} ms`);
  });
});

describe("a tenant that sends more than it may", () => {
  const berth = berthInSuite({ texts: { "say.ts": SAY } });
  before(() =>
    onStoreOf(berth, async (store) => {
      const limits = { requestsPerSecond: 1, requestBurst: 1 };
      for (const name of ["flood", "pipeline"]) await addTenant(store, name, { servers: { say: SAY }, limits });
    }),
  );

  const say = request("tools/call", { name: "say", arguments: {} });

  it("and goes on is told later; who sends little is told at once, and others are answered meanwhile", async () => {
    const told: number[] = [];
    const startedAt = performance.now();
    const floods = Array.from({ length: 200 }, async (): Promise<Reply> => {
      const reply = await post(`${berth.url}/t/flood/mcp/say`, say);
      told.push(performance.now() - startedAt);
      return reply;
    });
    assert.equal((await call(`${berth.url}/mcp/say`, "say")).content[0].text, "hello");
    const refused = (await Promise.all(floods)).filter(({ status }) => status === 429);
    assert.ok(refused.length >= 150);
    for (const { headers } of refused) assert.match(headers.get("retry-after") ?? "", /^[1-9]/);
    // The first ones, then a fixed number in each second, and admitted ones; none of the waiting is told within a
    // second.
    for (const [index, ms] of told.toSorted((a, b) => a - b).entries()) {
      // A Node timer may fire up to a millisecond early.
      if (ms >= 999) break;
      assert.ok(index + 1 <= 50 + ms / 20 + 5, `${index + 1} of 200 were told within ${ms} ms`);
    }
  });

  it("over one connection without waiting for answers is cut off", async () => {
    const body = JSON.stringify(say);
    const { port, host } = new URL(berth.url);
    const head = `POST /t/pipeline/mcp/say HTTP/1.1\r\nHost: ${host}\r\nContent-Type: application/json\r\nAccept: application/json\r\n`;
    const one = `${head}Content-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`;
    const socket = connect(Number(port), "127.0.0.1");
    let answers = 0;
    socket.setEncoding("utf8").on("data", (text: string) => (answers += text.split("HTTP/1.1 ").length - 1));
    socket.on("error", () => {});
    const closed = new Promise((resolve) => socket.once("close", resolve));
    const startedAt = performance.now();
    socket.write(one.repeat(500));
    await closed;
    const ms = performance.now() - startedAt;
    assert.ok(answers < 100 + ms / 20, `${answers} of 500 were answered in ${ms} ms`);
    assert.equal((await call(`${berth.url}/mcp/say`, "say")).content[0].text, "hello");
  });
});
