import assert from "node:assert/strict";
import { PassThrough, Readable } from "node:stream";
import { test } from "node:test";
import { clock } from "../../src/lib/clock.ts";
import { yieldToCalls } from "../../src/lib/event-loop.ts";
import { StderrTail } from "../../src/processes/stderr-tail.ts";

const CHUNK = Buffer.alloc(64 * 1024, "x");

test("endless output on stderr is read at a few megabytes per second", async () => {
  let read = 0;
  const endless = new Readable({
    read() {
      read += CHUNK.length;
      this.push(CHUNK);
    },
  });
  const words = new StderrTail(endless, 100);
  for (let seconds = 1; seconds <= 2; seconds++) {
    for (let turn = 0; turn < 100; turn++) await yieldToCalls();
    assert.ok(read > 0 && read <= (4 * seconds + 1.5) * 1024 * 1024, `${read} bytes in ${seconds} s`);
    for (let rests = 0; rests < 4; rests++) clock.leap(250);
  }
  endless.destroy();
  assert.equal(String(words), "x".repeat(100));
});

test("the tail of stderr consists of whole characters, and is complete if it is short", async () => {
  const stream = new PassThrough();
  const words = new StderrTail(stream, 6);
  const written: [string, string][] = [
    ["é", "é"],
    ["ab", "éab"],
    ["cdé", "abcdé"],
    ["€€", "€€"],
    ["x", "€x"],
    ["0123456789", "456789"],
  ];
  for (const [text, expected] of written) {
    stream.write(text);
    await yieldToCalls();
    assert.equal(String(words), expected, text);
  }
});
