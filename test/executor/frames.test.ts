import { strict as assert } from "node:assert";
import { describe, it } from "node:test";
import { FrameReader } from "../../src/executor/guest-process.ts";
import { toHost } from "../../src/executor/guest/wire.mts";
import { defaultLimits } from "../../src/limits/limits.ts";

describe("frames", () => {
  const read = (chunks: readonly (string | Buffer)[], frameBytes = 1000): { frames: unknown[]; faults: string[] } => {
    const frames: unknown[] = [];
    const faults: string[] = [];
    const reader = new FrameReader(
      { ...defaultLimits, guestFrameBytes: frameBytes },
      {
        onFrame: (frame) => frames.push(frame),
        onFault: (message) => faults.push(message),
      },
    );
    for (const chunk of chunks) reader.push(Buffer.from(chunk));
    return { frames, faults };
  };

  it("come out the same wherever the pipe cuts them", () => {
    const frames = [[1, "äöü😀"], [2, { a: ["\n"] }], [3]];
    const bytes = Buffer.from(frames.map((frame) => `${JSON.stringify(frame)}\n`).join(""));
    for (let cut = 0; cut <= bytes.length; cut++) {
      for (const second of [cut, Math.min(cut + 1, bytes.length), Math.min(cut + 7, bytes.length)]) {
        const chunks = [bytes.subarray(0, cut), bytes.subarray(cut, second), bytes.subarray(second)];
        assert.deepEqual(read(chunks), { frames, faults: [] }, `cut at ${cut} and ${second}`);
      }
    }
    assert.deepEqual(read(Array.from(bytes, (byte) => Buffer.from([byte]))), { frames, faults: [] });
  });

  it("up to the limit are read, one byte more is a fault", () => {
    const line = JSON.stringify(["x".repeat(100 - 4)]);
    assert.equal(read([line, "\n"], 100).frames.length, 1);
    assert.equal(read([`${line}\n`], 100).frames.length, 1);
    for (const chunks of [[`${line}\n`], [line, "\n"], [line], [line.slice(0, 50), `${line.slice(50)}\n`]]) {
      assert.deepEqual(read(chunks, 99), {
        frames: [],
        faults: ["wrote a frame of more than 99 bytes"],
      });
    }
  });

  it("of long results are passed on as bytes, undecoded", () => {
    const long: [number, Uint8Array][] = [];
    const reader = new FrameReader(defaultLimits, {
      onFrame: () => assert.fail("it was read"),
      onFault: assert.fail,
      onLongResult: (call, frame) => long.push([call, frame]) > 0,
    });
    const lines = ["é", "€"].map((text, at) => Buffer.from(JSON.stringify([toHost.text, at, text.repeat(100_000)])));
    const written = Buffer.concat(lines.flatMap((line) => [line, Buffer.from("\n")]));
    for (let at = 0; at < written.length; at += 50_000) reader.push(written.subarray(at, at + 50_000));
    assert.deepEqual(
      long.map(([call, frame]) => [call, Buffer.from(frame)]),
      lines.map((line, at) => [at, line]),
    );
    assert.ok(long.every(([, frame]) => frame instanceof Uint8Array));
  });

  it("stop at the first fault", () => {
    for (const wrong of ["{}", "null", "1", '"a"', "", "[1", "nothing", "[1]]", "\0\xff"]) {
      const { frames, faults } = read([`[1]\n${wrong}\n[2]\n`, "[3]\n"]);
      assert.deepEqual(frames, [[1]], wrong);
      assert.equal(faults.length, 1, wrong);
    }
  });

  it("may nest 256 levels deep and no deeper", () => {
    const nested = (levels: number): string => `${"[".repeat(levels)}"${"x".repeat(1000)}"${"]".repeat(levels)}\n`;
    assert.equal(read([nested(256)], 10_000).frames.length, 1);
    assert.match(read([nested(257)], 10_000).faults[0]!, /more than 256 levels/);
    const objects = `[5,1,${'{"a":'.repeat(300_000)}1${"}".repeat(300_000)}]\n`;
    for (const deep of [nested(9_000), objects])
      assert.match(read([deep], 10_000_000).faults[0]!, /more than 256 levels/);
  });

  it("that are no results have at most 10,000 values, and are refused unread", () => {
    const list = (count: number): string => JSON.stringify(Array.from({ length: count }, () => 0));
    const all = (kind: number, count: number) => read([`[${kind},1,${list(count)}]\n`], 1_000_000);
    assert.equal(all(toHost.progress, 9_999).frames.length, 1);
    for (const kind of [toHost.progress, toHost.log, toHost.request]) {
      const { frames, faults } = all(kind, 11_000);
      assert.deepEqual([frames, faults], [[], ["wrote a message of more than 10000 values that is not a result"]]);
    }
    assert.equal(all(toHost.json, 11_000).frames.length, 1);
    assert.equal(all(toHost.asks, 11_000).frames.length, 1);
  });
});
