import assert from "node:assert/strict";
import { before, describe, it } from "node:test";
import { createPrincipal } from "../../../src/access/principal.ts";
import type { CallOptions } from "../../../src/host/offers/catalog.ts";
import { Cancellation } from "../../../src/lib/cancellation.ts";
import type { Records } from "../../../src/lib/records.ts";
import { createSealer } from "../../../src/lib/seal.ts";
import { defaultLimits } from "../../../src/limits/limits.ts";
import type { Session } from "../../../src/mcp/legacy/session.ts";
import { Sessions } from "../../../src/mcp/legacy/sessions.ts";
import { post, request, withStatus } from "../../support/berth.ts";
import { LegacyClient } from "../../support/legacy-client.ts";
import { lower } from "../../support/lowered-limits.ts";
import { loneNode, memoryRecords, MemoryHost, rigFor, startRig } from "../../support/mcp-host.ts";
import { inSuite } from "../../support/suite.ts";
import { until } from "../../support/until.ts";

const KEY = new Uint8Array(32).fill(7);
const VERSIONS = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"] as const;

describe("legacy sessions", () => {
  const rig = inSuite(() => startRig({ sealKeys: [KEY] }));
  let url: string;
  before(() => {
    rig.host.offer("one", { tools: { hello: () => "hello" }, resources: { "test://a": "a" } });
    rig.host.offer("two", { release: "1", description: "Everyday things" });
    url = rig.url("one");
  });

  it("initialize gives a session, whose id is visible ASCII and holds for all later requests (T9.5)", async () => {
    for (const version of VERSIONS) {
      const client = await LegacyClient.start(url, version);
      assert.match(client.session ?? "", /^[\x21-\x7e]+$/);
      assert.deepEqual(await client.result("ping"), {});
      assert.equal(await client.notify("notifications/initialized"), 202);
      assert.equal((await client.result("tools/call", { name: "hello" })).content[0].text, "hello");
    }
  });

  const initialize = async (protocolVersion: string) => {
    const params = { protocolVersion, capabilities: {}, clientInfo: { name: "test", version: "1" } };
    return (await post(rig.url("two"), request("initialize", params))).body.result;
  };

  it("initialize gives the server's name, version and instructions (T3.1)", async () => {
    const { serverInfo, instructions } = await initialize("2025-11-25");
    assert.equal(serverInfo.name, "two");
    assert.match(serverInfo.version, /\+1$/);
    assert.equal(instructions, "Everyday things");
  });

  it("initialize answers with the requested version, or with the latest of the era (T3.2)", async () => {
    for (const version of VERSIONS) assert.equal((await initialize(version)).protocolVersion, version);
    assert.equal((await initialize("1999-01-01")).protocolVersion, "2025-11-25");
    assert.equal((await initialize("2026-07-28")).protocolVersion, "2025-11-25");
  });

  it("initialize names all that a server of the revision may offer (T3.3)", async () => {
    const listChanged = true;
    const resources = { subscribe: true, listChanged };
    const early = { tools: { listChanged }, resources, prompts: { listChanged }, logging: {} };
    assert.deepEqual((await initialize("2024-11-05")).capabilities, early);
    assert.deepEqual((await initialize("2025-06-18")).capabilities, { ...early, completions: {} });
  });

  it("rejects an unknown version header and names the supported ones", async () => {
    const { body } = await withStatus(400, post(url, request("ping"), { "MCP-Protocol-Version": "2020-01-01" }));
    assert.ok(body.error.data.supported.includes("2025-11-25"));
  });

  it("a second initialize in a session gives the same session (T3.4)", async () => {
    const client = await LegacyClient.start(url, "2025-06-18");
    const { session } = client;
    client.version = "2025-11-25";
    const again = await (await client.initialize()).nextMessage();
    assert.equal(client.session, session);
    assert.equal(again.result.protocolVersion, "2025-06-18");
  });

  it("a session says the version when the header does not", async () => {
    const client = await LegacyClient.start(url, "2025-06-18");
    const send = (extra: object) => post(url, [request("ping")], { "Mcp-Session-Id": client.session!, ...extra });
    assert.equal((await send({})).status, 400);
    assert.equal((await send({ "MCP-Protocol-Version": "2025-03-26" })).status, 200);
  });

  it("a session that is unknown, forged or of another server is 404 (T14.5)", async () => {
    const client = await LegacyClient.start(url);
    const token = client.session!;
    const middle = token[40] === "A" ? "B" : "A";
    for (const forged of ["stolen", `${token}x`, token.slice(0, 40) + middle + token.slice(41)]) {
      client.session = forged;
      assert.equal((await client.request("ping")).status, 404);
      assert.equal((await client.listen()).status, 404);
      assert.equal(await client.end(), 404);
    }
    client.session = token;
    assert.equal((await client.at(rig.url("two")).request("ping")).status, 404);
  });

  it("DELETE ends a session, its calls and its streams; afterwards it is 404 (S7)", async () => {
    let aborted = false;
    const wait = (_args: unknown, { signal }: CallOptions): Promise<string> =>
      new Promise((resolve) =>
        signal?.addEventListener("abort", () => {
          aborted = true;
          resolve("stopped");
        }),
      );
    rig.host.offer("one", { tools: { wait } });
    const client = await LegacyClient.start(url);
    const stream = await client.listen();
    const call = await client.call("wait");
    assert.equal(await client.end(), 204);
    await until(() => aborted);
    for (const reader of [stream, call]) assert.equal(await reader.nextMessage(), undefined);
    assert.equal((await client.request("ping")).status, 404);
    assert.equal(await client.end(), 404);
  });

  it("requests without a session are served all the same", async () => {
    rig.host.offer("one", { tools: { hello: () => "hello" } });
    const client = new LegacyClient(url, "2025-06-18");
    assert.equal((await client.result("tools/call", { name: "hello" })).content[0].text, "hello");
    assert.equal((await client.result("logging/setLevel", { level: "error" })).error.code, -32600);
    assert.equal((await client.listen()).status, 405);
    assert.equal(await client.end(), 405);
  });

  it("an unknown method in a session is no 404, which would end the session", async () => {
    const client = await LegacyClient.start(url);
    const reader = await withStatus(200, client.request("nope"));
    assert.equal((await reader.nextMessage()).error.code, -32601);
  });

  it("a session goes on after a restart with the same key, and is 404 with another", async (t) => {
    const host = new MemoryHost();
    host.offer("one", { tools: { hello: () => "hello" } });
    const client = await LegacyClient.start(url, "2025-06-18", { sampling: {}, other: { x: 1 } });
    const [same, other] = [await rigFor(t, { host, sealKeys: [KEY] }), await rigFor(t, { host })];
    const result = await client.at(same.url("one")).result("tools/call", { name: "hello" });
    assert.equal(result.content[0].text, "hello");
    assert.equal((await client.at(other.url("one")).request("ping")).status, 404);
  });

  it("what a client said in a session holds after a restart: its level, its subscriptions, its end (S11)", async (t) => {
    const host = new MemoryHost();
    const options = { host, sealKeys: [KEY], records: memoryRecords() };
    const log = (_args: unknown, { onLog }: CallOptions): string => {
      for (const level of ["debug", "info"] as const) onLog?.({ level, message: level });
      return "logged";
    };
    host.offer("one", { resources: { "test://a": "a", "test://b": "b" }, tools: { log } });
    const first = await startRig(options);
    const client = await LegacyClient.start(first.url("one"), "2025-06-18");
    const ended = await LegacyClient.start(first.url("one"), "2025-06-18");
    await client.result("logging/setLevel", { level: "debug" });
    await client.result("resources/subscribe", { uri: "test://a" });
    await client.result("resources/subscribe", { uri: "test://b" });
    await client.result("resources/unsubscribe", { uri: "test://b" });
    assert.equal(await ended.end(), 204);
    await first.close();

    const second = await rigFor(t, options);
    const back = client.at(second.url("one"));
    const stream = await back.listen();
    host.update("one", "test://b");
    host.update("one", "test://a");
    assert.equal((await stream.nextMessage()).params.uri, "test://a");
    assert.equal((await (await back.call("log")).nextMessage()).params.level, "debug");
    const over = ended.at(second.url("one"));
    for (const reply of [await over.request("ping"), await over.listen()]) assert.equal(reply.status, 404);
    stream.close();
  });

  it("what is said in one session at a time is written together, and only what was said last", async () => {
    const records = memoryRecords();
    const values: string[] = [];
    const reads: string[] = [];
    const counted: Records = {
      ...records,
      record: (tenant, kind, key) => (reads.push(key), records.record(tenant, kind, key)),
      putRecord(tenant, kind, key, put) {
        if (kind === "session" && !key.startsWith("/")) values.push(put.value);
        return records.putRecord(tenant, kind, key, put);
      },
    };
    const sessions = new Sessions(createSealer([KEY]), counted, defaultLimits, loneNode().cluster);
    const session = sessions.issue({ tenant: "a", server: "one", principal: undefined }, "2025-03-26", {});
    await Promise.all(Array.from({ length: 100 }, (_, at) => sessions.change(session, { subscribe: `test://${at}` })));
    assert.equal(values.length, 2);
    assert.ok(reads.length <= 4, `${reads.length} reads`);
    assert.equal(JSON.parse(values.at(-1)!).subscriptions.length, 100);
    await Promise.all([...session.subscriptions].map((unsubscribe) => sessions.change(session, { unsubscribe })));
    assert.deepEqual(JSON.parse(values.at(-1)!).subscriptions, []);
    assert.equal(values.length, 4);
    assert.ok(reads.length <= 4, `${reads.length} reads`);
  });

  it("the subscriptions of a session have 64 KiB characters together", async (t) => {
    const rig = await rigFor(t);
    const uris = Array.from({ length: 33 }, (_, at) => `test://${at}/`.padEnd(2_048, "x"));
    rig.host.offer("one", { resources: Object.fromEntries(uris.map((uri) => [uri, "text"])) });
    const client = await LegacyClient.start(rig.url("one"), "2025-06-18");
    const subscribe = (at: number) => client.result("resources/subscribe", { uri: uris[at] });
    for (let at = 0; at < 32; at++) assert.deepEqual(await subscribe(at), {});
    assert.match((await subscribe(32)).error.message, /65536 characters/);
  });

  it("keptSessionBytesPerTenant: more is refused to that tenant, and a session may end all the same", async (t) => {
    t.after(lower({ keptSessionBytesPerTenant: 3 * 1_024 }));
    const rig = await rigFor(t);
    rig.host.offer("one", {});
    const clients = [];
    for (let at = 0; at < 4; at++) clients.push(await LegacyClient.start(rig.url("one"), "2025-06-18"));
    const said = [];
    for (const client of clients) said.push(await client.result("logging/setLevel", { level: "debug" }));
    assert.deepEqual(said.slice(0, 3), [{}, {}, {}]);
    assert.match(said[3].error.message, /bytes of \d sessions, and the limit is/);
    // Existing sessions may still change.
    assert.deepEqual(await clients[0]!.result("logging/setLevel", { level: "error" }), {});
    assert.equal(await clients[3]!.end(), 204);
  });

  it("a session ends after sessionMs", async (t) => {
    const short = await rigFor(t, { limits: { ...defaultLimits, sessionMs: 1 } });
    short.host.offer("one", {});
    const client = await LegacyClient.start(short.url("one"));
    await until(async () => (await client.request("ping")).status === 404);
  });

  it("of sessions more than the process remembers, those in use stay and no more are made", async (t) => {
    const small = await rigFor(t, { limits: { ...defaultLimits, sessions: 2 } });
    small.host.offer("one", {});
    const at = small.url("one");
    const [first, second] = [await LegacyClient.start(at), await LegacyClient.start(at)];
    const streams = [await first.listen(), await second.listen()];
    const third = new LegacyClient(at, "2025-11-25");
    assert.equal((await third.initialize()).status, 503);
    streams[0]?.close();
    await until(async () => (await third.initialize()).status === 200);
    assert.equal((await second.request("ping")).status, 200);
    streams[1]?.close();
  });

  it("where there is no room, whoever has most loses what is under way, and others have theirs", () => {
    const limits = { ...defaultLimits, sessions: 6 };
    const sessions = new Sessions(createSealer([KEY]), memoryRecords(), limits, loneNode().cluster);
    /** A session with a call under way. */
    const busy = (tenant: string, id: string): Session => {
      const principal = createPrincipal({ id, tenant }, []);
      const session = sessions.issue({ tenant, server: "one", principal }, "2025-11-25", {});
      session.calls.set(1, new Cancellation());
      session.present = 1;
      return session;
    };
    const isThere = ({ token }: Session): boolean => [...sessions.values()].some((each) => each.token === token);
    const first = [1, 2, 3, 4, 5, 6].map((at) => busy("a", at < 6 ? "x" : "y"));
    assert.throws(() => busy("a", "x"), /Too many sessions/);
    const second = [busy("b", "x"), busy("a", "y"), busy("b", "x"), busy("b", "x")];
    assert.deepEqual(first.map(isThere), [false, false, false, false, true, true]);
    assert.ok(first.slice(0, 4).every(({ calls }) => calls.get(1)!.aborted));
    assert.ok(second.every(isThere));
    assert.throws(() => busy("b", "x"), /Too many sessions/);
    assert.equal(sessions.size, 6);
  });

  it("a call that waits for the answer of a client that has left keeps no place of a session", async (t) => {
    const small = await rigFor(t, { limits: { ...defaultLimits, sessions: 2 } });
    const ask = () => ({ inputRequests: { roots: { method: "roots/list", params: {} } } }) as const;
    small.host.offer("one", { tools: { ask } });
    const at = small.url("one");
    const start = () => LegacyClient.start(at, "2025-11-25", { roots: {} });
    const streams = [];
    for (const client of [await start(), await start()]) {
      const stream = await client.call("ask");
      assert.equal((await stream.nextMessage()).method, "roots/list");
      streams.push(stream);
    }
    assert.equal((await new LegacyClient(at, "2025-11-25").initialize()).status, 503);
    for (const stream of streams) stream.close();
    await until(async () => (await new LegacyClient(at, "2025-11-25").initialize()).status === 200);
  });

  it("a session without anything to lose that was forgotten for room goes on", async (t) => {
    const small = await rigFor(t, { limits: { ...defaultLimits, sessions: 1 } });
    small.host.offer("one", {});
    const at = small.url("one");
    const first = await LegacyClient.start(at);
    const second = await LegacyClient.start(at);
    assert.equal((await first.request("ping")).status, 200);
    assert.equal((await second.request("ping")).status, 200);
  });
});
