import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { cpuMs } from "../../../src/processes/process-tree.ts";
import { MODERN_META, request, startTestBerth, type TestBerth } from "../../support/berth.ts";
import { cli } from "../../support/commands.ts";
import { descendants, isAlive, memoryOf } from "../../support/processes.ts";
import { StdioSession, type Said } from "../../support/stdio-session.ts";
import { until } from "../../support/until.ts";

/** Resolves when processes have used no CPU time at many consecutive looks. */
function untilIdle(pids: readonly number[]): Promise<boolean> {
  let [lastMs, looks] = [-1, 0];
  return until(() => {
    const ms = cpuMs(pids);
    [looks, lastMs] = [ms === lastMs ? looks + 1 : 0, ms];
    return looks > 30;
  });
}

describe("berth stdio", () => {
  let berth: TestBerth;
  let folder: string;
  let image: string[];
  const sessions: StdioSession[] = [];
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), "berth-stdio-"));
    berth = await startTestBerth({
      files: ["streaming", "everyday", "chatty"].map((name) => `test/fixtures/servers/${name}.ts`),
    });
    image = ["--image", join(berth.folder, "boot"), "--data", join(folder, "data")];
  });
  after(async () => {
    for (const { child } of sessions) child.kill("SIGKILL");
    await berth.close();
    await rm(folder, { recursive: true, force: true });
  });
  const start = (server: string, env?: Record<string, string>): StdioSession => {
    const session = new StdioSession([server, ...image], env);
    sessions.push(session);
    return session;
  };
  const call = (id: number, name: string, args: object, meta?: object): object =>
    request("tools/call", { ...(meta && { _meta: meta }), name, arguments: args }, id);

  it("before the handshake only ping and initialize are answered, everything else is -32002 (S1)", async () => {
    const session = start("everyday");
    session.send(request("ping", undefined, 1), request("tools/list", undefined, 2), call(3, "add", { a: 1 }));
    session.send([request("ping", undefined, 4)]);
    assert.deepEqual((await session.answer(1)).result, {});
    for (const id of [2, 3, null]) assert.equal((await session.answer(id)).error.code, -32002);
    const { result } = await session.initialize();
    assert.equal(result.protocolVersion, "2025-11-25");
    session.send(request("tools/list", undefined, 5));
    assert.ok((await session.answer(5)).result.tools.length > 5);
    assert.equal(await session.end(), 0);
  });

  it("what is sent together with initialize waits for it, and a second handshake is harmless (S1)", async () => {
    const session = start("everyday");
    const params = { protocolVersion: "2025-03-26", capabilities: {}, clientInfo: { name: "test", version: "1" } };
    session.send(request("initialize", params, 1), call(2, "add", { a: 1 }), [request("ping", undefined, 3)]);
    assert.equal((await session.answer(1)).result.protocolVersion, "2025-03-26");
    assert.match((await session.answer(2)).result.content[0].text, /11/);
    assert.deepEqual(await session.until(Array.isArray), [{ jsonrpc: "2.0", id: 3, result: {} }]);
    assert.equal((await session.initialize("2025-06-18")).result.protocolVersion, "2025-03-26");
    assert.equal(await session.end(), 0);

    const later = start("everyday");
    await later.initialize("2025-06-18");
    later.send([request("ping", undefined, 4)]);
    assert.equal((await later.answer(null)).error.code, -32600, "2025-06-18 has no batches");
    assert.equal(await later.end(), 0);
  });

  it("modern requests need no handshake, and both eras go over one connection (S6)", async () => {
    const session = start("everyday");
    session.send(request("server/discover", { _meta: MODERN_META }, 1), call(2, "add", { a: 1 }, MODERN_META));
    assert.ok((await session.answer(1)).result.supportedVersions.includes("2026-07-28"));
    assert.equal((await session.answer(2)).result.resultType, "complete");
    await session.initialize();
    session.send(call(3, "add", { a: 2 }), call(4, "add", { a: 3 }, MODERN_META));
    assert.equal((await session.answer(3)).result.resultType, undefined);
    assert.equal((await session.answer(4)).result.resultType, "complete");
    const future = { ...MODERN_META, "io.modelcontextprotocol/protocolVersion": "2099-01-01" };
    session.send(call(5, "add", { a: 3 }, future));
    assert.equal((await session.answer(5)).error.code, -32022);
    assert.equal(await session.end(), 0);
  });

  it("calls run side by side, with progress for those that ask (S4)", async () => {
    const session = start("streaming");
    await session.initialize();
    session.send(
      call(1, "stepwise", { count: 2 }),
      call(2, "drip", { count: 3, ms: 10 }, { progressToken: "two" }),
      call(3, "drip", { count: 3, ms: 10 }),
      call(4, "drip", { count: 2, ms: 10 }, { ...MODERN_META, progressToken: 4 }),
    );
    for (const id of [2, 3, 4]) await session.answer(id);
    assert.ok(!session.said.some(({ id }: Said) => id === 1), "what was asked first goes on meanwhile");
    session.send(call(5, "step", {}));
    await session.answer(1);
    const progress = session.said.filter(({ method }: Said) => method === "notifications/progress");
    const tokens = progress.map(({ params }: Said) => params.progressToken);
    assert.deepEqual(tokens.map(String).sort(), ["4", "4", "two", "two", "two"]);
    assert.equal(await session.end(), 0);
  });

  it("notifications/cancelled stops the guest in both eras, and nothing more is said about the call (S5)", async () => {
    const session = start("streaming");
    await session.initialize();
    session.send(call(1, "quiet", { ms: 20_000 }));
    session.send(call(2, "drip", { count: 999, ms: 30 }, { ...MODERN_META, progressToken: 2 }));
    await session.until(({ method }) => method === "notifications/progress");
    for (const requestId of [1, 2, 77, {}]) {
      session.send({ jsonrpc: "2.0", method: "notifications/cancelled", params: { requestId } });
    }
    // Lines are read in order: an answer to a later line shows that they have been read.
    session.send(call(9, "state", {}));
    await session.answer(9);
    const before = session.said.length;
    let id = 9;
    const areStopped = async (): Promise<boolean> => {
      session.send(call(++id, "state", {}));
      const { stopped, begun } = (await session.answer(id)).result.structuredContent;
      // A guest that does not react within a second, on a busy machine, has been replaced.
      return stopped === 2 || begun === 0;
    };
    await until(areStopped);
    const later = session.said.slice(before);
    assert.deepEqual(
      later.filter(({ id }: Said) => !(id >= 10)),
      [],
    );
    assert.equal(await session.end(), 0);
  });

  it("a line that is no message is answered, and the next one is served", async () => {
    const session = start("everyday", { BERTH_BODY_BYTES: "1000" });
    session.send("junk", "", "  ", "[]", "7", `"${"x".repeat(5_000)}"`, `${"[".repeat(400)}${"]".repeat(400)}`);
    session.child.stdin!.write(Buffer.from([0x22, 0xff, 0xfe, 0x22, 0x0a]));
    session.send({ jsonrpc: "2.0", id: 1 }, request("ping", undefined, 2));
    assert.deepEqual((await session.answer(2)).result, {});
    const codes = session.said.filter(({ error }: Said) => error).map(({ error }: Said) => error.code);
    const count = (code: number): number => codes.filter((each: number) => each === code).length;
    assert.deepEqual([count(-32700), count(-32002), count(-32600), codes.length], [2, 1, 4, 7]);
    assert.equal(await session.end(), 0);
  });

  it("an id that is under way is refused until it is answered", async () => {
    const session = start("streaming");
    await session.initialize();
    // In one piece, so that the first is under way when the second is read.
    session.send([300, 1].map((ms) => JSON.stringify(call(1, "quiet", { ms }))).join("\n"));
    assert.equal((await session.answer(1)).error.code, -32600);
    await session.until(({ id, result }) => id === 1 && result);
    assert.equal(await session.end(), 0);
  });

  it("nothing but messages is written to standard output, and logs to standard error (S6)", async () => {
    const session = start("everyday", { BERTH_LOG: "debug" });
    await session.initialize();
    session.send(call(1, "fail", {}), { jsonrpc: "2.0", method: "notifications/nonsense" });
    assert.equal((await session.answer(1)).result.isError, true);
    assert.equal(await session.end(), 0);
    for (const line of session.stderr.trim().split("\n").filter(Boolean)) JSON.parse(line);
  });

  it("what was asked before the end of the input is answered (S6)", () => {
    const hello = { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "a", version: "1" } };
    const lines = [request("initialize", hello), call(2, "wait", { ms: 200 })];
    const input = lines.map((line) => JSON.stringify(line)).join("\n");
    const args = [cli, "stdio", "everyday", ...image];
    const { stdout, status } = spawnSync(process.execPath, args, { input, encoding: "utf8" });
    assert.equal(status, 0);
    assert.match(stdout, /waited 200 ms/);
    assert.ok(stdout.endsWith("\n"));
  });

  for (const signal of ["SIGTERM", "SIGINT", "SIGHUP"] as const) {
    it(`${signal} ends it with exit code 0, and no process is left (S6)`, async () => {
      const session = start("streaming");
      await session.initialize();
      session.send(call(1, "quiet", { ms: 20_000 }), call(2, "state", {}));
      await session.answer(2);
      const guests = descendants(session.child.pid);
      assert.ok(guests.length > 0 || process.platform !== "linux", "no guest was started");
      session.child.kill(signal);
      assert.equal(await session.ended, 0);
      await until(() => !guests.some(isAlive));
    });
  }

  it("a client that is gone without a word ends it, too (S6)", async () => {
    const session = start("streaming");
    await session.initialize();
    session.send(call(1, "drip", { count: 100_000, ms: 1 }, { progressToken: 1 }));
    await session.until(({ method }) => method === "notifications/progress");
    const guests = descendants(session.child.pid);
    assert.ok(guests.length > 0 || process.platform !== "linux", "no guest was started");
    session.child.stdout!.destroy();
    assert.equal(await session.ended, 0);
    await until(() => !guests.some(isAlive));
  });

  it("a client that does not read holds the guest back (S3)", async () => {
    const session = start("streaming");
    await session.initialize();
    session.send(call(1, "state", {}));
    await session.answer(1);
    const [before, guests] = [memoryOf(session.child.pid!).nowMb, descendants(session.child.pid)];
    session.child.stdout!.pause();
    session.send(call(2, "drip", { count: 100_000, ms: 0, bytes: 4_000 }, { progressToken: 1 }));
    await untilIdle(guests);
    const grownMb = memoryOf(session.child.pid!).nowMb - before;
    assert.ok(grownMb < 150, `of 400 MB that the guest has to say ${grownMb} were taken`);
    session.send({ jsonrpc: "2.0", method: "notifications/cancelled", params: { requestId: 2 } });
    session.child.stdout!.resume();
    session.send(call(3, "state", {}));
    const { yielded } = (await session.answer(3)).result.structuredContent;
    assert.ok(yielded < 50_000, `${yielded} events were yielded to nobody`);
    assert.equal(await session.end(), 0);
  });

  it("what a guest logs to a client that does not read takes up no memory", async () => {
    const session = start("chatty");
    await session.initialize();
    session.send(request("logging/setLevel", { level: "debug" }, 1), call(2, "chat", { lines: 1, bytes: 10 }));
    await session.answer(2);
    const before = memoryOf(session.child.pid!).nowMb;
    session.child.stdout!.pause();
    const [count, bytes] = [600, 256 * 1024];
    session.send(call(3, "chat", { lines: count, bytes }));
    const guests = descendants(session.child.pid);
    await untilIdle(guests);
    const grownMb = memoryOf(session.child.pid!).peakMb - before;
    assert.ok(grownMb < 100, `of 150 MB that the guest has logged ${grownMb} were taken`);
    session.child.stdout!.resume();
    assert.equal((await session.answer(3)).result.content[0].text, `said ${count}`);
    assert.equal(await session.end(), 0);
  });

  it("a server that does not exist is said on standard error, with exit code 2", async () => {
    const session = start("nothing-of-that-name");
    assert.equal(await session.ended, 2);
    assert.match(session.stderr, /No such server: "nothing-of-that-name"/);
    assert.deepEqual(session.said, []);
  });
});
