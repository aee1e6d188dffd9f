import assert from "node:assert/strict";
import { hkdfSync, randomBytes } from "node:crypto";
import { once } from "node:events";
import { mkdtempSync, statSync } from "node:fs";
import { connect as connectRaw, createServer, type Socket } from "node:net";
import { dirname, join } from "node:path";
import { after, afterEach, before, describe, it } from "node:test";
import { connect as connectTls } from "node:tls";
import { NodeCalls, NodeLost, CallNotAccepted, type NodeCallsOptions } from "../../src/cluster/node-calls.ts";
import type { JsonObject } from "../../src/lib/json.ts";
import { createLog } from "../../src/lib/log.ts";
import { serialize } from "../../src/lib/transfer.ts";
import { lower } from "../support/lowered-limits.ts";
import { testFolders } from "../support/store.ts";
import { until } from "../support/until.ts";

const MS = 20_000;
const BYTES = 1024 * 1024;
const LIMITS = { nodeCallMs: MS, nodeCallBytes: BYTES, nodeConnections: 200 };
/** Where it is about what is too slow. */
const SHORT_MS = 1_500;

describe("calls between nodes", () => {
  let restore: () => void;
  before(() => (restore = lower(LIMITS)));
  after(() => restore());
  const closers: (() => unknown)[] = [];
  afterEach(async () => {
    for (const close of closers.splice(0).toReversed()) await close();
  });

  const folder = testFolders("calls");

  /** A node that others know by these facts, and whose calls are in `taken`. */
  async function node(id: string, known: Map<string, JsonObject>, more: Partial<NodeCallsOptions> = {}) {
    const facts: JsonObject = {};
    const gone: ((node: string) => void)[] = [];
    const cluster = {
      id,
      others: known,
      say: async (name: string, fact: JsonObject[string]) => void (facts[name] = fact),
      onGone: (listener: (node: string) => void) => void gone.push(listener),
    };
    const calls = new NodeCalls({
      cluster,
      keys: [KEY],
      now: Date.now,
      makeFolder: (prefix) => mkdtempSync(join(folder(), prefix)),
      log: createLog("silent"),
      ...more,
    });
    closers.push(() => calls.close());
    await calls.open();
    const taken: unknown[] = [];
    calls.on("add", async (body) => {
      taken.push(body);
      return body;
    });
    const { path } = facts["calls"] as { path: string };
    return { calls, taken, facts, path, endsAll: (node: string) => gone.forEach((each) => each(node)) };
  }

  /** Two nodes, of which the first knows the second. */
  async function pair(more: Partial<NodeCallsOptions> = {}, callersMore: Partial<NodeCallsOptions> = {}) {
    const known = new Map<string, JsonObject>();
    const caller = await node("caller", known, callersMore);
    const called = await node("called", new Map(), more);
    known.set("called", called.facts);
    return { caller, called, known };
  }

  /** A server of somebody else where the node "called" was. */
  function takePlace(known: Map<string, JsonObject>, onConnection: (socket: Socket) => void): void {
    const path = join(folder(), "calls");
    const server = createServer((socket) => onConnection(socket.on("error", () => {}))).listen(path);
    closers.push(() => server.close());
    known.set("called", { calls: { path } });
  }

  it("go through, with lines on their way, and end by the signal of their caller", async () => {
    const { caller, called } = await pair();
    assert.deepEqual(await caller.calls.call("called", "add", { one: 1 }), { one: 1 });
    const parts: unknown[] = [];
    called.calls.on("tells", async (_body, call) => {
      call.part("first");
      call.part("second");
      return call.from;
    });
    assert.equal(await caller.calls.call("called", "tells", {}, { onPart: (part) => parts.push(part) }), "caller");
    assert.deepEqual(parts, ["first", "second"]);
    const stop = new AbortController();
    const ended = new Promise<void>((resolve) => {
      called.calls.on("waits", (_body, { signal }) => {
        signal.addEventListener("abort", resolve);
        stop.abort();
        return new Promise(() => {});
      });
    });
    await assert.rejects(caller.calls.call("called", "waits", {}, { signal: stop.signal }), { code: "cancelled" });
    await ended;
    await assert.rejects(caller.calls.call("called", "nothing", {}), CallNotAccepted);
    await assert.rejects(caller.calls.call("nobody", "add", {}), CallNotAccepted);
  });

  it("are for this user alone: nobody else enters the folder of the socket", async () => {
    const { path } = await node("one", new Map());
    assert.equal(statSync(dirname(path)).mode & 0o777, 0o700);
  });

  it("go to an address of the machine where one is given, as those of other machines have to", async () => {
    const known = new Map<string, JsonObject>();
    const caller = await node("caller", known);
    const called = await node("called", new Map(), { address: { host: "127.0.0.1", port: 0 } });
    known.set("called", called.facts);
    assert.equal((called.facts["calls"] as JsonObject)["host"], "127.0.0.1");
    assert.deepEqual(await caller.calls.call("called", "add", { one: 1 }), { one: 1 });
    const stranger = await node("stranger", known, { keys: [randomBytes(32)] });
    await assert.rejects(stranger.calls.call("called", "add", {}), CallNotAccepted);
  });

  it("are refused without the key, and with another", async () => {
    const { called, known } = await pair();
    const plain = connectRaw(called.path);
    plain.on("error", () => {});
    plain.write("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n");
    assert.doesNotMatch(await allOf(plain), /HTTP/);
    for (const wrong of [
      { psk: randomBytes(32), identity: IDENTITY },
      { psk: PSK, identity: "other" },
    ]) {
      const socket = connectTls({ ...TLS, path: called.path, pskCallback: () => wrong });
      await assert.rejects(once(socket, "secureConnect"));
    }
    const stranger = await node("stranger", known, { keys: [randomBytes(32)] });
    await assert.rejects(stranger.calls.call("called", "add", {}), CallNotAccepted);
    assert.deepEqual(called.taken, []);
  });

  it("go through while the key is changed: the caller shows its first, and each of the other's will do", async () => {
    const [next, other] = [randomBytes(32), randomBytes(32)];
    const first = await pair({ keys: [KEY, next] }, { keys: [next, KEY] });
    assert.deepEqual(await first.caller.calls.call("called", "add", { one: 1 }), { one: 1 });
    const second = await pair({ keys: [next] }, { keys: [KEY, next, other] });
    await assert.rejects(second.caller.calls.call("called", "add", {}), CallNotAccepted);
  });

  it("reach nobody who took the place of a node, and tell him nothing", async () => {
    const { caller, known } = await pair();
    let heard = "";
    takePlace(known, (socket) => {
      socket.on("data", (chunk) => {
        heard += chunk.toString("latin1");
        socket.end("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
      });
    });
    await assert.rejects(caller.calls.call("called", "add", { secret: "hunter2-very-secret" }), CallNotAccepted);
    assert.doesNotMatch(heard, /hunter2/);
    const other = await node("called", new Map(), { keys: [randomBytes(32)] });
    known.set("called", other.facts);
    await assert.rejects(caller.calls.call("called", "add", {}), CallNotAccepted);
    assert.deepEqual(other.taken, []);
  });

  it("are taken once: neither their bytes nor their ids count again, nor bytes that somebody changed", async () => {
    const { caller, called, known } = await pair();
    const sent: Buffer[] = [];
    let change = false;
    takePlace(known, (client) => {
      const server = connectRaw(called.path);
      server.on("error", () => {});
      client.on("data", (chunk) => {
        sent.push(Buffer.from(chunk));
        if (change && sent.length > 2) chunk[chunk.length - 20]! ^= 1;
        server.write(chunk);
      });
      server.pipe(client);
      client.on("close", () => server.destroy());
      server.on("close", () => client.destroy());
    });
    await caller.calls.call("called", "add", { first: true });
    assert.equal(called.taken.length, 1);
    assert.doesNotMatch(Buffer.concat(sent).toString("latin1"), /first/, "nobody on the way reads it");

    const again = connectRaw(called.path);
    again.on("error", () => {});
    for (const chunk of sent) again.write(chunk);
    assert.doesNotMatch(await allOf(again), /HTTP/);
    assert.equal(called.taken.length, 1);

    const envelope = { from: "caller", to: "called", id: "the same", expires: Date.now() + MS, topic: "add", body: {} };
    assert.match(await said(called.path, envelope), /answer/);
    assert.match(await said(called.path, envelope), /accepted before/);
    assert.equal(called.taken.length, 2);

    const another = await node("caller", known);
    sent.splice(0);
    change = true;
    await assert.rejects(another.calls.call("called", "add", { changed: true }), isRefused);
    assert.equal(called.taken.length, 2);
  });

  it("nodeCallMs: are refused when they are late, or of a node with another time", async () => {
    for (const aheadMs of [-60_000, 60_000]) {
      const { caller, called } = await pair({}, { now: () => Date.now() + aheadMs });
      await assert.rejects(caller.calls.call("called", "add", {}), CallNotAccepted);
      assert.deepEqual(called.taken, []);
    }
  });

  it("are refused by a node that they are not for, and by the one that made them", async () => {
    const { caller, called, known } = await pair();
    known.set("another", called.facts);
    await assert.rejects(caller.calls.call("another", "add", {}), /for another node/);
    const itself = await node("called", known);
    await assert.rejects(itself.calls.call("called", "add", {}), /for another node/);
    assert.deepEqual(called.taken, []);
  });

  it("nodeCallBytes: are cut when they are longer, whatever length they claim, and so are answers", async () => {
    const { caller, called } = await pair();
    await assert.rejects(caller.calls.call("called", "add", new Uint8Array(BYTES + 1)), NodeLost);
    const claimed = Buffer.alloc(8);
    claimed.writeUInt32LE(0xffff_ffff, 0);
    const socket = await joined(called.path);
    socket.write(`POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4294967304\r\n\r\n`);
    socket.write(claimed);
    assert.equal(await allOf(socket), "");
    called.calls.on("much", async () => new Uint8Array(BYTES + 1));
    await assert.rejects(caller.calls.call("called", "much", {}), NodeLost);
    assert.deepEqual(called.taken, []);
    assert.equal(await caller.calls.call("called", "add", "short"), "short");
  });

  it("nodeCallMs: are cut when they arrive slowly, before the key is shown and after", async (t) => {
    t.after(lower({ nodeCallMs: SHORT_MS }));
    const { called } = await pair();
    const silent = connectRaw(called.path);
    const idle = await joined(called.path);
    const slow = await joined(called.path);
    slow.write("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n");
    let sent = 0;
    const trickle = setInterval(() => slow.write("x", () => (sent += 1)), 100);
    await Promise.all([silent, idle, slow].map(allOf));
    clearInterval(trickle);
    assert.ok(sent < 1_000, "it was cut before its end");
  });

  it("get through while somebody opens connection after connection, and the flood is cut", async () => {
    const { caller, called } = await pair();
    const flood = Array.from({ length: 1_000 }, () => connectRaw(called.path).on("error", () => {}));
    await Promise.all(flood.map((socket) => once(socket, "connect").catch(() => {})));
    assert.equal(await caller.calls.call("called", "add", "through"), "through");
    const isOpen = (socket: Socket): boolean => !socket.destroyed && socket.readyState === "open";
    await until(() => flood.filter(isOpen).length <= LIMITS.nodeConnections / 2);
    for (const socket of flood) socket.destroy();
  });

  it("nodeConnections: are refused beyond that many at once, and taken again when there are fewer", async (t) => {
    t.after(lower({ nodeConnections: 2 }));
    const { caller, called } = await pair();
    const ends: ((value: unknown) => void)[] = [];
    called.calls.on("waits", () => new Promise((resolve) => ends.push(resolve)));
    const waiting = [1, 2].map(() => caller.calls.call("called", "waits", {}));
    await until(() => ends.length === 2);
    await assert.rejects(caller.calls.call("called", "add", {}), isRefused);
    for (const end of ends) end("done");
    assert.deepEqual(await Promise.all(waiting), ["done", "done"]);
    assert.equal(await caller.calls.call("called", "add", "again"), "again");
  });

  it("are lost with their node: when it ends, when it counts as gone, and at once", async () => {
    const { caller, called } = await pair();
    let begun = 0;
    called.calls.on("waits", () => new Promise(() => begun++));
    const first = caller.calls.call("called", "waits", {});
    await until(() => begun === 1);
    caller.endsAll("called");
    await assert.rejects(first, NodeLost);
    const second = caller.calls.call("called", "waits", {});
    await until(() => begun === 2);
    await called.calls.close();
    await assert.rejects(second, NodeLost);
    await assert.rejects(caller.calls.call("called", "add", {}), CallNotAccepted);
  });

  it("a node that takes connections and does nothing more is given up, and has not taken the call", async (t) => {
    t.after(lower({ nodeCallMs: SHORT_MS }));
    const { caller, known } = await pair();
    takePlace(known, () => {});
    await assert.rejects(caller.calls.call("called", "add", {}), /does not respond/);
  });
});

const isRefused = (error: unknown): boolean => error instanceof CallNotAccepted || error instanceof NodeLost;

const KEY = randomBytes(32);
const PSK = Buffer.from(hkdfSync("sha256", KEY, "", "berth: calls between nodes", 32));
const KEY_NAME = Buffer.from(hkdfSync("sha256", KEY, "", "berth: the key of calls between nodes", 9));
const IDENTITY = KEY_NAME.toString("base64url");
const TLS = {
  ciphers: "ECDHE-PSK-CHACHA20-POLY1305",
  minVersion: "TLSv1.2",
  maxVersion: "TLSv1.2",
  checkServerIdentity: () => undefined,
} as const;

/** A connection of somebody who has the key. */
async function joined(path: string): Promise<Socket> {
  const socket = connectTls({ ...TLS, path, pskCallback: () => ({ psk: PSK, identity: IDENTITY }) });
  socket.on("error", () => {});
  await once(socket, "secureConnect");
  return socket;
}

/** The answer to a call that is written as the test says. */
async function said(path: string, envelope: object): Promise<string> {
  const socket = await joined(path);
  const body = Buffer.concat(serialize(envelope));
  socket.write(`POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: ${body.length}\r\n\r\n`);
  socket.write(body);
  return allOf(socket);
}

/** All that comes until the other side has closed. */
async function allOf(socket: Socket): Promise<string> {
  let text = "";
  socket.on("data", (chunk) => (text += chunk.toString("latin1")));
  socket.on("error", () => {});
  if (!socket.closed) await once(socket, "close");
  return text;
}
