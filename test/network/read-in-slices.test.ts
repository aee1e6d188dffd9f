import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type Socket } from "node:net";
import { Duplex } from "node:stream";
import { test, type TestContext } from "node:test";
import { clock } from "../../src/lib/clock.ts";
import type { ReadingTime } from "../../src/lib/reading-time.ts";
import { defaultLimits } from "../../src/limits/limits.ts";
import { Fetches } from "../../src/network/fetches.ts";
import { readInSlices } from "../../src/network/read-in-slices.ts";
import { listening } from "../support/listening.ts";
import { inOneOf, until } from "../support/until.ts";

/** Reads a socket as an HTTP client does: until no more data is available. */
function readAll(bytes: number, sliceMs: number, time?: Pick<ReadingTime, "spend">) {
  const socket = new Duplex({ read() {}, write: (_chunk, _encoding, done) => done(), highWaterMark: 2 * bytes });
  readInSlices(socket as Socket, time as ReadingTime);
  const seen = { slices: 0, bytes: 0, longest: 0 };
  socket.on("readable", () => {
    for (let slice: Buffer | null; (slice = socket.read() as Buffer | null) !== null;) {
      seen.slices += 1;
      seen.bytes += slice.length;
      seen.longest = Math.max(seen.longest, slice.length);
      for (const since = performance.now(); performance.now() - since < sliceMs;);
    }
  });
  const ended = once(socket, "end");
  socket.push(Buffer.alloc(bytes));
  socket.push(null);
  return { seen, ended, socket };
}

test("sockets that are slow to parse share each turn of the event loop in a round robin", () => inOneOf(3, takeTurns));

async function takeTurns(): Promise<void> {
  const sockets = [readAll(64 * 1024, 1), readAll(64 * 1024, 1), readAll(64 * 1024, 1)];
  const ended = Promise.all(sockets.map((socket) => socket.ended));
  const slices = (): number => sockets.reduce((sum, { seen }) => sum + seen.slices, 0);
  let [most, before] = [0, 0];
  const isOver = (): boolean => sockets.every(({ seen }) => seen.bytes === 64 * 1024);
  while (!isOver()) {
    await new Promise((resolve) => setImmediate(resolve));
    most = Math.max(most, slices() - before);
    before = slices();
    const counts = sockets.map(({ seen }) => seen.slices);
    assert.ok(Math.max(...counts) - Math.min(...counts) <= 8, `they take turns: ${counts.join()}`);
  }
  assert.ok(most <= 5, `${most} slices in one turn`);
  await ended;
  for (const { seen } of sockets) assert.deepEqual([seen.bytes, seen.longest], [64 * 1024, 4 * 1024]);
}

// A pause of the machine in between takes time like a slow reader.
test("a socket that is fast to parse is read in one turn", () =>
  inOneOf(10, async () => {
    const { seen, ended } = readAll(64 * 1024, 0);
    await until(() => seen.bytes > 0);
    assert.equal(seen.bytes, 64 * 1024);
    await ended;
  }));

test("a socket whose reading time is used up pauses, and then goes on", async () => {
  const rests = [0, 500];
  const { seen, ended } = readAll(8 * 1024, 0, { spend: () => rests.shift() ?? 0 });
  await until(() => seen.bytes === 4 * 1024);
  await readAll(64 * 1024, 0).ended;
  assert.equal(seen.bytes, 4 * 1024);
  clock.leap(500);
  await ended;
  assert.equal(seen.bytes, 8 * 1024);
});

test("a socket destroyed while it waits is not read again", async () => {
  const { seen, socket } = readAll(64 * 1024, 5);
  await until(() => seen.slices > 0);
  const { slices } = seen;
  socket.destroy();
  for (let turn = 0; turn < 5; turn++) await new Promise((resolve) => setImmediate(resolve));
  assert.equal(seen.slices, slices);
});

/** A host that answers with a body in pieces of one byte; returns its port. */
async function hostOfBytes(t: TestContext, body: string): Promise<number> {
  const pieces = Array.from(body, (letter) => `1\r\n${letter}\r\n`).join("");
  const server = createServer((socket) => {
    socket.on("error", () => {});
    socket.once("data", () => {
      socket.write(`HTTP/1.1 200 OK\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n${pieces}`);
      socket.end("0\r\n\r\n");
    });
  });
  t.after(() => server.close());
  return listening(server);
}

test("a body in one-byte pieces arrives complete, in few parts", async (t) => {
  const body = Array.from({ length: 50_000 }, (_, at) => String.fromCharCode(97 + (at % 26))).join("");
  const port = await hostOfBytes(t, body);
  const fetches = new Fetches([{ kind: "host", name: "127.0.0.1", port }], defaultLimits, { privateToo: true });
  const call = { onOver: () => {} };
  const url = `http://127.0.0.1:${port}/`;
  await fetches.request("fetch", { id: 1, url, method: "GET", headers: [] }, call);
  let [text, parts] = ["", 0];
  for (;;) {
    const part = (await fetches.request("fetchRead", { id: 1 }, call)) as { base64: string } | null;
    if (!part) break;
    text += Buffer.from(part.base64, "base64").toString();
    parts += 1;
  }
  assert.equal(text, body);
  assert.ok(parts < 1_000, `${parts} parts`);
});
