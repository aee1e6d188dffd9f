import assert from "node:assert/strict";
import { join } from "node:path";
import { after, describe, it, test, type TestContext } from "node:test";
import { pathToFileURL } from "node:url";
import { clock } from "../../../src/lib/clock.ts";
import type { BerthError } from "../../../src/lib/errors.ts";
import type { Upstream } from "../../../src/upstream/upstream.ts";
import { call, post, request } from "../../support/berth.ts";
import { freePort } from "../../support/free-port.ts";
import { host, hostedServer } from "../../support/hosted-upstreams.ts";
import { LegacyClient } from "../../support/legacy-client.ts";
import { until } from "../../support/until.ts";
import { fixtures, openUpstream } from "../../support/upstreams.ts";

/** See test/fixtures/upstreams/restarting.mjs. */
interface Restarting {
  readonly generation: number;
  holds: boolean;
  readonly held: readonly string[];
  readonly requested: readonly string[];
  readonly streams: ReadonlySet<unknown>;
  start(port: number): Promise<void>;
  stop(): Promise<void>;
  closeStdin(): Promise<void>;
  notify(method: string, params?: object): void;
  cutStreams(): void;
}
type Transport = "stdio" | "json" | "sse";
type Era = "legacy" | "modern";

const file = join(fixtures, "restarting.mjs");
const fixture = (await import(pathToFileURL(file).href)) as { Restarting: new (...of: string[]) => Restarting };

/** Time in which a server that is back has to be in service, by the clock that leaps, too. */
const BACK_MS = 5_000;

async function startServer(t: TestContext, transport: Transport, era: Era) {
  const port = await freePort();
  const server = new fixture.Restarting(transport, era);
  await server.start(port);
  t.after(() => server.stop());
  const uri = transport === "stdio" ? `mcp+node://${file}?arg=${port}` : `mcp+http://127.0.0.1:${port}/mcp`;
  return { server, uri, start: () => server.start(port) };
}

async function open(t: TestContext, transport: Transport, era: Era) {
  const started = await startServer(t, transport, era);
  const lists: string[] = [];
  let lost = 0;
  const updated: string[] = [];
  const upstream = openUpstream(started.uri, {
    onContract: async ({ contract }) => void lists.push(contract.tools.map(({ name }) => name).join()),
    onResourceUpdated: (uri) => void updated.push(uri),
    onLost: () => lost++,
  });
  t.after(() => upstream.close());
  await upstream.start();
  const stop = async (): Promise<void> => {
    const before = lost;
    await started.server.stop();
    // What is sent while a connection ends may have been read.
    if (transport !== "json") await until(() => lost > before);
  };
  return { ...started, stop, upstream, lists, updated };
}

interface Outcome {
  readonly said: string;
  readonly code?: string;
  readonly retriable?: unknown;
}

/** A request for a tool, or for the resource of that URI. */
function ask(upstream: Upstream, name: string, timeoutMs?: number): Promise<Outcome> {
  const asked = name.includes("://")
    ? ({ method: "resources/read", uri: name } as const)
    : ({ method: "tools/call", name, args: {} } as const);
  return upstream.request(asked, timeoutMs === undefined ? {} : { timeoutMs }).then(
    (result) => ({ said: JSON.stringify(result) }),
    ({ code, message, data }: BerthError) => ({ said: message, code, retriable: data?.["retriable"] }),
  );
}

// Timers of Berth alone do not keep a process alive.
const alive = setInterval(() => {}, 60_000);
after(() => clearInterval(alive));

/** Lets time pass until `find` has found something, at most `ms`. */
async function leapUntil<T>(find: () => T | Promise<T>, ms: number): Promise<NonNullable<T>> {
  for (let left = ms; ; left -= 250) {
    // Work that needs no time is done by then.
    for (let looks = 0; looks < 20; looks++) {
      const found = await find();
      if (found) return found;
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
    assert.ok(left > 0, `not so after ${ms} ms: ${find.toString()}`);
    clock.leap(250);
  }
}

const settled = async <T>(work: Promise<T>, ms: number): Promise<T> => {
  let isOver = false;
  const over = work.finally(() => (isOver = true));
  over.catch(() => {});
  await leapUntil(() => isOver, ms);
  return over;
};

const inService = (upstream: Upstream): Promise<boolean> =>
  leapUntil(async () => /generation 2/.test((await ask(upstream, "now", BACK_MS)).said), BACK_MS);

const NAMES = ["wait", "repeat", "look", "wait", "r://1"];
const FIFTY = Array.from({ length: 50 }, (_, at) => NAMES[at % NAMES.length]!);
const count = (all: readonly string[], name: string): number => all.filter((each) => each === name).length;

const KINDS: readonly (readonly [string, Transport, Era])[] = [
  ["a program", "stdio", "legacy"],
  ["a modern program", "stdio", "modern"],
  ["a server at an address", "json", "legacy"],
  ["a modern server at an address", "json", "modern"],
  ["a server of HTTP+SSE", "sse", "legacy"],
];

for (const [kind, transport, era] of KINDS) {
  describe(`${kind} that is stopped and started again`, () => {
    it("during 50 requests answers those that may be repeated; the others are lost, and told", async (t) => {
      const { server, upstream, lists, stop, start } = await open(t, transport, era);
      server.holds = true;
      const asked = FIFTY.map((name) => ask(upstream, name));
      await until(() => server.held.length === FIFTY.length);
      await until(() => server.streams.size > 0);
      server.notify("notifications/tools/list_changed");
      await until(() => server.held.includes("tools/list"));
      await stop();
      await start();
      await inService(upstream);
      const outcomes = await settled(Promise.all(asked), BACK_MS);
      for (const [at, { said, code, retriable }] of outcomes.entries()) {
        const name = FIFTY[at]!;
        // One that is repeated while the server is away fails.
        if (name === "r://1") assert.match(said, /r:\/\/1 of generation 2|cannot be started or reached/);
        else assert.deepEqual([name, code, retriable], [name, "answer_lost", name !== "wait"], said);
      }
      for (const name of ["wait", "repeat", "look"])
        assert.equal(count(server.requested, name), count(FIFTY, name), `${name} is not repeated`);
      await leapUntil(() => lists.at(-1)?.endsWith("extra"), BACK_MS);
    });

    it("fails calls while it is away, and serves within seconds of its return, however long that took", async (t) => {
      const { upstream, stop, start } = await open(t, transport, era);
      await stop();
      for (let minutes = 0; minutes < 6; minutes++) {
        clock.leap(60_000);
        const { code = "" } = await ask(upstream, "now", 250);
        assert.match(code, /^(?:upstream_|answer_lost)/);
      }
      await start();
      await inService(upstream);
    });

    it("is listened to again, and its lists are compared again", async (t) => {
      const { server, upstream, lists, updated, stop, start } = await open(t, transport, era);
      const hears = async (uri: string): Promise<void> => {
        await leapUntil(() => server.streams.size > 0, BACK_MS);
        server.notify("notifications/resources/updated", { uri });
        await until(() => updated.includes(uri));
        const before = lists.length;
        server.notify("notifications/tools/list_changed");
        await until(() => lists.length > before);
      };
      await hears("r://1");
      if (transport !== "stdio") {
        server.cutStreams();
        await hears("r://2");
      }
      await stop();
      await start();
      await inService(upstream);
      await until(() => lists.at(-1)?.endsWith("extra"));
      await hears("r://3");
    });
  });
}

for (const era of ["legacy", "modern"] as const) {
  test(`a program that closes its stdin and lives is replaced at the next call (${era})`, async (t) => {
    const { server, upstream, lists } = await open(t, "stdio", era);
    server.holds = true;
    const asked = FIFTY.map((name) => ask(upstream, name));
    await until(() => server.held.length === FIFTY.length);
    await server.closeStdin();
    await inService(upstream);
    for (const [at, { said, code }] of (await settled(Promise.all(asked), BACK_MS)).entries())
      if (FIFTY[at] === "r://1") assert.match(said, /generation 2/);
      else assert.equal(code, "answer_lost", said);
    assert.match(lists.at(-1)!, /extra$/);
  });
}

for (const transport of ["stdio", "json"] as const) {
  test(`a hosted server that restarts during 50 calls answers each of them, and is in service again (${transport})`, async (t) => {
    const { server, uri, start } = await startServer(t, transport, "legacy");
    const hosted = hostedServer(await host(t, { server: { upstream: uri } }));
    assert.match(await hosted.call("now"), /generation 1/);
    const client = await LegacyClient.start(hosted.url);
    const listening = await client.listen();
    await client.result("resources/subscribe", { uri: "r://1" });
    server.holds = true;
    const replies = FIFTY.map(async (name) => {
      if (!name.includes("://")) return JSON.stringify(await call(hosted.url, name));
      const { body } = await post(hosted.url, request("resources/read", { uri: name }));
      return JSON.stringify(body);
    });
    await until(() => server.held.length === FIFTY.length);
    await server.stop();
    if (transport === "stdio") await until(async () => (await hosted.state()).state !== "running");
    await start();
    assert.match(await hosted.call("now"), /generation 2/);
    for (const [at, reply] of (await settled(Promise.all(replies), BACK_MS)).entries()) {
      const name = FIFTY[at]!;
      if (name === "r://1") assert.match(reply, /r:\/\/1 of generation 2/);
      else assert.match(reply, name === "wait" ? /lost.*may have taken effect/ : /lost.*may be repeated/);
    }
    assert.equal((await hosted.state()).state, "running");
    await until(async () => (await hosted.tools()).includes("extra"));
    await leapUntil(() => server.streams.size > 0, BACK_MS);
    server.notify("notifications/resources/updated", { uri: "r://1" });
    for (let method = ""; method !== "notifications/resources/updated";)
      ({ method = "" } = await listening.nextMessage());
    listening.close();
  });
}
