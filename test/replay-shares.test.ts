import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { defaultLimits } from "../src/limits.ts";
import { Session } from "../src/mcp/legacy/session.ts";
import type { StreamStore } from "../src/mcp/legacy/stream-store.ts";
import type { Stream } from "../src/mcp/legacy/stream.ts";
import { Streams } from "../src/mcp/legacy/streams.ts";

const nothing = (): void => {};
const store = { change: nothing, remove: nothing, adopt: nothing } as unknown as StreamStore;

describe("what streams keep for clients that come back", () => {
  const sessionOf = (tenant: string): Session =>
    new Session(tenant, { tenant, server: "one" } as never, { version: "2025-11-25" } as never);
  let requests = 0;
  /** A stream that has ended, with so much that nobody has taken. */
  function left(streams: Streams, session: Session, bytes: number): Stream {
    const stream = streams.create(session, [++requests]);
    void stream.send("x".repeat(bytes), { lasting: true });
    stream.end();
    return stream;
  }
  const bytesIn = (each: Stream): number => each.kept.events.reduce((sum, { message }) => sum + message.length, 0);

  it("replayBytesPerTenant: who keeps more loses its own, the oldest first", () => {
    const streams = new Streams(store, { ...defaultLimits, replayBytes: 1_000, replayBytesPerTenant: 300 });
    const [one, other] = [sessionOf("one"), sessionOf("other")];
    const calm = left(streams, other, 100);
    const busy = Array.from({ length: 10 }, () => left(streams, one, 100));
    assert.equal(bytesIn(calm), 100);
    assert.deepEqual(
      busy.map((each) => bytesIn(each)),
      [0, 0, 0, 0, 0, 0, 0, 100, 100, 100],
    );
  });

  it("what waits for answers has half of a tenant's share, and half of all, until its stream ends", () => {
    const streams = new Streams(store, { ...defaultLimits, replayBytes: 1_000, replayBytesPerTenant: 600 });
    const open = (tenant: string): Stream => streams.create(sessionOf(tenant), [++requests]);
    const asking = open("one");
    assert.equal(asking.hold(300), undefined);
    assert.match(open("one").hold(1)!.message, /300 bytes of a tenant.*BERTH_REPLAY_BYTES_PER_TENANT/);
    assert.equal(open("other").hold(200), undefined);
    assert.match(open("third").hold(1)!.message, /500 bytes of all.*BERTH_REPLAY_BYTES;/);
    asking.end();
    assert.equal(open("one").hold(300), undefined);
  });

  it("a tenant whose questions wait has its answers kept as long as others have", () => {
    const streams = new Streams(store, { ...defaultLimits, replayBytes: 500, replayBytesPerTenant: 400 });
    const [one, other] = [sessionOf("one"), sessionOf("other")];
    const asking = streams.create(one, [++requests]);
    assert.equal(asking.hold(200), undefined);
    void asking.send("x".repeat(200), { lasting: true });
    const own = left(streams, one, 100);
    const busy = Array.from({ length: 3 }, () => left(streams, other, 100));
    assert.equal(bytesIn(own), 100);
    assert.deepEqual(
      busy.map((each) => bytesIn(each)),
      [0, 100, 100],
    );
  });

  it("replayBytes: where all is too much, whoever keeps most loses some", () => {
    const streams = new Streams(store, { ...defaultLimits, replayBytes: 500, replayBytesPerTenant: 400 });
    const [one, other] = [sessionOf("one"), sessionOf("other")];
    const calm = left(streams, other, 100);
    const busy = Array.from({ length: 4 }, () => left(streams, one, 100));
    const more = left(streams, other, 100);
    assert.deepEqual([bytesIn(calm), bytesIn(more)], [100, 100]);
    assert.deepEqual(
      busy.map((each) => bytesIn(each)),
      [0, 100, 100, 100],
    );
  });
});
