import assert from "node:assert/strict";
import { Writable } from "node:stream";
import { after, before, describe, it } from "node:test";
import { pino } from "pino";
import { logOptions } from "../../src/lib/log.ts";
import { beginTrace, withMeta } from "../../src/lib/trace.ts";
import { MODERN_META, modern, post, request, startTestBerth, type TestBerth } from "../support/berth.ts";
import { MemoryHost, startRig } from "../support/mcp-host.ts";
import { asker } from "../support/outcomes.ts";

const TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const CONTEXT = {
  traceparent: TRACEPARENT,
  tracestate: "vendor=t61rcWkgMzE,x@y=1",
  baggage: "user=ada,plan=a%20b;ttl=1",
};
const UUID = /^[0-9a-f-]{36}$/;

const texts = {
  "told.ts": `
    import type { ToolContext } from "berth";
    export function told({ requestId, trace }: ToolContext): object { return { requestId, trace: trace ?? null }; }
    export function lead(): Response { return Response.redirect("server://told/told"); }
    /** @task */
    export function later({ requestId, trace }: ToolContext): object { return { requestId, trace: trace ?? null }; }
  `,
  "script.sh": `#!/bin/sh
# Prints what it was told.
# @noArgs
printf '%s|%s|%s|%s' "$BERTH_REQUEST_ID" "$TRACEPARENT" "$TRACESTATE" "$BAGGAGE"
`,
};

describe("what is known of a request's trace", () => {
  it("C8 a trace context that is not well-formed counts as not said, each part by itself", () => {
    const read = (carrier: Record<string, unknown>): unknown => beginTrace(undefined, carrier).context;
    assert.deepEqual(read(CONTEXT), CONTEXT);
    for (const traceparent of [
      "",
      TRACEPARENT.toUpperCase(),
      TRACEPARENT.slice(1),
      TRACEPARENT.replace(/^00/, "ff"),
      `${TRACEPARENT}-more`,
      TRACEPARENT.replace("0af7651916cd43dd8448eb211c80319c", "0".repeat(32)),
      TRACEPARENT.replace("b7ad6b7169203331", "0".repeat(16)),
      `${TRACEPARENT}\n`,
      7,
    ]) {
      assert.equal(read({ traceparent, tracestate: "a=1" }), undefined, String(traceparent));
    }
    const later = `01${TRACEPARENT.slice(2)}-more`;
    assert.deepEqual(read({ traceparent: later }), { traceparent: later });
    for (const tracestate of ["no value", "A=1", `a=${"x".repeat(600)}`, "a=1\r\nb", 7]) {
      assert.deepEqual(
        read({ traceparent: TRACEPARENT, tracestate }),
        { traceparent: TRACEPARENT },
        String(tracestate),
      );
    }
    assert.deepEqual(read({ baggage: "a=1" }), { baggage: "a=1" });
    for (const baggage of ["a", 'a="1"', "a=1\nb=2", `a=${"x".repeat(8192)}`, {}]) {
      assert.equal(read({ baggage }), undefined, JSON.stringify(baggage));
    }
  });

  it("C8 what the message says of its trace goes before what its headers say", () => {
    const trace = beginTrace("r1", { traceparent: TRACEPARENT });
    const other = TRACEPARENT.replace("b7ad", "c7ad");
    assert.deepEqual(withMeta(trace, { traceparent: other }), { requestId: "r1", context: { traceparent: other } });
    assert.equal(withMeta(trace, { traceparent: "no" }), trace);
  });
});

describe("requests are known by an id and a trace", () => {
  let berth: TestBerth;
  before(async () => {
    berth = await startTestBerth({ texts, mcps: { asker: { upstream: asker } } });
  });
  after(() => berth.close());

  const inMeta = { _meta: { ...MODERN_META, ...CONTEXT } };

  it("C8 every answer names its request: by the id that it came with, where that is well-formed", async () => {
    const body = JSON.stringify(request("tools/list"));
    const json = { "Content-Type": "application/json", Accept: "application/json" };
    const asked: [string, RequestInit][] = [
      ["/mcp/told", { method: "POST", headers: json, body }],
      ["/mcp/nowhere", { method: "POST", headers: json, body }],
      ["/mcp/told", { method: "POST", headers: json, body: "{" }],
      ["/mcp/told", { method: "POST", headers: { ...json, "Content-Type": "text/plain" }, body }],
      ["/mcp/told", { method: "POST", headers: json, body: '{"jsonrpc":"2.0","method":"notifications/initialized"}' }],
      ["/mcp/told", { method: "DELETE" }],
      ["/mcp", { headers: { Accept: "text/html" } }],
      ["/nowhere", { headers: { Accept: "text/html" } }],
      ["/api/servers", {}],
      ["/servers/told/told", {}],
      ["/mcp/told/sse", { method: "PUT" }],
    ];
    for (const [path, init] of asked) {
      const send = async (id?: string): Promise<string | null> => {
        const headers = {
          ...(init.headers as Record<string, string>),
          ...(id !== undefined && { "X-Request-Id": id }),
        };
        const response = await fetch(`${berth.url}${path}`, { ...init, headers });
        await response.text();
        return response.headers.get("x-request-id");
      };
      assert.equal(await send("web-7:a/b=@1.x_y+"), "web-7:a/b=@1.x_y+", path);
      for (const id of [undefined, "two words", "x".repeat(129), "<script>", '"'])
        assert.match((await send(id)) ?? "", UUID, path);
    }
    const page = await fetch(`${berth.url}/nowhere`, { headers: { Accept: "text/html", "X-Request-Id": "page-1" } });
    assert.match(await page.text(), /id of the request <code>page-1<\/code>/);
  });

  it("C8 functions, scripts and upstreams are told of the trace, from _meta or from headers", async () => {
    const headers = { ...CONTEXT, "X-Request-Id": "r7" };
    const said = { requestId: "r7", trace: CONTEXT };
    const calling = async (
      server: string,
      name: string,
      more: object,
      given: Record<string, string>,
    ): Promise<string> => {
      const params = { name, arguments: {}, ...more };
      const { body } = await modern(`${berth.url}/mcp/${server}`, "tools/call", params, given);
      return body.result.content[0].text as string;
    };
    for (const name of ["told", "lead"]) {
      assert.deepEqual(JSON.parse(await calling("told", name, {}, headers)), said);
      assert.deepEqual(JSON.parse(await calling("told", name, inMeta, { "X-Request-Id": "r7" })), said);
    }
    const script = Object.values(CONTEXT).join("|");
    assert.equal(await calling("script", "script", inMeta, { "X-Request-Id": "r8" }), `r8|${script}`);
    const plain = await fetch(`${berth.url}/servers/told/told`, { headers });
    assert.deepEqual(await plain.json(), said);
    const native = await post(`${berth.url}/mcp`, request("told.told", { _meta: CONTEXT }), { "X-Request-Id": "r7" });
    assert.deepEqual(JSON.parse(native.body.result.content[0].text), said);

    const told = JSON.parse(await calling("asker", "told", inMeta, {})) as { meta: typeof CONTEXT };
    const { traceparent, tracestate, baggage } = told.meta;
    assert.deepEqual({ traceparent, tracestate, baggage }, CONTEXT);
    const untraced = JSON.parse(await calling("told", "told", {}, {})) as { requestId: string; trace: unknown };
    assert.match(untraced.requestId, UUID);
    assert.equal(untraced.trace, null);
  });

  it("C8 a task is told of the trace of the request that began it", async () => {
    const capabilities = { extensions: { "io.modelcontextprotocol/tasks": {} } };
    const _meta = { ...inMeta._meta, "io.modelcontextprotocol/clientCapabilities": capabilities };
    const url = `${berth.url}/mcp/told`;
    const begun = await modern(url, "tools/call", { name: "later", arguments: {}, _meta }, { "X-Request-Id": "t1" });
    const { taskId } = begun.body.result;
    for (;;) {
      const { body } = await modern(url, "tasks/get", { taskId, _meta }, { "Mcp-Name": taskId });
      if (body.result.status === "working") continue;
      assert.deepEqual(JSON.parse(body.result.result.content[0].text), { requestId: "t1", trace: CONTEXT });
      return;
    }
  });
});

describe("log lines", () => {
  const lines: string[] = [];
  const stream = new Writable({
    write(chunk, _encoding, done) {
      lines.push(String(chunk));
      done();
    },
  });
  const taken = (): Record<string, unknown>[] => lines.splice(0).map((line) => JSON.parse(line) as never);

  it("T12.4 C8 an error that nobody foresaw is -32603, says nothing of the inside, and is found in the log by the id that its caller was given", async () => {
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

  it("C8 at the level debug each call and each request has one line, and nothing of what was said", async () => {
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
    assert.deepEqual(
      ["method", "path", "status"].map((field) => answered![field]),
      ["POST", "/mcp/told", 200],
    );
    assert.ok(!JSON.stringify(own).includes("between us") && !JSON.stringify(own).includes("hidden"));
  });

  it("C8 no credential is in a log line, wherever it stood", () => {
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
