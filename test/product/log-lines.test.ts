import assert from "node:assert/strict";
import { Writable } from "node:stream";
import { describe, it } from "node:test";
import { pino } from "pino";
import { logOptions } from "../../src/lib/log.ts";
import { MODERN_META, modern, post, request, startTestBerth } from "../support/berth.ts";
import { MemoryHost, startRig } from "../support/mcp-host.ts";

const TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

const CONTEXT = {
  traceparent: TRACEPARENT,
  tracestate: "vendor=t61rcWkgMzE,x@y=1",
  baggage: "user=ada,plan=a%20b;ttl=1",
};

const texts = { "told.ts": "export function told(): string { return 'told'; }" };

describe("log lines", () => {
  const lines: string[] = [];
  const stream = new Writable({
    write(chunk, _encoding, done) {
      lines.push(String(chunk));
      done();
    },
  });
  const taken = (): Record<string, unknown>[] => lines.splice(0).map((line) => JSON.parse(line) as never);

  it("an error that nobody foresaw is -32603, says nothing of the inside, and is found in the log by the id that its caller was given (T12.4)", async () => {
    class Failing extends MemoryHost {
      override server(): never {
        throw new Error("a secret of the inside");
      }
    }
    const log = pino(logOptions("error", []), stream);
    const rig = await startRig({ host: new Failing(), log });
    const answer = await post(rig.url("any"), request("tools/list"), { "X-Request-Id": "look-for-me" });
    await rig.close();
    assert.equal(answer.status, 500);
    assert.equal(answer.headers.get("x-request-id"), "look-for-me");
    assert.deepEqual([answer.body.id, answer.body.error.code], [1, -32603]);
    assert.deepEqual(answer.body.error.data, { reference: "look-for-me" });
    assert.ok(!answer.text.includes("secret"));
    const [line] = taken();
    assert.equal(line!["requestId"], "look-for-me");
    assert.equal((line!["err"] as { message: string }).message, "a secret of the inside");
  });

  it("at the level debug each call and each request has one line, and nothing of what was said", async () => {
    const log = pino(logOptions("debug", []), stream);
    const berth = await startTestBerth({ texts, log });
    const params = { name: "told", arguments: { unknown: "between us" }, _meta: { ...MODERN_META, ...CONTEXT } };
    await modern(`${berth.url}/mcp/told?token=hidden`, "tools/call", params, { "X-Request-Id": "c1" });
    await berth.close();
    const own = taken().filter((line) => line["requestId"] === "c1");
    const traceId = "0af7651916cd43dd8448eb211c80319c";
    const [call, answered] = ["a tool was called", "a request was answered"].map((msg) =>
      own.find((line) => line["msg"] === msg)!,
    );
    assert.equal(own.length, 2);
    const { time: _time, ms, size, release, ...rest } = call!;
    assert.ok(typeof ms === "number" && typeof size === "number" && typeof release === "string");
    const of = { tenant: "default", server: "told", tool: "told" };
    assert.deepEqual(rest, {
      level: 20,
      requestId: "c1",
      traceId,
      ...of,
      outcome: "invalid",
      retries: 0,
      msg: "a tool was called",
    });
    const fields = ["method", "path", "status"].map((field) => answered![field]);
    assert.deepEqual(fields, ["POST", "/mcp/told", 200]);
    assert.ok(!JSON.stringify(own).includes("between us") && !JSON.stringify(own).includes("hidden"));
  });

  it("no credential is in a log line, wherever it stood", () => {
    const admin = 'an-admin-token-"with"-quotes';
    const log = pino(logOptions("info", [admin, undefined, ""]), stream);
    const token = `berth_${"a1B2".repeat(12)}z`;
    log.info({ headers: { authorization: "Bearer abc.def", cookie: "session=1", accept: "text/html" } }, "headers");
    log.info({ request: { headers: { Authorization: "Basic dXNlcjpwYXNz" } }, password: "hunter2" }, "deeper");
    log.error(
      { err: new Error(`refused: Authorization: Bearer ${token}`, { cause: new Error(`with ${admin}`) }) },
      token,
    );
    const text = lines.join("");
    for (const secret of [
      "abc.def",
      "session=1",
      "dXNlcjpwYXNz",
      "hunter2",
      token,
      JSON.stringify(admin).slice(1, -1),
    ]) {
      assert.ok(!text.includes(secret), `${secret} is in ${text}`);
    }
    const [first] = taken();
    assert.equal((first!["headers"] as { accept: string }).accept, "text/html");
  });
});
