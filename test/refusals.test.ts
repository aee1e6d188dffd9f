import assert from "node:assert/strict";
import { connect } from "node:net";
import { after, before, describe, it } from "node:test";
import { Refusals } from "../src/admission/refusals.ts";
import { call, post, request, startTestBerth, type Reply, type TestBerth } from "./berth.ts";
import { addTenant, onStoreOf } from "./tenants.rig.ts";

const SAY = `/** Says hello. */\nexport function say(): string { return "hello"; }\n`;

describe("refusals of one tenant", () => {
  it("C8 are told at once for the first ones of a second, then later, and at last not at all", () => {
    const refusals = new Refusals();
    const next = (count: number, now: number): string[] => Array.from({ length: count }, () => refusals.next(now));
    assert.deepEqual(new Set(next(50, 0)), new Set(["at once"]));
    assert.deepEqual(new Set(next(500, 10)), new Set(["later"]));
    assert.deepEqual(next(1, 999), ["never"]);
    refusals.told();
    assert.deepEqual(next(2, 999), ["later", "never"]);
    assert.deepEqual(next(1, 1_000), ["at once"]);
  });
});

describe("a tenant that sends more than it may", () => {
  let berth: TestBerth;
  before(async () => {
    berth = await startTestBerth({ texts: { "say.ts": SAY } });
    await onStoreOf(berth, async (store) => {
      const limits = { requestsPerSecond: 1, requestBurst: 1 };
      for (const name of ["flood", "pipeline"]) await addTenant(store, name, { servers: { say: SAY }, limits });
    });
  });
  after(() => berth.close());

  const say = request("tools/call", { name: "say", arguments: {} });

  it("C8 and goes on is told later; who sends little is told at once, and others are answered meanwhile", async () => {
    const told: number[] = [];
    const startedAt = performance.now();
    const floods = Array.from({ length: 200 }, async (): Promise<Reply> => {
      const reply = await post(`${berth.url}/t/flood/mcp/say`, say);
      told.push(performance.now() - startedAt);
      return reply;
    });
    assert.equal((await call(`${berth.url}/mcp/say`, "say")).content[0].text, "hello");
    const refused = (await Promise.all(floods)).filter(({ status }) => status === 429);
    assert.ok(refused.length >= 190);
    for (const { headers } of refused) assert.match(headers.get("retry-after") ?? "", /^[1-9]/);
    // A timer of Node may fire up to a millisecond early.
    assert.ok(told.filter((ms) => ms >= 999).length >= 100, "most have waited for as long as they were to wait");
  });

  it("C8 over one connection without waiting for answers is cut off", async () => {
    const body = JSON.stringify(say);
    const { port, host } = new URL(berth.url);
    const head = `POST /t/pipeline/mcp/say HTTP/1.1\r\nHost: ${host}\r\nContent-Type: application/json\r\nAccept: application/json\r\n`;
    const one = `${head}Content-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`;
    const socket = connect(Number(port), "127.0.0.1");
    let answers = 0;
    socket.setEncoding("utf8").on("data", (text: string) => (answers += text.split("HTTP/1.1 ").length - 1));
    socket.on("error", () => {});
    const closed = new Promise((resolve) => socket.once("close", resolve));
    socket.write(one.repeat(500));
    await closed;
    assert.ok(answers < 100, `${answers} of 500 were answered`);
    assert.equal((await call(`${berth.url}/mcp/say`, "say")).content[0].text, "hello");
  });
});
