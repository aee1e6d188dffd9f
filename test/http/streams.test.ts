import assert from "node:assert/strict";
import { before, describe, it } from "node:test";
import { call, MODERN_META, request, startTestBerth } from "../support/berth.ts";
import { LegacyClient } from "../support/legacy-client.ts";
import { rigFor } from "../support/mcp-host.ts";
import { connectRaw, eventsOf, rawPost, type RawConnection } from "../support/raw-http.ts";
import { berthInSuite } from "../support/suite.ts";
import { until } from "../support/until.ts";

const FILE = "test/fixtures/servers/streaming.ts";
const MODERN = { "MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call" };

const CLOSE = { Connection: "close" };

/** A streaming call as a modern client sends it. */
function streamingCall(name: string, args: object, headers: Record<string, string> = {}): string {
  const meta = { ...MODERN_META, progressToken: "token" };
  const body = request("tools/call", { _meta: meta, name, arguments: args });
  return rawPost("/mcp/streaming", body, { ...MODERN, "Mcp-Name": name, ...headers });
}

async function open(url: string, bytes: string): Promise<RawConnection> {
  const connection = await connectRaw(url);
  connection.socket.write(bytes);
  return connection;
}

async function state(url: string): Promise<{ yielded: number; stopped: number; begun: number }> {
  return (await call(url, "state")).structuredContent;
}

async function untilStopped(url: string, before: number): Promise<void> {
  await until(async () => (await state(url)).stopped > before);
}

describe("streams over HTTP", () => {
  const berth = berthInSuite({
    files: [FILE, "test/fixtures/servers/chatty.ts"],
    env: {
      BERTH_STREAM_KEEP_ALIVE_MS: "50",
      BERTH_OPEN_STREAMS: "3",
      BERTH_OUTPUT_BYTES: "10000",
      BERTH_CALL_MS: "120000",
    },
  });
  let url: string;
  before(() => void (url = `${berth.url}/mcp/streaming`));

  it("each event leaves at once, as progress with a message, before the tool ends (S3)", async () => {
    const stream = await open(berth.url, streamingCall("stepwise", { count: 3 }));
    for (const each of [1, 2]) {
      await stream.until(new RegExp(`"progress":${each},`));
      assert.equal((await state(url)).yielded, each, "the next event was not yielded yet");
      await call(url, "step");
    }
    assert.match(stream.text(), /^HTTP\/1.1 200 OK\r\n/);
    assert.match(stream.text(), /Content-Type: text\/event-stream\r\n/);
    assert.match(stream.text(), /X-Accel-Buffering: no\r\n/);
    await stream.until(/stepped 3[\s\S]*\r\n0\r\n/);
    stream.socket.destroy();
    const events = eventsOf(stream.text());
    const received = events.map(({ method, params, id }) => [
      method,
      (params as { progress: number } | undefined)?.progress,
      id,
    ]);
    assert.deepEqual(received, [
      ["notifications/progress", 1, undefined],
      ["notifications/progress", 2, undefined],
      ["notifications/progress", 3, undefined],
      [undefined, undefined, 1],
    ]);
    assert.deepEqual(events[0]!["params"], { progressToken: "token", progress: 1, message: "1" });
  });

  it("a stream that returns nothing is collected into one result, up to outputBytes (S2, S4)", async () => {
    const blocks = async (text: string): Promise<unknown> => {
      const { content, isError } = await call(url, "words", { text });
      return isError ? content[0].text : content.map((block: { text: string }) => block.text);
    };
    assert.deepEqual(await blocks("one two three"), ["one", "two", "three"]);
    const tooLong = String(await blocks(`${"x".repeat(3_000)} `.repeat(4)));
    assert.match(tooLong, /more than 10000 bytes \(BERTH_OUTPUT_BYTES\)/);
    const stream = await open(berth.url, streamingCall("words", { text: `${"x".repeat(3_000)} `.repeat(4) }));
    await stream.until(/"content":\[\][\s\S]*\r\n0\r\n/);
    assert.equal(stream.text().match(/"progress":\d/g)?.length, 5);
    stream.socket.destroy();
  });

  it("a slow reader holds the guest back, and gets everything when it goes on (S3)", async () => {
    const count = 4_000;
    const stream = await open(berth.url, streamingCall("drip", { count, ms: 0, bytes: 2_000 }, CLOSE));
    await stream.until(/"progress":1,/);
    stream.socket.pause();
    // Each call runs in the same guest: one that yields nothing between several of them is held back.
    let [last, same] = [-1, 0];
    while (same < 50) {
      const { yielded } = await state(url);
      same = yielded === last ? same + 1 : 0;
      last = yielded;
    }
    assert.ok(last < count, `the guest went on to ${last} while nobody read`);
    stream.socket.resume();
    assert.match(await stream.ended(), /dripped 4000/);
    assert.equal(stream.text().match(/"progress":\d/g)?.length, count);
  });

  const figure = async (name: string): Promise<number> => {
    const text = await (await fetch(`${berth.url}/metrics`)).text();
    return Number(new RegExp(`^${name} (\\d+)$`, "m").exec(text)?.[1]);
  };
  const chat = { lines: 160, bytes: 128 * 1024 };
  const logLevel = { "io.modelcontextprotocol/logLevel": "debug" };
  const modernChat = request("tools/call", { _meta: { ...MODERN_META, ...logLevel }, name: "chat", arguments: chat });
  for (const [how, bytes] of [
    ["natively", rawPost("/mcp", request("chatty.chat", chat), CLOSE)],
    ["by MCP", rawPost("/mcp/chatty", modernChat, { ...MODERN, "Mcp-Name": "chat", ...CLOSE })],
  ] as const) {
    it(`log lines ${how} are dropped and counted while their client does not read, and it is told`, async () => {
      const droppedBefore = await figure("berth_client_log_lines_dropped_total");
      const stream = await open(berth.url, bytes);
      await stream.until(/text\/event-stream/);
      stream.socket.pause();
      await until(
        async () => (await figure("berth_client_log_lines_dropped_total")) > droppedBefore,
        "lines are dropped",
      );
      stream.socket.resume();
      assert.match(await stream.ended(), /said 160/);
      const dropped = (await figure("berth_client_log_lines_dropped_total")) - droppedBefore;
      const told = [...stream.text().matchAll(/(\d+) log lines were dropped/g)];
      const lines = [...stream.text().matchAll(/"(\d+) x/g)].map(([, number]) => Number(number));
      assert.equal(lines.length + dropped, chat.lines);
      // The next line that it gets follows the notice: what is dropped after the last one is told by no line.
      const droppedEvents = told.reduce((sum, [, count]) => sum + Number(count), 0);
      assert.equal(droppedEvents, lines.at(-1)! - lines.length);
    });
  }

  it("closing the stream stops the guest (S5)", async () => {
    for (const [name, args] of [
      ["drip", { count: 1000, ms: 50 }],
      ["quiet", { ms: 20_000 }],
    ] as const) {
      const { stopped, begun } = await state(url);
      const stream = await open(berth.url, streamingCall(name, args));
      if (name === "drip") await stream.until(/"progress":1/);
      else await until(async () => (await state(url)).begun > begun);
      stream.socket.destroy();
      await untilStopped(url, stopped);
    }
  });

  it("a quiet stream shows signs of life", async () => {
    const stream = await open(berth.url, streamingCall("stepwise", { count: 2 }));
    await stream.until(/"progress":1[\s\S]*\r\n:\n\n\r\n/);
    await call(url, "step");
    await stream.until(/"progress":2[\s\S]*\r\n0\r\n/);
    stream.socket.destroy();
  });

  it("beyond openStreams a call is answered all at once", async () => {
    const streams = await Promise.all(
      [1, 2, 3].map(() => open(berth.url, streamingCall("drip", { count: 10_000, ms: 50 }))),
    );
    for (const stream of streams) await stream.until(/"progress":1/);
    const fourth = await open(berth.url, streamingCall("drip", { count: 2, ms: 0 }));
    await fourth.until(/dripped 2/);
    assert.match(fourth.text(), /Content-Type: application\/json/);
    for (const { socket } of [...streams, fourth]) socket.destroy();
  });
});

it("calls that wait for answers of clients that have left take no stream of others", async (t) => {
  const rig = await rigFor(t, {}, { openStreams: 3 });
  const ask = { inputRequests: { q: { method: "roots/list" as const, params: {} } } };
  rig.host.offer("one", { tools: { ask: () => ask } });
  const url = rig.url("one");
  for (let left = 0; left < 4; left++) {
    const client = await LegacyClient.start(url, "2025-11-25", { roots: {} });
    const asking = await client.call("ask");
    assert.equal((await asking.nextMessage()).method, "roots/list");
    asking.close();
  }
  const other = await LegacyClient.start(url, "2025-11-25", { roots: {} });
  await until(async () => {
    const listening = await other.listen();
    listening.close();
    return listening.status === 200;
  });
  const asked = await other.call("ask");
  assert.equal((await asked.nextMessage()).method, "roots/list");
  asked.close();
});

it("a client that takes nothing is cut off after stalledMs, and its guest stops", async () => {
  const berth = await startTestBerth({ files: [FILE], env: { BERTH_STALLED_MS: "300" } });
  const url = `${berth.url}/mcp/streaming`;
  const { stopped } = await state(url);
  const stream = await open(berth.url, streamingCall("drip", { count: 100_000, ms: 0, bytes: 2_000 }));
  await stream.until(/"progress":1,/);
  stream.socket.pause();
  await untilStopped(url, stopped);
  stream.socket.resume();
  await stream.closed;
  assert.doesNotMatch(stream.text(), /dripped/);
  await berth.close();
});

describe("the end of the service", () => {
  it("ends streams with their results", async () => {
    const berth = await startTestBerth({ files: [FILE], env: { BERTH_SHUTDOWN_MS: "60000" } });
    const stream = await open(berth.url, streamingCall("drip", { count: 5, ms: 60 }));
    await stream.until(/"progress":1/);
    await berth.close();
    assert.match(await stream.ended(), /dripped 5[\s\S]*\r\n0\r\n\r\n$/);
  });

  it("ends what takes longer than shutdownMs with an error", async () => {
    const berth = await startTestBerth({ files: [FILE], env: { BERTH_SHUTDOWN_MS: "500" } });
    const stream = await open(berth.url, streamingCall("drip", { count: 10_000, ms: 60 }));
    await stream.until(/"progress":1/);
    const start = performance.now();
    await berth.close();
    const took = performance.now() - start;
    // Requests get 70 % of the time; the tool would have taken ten minutes.
    assert.ok(took > 300 && took < 60_000, `it took ${took} ms`);
    const [last] = eventsOf(await stream.ended()).slice(-1);
    assert.equal(last!["id"], 1);
    assert.equal((last!["result"] as { isError: boolean }).isError, true);
  });

  it("does not wait for connections on which nothing is under way", async () => {
    const env = { BERTH_SHUTDOWN_MS: "120000", BERTH_IDLE_CONNECTION_MS: "120000" };
    const berth = await startTestBerth({ files: [FILE], env });
    const connection = await open(berth.url, streamingCall("drip", { count: 1, ms: 0 }));
    await connection.until(/dripped 1[\s\S]*\r\n0\r\n\r\n$/);
    const silent = await connectRaw(berth.url);
    const start = performance.now();
    await berth.close();
    assert.ok(performance.now() - start < 60_000);
    await Promise.all([connection.ended(), silent.ended()]);
  });
});
