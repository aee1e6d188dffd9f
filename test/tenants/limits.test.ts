import assert from "node:assert/strict";
import { before, describe, it } from "node:test";
import { clock } from "../../src/lib/clock.ts";
import { apiOf, type ApiReply } from "../support/api.ts";
import { call, NODES, post, request, withStatus } from "../support/berth.ts";
import { LegacyClient, read, type EventReader } from "../support/legacy-client.ts";
import { processesWith } from "../support/processes.ts";
import { berthFor, berthInSuite } from "../support/suite.ts";
import { addTenant, listenTo, onStoreOf } from "../support/tenants.ts";
import { inOneOf, until } from "../support/until.ts";
import { hostile } from "../support/upstreams.ts";

const HELD = `/** Never ends by itself. */\nexport function held(): Promise<never> { return new Promise(() => {}); }\n`;
const SPIN = `/** Never ends. */\nexport function spin(): never { for (;;); }\n`;
const SAY = `/** Says hello. */\nexport function say(): string { return "hello"; }\n`;

describe("limits of tenants", () => {
  const mark = `limits-${process.pid}`;
  const berth = berthInSuite({
    texts: { "say.ts": SAY, "single.ts": HELD + SAY, "seldom.ts": SAY },
    mcps: {
      single: { definition: "single.ts", limits: { calls: 1 } },
      seldom: { definition: "seldom.ts", limits: { calls_per_second: 1 } },
    },
    env: {
      BERTH_TENANT_UPSTREAMS: "on",
      BERTH_UPSTREAM_PROGRAMS: "on",
      BERTH_UPSTREAM_CALL_MS: "120000",
      BERTH_CALL_MS: "120000",
      BERTH_UPSTREAM_END_MS: "300",
    },
  });
  before(async () => {
    const upstream = (name: string): { upstream: string } => ({
      upstream: hostile("misbehaves in calls", `&env.BERTH_TEST_MARK=${mark}-${name}`),
    });
    await onStoreOf(berth, async (store) => {
      await addTenant(store, "narrow", { servers: { held: HELD, say: SAY }, limits: { requests: 2 } });
      await addTenant(store, "slow", { servers: { say: SAY }, limits: { requestsPerSecond: 1, requestBurst: 2 } });
      const mcps = JSON.stringify({ one: upstream("one"), two: upstream("two"), unseen: upstream("unseen") });
      await addTenant(store, "busy", { variables: { mcps }, limits: { upstreamProcesses: 1 } });
      await addTenant(store, "calm", { variables: { mcps: JSON.stringify({ own: upstream("calm") }) } });
      const [one, two] = [1, 2].map((number) => SAY.replace("hello", `hello ${number}`));
      const thrashing = { guestProcesses: 1, processStartsPerMinute: 1 };
      await addTenant(store, "thrashing", { servers: { one: one!, two: two! }, limits: thrashing });
      await addTenant(store, "saving", { servers: { say: SAY }, limits: { savesPerMinute: 1, reviewsPerMinute: 4 } });
      await addTenant(store, "streaming", { servers: { say: SAY }, limits: { streams: 2 } });
    });
  });

  const at = (tenant: string, server: string): string => `${berth.url}/t/${tenant}/mcp/${server}`;
  const callBody = (name: string) => request("tools/call", { name, arguments: {} });
  const saidBy = async (tenant: string, server: string, tool = "echo"): Promise<string> => {
    const { content, error } = await call(at(tenant, server), tool);
    return content?.[0]?.text ?? error.message;
  };

  /** Begins a call that does not end, and returns the function that cancels it. */
  function hold(url: string, tool: string): () => void {
    const over = new AbortController();
    const headers = { "Content-Type": "application/json", Accept: "application/json" };
    const init = { method: "POST", headers, body: JSON.stringify(callBody(tool)), signal: over.signal };
    fetch(url, init).catch(() => {});
    return () => over.abort();
  }

  it("requests above what may be under way are refused with 429 and Retry-After; other tenants notice nothing (C8)", async () => {
    const release = [1, 2].map(() => hold(at("narrow", "held"), "held"));
    const refused = await until(async () => {
      const answer = await post(at("narrow", "say"), callBody("say"));
      return answer.status === 429 ? answer : undefined;
    });
    assert.equal(refused.headers.get("retry-after"), "1");
    assert.match(refused.body.error.message, /the tenant "narrow" already has 2 requests in progress/);
    assert.equal((await call(`${berth.url}/mcp/say`, "say")).content[0].text, "hello");
    for (const each of release) each();
    await until(async () => (await post(at("narrow", "say"), callBody("say"))).status === 200);
  });

  it("requests that come too often are refused until their time has come (C8)", async () => {
    const url = at("slow", "say");
    const statuses = await Promise.all(
      Array.from({ length: 4 * NODES }, async () => (await post(url, callBody("say"))).status),
    );
    assert.ok(statuses.includes(429), statuses.join());
    await until(async () => (await post(url, callBody("say"))).status === 200);
  });

  it("what uses more processor time than its tenant may is held up, and a call that ends for it says so (C8)", async (t) => {
    const hasty = await berthFor(t, { env: { BERTH_CALL_MS: "5000" } });
    const limits = { cpuMsPerSecond: 50 };
    await onStoreOf(hasty, (store) => addTenant(store, "thrifty", { servers: { spin: SPIN }, limits }));
    const why =
      /longer than its deadline of 5000 ms: the guests of the tenant "thrifty" may use 50 ms of CPU time per second/;
    await inOneOf(3, async () => {
      const { content } = await call(`${hasty.url}/t/thrifty/mcp/spin`, "spin");
      assert.match(content[0].text, why);
    });
  });

  it("another limit of a tenant counts from when it is said, without a restart (C8)", async () => {
    const url = at("slow", "say");
    const change = { by: "test", limits: { requestsPerSecond: 1_000, requestBurst: 1_000 } };
    await onStoreOf(berth, (store) => store.tenants.change("slow", change));
    await until(async () => {
      const answers = await Promise.all(Array.from({ length: 20 }, () => post(url, callBody("say"))));
      return answers.every(({ status }) => status === 200);
    });
  });

  it("calls of a server above its own limits fail with a clear tool error; other servers of the tenant do not (C8)", async () => {
    const url = `${berth.url}/mcp/single`;
    const release = hold(url, "held");
    const refused = await until(async () => {
      const { isError, content } = await call(url, "say");
      return isError && (content[0].text as string);
    });
    assert.match(
      refused,
      /the server "single" already has 1 calls in progress, the maximum \("calls" of "limits" in its entry in mcps\); try again in 1 s/,
    );
    assert.equal((await call(`${berth.url}/mcp/say`, "say")).content[0].text, "hello");
    release();
    await until(async () => (await call(url, "say")).content[0].text === "hello");

    const seldom = await Promise.all([1, 2, 3].map(() => call(`${berth.url}/mcp/seldom`, "say")));
    assert.ok(seldom.some(({ isError }) => isError));
  });

  it("upstreamProcesses: an idle program of the tenant makes room for its next; while all are used, it hears why (C8)", async () => {
    assert.equal(await saidBy("busy", "one"), "fine");
    assert.equal(await saidBy("busy", "two"), "fine");
    assert.deepEqual([processesWith(`${mark}-one`).length, processesWith(`${mark}-two`).length], [0, 1]);

    const release = hold(at("busy", "two"), "hang");
    let told = "";
    await until(async () => (told = await saidBy("busy", "one")) !== "fine");
    assert.match(
      told,
      /^Too many processes: the tenant "busy" has 1 upstream programs .* upstreamProcesses, .*try again in 1 s/,
    );
    const unseen = await post(at("busy", "unseen"), request("tools/list"));
    assert.equal(unseen.status, 429, "nothing is wrong with a server for which there is no room");
    assert.equal(unseen.headers.get("retry-after"), "1");
    const entry = JSON.stringify({ upstream: hostile("misbehaves in calls", `&env.BERTH_TEST_MARK=${mark}-saved`) });
    const saved = await apiOf({ url: `${berth.url}/t/busy` }).put("/entries/saved", entry);
    assert.equal(saved.status, 429, `nor with a save: ${JSON.stringify(saved.body)}`);
    assert.equal(saved.headers.get("retry-after"), "1");
    assert.equal(await saidBy("calm", "own"), "fine", "another tenant's program starts meanwhile");
    assert.ok(processesWith(`${mark}-`).length <= 2);
    release();
    await until(async () => (await saidBy("busy", "unseen")) === "fine");
  });

  it("processStartsPerMinute: guests that take turns with one place are started at the tenant's pace (C8)", async () => {
    assert.equal(await saidBy("thrashing", "one", "say"), "hello");
    let [leaps, said] = [0, ""];
    void saidBy("thrashing", "two", "say").then((text) => (said = text));
    await until(() => (clock.leap(1_000), leaps++, said));
    assert.equal(said, "hello");
    assert.ok(leaps > 30, `it started after ${leaps} s`);
    assert.equal((await call(`${berth.url}/mcp/say`, "say")).content[0].text, "hello");
  });

  it("savesPerMinute: saves above it are refused with 429 until their time has come, those of others are not (C8)", async () => {
    const [api, saving] = [apiOf(berth), apiOf({ url: `${berth.url}/t/saving` })];
    for (const each of [api, saving]) assert.equal((await each.put("/variables/plan", "first")).status, 201);
    const refused = await withStatus(429, saving.put("/variables/plan", "second"));
    assert.match(refused.headers.get("retry-after") ?? "", /^([1-9]|[1-5]\d|60)$/);
    assert.match(
      refused.body.error.message,
      /may save 1 times a minute \(its limit savesPerMinute, else BERTH_SAVES_PER_MINUTE_PER_TENANT\); try again in \d/,
    );
    assert.equal((await saving.send("GET", "/variables/plan")).status, 200);
    assert.equal((await api.put("/variables/plan", "second")).status, 200);
  });

  it("reviewsPerMinute: reviews above it are refused with 429 until their time has come, saves and others are not (C8)", async () => {
    const review = (tenant: string): Promise<ApiReply> =>
      apiOf({ url: berth.url + tenant }).send("POST", "/definitions/say/review", SAY.replace("hello", "good morning"));
    // Side by side, since one that waits for a compiler may take as long as the time until the next.
    const both = await Promise.all([review("/t/saving"), review("/t/saving")]);
    const [taken, refused] = both.sort((left, right) => left.status - right.status);
    assert.deepEqual([taken.status, refused.status], [200, 429]);
    assert.match(refused.headers.get("retry-after") ?? "", /^([1-9]|1[0-5])$/);
    assert.match(
      refused.body.error.message,
      /may review 4 times a minute \(its limit reviewsPerMinute, else BERTH_REVIEWS_PER_MINUTE_PER_TENANT\); try again in \d/,
    );
    assert.equal((await review("")).status, 200);
  });

  const listenAt = (tenant: string): Promise<EventReader> => listenTo(at(tenant, "say"));

  it("streams: of every kind a tenant has as many as it may, its calls and other tenants' streams go on (C8)", async () => {
    const legacy = await LegacyClient.start(at("streaming", "say"));
    const [first, second] = [await listenAt("streaming"), await legacy.listen()];
    assert.deepEqual([first.status, second.status], [200, 200]);

    const refused = await withStatus(429, listenAt("streaming"));
    assert.equal(refused.headers.get("retry-after"), "1");
    const { data } = (await refused.next())!;
    assert.match(data, /the tenant \\"streaming\\" already has 2 streams in progress/);
    assert.equal((await legacy.listen()).status, 429);
    const sse = await fetch(`${at("streaming", "say")}/sse`, { headers: { Accept: "text/event-stream" } });
    assert.equal(sse.status, 429);
    assert.match(await sse.text(), /already has 2 streams in progress/);

    const answer = await post(at("streaming", "say"), callBody("say"), {
      Accept: "application/json, text/event-stream",
    });
    assert.equal(answer.body.result.content[0].text, "hello", "an answer that may be a stream, since it ends");
    const elsewhere = await read(`${berth.url}/mcp/say`, { headers: { Accept: "application/json" } });
    assert.notEqual(elsewhere.status, 429);
    first.close();
    await until(async () => {
      const again = await listenAt("streaming");
      again.close();
      return again.status === 200;
    });
    second.close();
  });
});
