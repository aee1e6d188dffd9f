import assert from "node:assert/strict";
import { join } from "node:path";
import { after, afterEach, before, describe, it } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import Database from "#better-sqlite3";
import { DATABASE_FILE } from "../../../src/store/sqlite/open-database.ts";
import { call, startTestBerth, type TestBerth } from "../../support/berth.ts";
import { officialSession } from "../../support/clients/official-session.ts";
import { olderSession } from "../../support/clients/older-session.ts";
import { freePort } from "../../support/free-port.ts";
import { LegacyClient, type EventReader } from "../../support/legacy-client.ts";
import { ServeProcess } from "../../support/serve-process.ts";
import { until } from "../../support/until.ts";

const REAL_CLIENTS = process.env["BERTH_TEST_CLIENTS"] === "real";

describe("streams after the end of their process", () => {
  let berth: TestBerth;
  let served: ServeProcess | undefined;
  let folders = 0;
  let data = "";
  before(async () => {
    berth = await startTestBerth({ files: ["test/fixtures/servers/streaming.ts", "test/fixtures/servers/whole.ts"] });
  });
  afterEach(() => served?.end("SIGKILL"));
  after(() => berth.close());

  /** Starts a process on data of its own; returns a function that replaces it by another one. */
  async function serve(env: Record<string, string> = {}): Promise<(how: "SIGTERM" | "SIGKILL") => Promise<void>> {
    data = join(berth.folder, `data-${++folders}`);
    const args = ["--data", data, "--image", join(berth.folder, "boot")];
    args.push("--port", String(await freePort()));
    served = await ServeProcess.start(args, env);
    return async (how) => {
      await served!.end(how);
      served = await ServeProcess.start(args, env);
    };
  }

  /** Messages are written with a delay: resolves when the store has the text, `times` times, in one stream. */
  const written = (text: string, times = 1): Promise<unknown> =>
    until(() => {
      const database = new Database(join(data, DATABASE_FILE), { readonly: true });
      try {
        const values = database.prepare("SELECT value FROM record WHERE kind = 'stream'").pluck().all() as string[];
        return values.some((value) => value.split(text).length > times);
      } finally {
        database.close();
      }
    }, `the store has "${text}" ${times} times`);

  /** The messages until the end of the stream. */
  // oxlint-disable-next-line typescript/no-explicit-any
  async function rest(reader: EventReader): Promise<any[]> {
    const messages = [];
    for (let event = await reader.next(); event; event = await reader.next()) {
      if (event.data !== "") messages.push(event.message);
    }
    return messages;
  }

  /** Reads events up to one with this message, and leaves; returns its id. */
  async function leaveAfter(reader: EventReader, text: string): Promise<string> {
    for (;;) {
      const event = await reader.next();
      assert.ok(event, "the stream ended too early");
      if (!JSON.stringify(event.message ?? "").includes(text)) continue;
      reader.close();
      return event.id!;
    }
  }

  it("after kill -9 a client gets the events that it missed, and an error for the call that was lost (S7)", async () => {
    const restart = await serve();
    const client = await LegacyClient.start(`${served!.url}/mcp/streaming`);
    const last = await leaveAfter(await client.call("drip", { count: 1000, ms: 20 }, "dripping"), '"2 ');
    await written("10 x");
    await restart("SIGKILL");
    const reader = await client.listen(last);
    assert.equal(reader.status, 200);
    const messages = await rest(reader);
    const end = messages.pop();
    assert.equal(end.id, "dripping");
    assert.match(end.error.message, /answer was lost.*send the request again/);
    assert.deepEqual(end.error.data, { retriable: true });
    assert.ok(messages.length > 5, `${messages.length} events`);
    const progress = messages.map(({ params }) => params.progress as number);
    assert.deepEqual(
      progress,
      progress.map((_, index) => index + 3),
    );
  });

  it("a graceful restart keeps how the calls under way have ended (S7)", async () => {
    const restart = await serve();
    const client = await LegacyClient.start(`${served!.url}/mcp/streaming`);
    const last = await leaveAfter(await client.call("drip", { count: 1000, ms: 20 }, "dripping"), '"2 ');
    await restart("SIGTERM");
    const messages = await rest(await client.listen(last));
    assert.match(messages.at(-1).result.content[0].text, /shutting down\. The same call may succeed when repeated/);
  });

  it("a stream to listen to goes on, with what it missed (S7, S11)", async () => {
    const restart = await serve();
    const client = await LegacyClient.start(`${served!.url}/mcp/whole`);
    await client.result("resources/subscribe", { uri: "notes://shopping" });
    const listening = await client.listen();
    await client.result("tools/call", { name: "write", arguments: { text: "milk" } });
    const last = await leaveAfter(listening, "resources/updated");
    await client.result("tools/call", { name: "write", arguments: { text: "tea" } });
    await written("resources/updated", 2);
    await restart("SIGKILL");
    const back = await client.listen(last);
    assert.equal((await back.nextMessage()).method, "notifications/resources/updated", "what it missed");
    const heard = new Set<string>();
    while (heard.size < 4) heard.add((await back.nextMessage()).method as string);
    assert.ok(heard.has("notifications/tools/list_changed"), "nobody knows what happened between the two");
    await client.result("tools/call", { name: "write", arguments: { text: "jam" } });
    assert.equal((await back.nextMessage()).method, "notifications/resources/updated", "it goes on");
    back.close();
  });

  it("real clients come back after kill -9, for a result and for an error (S7)", { skip: !REAL_CLIENTS }, async () => {
    // Clients are disconnected early, and told to come back when another process serves.
    const restart = await serve({
      BERTH_STREAM_CONNECTION_MS: "100",
      BERTH_STREAM_RETRY_MS: "8000",
      BERTH_SILENT_CALL_MS: "10",
    });
    const openers = [officialSession("legacy"), olderSession("Streamable HTTP")];
    const sessions = await Promise.all(openers.map((opener) => opener.open(`${served!.url}/mcp/whole`)));
    try {
      const ready = sessions.map((session, index) => session.call("brew", { cup: `one of ${index}` }));
      const lost = sessions.map((session) => assert.rejects(session.call("brew", { cup: "two" }), /answer was lost/));
      await sleep(300);
      for (const index of sessions.keys()) {
        await call(`${served!.url}/mcp/whole`, "pour", { cup: `one of ${index}` });
        await written(`one of ${index} is ready`);
      }
      await restart("SIGKILL");
      for (const [index, { name }] of openers.entries()) {
        assert.equal((await ready[index]!).content[0]?.text, `one of ${index} is ready`, name);
        await lost[index];
      }
    } finally {
      for (const session of sessions) await session.close();
    }
  });
});
