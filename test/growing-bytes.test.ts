import assert from "node:assert/strict";
import { test } from "node:test";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { GrowingBytes } from "../src/growing-bytes.ts";
import { boundedFetch } from "../src/upstream/bounded-fetch.ts";

test("bytes that come one by one are held in as many bytes, and given whole", () => {
  const held = new GrowingBytes();
  for (let at = 0; at < 100_000; at++) held.add(Uint8Array.of(at & 255));
  assert.equal(held.length, 100_000);
  assert.deepEqual([...held.tail(3)], [99_997 & 255, 99_998 & 255, 99_999 & 255]);
  const all = held.take();
  assert.ok(all.buffer.byteLength < 2 * 100_000);
  assert.ok(all.every((byte, at) => byte === (at & 255)));
  assert.deepEqual([held.length, held.tail(3).length, held.take().length], [0, 0, 0]);
});

test("an answer of a server of others that comes byte by byte takes no more memory than it has bytes", async () => {
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc") as () => void;
  const pieces = 200_000;
  for (const type of ["text/event-stream", "application/json", "text/plain"]) {
    let sent = 0;
    let megabytes = 0;
    collect();
    const before = process.memoryUsage().heapUsed;
    const body = new ReadableStream<Uint8Array>({
      pull(controller) {
        if (sent++ < pieces) return controller.enqueue(Uint8Array.of(32));
        collect();
        megabytes = (process.memoryUsage().heapUsed - before) / 1e6;
        controller.close();
      },
    });
    const fetched = boundedFetch(
      1_000_000,
      undefined,
      async () => new Response(body, { headers: { "Content-Type": type } }),
    );
    const text = await (await fetched("http://server.example")).text();
    assert.equal(text, " ".repeat(pieces), type);
    assert.ok(megabytes < 10, `${type}: ${pieces} bytes take ${megabytes} MB`);
  }
});
