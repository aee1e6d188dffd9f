import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { nativeTool } from "../../../src/features/native/call-natively.ts";
import {
  callNative,
  NativeCallError,
  type NativeEvent,
  type NativeResult,
} from "../../../src/features/native/client.ts";
import type { Host } from "../../../src/host/host.ts";
import { ALL_SERVERS } from "../../../src/host/serving/aggregate.ts";
import type { JsonObject } from "../../../src/lib/json.ts";
import type { RequestTarget } from "../../../src/mcp/protocol.ts";
import { modern, MODERN_META, post, request } from "../../support/berth.ts";
import { LegacyClient } from "../../support/legacy-client.ts";
import { connectRaw, eventsOf, rawPost } from "../../support/raw-http.ts";
import { berthInSuite } from "../../support/suite.ts";

const ASKING = `
import type { ToolContext } from "berth";

/** Asks two things, one after the other. */
export async function order(context: ToolContext): Promise<string> {
  const drink = await context.elicit({ message: "What?", schema: { type: "object", properties: { drink: { type: "string" } } } });
  const size = await context.elicit({ message: "How big?", schema: { type: "object", properties: { size: { type: "string" } } } });
  return JSON.stringify([drink, size]);
}

/** Says something to the log. */
export function speak(context: ToolContext): string {
  context.log.warning("careful");
  return "spoken";
}
`;

/** Servers and tools whose names can be put together in several ways. */
const tool = (name: string, says: string): string => `export function ${name}(): string { return "${says}"; }\n`;
const AMBIGUOUS = {
  "a.ts": tool("b_c", "b_c of a") + tool("d", "d of a"),
  "a_b.ts": tool("c", "c of a_b"),
  "a.b.ts": tool("c", "c of a.b"),
};

interface Called {
  readonly events: NativeEvent[];
  readonly result: NativeResult;
}

async function native(url: string, method: string, args: JsonObject = {}, more: object = {}): Promise<Called> {
  const events: NativeEvent[] = [];
  const calling = callNative({ url, method, args, ...more });
  let next = await calling.next();
  for (; !next.done; next = await calling.next()) events.push(next.value);
  return { events, result: next.value };
}

function textOf(result: NativeResult): unknown {
  return "content" in result ? result.content[0]?.["text"] : result;
}

describe("native calls", () => {
  const berth = berthInSuite({
    files: ["test/fixtures/servers/streaming.ts", "test/fixtures/servers/everyday.ts"],
    texts: { ...AMBIGUOUS, "asking.ts": ASKING },
    mcps: { off: { definition: "everyday.ts", enabled: false } },
  });

  it("a tool is a method of its own, with its events as notifications and its result at the end (S9)", async () => {
    const body = request("streaming.drip", { count: 2, ms: 0, bytes: 1 }, "call-1");
    const connection = await connectRaw(berth.url);
    connection.socket.write(rawPost("/mcp", body));
    await connection.until(/"id":"call-1"[\s\S]*\r\n0\r\n/);
    connection.socket.destroy();
    const messages = eventsOf(connection.text());
    const { release } = (messages[0]!["params"] as { result: { release: string } }).result;
    assert.match(release, /^baguq/);
    const told = (event: object) => {
      return { jsonrpc: "2.0", method: "streaming.drip", params: { subscription: "call-1", result: event } };
    };
    const result = { content: [{ type: "text", text: "dripped 2" }], structuredContent: "dripped 2" };
    assert.deepEqual(messages, [
      told({ type: "start", server: "streaming", tool: "drip", release }),
      told({ type: "data", data: "1 " }),
      told({ type: "data", data: "2 " }),
      told({ type: "complete" }),
      { jsonrpc: "2.0", id: "call-1", result },
    ]);
  });

  it("each event leaves before the next one is there (S9)", async () => {
    const calling = callNative({ url: berth.url, method: "streaming.drip", args: { count: 2, ms: 60_000 } });
    for (const type of ["start", "data"]) {
      const { value } = await calling.next();
      assert.ok("type" in value && value.type === type);
    }
    await calling.return(undefined as never);
  });

  it("the same tool gives the same events and the same result natively and by MCP (S9)", async () => {
    const calls: [tool: string, args: JsonObject][] = [
      ["streaming.drip", { count: 3, ms: 0 }],
      ["streaming.words", { text: "one two \u2028 ü" }],
      ["everyday.count", { to: 3 }],
      ["everyday.echo", { message: '"\\' }],
      ["everyday.echo", { constructor: [null] }],
      ["everyday.add", { a: "one" }],
      ...["fail", "picture", "nothing", "blocks"].map((name): [string, JsonObject] => [`everyday.${name}`, {}]),
    ];
    for (const [tool, args] of calls) {
      for (const streams of [true, false]) {
        const params = { name: tool, arguments: args, _meta: { ...MODERN_META, progressToken: 1 } };
        const headers = { "MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": tool };
        const accept = { Accept: streams ? "application/json, text/event-stream" : "application/json" };
        const natively = await exchange(request(tool, args), accept);
        const byMcp = await exchange(request("tools/call", params), { ...accept, ...headers });
        assert.deepEqual(resultOf(natively), resultOf(byMcp));
        assert.deepEqual(dataOf(natively), progressOf(byMcp));
        if (!streams) continue;
        const last = natively.at(-2) as { params: { result: { type: string } } };
        const { isError } = resultOf(byMcp) as { isError?: boolean };
        assert.equal(last.params.result.type, isError ? "error" : "complete");
      }
    }
  });

  /** All messages in the answer to one POST to all servers. */
  async function exchange(body: object, headers: Record<string, string>): Promise<Record<string, unknown>[]> {
    const sent = { "Content-Type": "application/json", ...headers };
    const response = await fetch(`${berth.url}/mcp`, { method: "POST", headers: sent, body: JSON.stringify(body) });
    const text = await response.text();
    return text.startsWith("{") ? [JSON.parse(text) as Record<string, unknown>] : eventsOf(text);
  }

  /** Leaves out MCP's own members of each result. */
  function resultOf(messages: Record<string, unknown>[]): unknown {
    const { resultType: _resultType, _meta, ...result } = messages.at(-1)!["result"] as JsonObject;
    return result;
  }

  function dataOf(messages: Record<string, unknown>[]): unknown[] {
    return messages.flatMap(({ params }) => {
      const event = (params as { result: NativeEvent } | undefined)?.result;
      return event?.type === "data" ? [event.data] : [];
    });
  }

  function progressOf(messages: Record<string, unknown>[]): unknown[] {
    return messages.flatMap(({ params }) => (params as { message?: string } | undefined)?.message ?? []);
  }

  it("the protocol's methods go first, and what is no tool is -32601 (S9, T12.2)", async () => {
    assert.deepEqual((await post(`${berth.url}/mcp`, request("ping"))).body.result, {});
    for (const [path, method, reason] of [
      ["/mcp", "everyday.nope", /the server "everyday" has no tool "nope"/],
      ["/mcp", "nobody.echo", /nobody\.echo/],
      ["/mcp", "everyday", /everyday/],
      ["/mcp", ".echo", /\.echo/],
      ["/mcp", "everyday.", /no tool ""/],
      ["/mcp", `everyday.${"x".repeat(400)}`, /No such method/],
      ["/mcp/everyday", "streaming.drip", /streaming\.drip/],
      ["/mcp/everyday", "echo", /echo/],
    ] as const) {
      const { status, body } = await post(`${berth.url}${path}`, request(method, { message: "hi" }));
      assert.equal(status, 404, method);
      assert.equal(body.error.code, -32601, method);
      assert.match(body.error.message, reason);
    }
  });

  it("a server that is disabled is refused natively, too (S9, T5.6)", async () => {
    const { body } = await post(`${berth.url}/mcp`, request("off.echo", { message: "hi" }));
    assert.match(body.error.message, /disabled/);
  });

  it("the dot goes before the underscore, and the longest name of a server wins (S9)", async () => {
    const said = async (path: string, method: string): Promise<unknown> => {
      const { body } = await post(`${berth.url}${path}`, request(method));
      return body.result?.content[0].text ?? body.error.code;
    };
    assert.equal(await said("/mcp", "a.b_c"), "b_c of a");
    assert.equal(await said("/mcp", "a_b_c"), "c of a_b");
    assert.equal(await said("/mcp", "a_b.c"), "c of a_b");
    assert.equal(await said("/mcp", "a.b.c"), "c of a.b");
    assert.equal(await said("/mcp", "a_d"), "d of a");
    assert.equal(await said("/mcp", "a_b_d"), -32601, "a_b has the method, and no such tool");
    assert.equal(await said("/mcp/a", "a_b_c"), "b_c of a", "at the address of a there is no other server");
  });

  it("asks for no server that there is not, however many separators a name has", async () => {
    const asked: string[] = [];
    const host = {
      has: (_tenant: string, name: string) => name === "echo",
      server: (_tenant: string, name: string) => (asked.push(name), assert.fail("nothing was to be asked for")),
    } as unknown as Host;
    const place = { tenant: "default", server: ALL_SERVERS } as RequestTarget;
    for (const name of ["x.".repeat(160), "_".repeat(320), `echo@${"._".repeat(157)}`, `echo@x.${"y_".repeat(150)}`]) {
      assert.equal(await nativeTool(host, place, name), undefined);
    }
    assert.deepEqual(asked, []);
  });

  it("a release can be named natively, in the method or in the address (S9)", async () => {
    const { events } = await native(berth.url, "everyday.echo", { message: "hi" });
    assert.equal(events[0]?.type, "start");
    const { release } = events[0];
    const here = `${berth.url}/mcp/everyday@${release}`;
    const inMethod = await native(berth.url, `everyday@${release}.echo`, { message: "hi" });
    const inAddress = await native(here, "everyday.echo", { message: "hi" });
    for (const { result } of [inMethod, inAddress]) assert.equal(textOf(result), "hi");
  });

  it("log lines are events, whatever their level (S9)", async () => {
    const { events, result } = await native(berth.url, "asking.speak");
    const lines = events.filter(({ type }) => type === "log");
    assert.deepEqual(lines, [{ type: "log", level: "warning", message: "careful" }]);
    assert.equal(textOf(result), "spoken");
  });

  it("a tool that asks says what, and goes on when it is called again with all answers so far (S9)", async () => {
    const inputResponses: JsonObject = {};
    const contents: JsonObject[] = [{ drink: "tea" }, { size: "big" }];
    for (const content of contents) {
      const { events, result } = await native(berth.url, "asking.order", {}, { inputResponses });
      assert.equal(events.at(-1)?.type, "input_required");
      assert.ok("inputRequests" in result);
      for (const key of Object.keys(result.inputRequests)) inputResponses[key] = { action: "accept", content };
    }
    const { result } = await native(berth.url, "asking.order", {}, { inputResponses });
    assert.match(String(textOf(result)), /tea.*big/);
    const refused = (error: unknown): boolean => error instanceof NativeCallError && error.code === -32602;
    await assert.rejects(native(berth.url, "asking.order", {}, { inputResponses: { drink: 1 } }), refused);
  });

  it("ends a call with the reason of its signal (S9)", async () => {
    const cancelling = new AbortController();
    const more = { signal: cancelling.signal };
    const calling = callNative({ url: berth.url, method: "streaming.drip", args: { count: 2, ms: 60_000 }, ...more });
    await calling.next();
    cancelling.abort(new Error("enough"));
    await assert.rejects(async () => {
      while (!(await calling.next()).done);
    }, /enough/);
  });

  it("clients of both eras may call natively, within a session or a version of theirs (S9)", async () => {
    const legacy = await LegacyClient.start(`${berth.url}/mcp/everyday`);
    const reader = await legacy.request("everyday.add", { a: 1 }, "native");
    let message = await reader.nextMessage();
    while (message?.id !== "native") message = await reader.nextMessage();
    assert.deepEqual(message.result.structuredContent, { sum: 11 });
    const headers = { Accept: "application/json" };
    const { body } = await modern(`${berth.url}/mcp/everyday`, "everyday.add", { a: 1 }, headers);
    assert.deepEqual(body.result.structuredContent, { sum: 11 });
  });
});
