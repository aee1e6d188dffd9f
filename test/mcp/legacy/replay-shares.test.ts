import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { defaultLimits } from "../../../src/limits/limits.ts";
import { Session } from "../../../src/mcp/legacy/session.ts";
import type { StreamStore } from "../../../src/mcp/legacy/stream-store.ts";
import type { Stream } from "../../../src/mcp/legacy/stream.ts";
import { STREAM_BYTES, Streams } from "../../../src/mcp/legacy/streams.ts";
import { lower } from "../../support/lowered-limits.ts";

const nothing = (): void => {};
const store = { change: nothing, remove: nothing, adopt: nothing } as unknown as StreamStore;

describe("what streams keep for clients that come back", () => {
  const sessionOf = (tenant: string): Session =>
    new Session(tenant, { tenant, server: "one" } as never, { version: "2025-11-25" } as never, "node");
  let requests = 0;
  const BYTES = 10_000;
  /** The part of a share that an ended stream takes. */
  const EACH = BYTES + STREAM_BYTES;
  /** An ended stream with `bytes` that nobody has taken. */
  function left(streams: Streams, session: Session, bytes: number): Stream {
    const stream = streams.create(session, [++requests]);
    void stream.send("x".repeat(bytes), { lasting: true });
    stream.end();
    return stream;
  }
  const bytesIn = (each: Stream): number => each.retained.events.reduce((sum, { message }) => sum + message.length, 0);

  it("replayBytesPerTenant: who keeps more loses its own, the oldest first", () => {
    const streams = new Streams(store, { ...defaultLimits, replayBytes: 10 * EACH, replayBytesPerTenant: 3 * EACH });
    const [one, other] = [sessionOf("one"), sessionOf("other")];
    const calm = left(streams, other, BYTES);
    const busy = Array.from({ length: 10 }, () => left(streams, one, BYTES));
    assert.equal(bytesIn(calm), BYTES);
    assert.deepEqual(busy.map(bytesIn), [0, 0, 0, 0, 0, 0, 0, BYTES, BYTES, BYTES]);
  });

  it("what waits for answers has half of a tenant's share, and half of all, until its stream ends", () => {
    const streams = new Streams(store, { ...defaultLimits, replayBytes: 1_000, replayBytesPerTenant: 600 });
    const open = (tenant: string): Stream => streams.create(sessionOf(tenant), [++requests]);
    const asking = open("one");
    assert.equal(asking.hold(300), undefined);
    assert.match(open("one").hold(1)!.message, /questions of a tenant may have 300 bytes/);
    assert.equal(open("other").hold(200), undefined);
    assert.match(open("third").hold(1)!.message, /all pending questions may have 500 bytes/);
    asking.end();
    assert.equal(open("one").hold(300), undefined);
  });

  it("a tenant whose questions wait has its answers kept as long as others have", () => {
    const streams = new Streams(store, { ...defaultLimits, replayBytes: 5 * EACH, replayBytesPerTenant: 4 * EACH });
    const [one, other] = [sessionOf("one"), sessionOf("other")];
    const asking = streams.create(one, [++requests]);
    assert.equal(asking.hold(2 * EACH), undefined);
    void asking.send("x".repeat(2 * EACH), { lasting: true });
    const own = left(streams, one, BYTES);
    const busy = Array.from({ length: 3 }, () => left(streams, other, BYTES));
    assert.equal(bytesIn(own), BYTES);
    assert.deepEqual(busy.map(bytesIn), [0, BYTES, BYTES]);
  });

  it("replayBytes: where all is too much, whoever keeps most loses some", () => {
    const streams = new Streams(store, { ...defaultLimits, replayBytes: 5 * EACH, replayBytesPerTenant: 4 * EACH });
    const [one, other] = [sessionOf("one"), sessionOf("other")];
    const calm = left(streams, other, BYTES);
    const busy = Array.from({ length: 4 }, () => left(streams, one, BYTES));
    const more = left(streams, other, BYTES);
    assert.deepEqual([bytesIn(calm), bytesIn(more)], [BYTES, BYTES]);
    assert.deepEqual(busy.map(bytesIn), [0, BYTES, BYTES, BYTES]);
  });

  it("restingStreamsPerSession: of what has ended a session keeps the last, however little each says", (t) => {
    t.after(lower({ restingStreamsPerSession: 100 }));
    const streams = new Streams(store, defaultLimits);
    const session = sessionOf("one");
    const all = Array.from({ length: 300 }, () => left(streams, session, 2));
    assert.deepEqual(
      all.map((each) => session.stream(each.id) !== undefined),
      all.map((_, at) => at >= 200),
    );
  });

  it("a stream takes of its tenant's share besides what it says", () => {
    const streams = new Streams(store, { ...defaultLimits, replayBytesPerTenant: 100 * STREAM_BYTES });
    const sessions = Array.from({ length: 300 }, () => sessionOf("one"));
    for (const session of sessions) left(streams, session, 0);
    assert.equal(sessions.filter((session) => !session.isIdle).length, 100);
  });

  it("many are forgotten in turns with others, and each at once", async (t) => {
    t.after(lower({ restingStreamsPerSession: 30_000, replayMs: 0 }));
    const streams = new Streams(store, defaultLimits);
    const session = sessionOf("one");
    const started = process.cpuUsage();
    for (let at = 0; at < 20_000; at++) left(streams, session, 2);
    const begun = process.cpuUsage(started);
    let turns = 0;
    const tick = (): void => void (ticking = setImmediate(() => ((turns += 1), tick())));
    let ticking: NodeJS.Immediate | undefined;
    tick();
    const before = process.cpuUsage();
    await streams.maintain([session]);
    const { user, system } = process.cpuUsage(before);
    clearImmediate(ticking);
    assert.ok(session.isIdle);
    assert.ok(turns > 2, `${turns} turns`);
    assert.ok(user + system < 2 * (begun.user + begun.system), `${user + system} microseconds`);
  });
});
