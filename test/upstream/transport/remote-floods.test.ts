import assert from "node:assert/strict";
import type { ServerResponse } from "node:http";
import { test, type TestContext } from "node:test";
import type { StreamEvent } from "../../../src/upstream/transport/events.ts";
import { HttpLink, type HttpAnswer } from "../../../src/upstream/transport/http-link.ts";
import { Inflow } from "../../../src/upstream/transport/inflow.ts";
import { host, hostedServer } from "../../support/hosted-upstreams.ts";
import { senderBy } from "../../support/http-sender.ts";
import { legacyServer } from "../../support/legacy-server.ts";
import { lower } from "../../support/lowered-limits.ts";
import { serve } from "../../support/suite.ts";
import { until } from "../../support/until.ts";
import { connect, connectFor } from "../../support/upstreams.ts";

/** A server that answers calls with `called`, and takes no answers. */
async function serverOf(t: TestContext, called: (response: ServerResponse, id: unknown) => void) {
  const { uri, exchanges } = await legacyServer(t, ({ message: { id, method }, response }) => {
    if (method === "tools/call") called(response, id);
    return method === "tools/call" || (method === undefined && id !== undefined);
  });
  const answers = () => exchanges.filter(({ message }) => message.id !== undefined && message.method === undefined);
  return { uri, answers };
}

/** Answers a call with the same event without end. */
function flood(event: string): (response: ServerResponse) => void {
  const block = event.repeat(Math.ceil(60_000 / event.length));
  return (response) => {
    response.writeHead(200, { "content-type": "text/event-stream" });
    const more = (): void => void (!response.destroyed && response.write(block));
    response.on("drain", more);
    more();
  };
}

const event = (message: object): string => `data: ${JSON.stringify({ jsonrpc: "2.0", ...message })}\n\n`;
const note = event({ method: "notifications/message", params: { level: "info", data: "again" } });

/** The highest increase of `counted` within one turn of the event loop, while `use` runs. */
async function mostInOneTurn(counted: () => number, use: () => Promise<unknown>): Promise<number> {
  let [most, before, isOver] = [0, counted(), false];
  const turn = (): void => {
    const now = counted();
    most = Math.max(most, now - before);
    before = now;
    if (!isOver) setImmediate(turn);
  };
  setImmediate(turn);
  await use().finally(() => (isOver = true));
  return most;
}

/** An answer to a request over HTTP. */
function answered(response: Response, inflow = new Inflow(1e6)): Promise<HttpAnswer> {
  const link = new HttpLink({ messageBytes: 2 ** 24, inflow, send: senderBy(async () => response) });
  return link.open(new URL("http://127.0.0.1/"), { method: "POST" });
}

const typed = (type: string, body: string, status = 200): Response =>
  new Response(body, { status, headers: { "content-type": type } });

async function eventsIn(answer: HttpAnswer): Promise<StreamEvent[]> {
  const events: StreamEvent[] = [];
  for await (const each of answer.events(() => {})) events.push(each);
  return events;
}

/** Reads an endless body of repeated `piece`s; returns how many were read so far. */
function readWithoutEnd(piece: string, type: string, inflow: Inflow): { taken: number; stop: () => Promise<void> } {
  const reading = { taken: 0, stop: async () => {} };
  const bytes = Buffer.from(piece);
  const body = new ReadableStream<Uint8Array>(
    {
      pull(controller) {
        reading.taken += 1;
        // Reading on in one turn would never reach another one.
        if (reading.taken > 20_000) return controller.close();
        controller.enqueue(new Uint8Array(bytes));
      },
    },
    { highWaterMark: 0 },
  );
  const opened = answered(new Response(body, { headers: { "content-type": type } }), inflow);
  const read = async (answer: HttpAnswer): Promise<void> => {
    if (answer.isStream) for await (const _event of answer.events(() => {}));
    else await answer.messages(() => {});
  };
  void opened.then(read);
  reading.stop = async () => (await opened).leave();
  return reading;
}

const EVENTS = 8;
const floods = {
  "messages that are no answers": [note.repeat(EVENTS), "text/event-stream"],
  comments: [":\n\n".repeat(EVENTS), "text/event-stream"],
  "data that is no message": ["data: x\n\n".repeat(EVENTS), "text/event-stream"],
  "a message in pieces of one byte": ["x", "text/event-stream"],
  "a body in pieces of one byte": ["x", "application/json"],
} as const;

for (const [what, [piece, type]] of Object.entries(floods)) {
  test(`of a flood of ${what} little is read in one turn`, async () => {
    const reading = readWithoutEnd(piece, type, new Inflow(1_000_000));
    const most = await mostInOneTurn(
      () => reading.taken,
      () => until(() => reading.taken > 500, "it is read"),
    );
    await reading.stop();
    assert.ok(most < 200, `${most} pieces in one turn`);
  });
}

test("comments of a server at an address count as events of upstreamNotificationsPerSecond do", async () => {
  const startedAt = performance.now();
  const reading = readWithoutEnd(":\n\n", "text/event-stream", new Inflow(10));
  await until(() => reading.taken > 40);
  const { taken } = reading;
  const seconds = (performance.now() - startedAt) / 1000;
  await reading.stop();
  assert.ok(taken <= 13 * (seconds + 1), `${taken} in ${seconds} s`);
});

test("a server at an address that floods with notifications has few of them heard in one turn", async (t) => {
  let heard = 0;
  const { uri } = await serverOf(t, flood(note));
  const upstream = await connectFor(t, uri, { onNotification: () => void heard++ });
  void upstream.callTool("boom", {}).catch(() => {});
  const most = await mostInOneTurn(
    () => heard,
    () => until(() => heard > 2_000),
  );
  assert.ok(most <= 64, `${most} in one turn`);
});

test("a server at an address that pings without end is left at the limit upstreamQuestions, and says so", async (t) => {
  const { uri, answers } = await serverOf(t, flood(event({ id: 7, method: "ping" })));
  t.after(lower({ upstreamQuestions: 10 }));
  const upstream = await connect(uri);
  await assert.rejects(upstream.callTool("boom", {}), {
    code: "upstream_ended",
    message: /it had more than 10 requests of its own in progress/,
  });
  const { reason, expected } = await upstream.closed;
  assert.deepEqual([/more than 10 requests/.test(reason), expected], [true, false]);
  assert.ok(answers().length <= 10, `${answers().length} answers`);
});

test("a question that is cancelled again and again is counted until its answer was taken", async (t) => {
  const pair =
    event({ id: 7, method: "ping" }) + event({ method: "notifications/cancelled", params: { requestId: 7 } });
  const { uri, answers } = await serverOf(t, flood(pair));
  t.after(lower({ upstreamQuestions: 10, upstreamNotificationsPerSecond: 1_000_000 }));
  const upstream = await connectFor(t, uri);
  void upstream.callTool("boom", {}).catch(() => {});
  await until(() => answers().length > 0, "one is answered");
  assert.ok(answers().length <= 10);
});

test("a hosted server at an address that sends interim answers without end is left", async (t) => {
  const url = await serve(t, (_request, response) => {
    response.socket!.write("HTTP/1.1 103 Early Hints\r\n\r\n".repeat(100));
  });
  const berth = await host(t, { server: { upstream: `mcp+${url}/mcp` } }, { BERTH_UPSTREAM_START_MS: "5000" });
  assert.match(await hostedServer(berth).call("any"), /it sent more than 16 interim answers/);
});

test("a server at an address that answers with a batch longer than upstreamBatchMessages is refused", async (t) => {
  const { uri } = await serverOf(t, (response, id) => {
    const notes = Array.from({ length: 50 }, () => ({ jsonrpc: "2.0", method: "notifications/message", params: {} }));
    response.writeHead(200, { "content-type": "application/json" });
    response.end(` ${JSON.stringify([...notes, { jsonrpc: "2.0", id, result: { content: [] } }])}`);
  });
  t.after(lower({ upstreamBatchMessages: 50 }));
  const upstream = await connectFor(t, uri);
  const message = /a batch of more than 50 messages/;
  await assert.rejects(upstream.callTool("boom", {}), { message });
});

test("keeps only the beginning of an HTTP error", async () => {
  for (const type of ["application/json", "text/event-stream", "text/plain"]) {
    const answer = await answered(typed(type, "data: x\n\n".repeat(20_000), 400));
    assert.equal((await answer.beginning()).length, 64 * 1024, type);
  }
});

test("bounds the delay before a stream is opened again, and the id of an event", async () => {
  const waits = ["retry: 1", "retry:99999999999", "retry: 5000", "retry: soon", "data: retry: 1"].join("\n\n");
  const ids = ["7", "x".repeat(2_000), "a\u0000b", "é☃"].map((id) => `id: ${id}\ndata: 1\n\n`).join("");
  const events = await eventsIn(await answered(typed("text/event-stream", `${waits}\n\n${ids}`)));
  const retries = events.flatMap(({ retryMs }) => retryMs ?? []);
  assert.deepEqual(retries, [1_000, 60_000, 5_000]);
  const eventIds = events.flatMap(({ id }) => id ?? []);
  assert.deepEqual(eventIds, ["7"]);
});
