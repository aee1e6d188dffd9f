import assert from "node:assert/strict";
import { test } from "node:test";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { GrowingBytes } from "../../src/lib/growing-bytes.ts";
import { HttpLink } from "../../src/upstream/transport/http-link.ts";
import { Inflow } from "../../src/upstream/transport/inflow.ts";
import { senderBy } from "../support/http-sender.ts";

test("bytes that come one by one are held in as many bytes, and given whole", () => {
  const held = new GrowingBytes();
  for (let at = 0; at < 100_000; at++) held.add(Uint8Array.of(at & 255));
  assert.equal(held.length, 100_000);
  const all = held.take();
  assert.ok(all.buffer.byteLength < 2 * 100_000);
  assert.ok(all.every((byte, at) => byte === (at & 255)));
  assert.deepEqual([held.length, held.take().length], [0, 0]);
});

test("an answer of an upstream that comes byte by byte takes no more memory than it has bytes", async () => {
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc") as () => void;
  const pieces = 70_000;
  // An unfinished event is none, and of an invalid message the beginning is enough.
  const read = { "text/event-stream": 0, "application/json": pieces, "text/plain": 64 * 1024 };
  for (const [type, bytes] of Object.entries(read)) {
    let sent = 0;
    let megabytes = 0;
    collect();
    const before = process.memoryUsage().heapUsed;
    const body = new ReadableStream<Uint8Array>({
      pull(controller) {
        if (sent === pieces / 2 || sent === pieces) {
          collect();
          megabytes = Math.max(megabytes, (process.memoryUsage().heapUsed - before) / 1e6);
        }
        if (sent++ < pieces) controller.enqueue(Uint8Array.of(32));
        else controller.close();
      },
    });
    const inflow = new Inflow(1_000_000);
    const fetchIt = async () => new Response(body, { headers: { "Content-Type": type } });
    const link = new HttpLink({ messageBytes: 1_000_000, inflow, send: senderBy(fetchIt) });
    const answer = await link.open(new URL("http://server.example"), { method: "POST" });
    if (answer.isStream) for await (const event of answer.events(() => {})) assert.fail(event.data);
    else if (type === "text/plain") assert.equal((await answer.beginning()).length, bytes);
    else assert.equal((await answer.messages(() => {})).text.length, Math.min(bytes, 64 * 1024));
    assert.ok(megabytes < 4, `${type}: ${pieces} bytes take ${megabytes} MB`);
  }
});
