import assert from "node:assert/strict";
import { after, describe, it } from "node:test";
import { DeferredAnswer, type GuestProgram, type HostAnswer, type HostPort } from "../../src/executor/executor.ts";
import { HostRequests } from "../../src/executor/host-requests.ts";
import { PendingCall } from "../../src/executor/pending-call.ts";
import { createGuestPort, type PortHost } from "../../src/host/serving/guest-port.ts";
import { yieldToCalls, yieldInOrder } from "../../src/lib/event-loop.ts";
import type { Store } from "../../src/store/store.ts";
import { assertNothingLeft, latch, openRig, programOf, shape } from "../support/executor.ts";
import { until } from "../support/until.ts";

after(assertNothingLeft);

const MIB = 1024 * 1024;

/** A guest that asks the host, and reads nothing until it is told to. */
class Asker {
  readonly sent: { frame: unknown[]; bytes: Uint8Array | undefined }[] = [];
  spentMs: number[] = [];
  killed = 0;
  #room = latch<void>();
  readonly #requests: HostRequests;
  readonly #program: GuestProgram;

  constructor(port: HostPort, send?: () => never) {
    this.#program = { tenant: "default", bundle: "b", code: () => Promise.resolve(""), port };
    this.#requests = new HostRequests({
      send: send ?? ((frame, bytes) => void this.sent.push({ frame: JSON.parse(frame) as unknown[], bytes })),
      drained: () => (this.sent.some(({ bytes }) => bytes) ? this.#room.promise : undefined),
      spend: (ms) => (this.spentMs.push(ms), 0),
      kill: () => this.killed++,
    });
  }

  take(): void {
    this.sent.length = 0;
    this.#room.open();
    this.#room = latch();
  }

  ask(count: number, params: object = { name: "long" }): void {
    const given = { shape: shape("f"), args: {}, deadlineMs: 1000 };
    const call = new PendingCall(this.#program, given, 0, () => {});
    for (let id = 1; id <= count; id++) {
      const frame = [10, 1, id, "variable", params];
      this.#requests.answer(call, frame, JSON.stringify(frame).length);
    }
  }
}

async function turns(count: number): Promise<void> {
  for (let turn = 0; turn < count; turn++) await yieldToCalls();
}

describe("long answers to a guest", () => {
  it("are read one at a time, and none before the guest has taken the one before", async () => {
    let reads = 0;
    const bytes = new Uint8Array(MIB);
    const read = (): Promise<Uint8Array> => (reads++, Promise.resolve(bytes));
    const asker = new Asker({ request: async () => new DeferredAnswer("text", read) });
    asker.ask(64);
    for (let taken = 1; taken <= 64; taken++) {
      await until(() => reads === taken, "the next one is read");
      await turns(3);
      assert.equal(reads, taken, "answers that were read before the guest took those that wait");
      assert.equal(asker.sent[0]?.bytes, bytes, "the bytes were copied or written anew");
      asker.take();
    }
    const areShort = asker.spentMs.every((ms) => ms <= 8);
    assert.ok(areShort, asker.spentMs.join(" "));
    assert.ok(asker.spentMs.length === 64, "what an answer takes is its tenant's");
  });

  it("of one process wait for no other answers of it", async () => {
    const read = (): Promise<Uint8Array> => Promise.resolve(new Uint8Array(MIB));
    const port: HostPort = {
      request: async (_, { name }) => (name === "long" ? new DeferredAnswer("bytes", read) : null),
    };
    const asker = new Asker(port);
    asker.ask(3);
    await until(() => asker.sent.length === 1, "one is read");
    asker.ask(1, { name: "short" });
    await until(() => asker.sent.length === 2, "a short one is answered");
    assert.deepEqual(asker.sent[1], { frame: [4, 1, 1, null], bytes: undefined });
  });

  it("that cannot be written end the guest, and not the service", async () => {
    const asker = new Asker({ request: async () => null }, () => {
      throw new RangeError("Invalid string length");
    });
    asker.ask(1);
    await until(() => asker.killed === 1, "the guest is ended");
  });

  it("are not kept waiting with requests of any length", async () => {
    const asker = new Asker({ request: async () => null });
    asker.ask(1, { name: "x".repeat(130 * 1024) });
    await until(() => asker.sent.length === 1, "it is refused");
    assert.match(JSON.stringify(asker.sent), /at most 131072 characters/);
  });

  it("come as they were, however long they are and wherever the pipe cuts them", async (t) => {
    const rig = await openRig("trusted");
    t.after(() => rig.close());
    const gate = shape("gate", [], { context: true });
    let answer: HostAnswer;
    const program = programOf("friendly", "default", { request: async () => answer });
    for (const length of [0, 1, 5, 64 * 1024 - 20, 64 * 1024, 64 * 1024 + 1, 300_000]) {
      const text = "a\n😀\u0001".repeat(length / 5).padEnd(length, "x");
      answer = new DeferredAnswer("text", async () => Buffer.from(text));
      assert.equal(await rig.value(gate, {}, { program }), text, `${length}`);
      answer = new DeferredAnswer("json", async () => Buffer.from(JSON.stringify({ text })));
      assert.deepEqual(await rig.value(gate, {}, { program }), { text });
    }
  });
});

describe("steps of many tasks", () => {
  it("that are as long as a stretch may be do not become one pause together", async () => {
    let stretch = 0;
    let longest = 0;
    let left = 20;
    const others = (): void => {
      stretch = 0;
      if (left > 0) setImmediate(others);
    };
    others();
    const task = async (): Promise<void> => {
      await yieldInOrder();
      await Promise.resolve();
      const end = performance.now() + 2;
      while (performance.now() < end);
      longest = Math.max(longest, ++stretch);
      left--;
    };
    await Promise.all(Array.from({ length: left }, task));
    assert.equal(longest, 1, "steps in one turn of the event loop");
  });
});

describe("what a guest is told of all servers", () => {
  const DESCRIPTION = "x\\".repeat(50_000);

  async function told(servers: number, tools: number): Promise<Buffer> {
    const contract = {
      tools: Array.from({ length: tools }, (_, at) => ({
        name: `tool${at}`,
        description: DESCRIPTION,
        inputSchema: { type: "object" },
      })),
    };
    const host = {
      names: () => Array.from({ length: servers }, (_, at) => `s${at}`),
      summary: async (_: string, name: string) => ({ name, state: "ready", catalog: { contract }, problems: [] }),
    } as unknown as PortHost;
    const port = createGuestPort("default", "ask", host, {} as Store, {});
    const call = { caller: undefined, onOver: () => {} };
    const answer = await port.request("variable", { name: "berth:servers" }, call);
    assert.ok(answer instanceof DeferredAnswer);
    return Buffer.from((await answer.read())!);
  }

  it("is cut to the names of tools, and says so, where it would be more than 2 Mi characters", async () => {
    const bytes = await told(400, 8);
    assert.ok(bytes.length < 3.2 * MIB, `${bytes.length} bytes`);
    const list = JSON.parse(String(bytes)) as { name: string; cut?: true; tools: { name: string }[] }[];
    assert.equal(list.length, 400);
    assert.deepEqual(list[0], {
      name: "s0",
      state: "ready",
      description: "",
      url: "/mcp/s0",
      tools: Array.from({ length: 8 }, (_, at) => ({
        name: `tool${at}`,
        description: DESCRIPTION,
        inputSchema: { type: "object" },
      })),
    });
    const { cut, tools } = list[399]!;
    assert.deepEqual([cut, tools[7]], [true, { name: "tool7" }]);
  });

  it("names all servers, however many tools they have", async () => {
    const bytes = await told(60, 20_000);
    assert.ok(bytes.length < 3.2 * MIB, `${bytes.length} bytes`);
    assert.equal((JSON.parse(String(bytes)) as unknown[]).length, 60);
  });
});
