import assert from "node:assert/strict";
import { PassThrough } from "node:stream";
import { test } from "node:test";
import { setImmediate as turn } from "node:timers/promises";
import { BerthError } from "../../../src/lib/errors.ts";
import { MessageBudgets, unfinishedUpstream, type MessageBudget } from "../../../src/lib/message-budget.ts";
import { defaultLimits } from "../../../src/limits/limits.ts";
import { readLongMessage, type LongReader } from "../../../src/upstream/messages/long-answers.ts";
import { refusedByServer } from "../../../src/upstream/messages/upstream-error.ts";
import { ChildOutput } from "../../../src/upstream/transport/child-output.ts";
import { HttpLink, type HttpAnswer } from "../../../src/upstream/transport/http-link.ts";
import { Inflow } from "../../../src/upstream/transport/inflow.ts";
import { senderBy } from "../../support/http-sender.ts";
import { lower } from "../../support/lowered-limits.ts";
import { until } from "../../support/until.ts";

const limits = { unfinishedUpstreamBytes: 4_000, unfinishedUpstreamBytesPerTenant: 2_000 };
const OF_TENANT = /in the middle of a message .* 2000 bytes of messages to its tenant/;
const OF_ALL = /in the middle of a message .* 4000 bytes of messages were incomplete/;

/** An answer that comes in pieces, and how much of it is read. */
async function answer(room: MessageBudget, type = "application/json") {
  let source!: ReadableStreamDefaultController<Uint8Array>;
  let isCancelled = false;
  const body = new ReadableStream<Uint8Array>({
    start: (controller) => void (source = controller),
    cancel: () => void (isCancelled = true),
  });
  const fetchIt = async () => new Response(body, { headers: { "content-type": type } });
  const link = new HttpLink({ messageBytes: 10_000, inflow: new Inflow(1e6), budget: room, send: senderBy(fetchIt) });
  const opened = await link.open(new URL("http://127.0.0.1/"), { method: "POST" });
  const read = (
    opened.isStream ? countEvents(opened) : opened.messages(() => {}).then(({ text }) => text.length)
  ).catch((error: Error) => error.message);
  return {
    read,
    get isCancelled() {
      return isCancelled;
    },
    async piece(bytes: number): Promise<void> {
      source.enqueue(new Uint8Array(bytes).fill(120));
      for (let turns = 0; turns < 5; turns++) await turn();
    },
    end: () => source.close(),
  };
}

async function countEvents(answer: HttpAnswer): Promise<number> {
  let events = 0;
  for await (const _event of answer.events(() => {})) events += 1;
  return events;
}

for (const type of ["application/json", "text/event-stream"]) {
  test(`of answers that are not whole (${type}) the one begun first ends where a tenant has no more room`, async () => {
    const room = new MessageBudgets(unfinishedUpstream, limits).of("one");
    const [first, second] = [await answer(room, type), await answer(room, type)];
    for (const each of [first, first, second, second]) await each.piece(500);
    await second.piece(500);
    assert.match(String(await first.read), OF_TENANT);
    assert.ok(first.isCancelled, "nothing more is read of it");
    for (let pieces = 0; pieces < 9; pieces++) {
      const third = await answer(room, type);
      await third.piece(10);
      await third.piece(100);
      third.end();
      await third.read;
    }
    second.end();
    assert.equal(await second.read, type === "application/json" ? 1_500 : 0);
  });
}

test("where all tenants have no more room, the one that has most loses what it began first", async () => {
  const unfinished = new MessageBudgets(unfinishedUpstream, limits);
  const [one, two, three] = ["one", "two", "three"].map((tenant) => unfinished.of(tenant));
  const [ofOne, small, large, ofThree] = [
    await answer(one!),
    await answer(two!),
    await answer(two!),
    await answer(three!),
  ];
  for (const bytes of [700, 700]) await ofOne.piece(bytes);
  for (const bytes of [100, 100]) await small.piece(bytes);
  for (const bytes of [800, 800]) await large.piece(bytes);
  for (const bytes of [450, 450]) await ofThree.piece(bytes);
  assert.match(String(await small.read), OF_ALL);
  for (const each of [ofOne, large, ofThree]) each.end();
  assert.deepEqual([await ofOne.read, await large.read, await ofThree.read], [1_400, 1_600, 900]);
});

test("a program that is in the midst of the line begun first is ended where its tenant has no more room", () => {
  const room = new MessageBudgets(unfinishedUpstream, limits).of("one");
  const programs = [0, 1].map(() => {
    const pipes = { stdout: new PassThrough(), stderr: new PassThrough() };
    const faults: string[] = [];
    const output = new ChildOutput(pipes, defaultLimits, [], undefined, room, (reason) => void faults.push(reason));
    return { pipes, faults, output };
  });
  for (const { pipes } of programs) pipes.stdout.emit("data", Buffer.alloc(900));
  programs[1]!.pipes.stdout.emit("data", Buffer.alloc(900));
  assert.match(programs[0]!.faults.join(), OF_TENANT);
  programs[1]!.pipes.stdout.emit("data", Buffer.alloc(200));
  assert.equal(programs[1]!.faults.length, 0);
  // An ended program holds nothing any more.
  programs[1]!.pipes.stdout.emit("close");
  assert.equal(heldOf(room), 0);
});

test("a program whose message waits where there is no room to read it is not ended for that", async (t) => {
  t.after(lower({ inlineBodyBytes: 10 }));
  const pipes = { stdout: new PassThrough(), stderr: new PassThrough() };
  const [faults, heard]: [string[], unknown[]] = [[], []];
  let refusals = 2;
  const message = async (bytes: Uint8Array) => {
    if (refusals-- > 0) throw new BerthError("too_many_requests", "full");
    return { text: `[${Buffer.from(bytes).toString()}]`, results: [] };
  };
  const long = { message } as unknown as LongReader;
  const output = new ChildOutput(pipes, defaultLimits, [], long, undefined, (reason) => void faults.push(reason));
  output.onMessage = (given) => heard.push(given) > 0;
  pipes.stdout.write('{"jsonrpc":"2.0","method":"notifications/message"}\n');
  await until(() => heard.length > 0);
  assert.deepEqual(faults, []);
});

test("an error with many values in its data is told without them", () => {
  const data = Object.fromEntries(Array.from({ length: 2_000 }, (_, index) => [`key${index}`, "value"]));
  const { data: told } = refusedByServer("calling f", { code: -32000, message: "no", data });
  assert.deepEqual(told, { rpc: -32000, message: "no" });
  const long = JSON.stringify({ jsonrpc: "2.0", id: 1, error: { code: -32000, message: "no", data } });
  const error = { code: -32000, message: "no" };
  assert.deepEqual(JSON.parse(readLongMessage(long, 40_000).text!), [{ jsonrpc: "2.0", id: 1, error }]);
});

test("an error is told with the beginning of its message, and without data that are long", () => {
  const given = { code: -32000, message: "x".repeat(690_000), data: { long: "x".repeat(20_000) } };
  const { message, data } = refusedByServer("calling f", given);
  assert.ok(message.length < 17_000, `${message.length}`);
  assert.deepEqual(data, { rpc: -32000, message: `${"x".repeat(16 * 1024)}…` });
  const { text } = readLongMessage(JSON.stringify({ jsonrpc: "2.0", id: 1, error: given }), 40_000);
  const error = { code: -32000, message: `${"x".repeat(16 * 1024)}…` };
  assert.deepEqual(JSON.parse(text!), [{ jsonrpc: "2.0", id: 1, error }]);
});

/** How much of a tenant's room others hold. */
function heldOf(room: MessageBudget): number {
  const held: number[] = [];
  for (let free = 0; free <= 2_000 && held.length === 0; free++) {
    const probe = room.begin(() => held.push(2_000 - free));
    probe.add(free);
    probe.end();
  }
  return held[0] ?? 0;
}
