import assert from "node:assert/strict";
import { before, beforeEach, describe, it, type TestContext } from "node:test";
import { clock } from "../../../src/lib/clock.ts";
import { defaultLimits } from "../../../src/limits/limits.ts";
import { post, request, withStatus } from "../../support/berth.ts";
import { LegacyClient, read } from "../../support/legacy-client.ts";
import { lowerInSuite } from "../../support/lower-in-suite.ts";
import { lower } from "../../support/lowered-limits.ts";
import { rigFor, startRig, type Offer, type Rig } from "../../support/mcp-host.ts";
import { rows } from "../../support/rows.ts";
import { inSuite } from "../../support/suite.ts";
import { inOneOf, until } from "../../support/until.ts";

const KEY = new Uint8Array(32).fill(7);

/** A tool whose progress and end the test controls. */
class Work {
  aborted = false;
  runs = 0;
  step!: (event: string) => void;
  finish!: (text: string) => void;
  readonly tool = (_args: object, options: { onProgress?: (event: string) => unknown; signal?: unknown }) =>
    new Promise<string>((resolve) => {
      this.runs += 1;
      this.step = (event) => void options.onProgress?.(event);
      this.finish = resolve;
      const signal = options.signal as AbortSignal | undefined;
      signal?.addEventListener("abort", () => {
        this.aborted = true;
        resolve("stopped");
      });
    });
}

/** The text of a step or of the result. */
// oxlint-disable-next-line typescript/no-explicit-any -- a message has any shape
const textOf = ({ params, result }: any): string => params?.message ?? result.content[0].text;

/** A session with a rig of its own, which is closed after the test. */
async function rigOf(t: TestContext, offer: Offer = {}, version?: string): Promise<{ rig: Rig; client: LegacyClient }> {
  const rig = await rigFor(t);
  rig.host.offer("one", offer);
  return { rig, client: await LegacyClient.start(rig.url("one"), version) };
}

describe("streams of legacy sessions", () => {
  lowerInSuite({ silentCallMs: 20, streamRetryMs: 25, streamEvents: 50 });
  const rig = inSuite(() => startRig({ sealKeys: [KEY] }));
  let url: string;
  let work: Work;
  before(() => void (url = rig.url("one")));
  beforeEach(() => {
    work = new Work();
    rig.host.offer("one", {
      tools: { work: work.tool as never, hello: () => "hello" },
      resources: { "test://a": "a" },
    });
  });

  it("a call that has nothing to say before its result is answered with JSON", async () => {
    const client = await LegacyClient.start(url);
    const reader = await client.call("hello");
    assert.equal(reader.headers.get("content-type"), "application/json");
  });

  it("a stream of 2025-11-25 begins with an id to resume from and the wait before doing so (S7)", async () => {
    const client = await LegacyClient.start(url);
    const reader = await client.call("work");
    const first = await reader.next();
    assert.equal(first?.data, "");
    assert.ok(first?.id);
    assert.equal(first?.retry, "25");
    work.finish("done");
    assert.equal((await reader.nextMessage()).result.content[0].text, "done");
    assert.equal(await reader.next(), undefined);
  });

  it("a stream of an earlier revision begins with a message, since its clients know no empty events", async () => {
    for (const version of ["2025-06-18", "2025-03-26"]) {
      const client = await LegacyClient.start(url, version);
      work.runs = 0;
      const waiting = client.call("work");
      await until(() => work.runs > 0);
      work.step("one");
      const reader = await waiting;
      const first = await reader.next();
      assert.equal(first?.message.params.message, "one");
      assert.ok(first?.id);
      work.finish("done");
      assert.equal((await reader.nextMessage()).result.content[0].text, "done");
    }
  });

  it("a client that lost the connection of a call gets what it missed, and the call has gone on (S7)", async () => {
    for (const version of ["2025-11-25", "2025-06-18"]) {
      const client = await LegacyClient.start(url, version);
      work.runs = 0;
      const waiting = client.call("work");
      await until(() => work.runs > 0);
      work.step("one");
      const broken = await waiting;
      let event = await broken.next();
      while (event?.data === "") event = await broken.next();
      broken.close();
      work.step("two");
      const again = await client.listen(event!.id);
      assert.equal((await again.nextMessage()).params.message, "two");
      work.step("three");
      assert.equal((await again.nextMessage()).params.message, "three");
      again.close();
      work.finish("done");
      const last = await client.listen(event!.id);
      const texts = [await last.nextMessage(), await last.nextMessage(), await last.nextMessage()];
      assert.deepEqual(texts.map(textOf), ["two", "three", "done"]);
      assert.equal(await last.next(), undefined);
      assert.equal(work.aborted, false);
      assert.equal(work.runs, 1);
    }
  });

  it("a stream that was read to its end has nothing to come back for", async () => {
    const client = await LegacyClient.start(url);
    const reader = await client.call("work");
    work.finish("done");
    const ids: (string | undefined)[] = [];
    for (let event = await reader.next(); event; event = await reader.next()) ids.push(event.id);
    assert.equal((await client.listen(ids.at(-1))).status, 204);
    assert.equal((await (await client.listen(ids[0])).nextMessage()).result.content[0].text, "done");
  });

  it("a session gets back no stream of another", async () => {
    const [client, other] = [await LegacyClient.start(url), await LegacyClient.start(url)];
    const reader = await client.call("work");
    const first = await reader.next();
    const stolen = await other.listen(first!.id);
    assert.match((await stolen.nextMessage()).error.message, /lost/);
    work.finish("done");
    assert.equal((await reader.nextMessage()).result.content[0].text, "done");
  });

  it("what no stream gave as an id is refused", async () => {
    const client = await LegacyClient.start(url);
    for (const id of ["nonsense", "post.x.1", "listen.aaaaaaaaaaaa.-1", "0"]) {
      assert.equal((await client.listen(id)).status, 400);
    }
  });

  it("a client that comes back to a stream of a process that is gone is told so, and does not wait for ever", async (t) => {
    const client = await LegacyClient.start(url);
    const call = await (await client.call("work", {}, "call-1")).next();
    const listen = await (await client.listen()).next();
    const next = await startRig({ sealKeys: [KEY] });
    t.after(async () => {
      await next.close();
      work.finish("done");
    });
    next.host.offer("one", {});
    const back = client.at(next.url("one"));
    const reader = await back.listen(call!.id);
    const lost = await reader.nextMessage();
    assert.equal(lost.id, "call-1");
    assert.match(lost.error.message, /send the request again/);
    assert.equal(await reader.next(), undefined);

    const listening = await back.listen(listen!.id);
    const told = [await listening.nextMessage(), await listening.nextMessage(), await listening.nextMessage()];
    assert.deepEqual(
      rows(told, "method"),
      ["tools", "resources", "prompts"].map((list) => `notifications/${list}/list_changed`),
    );
    listening.close();
  });

  it("a call survives that the server ends its connection, and the client is told when to come again (S7)", async (t) => {
    const polling = await rigFor(t, { sealKeys: [KEY], limits: { ...defaultLimits, streamConnectionMs: 50 } });
    polling.host.offer("one", { tools: { work: work.tool as never } });
    const client = await LegacyClient.start(polling.url("one"));
    const first = await client.call("work");
    const priming = await first.next();
    assert.equal(priming?.retry, "25");
    assert.equal(await first.next(), undefined);
    work.finish("done");
    const second = await client.listen(priming.id);
    assert.equal((await second.nextMessage()).result.content[0].text, "done");
    assert.equal(work.aborted, false);
  });

  it("a function lets go of a connection that its client can come back to, and of no other", async () => {
    let goOn!: () => void;
    rig.host.offer("one", {
      tools: {
        quiet: async (_args, { onCloseStream }) => {
          const isTold = new Promise<void>((resolve) => (goOn = resolve));
          onCloseStream?.();
          await isTold;
          return "done";
        },
      },
    });
    const client = await LegacyClient.start(url);
    const reader = await client.call("quiet");
    const priming = await reader.next();
    assert.equal(await reader.next(), undefined);
    const again = await client.listen(priming?.id);
    goOn();
    assert.equal((await again.nextMessage()).result.content[0].text, "done");

    const earlier = await LegacyClient.start(url, "2025-06-18");
    const waiting = earlier.call("quiet");
    const isRunning = goOn;
    await until(() => goOn !== isRunning);
    goOn();
    assert.equal((await (await waiting).nextMessage()).result.content[0].text, "done");
  });

  it("several calls stream at once, each on its own", async () => {
    const works = [new Work(), new Work(), new Work()];
    rig.host.offer("one", { tools: Object.fromEntries(works.map((each, at) => [`work${at}`, each.tool as never])) });
    const client = await LegacyClient.start(url);
    const readers = await Promise.all(works.map((_, at) => client.call(`work${at}`, {}, at)));
    for (const [at, each] of works.entries()) each.step(`of ${at}`);
    for (const [at, each] of works.entries()) each.finish(`end ${at}`);
    for (const [at, reader] of readers.entries()) {
      assert.equal((await reader.nextMessage()).params.message, `of ${at}`);
      const { id, result } = await reader.nextMessage();
      assert.deepEqual([id, result.content[0].text], [at, `end ${at}`]);
    }
  });

  it("more than streamsPerSession streams are refused, and calls then answer without one", async (t) => {
    t.after(lower({ streamsPerSession: 1 }));
    const { client } = await rigOf(t, { tools: { work: work.tool as never } });
    const open = await client.listen();
    assert.equal((await client.listen()).status, 503);
    const waiting = client.call("work");
    await until(() => work.runs > 0);
    work.step("unheard");
    work.finish("done");
    const reader = await waiting;
    assert.equal(reader.headers.get("content-type"), "application/json");
    assert.equal((await reader.nextMessage()).result.content[0].text, "done");
    open.close();
  });

  it("a client that comes back without saying where it was does not run out of streams", async (t) => {
    t.after(lower({ streamsPerSession: 1 }));
    const { client } = await rigOf(t, {}, "2025-06-18");
    for (let times = 0; times < 3; times++) {
      // The last connection ends a moment after the client has closed it.
      const stream = await until(async () => {
        const listening = await client.listen();
        return listening.status === 503 ? undefined : listening;
      });
      assert.equal(stream.status, 200);
      stream.close();
    }
  });

  it("of what a client missed the newest streamEvents are kept, and the answer in any case", async () => {
    const client = await LegacyClient.start(url);
    const reader = await client.call("work");
    const first = await reader.next();
    reader.close();
    for (let at = 0; at < 200; at++) work.step(String(at));
    work.finish("done");
    const again = await client.listen(first!.id);
    const heard: string[] = [];
    for (let message; (message = await again.nextMessage());) heard.push(textOf(message));
    assert.equal(heard.length, 50);
    assert.deepEqual(heard.slice(-2), ["199", "done"]);
  });

  it("of what a client missed at most streamBytes are kept, and the answer in any case", async (t) => {
    t.after(lower({ streamBytes: 2_000 }));
    const { client } = await rigOf(t, { tools: { work: work.tool as never } });
    const reader = await client.call("work");
    const first = await reader.next();
    reader.close();
    for (let at = 0; at < 40; at++) work.step(`${at} `.padEnd(300, "x"));
    work.finish("done".padEnd(3_000, "!"));
    const again = await client.listen(first!.id);
    const heard: string[] = [];
    for (let event = await again.next(); event; event = await again.next()) if (event.data) heard.push(event.data);
    assert.equal(heard.length, 1, "the answer alone is larger than the limit");
    assert.match(heard[0]!, /done!/);
  });

  it("a call that says nothing gets a stream after silentCallMs, and none before", async (t) => {
    t.after(lower({ silentCallMs: 60_000 }));
    const client = await LegacyClient.start(url);
    for (const passedMs of [60_000, 0]) {
      const type = passedMs === 0 ? "application/json" : "text/event-stream";
      const runs = work.runs;
      const calling = client.call("work");
      await until(() => work.runs > runs);
      clock.leap(passedMs);
      work.finish("done");
      assert.equal((await calling).headers.get("content-type"), type);
    }
  });

  it("notifications/cancelled reaches the call, which gets no response (S5)", async () => {
    const client = await LegacyClient.start(url, "2025-06-18");
    const waiting = client.call("work", {}, "c");
    await until(() => work.runs > 0);
    assert.equal(await client.notify("notifications/cancelled", { requestId: "c", reason: "enough" }), 202);
    const reader = await waiting;
    assert.equal(await reader.nextMessage(), undefined);
    assert.equal(work.aborted, true);
  });

  it("a cancellation of another session, or of no call, changes nothing", async () => {
    const [client, other] = [await LegacyClient.start(url), await LegacyClient.start(url)];
    const waiting = client.call("work", {}, "c");
    await until(() => work.runs > 0);
    await other.notify("notifications/cancelled", { requestId: "c" });
    await client.notify("notifications/cancelled", { requestId: 99 });
    await client.notify("notifications/cancelled", {});
    work.finish("done");
    assert.equal((await (await waiting).nextMessage()).result.content[0].text, "done");
    assert.equal(work.aborted, false);
  });

  it("the session's stream tells of changed lists and of resources that were subscribed to (S11)", async () => {
    for (const version of ["2025-11-25", "2025-06-18", "2025-03-26"]) {
      const client = await LegacyClient.start(url, version);
      const stream = await withStatus(200, client.listen());
      assert.deepEqual(await client.result("resources/subscribe", { uri: "test://a" }), {});
      rig.host.update("one", "test://b");
      rig.host.update("one", "test://a");
      const updated = await stream.nextMessage();
      assert.deepEqual([updated.method, updated.params], ["notifications/resources/updated", { uri: "test://a" }]);
      rig.host.offer("one", { tools: { hello: () => "hello", [version]: () => "" }, resources: { "test://a": "a" } });
      assert.equal((await stream.nextMessage()).method, "notifications/tools/list_changed");
      assert.deepEqual(await client.result("resources/unsubscribe", { uri: "test://a" }), {});
      rig.host.update("one", "test://a");
      rig.host.offer("one", { prompts: { [version]: () => "" }, resources: { "test://a": "a" } });
      const changed = [await stream.nextMessage(), await stream.nextMessage()].map(({ method }) => method);
      assert.deepEqual(changed, ["notifications/tools/list_changed", "notifications/prompts/list_changed"]);
      stream.close();
      rig.host.offer("one", { resources: { "test://a": "a" } });
    }
  });

  it("what was told while the session's stream was broken comes when it is taken up again (S7)", async () => {
    const client = await LegacyClient.start(url);
    const stream = await client.listen();
    const first = await stream.next();
    stream.close();
    rig.host.offer("one", { tools: { other: () => "" }, resources: { "test://a": "a" } });
    const again = await client.listen(first!.id);
    assert.equal((await again.nextMessage()).method, "notifications/tools/list_changed");
    again.close();
  });

  it("of several streams to listen on, one alone is told", async () => {
    const client = await LegacyClient.start(url);
    const streams = [await client.listen(), await client.listen()];
    for (const stream of streams) await stream.next();
    rig.host.offer("one", { resources: { "test://a": "a" } });
    assert.equal((await streams[1]!.nextMessage()).method, "notifications/tools/list_changed");
    streams[1]!.close();
    let heard = false;
    const hear = (): void => void (heard = true);
    void streams[0]!.nextMessage().then(hear, () => {});
    await client.result("ping");
    assert.equal(heard, false);
    streams[0]!.close();
  });

  it("a subscription to what is no resource is -32002, and one beyond subscriptionsPerSession -32602", async (t) => {
    t.after(lower({ subscriptionsPerSession: 1 }));
    const { client } = await rigOf(t, { resources: { "test://a": "a", "test://b": "b" } }, "2025-06-18");
    const missing = await client.result("resources/subscribe", { uri: "test://none" });
    assert.deepEqual([missing.error.code, missing.error.data], [-32002, { uri: "test://none" }]);
    assert.deepEqual(await client.result("resources/subscribe", { uri: "test://a" }), {});
    assert.deepEqual(await client.result("resources/subscribe", { uri: "test://a" }), {});
    const full = await client.result("resources/subscribe", { uri: "test://b" });
    assert.equal(full.error.code, -32602);
    assert.equal((await client.result("resources/read", { uri: "test://none" })).error.code, -32002);
  });

  it("logging/setLevel rejects an unknown level", async () => {
    const client = await LegacyClient.start(url, "2025-06-18");
    assert.equal((await client.result("logging/setLevel", { level: "loud" })).error.code, -32602);
  });

  it("a batch whose calls have something to say before their results is a stream of 2025-03-26 (T2.5)", async () => {
    const client = await LegacyClient.start(url, "2025-03-26");
    const call = request("tools/call", { name: "work", _meta: { progressToken: "p" } });
    const told = { jsonrpc: "2.0", method: "notifications/initialized" };
    const waiting = client.send([call, request("ping", undefined, 2), told]);
    await until(() => work.runs > 0);
    work.step("one");
    const reader = await waiting;
    assert.equal((await reader.nextMessage()).params.message, "one");
    work.finish("done");
    const answers = [await reader.nextMessage(), await reader.nextMessage()].sort((a, b) => a.id - b.id);
    assert.equal(answers[0].result.content[0].text, "done");
    assert.deepEqual(answers[1].result, {});
    assert.equal(await reader.next(), undefined);
  });

  it("initialize in a batch is refused", async () => {
    const client = new LegacyClient(url, "2025-03-26");
    const initialize = { jsonrpc: "2.0", id: 1, method: "initialize", params: { protocolVersion: "2025-03-26" } };
    assert.equal((await client.send([initialize])).status, 400);
  });

  it("the answers to a batch are together no longer than batchBytes, but for the first", async (t) => {
    t.after(lower({ batchBytes: 100 }));
    const small = await rigFor(t);
    small.host.offer("one", {});
    const batch = Array.from({ length: 10 }, (_, index) => ({ jsonrpc: "2.0", id: index + 1, method: "tools/list" }));
    const { body: answers } = await post(small.url("one"), batch, { "MCP-Protocol-Version": "2025-03-26" });
    assert.deepEqual(rows(answers, "id"), rows(batch, "id"));
    assert.deepEqual(
      rows(
        answers.filter(({ result }: { result?: object }) => result),
        "id",
      ),
      ["1", "2"],
    );
    assert.match(answers[9].error.message, /100 bytes; this request was not executed/);
  });

  it("a batch carries out nothing more once an answer to it is left out", async (t) => {
    t.after(lower({ batchBytes: 2_500 }));
    const small = await rigFor(t);
    let runs = 0;
    small.host.offer("one", { resources: { "test://long": () => ((runs += 1), "x".repeat(1_000)) } });
    const client = new LegacyClient(small.url("one"), "2025-03-26");
    const batch = Array.from({ length: 50 }, (_, id) => request("resources/read", { uri: "test://long" }, id));
    const reply = await client.send(batch, { Accept: "application/json" });
    const answers = (await reply.nextMessage()) as { id: number; error?: { message: string } }[];
    assert.deepEqual(rows(answers, "id"), rows(batch, "id"));
    assert.equal(answers.filter(({ error }) => error === undefined).length, 2);
    assert.ok(runs <= 5, `${runs}`);
    assert.match(answers[49]!.error!.message, /not executed/);
  });

  it("a client's GET that takes no events is no stream (T9.2)", async () => {
    const client = await LegacyClient.start(url);
    for (const Accept of ["application/json", "*/*"]) {
      assert.equal((await read(url, { headers: { ...client.headers, Accept } })).status, 405);
    }
  });

  it("a client that names a stream before JSON gets one from the beginning", async () => {
    const ping = { jsonrpc: "2.0", id: 1, method: "ping" };
    const headers = { Accept: "text/event-stream, application/json" };
    const client = await LegacyClient.start(url);
    const reader = await client.send(ping, headers);
    assert.ok((await reader.next())?.id);
    assert.deepEqual((await reader.nextMessage()).result, {});
    const earlier = await LegacyClient.start(url, "2025-06-18");
    assert.equal((await earlier.send(ping, headers)).headers.get("content-type"), "application/json");
  });

  it("the server pings a client that listens, and ends the connection of one that does not answer", async (t) => {
    t.after(lower({ pingMs: 200 }));
    const pinging = await rigFor(t);
    pinging.host.offer("one", {});
    // Each answer has to come before the next ping.
    await inOneOf(10, async () => {
      const client = await LegacyClient.start(pinging.url("one"));
      const stream = await client.listen();
      for (let times = 0; times < 3; times++) {
        const ping = await stream.nextMessage();
        assert.equal(ping?.method, "ping");
        assert.equal((await client.answer(ping.id, {})).status, 202);
      }
      assert.equal((await stream.nextMessage())?.method, "ping");
      while (await stream.nextMessage());
      assert.equal((await client.request("ping")).status, 200);
    });
  });

  it("what nobody came back for is forgotten after replayMs, or when all of it is more than replayBytes", async () => {
    for (const [bounds, replayBytes] of [
      [{ replayMs: 30 }, defaultLimits.replayBytes],
      [{ pingMs: 30 }, 1],
    ] as const) {
      const restore = lower(bounds);
      const forgetful = await startRig({ limits: { ...defaultLimits, replayBytes } });
      try {
        forgetful.host.offer("one", { tools: { work: work.tool as never } });
        const client = await LegacyClient.start(forgetful.url("one"));
        const reader = await client.call("work");
        const first = await reader.next();
        work.finish("done");
        while (await reader.next());
        const lost = await until(async () => {
          await client.result("ping");
          return (await (await client.listen(first!.id)).nextMessage()).error;
        });
        assert.match(lost.message, /lost/);
      } finally {
        restore();
        await forgetful.close();
      }
    }
  });

  it("a watch ends when nobody has come back to listen for replayMs", async (t) => {
    t.after(lower({ replayMs: 30 }));
    const { client, rig: forgetful } = await rigOf(t);
    const stream = await client.listen();
    assert.equal(forgetful.host.watchers.get("one")?.size, 1);
    stream.close();
    await until(() => forgetful.host.watchers.get("one")?.size === 0);
  });

  it("the end of the service ends the streams of sessions", async (t) => {
    const { client, rig: ending } = await rigOf(t);
    const stream = await client.listen();
    await stream.next();
    await ending.close();
    assert.equal(await stream.next(), undefined);
  });
});
