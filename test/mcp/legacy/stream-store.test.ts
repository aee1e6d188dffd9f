import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { createLog } from "../../../src/lib/log.ts";
import { defaultLimits } from "../../../src/limits/limits.ts";
import { Session } from "../../../src/mcp/legacy/session.ts";
import { StreamStore } from "../../../src/mcp/legacy/stream-store.ts";
import { Streams } from "../../../src/mcp/legacy/streams.ts";
import { memoryRecords } from "../../support/mcp-host.ts";

const MIB = 1024 * 1024;

describe("what streams keep beyond the process", () => {
  const sessionOf = (tenant: string): Session =>
    new Session(tenant, { tenant, server: "one" } as never, { id: tenant, version: "2025-11-25" } as never, "node");
  const text = JSON.stringify({ jsonrpc: "2.0", id: 1, result: { text: `"${'\\"'.repeat(30_000)}"` } });

  it("is written at most 1 MiB at a time, each message as it is, with turns for others between", async () => {
    const kept = memoryRecords();
    let turns = 0;
    const tick = (): void => void (ticking = setImmediate(() => ((turns += 1), tick())));
    let ticking: NodeJS.Immediate | undefined;
    const writes: { units: number; turn: number }[] = [];
    const store = new StreamStore(
      {
        ...kept,
        putRecords(tenant, kind, puts) {
          writes.push({ units: puts.reduce((sum, { value }) => sum + value.length, 0), turn: turns });
          return kept.putRecords(tenant, kind, puts);
        },
      },
      createLog("silent"),
    );
    const streams = new Streams(store, defaultLimits);
    const sessions = ["one", "other"].map(sessionOf);
    const all = Array.from({ length: 40 }, (_, at) => {
      const session = sessions[at % 2]!;
      const stream = streams.create(session, [at]);
      void stream.send(text, { lasting: true });
      void stream.send("{}");
      stream.end();
      return { session, stream };
    });
    tick();
    await store.close();
    clearImmediate(ticking);
    assert.ok(text.length * all.length > 4 * MIB);
    assert.ok(writes.every(({ units }) => units <= MIB));
    const total = writes.reduce((sum, { units }) => sum + units, 0);
    assert.ok(total < (text.length + 1_000) * all.length, `${total} characters`);
    // Writes that only say that the process lives, or has left, are short.
    const long = writes.filter(({ units }) => units > text.length);
    assert.ok(long.length > 4);
    for (const [at, { turn }] of long.entries()) assert.ok(at === 0 || turn > long[at - 1]!.turn);
    for (const { session, stream } of all) {
      const stored = await store.read(session, stream.id);
      assert.deepEqual(stored?.retained, stream.retained);
    }
  });

  it("many streams that say little are written some at a time", async () => {
    const kept = memoryRecords();
    const counts: number[] = [];
    const store = new StreamStore(
      { ...kept, putRecords: (tenant, kind, puts) => (counts.push(puts.length), kept.putRecords(tenant, kind, puts)) },
      createLog("silent"),
    );
    const streams = new Streams(store, defaultLimits);
    for (let at = 0; at < 1_000; at++) {
      const stream = streams.create(sessionOf(`one`), [at]);
      void stream.send("{}", { lasting: true });
      stream.end();
    }
    await store.close();
    assert.ok(Math.max(...counts) <= 256, String(Math.max(...counts)));
  });
});
