import assert from "node:assert/strict";
import { afterEach, beforeEach, describe, it } from "node:test";
import { setImmediate } from "node:timers/promises";
import { clock } from "../../../src/lib/clock.ts";
import type { Records } from "../../../src/lib/records.ts";
import { LegacyClient, type EventReader } from "../../support/legacy-client.ts";
import { lowerInSuite } from "../../support/lower-in-suite.ts";
import { lower } from "../../support/lowered-limits.ts";
import { memoryRecords, startRig, type Rig } from "../../support/mcp-host.ts";
import { until } from "../../support/until.ts";

const KEY = new Uint8Array(32).fill(7);

/** A call whose events and end the test controls. */
interface Work {
  step(event: string): void;
  finish(text: string): void;
}

describe("streams of sessions in two processes on one store", () => {
  lowerInSuite({ silentCallMs: 20, streamRetryMs: 25, streamLeaseMs: 10_000 });
  let records: Records;
  const rigs: Rig[] = [];
  let work: Work;
  let written: { kind: string; value: string }[] = [];
  beforeEach(() => {
    const kept = memoryRecords();
    written = [];
    records = {
      ...kept,
      putRecords(tenant, kind, puts) {
        for (const { key, value } of puts) {
          if (!key.startsWith("owner/")) written.push({ kind, value });
        }
        return kept.putRecords(tenant, kind, puts);
      },
    };
  });
  afterEach(async () => {
    for (const rig of rigs.splice(0)) await rig.close();
  });

  /** Resolves when all that was to be written was. */
  async function passed(): Promise<void> {
    for (let turn = 0; turn < 10; turn++) {
      clock.leap(1_000);
      await setImmediate();
    }
  }

  /** Streams are written with a delay: resolves when this text stands in a written one. */
  const isWritten = (text: string): Promise<unknown> =>
    until(() => written.some(({ value }) => value.includes(text)), `"${text}" was written`);

  async function start(): Promise<string> {
    const rig = await startRig({ sealKeys: [KEY], records });
    rigs.push(rig);
    const tool = (_args: object, options: { onProgress?: (event: string) => unknown }) =>
      new Promise<string>((finish) => {
        work = { step: (event) => void options.onProgress?.(event), finish };
      });
    rig.host.offer("one", { tools: { work: tool as never, hello: () => "hello" }, resources: { "test://a": "a" } });
    return rig.url("one");
  }

  /** The client leaves the call's stream after its first event. */
  async function leave(client: LegacyClient): Promise<string> {
    const reader = await client.call("work");
    work.step("first");
    let id: string | undefined;
    for (let event = await reader.next(); ; event = await reader.next()) {
      id = event?.id;
      if (event?.message) break;
    }
    reader.close();
    return id!;
  }

  const textOf = async (reader: EventReader): Promise<string> => {
    const { result, params } = await reader.nextMessage();
    return (result?.content[0].text ?? params.message) as string;
  };

  it("a client may come back to another process, and hears there what the first one says (S7)", async () => {
    const [first, second] = [await start(), await start()];
    const client = await LegacyClient.start(first);
    const last = await leave(client);
    const running = work;
    running.step("second");
    const reader = await client.at(second).listen(last);
    assert.equal(await textOf(reader), "second");
    running.step("third");
    assert.equal(await textOf(reader), "third");
    running.finish("done");
    assert.equal(await textOf(reader), "done");
    assert.equal(await reader.nextMessage(), undefined, "the stream ends with its answer");
  });

  it("a process that says nothing any more is not waited for (S7)", async (t) => {
    t.after(lower({ streamLeaseMs: 200 }));
    const [first, second] = [await start(), await start()];
    const client = await LegacyClient.start(first);
    const last = await leave(client);
    await isWritten("first");
    // As if it had been killed: none of its writes arrives any more.
    const dead = records.putRecords.bind(records);
    records.putRecords = async () => [];
    const reader = await client.at(second).listen(last);
    assert.match((await reader.nextMessage()).error.message, /answer was lost/);
    records.putRecords = dead;
    work.finish("too late");
  });

  it("a call is not taken for lost where the clock leaps ahead (S7)", async (context) => {
    const [first, second] = [await start(), await start()];
    const client = await LegacyClient.start(first);
    const last = await leave(client);
    await isWritten("first");
    const { now } = Date;
    context.mock.method(Date, "now", () => now() + 20_000);
    const reader = await client.at(second).listen(last);
    work.finish("done");
    assert.equal(await textOf(reader), "done");
  });

  it("a process that has ended as it should is not waited for (S7)", async (t) => {
    t.after(lower({ streamLeaseMs: 3_600_000 }));
    const [first, second] = [await start(), await start()];
    const client = await LegacyClient.start(first);
    const last = await leave(client);
    await isWritten("first");
    await rigs[0]!.close();
    const reader = await client.at(second).listen(last);
    assert.match((await reader.nextMessage()).error.message, /answer was lost/);
  });

  it("a stream to listen to moves to where its client is, and the first process writes it no more (S7)", async () => {
    const [first, second] = [await start(), await start()];
    const client = await LegacyClient.start(first);
    await client.result("resources/subscribe", { uri: "test://a" });
    const listening = await client.listen();
    rigs[0]!.host.update("one", "test://a");
    const { id } = (await listening.next().then((event) => (event?.message ? event : listening.next())))!;
    listening.close();
    await isWritten("resources/updated");
    const reader = await client.at(second).listen(id);
    for (let count = 0; count < 4; count++) await reader.nextMessage();
    rigs[1]!.host.update("one", "test://a");
    assert.equal((await reader.nextMessage()).method, "notifications/resources/updated");
    // Events that the first one still keeps must not go before it.
    rigs[0]!.host.update("one", "test://a");
    await passed();
    reader.close();
    await isWritten("notifications/tools/list_changed");
    const third = await start();
    const back = await client.at(third).listen(id);
    assert.equal((await back.nextMessage()).method, "notifications/tools/list_changed", "from the second process");
    back.close();
  });

  it("calls that no client could come back to write nothing (S7)", async (t) => {
    t.after(lower({ silentCallMs: 60_000 }));
    const url = await start();
    const client = await LegacyClient.start(url);
    for (let count = 0; count < 20; count++) await client.result("tools/call", { name: "hello", arguments: {} });
    await passed();
    assert.deepEqual(written, []);
  });

  it("many events are written together, and no more of them than are kept (S7)", async (t) => {
    t.after(lower({ streamEvents: 10 }));
    const url = await start();
    const client = await LegacyClient.start(url);
    const reader = await client.call("work");
    for (let count = 0; count < 1000; count++) work.step(`event ${count}`.padEnd(100, "x"));
    await passed();
    work.finish("done");
    while ((await reader.nextMessage())?.result === undefined);
    await until(() => written.length > 1);
    await passed();
    assert.ok(written.length <= 6, `${written.length} writes`);
    assert.ok(written.every(({ kind, value }) => kind === "stream" && value.length < 5_000));
  });

  it("a store that fails costs no call anything (S7)", async () => {
    const url = await start();
    records.putRecords = () => Promise.reject(new Error("the disk is full"));
    const client = await LegacyClient.start(url);
    const reader = await client.call("work");
    work.step("first");
    assert.equal(await textOf(reader), "first");
    await passed();
    work.finish("done");
    assert.equal(await textOf(reader), "done");
  });
});
