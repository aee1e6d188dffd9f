import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { apiOf } from "../support/api.ts";
import { call, post, request, startTestBerth, type TestBerth } from "../support/berth.ts";
import { LegacyClient, read, type EventReader } from "../support/legacy-client.ts";
import { processesWith } from "../support/processes.ts";
import { addTenant, listenTo, onStoreOf } from "../support/tenants.ts";
import { until } from "../support/until.ts";
import { hostile } from "../support/upstreams.ts";

const SAY = `/** Says hello. */\nexport function say(): string { return "hello"; }\n`;

describe("shares of tenants in streams and programs of others", () => {
  let berth: TestBerth;
  const mark = `shares-${process.pid}`;
  before(async () => {
    const env = {
      BERTH_TENANT_UPSTREAMS: "on",
      BERTH_UPSTREAM_PROGRAMS: "on",
      BERTH_UPSTREAM_CALL_MS: "120000",
      BERTH_UPSTREAM_END_MS: "300",
    };
    berth = await startTestBerth({ texts: { "say.ts": SAY }, env });
    const upstream = (name: string): { upstream: string } => ({
      upstream: hostile("misbehaves in calls", `&env.BERTH_TEST_MARK=${mark}-${name}`),
    });
    await onStoreOf(berth, async (store) => {
      const mcps = JSON.stringify({ one: upstream("one"), two: upstream("two"), unseen: upstream("unseen") });
      await addTenant(store, "busy", { variables: { mcps }, limits: { upstreamProcesses: 1 } });
      await addTenant(store, "calm", { variables: { mcps: JSON.stringify({ own: upstream("calm") }) } });
      const [one, two] = [1, 2].map((number) => SAY.replace("hello", `hello ${number}`));
      const thrashing = { guestProcesses: 1, processStartsPerMinute: 240 };
      await addTenant(store, "thrashing", { servers: { one: one!, two: two! }, limits: thrashing });
      await addTenant(store, "saving", { servers: { say: SAY }, limits: { savesPerMinute: 1, reviewsPerMinute: 4 } });
      await addTenant(store, "streaming", { servers: { say: SAY }, limits: { streams: 2 } });
    });
  });
  after(() => berth.close());

  const at = (tenant: string, server: string): string => `${berth.url}/t/${tenant}/mcp/${server}`;
  const saidBy = async (tenant: string, server: string, tool = "echo"): Promise<string> => {
    const { content, error } = await call(at(tenant, server), tool);
    return content?.[0]?.text ?? error.message;
  };

  it("upstreamProcesses: an idle program of the tenant makes room for its next; while all are used, it hears why (C8)", async () => {
    assert.equal(await saidBy("busy", "one"), "fine");
    assert.equal(await saidBy("busy", "two"), "fine");
    assert.deepEqual([processesWith(`${mark}-one`).length, processesWith(`${mark}-two`).length], [0, 1]);

    const gone = new AbortController();
    const body = JSON.stringify(request("tools/call", { name: "hang", arguments: {} }));
    const headers = { "Content-Type": "application/json", Accept: "application/json" };
    const hanging = fetch(at("busy", "two"), { method: "POST", headers, body, signal: gone.signal });
    hanging.catch(() => {});
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
    gone.abort();
    await until(async () => (await saidBy("busy", "unseen")) === "fine");
  });

  it("processStartsPerMinute: guests that take turns with one place are started at the tenant's pace (C8)", async () => {
    const began = performance.now();
    for (const server of ["one", "two", "one", "two", "one"]) {
      assert.match((await call(at("thrashing", server), "say")).content[0].text, /^hello/);
    }
    // Five starts: the first at once, then four in a second.
    assert.ok(performance.now() - began > 990);
    assert.equal((await call(`${berth.url}/mcp/say`, "say")).content[0].text, "hello");
  });

  it("savesPerMinute: saves above it are refused with 429 until their time has come, those of others are not (C8)", async () => {
    const put = (tenant: string, text: string): Promise<Response> =>
      fetch(`${berth.url}${tenant}/api/variables/plan`, {
        method: "PUT",
        headers: { "Content-Type": "text/plain", "If-Match": "*" },
        body: text,
      });
    const made = { method: "PUT", headers: { "Content-Type": "text/plain", "If-None-Match": "*" }, body: "first" };
    for (const tenant of ["/t/saving", ""]) {
      assert.equal((await fetch(`${berth.url}${tenant}/api/variables/plan`, made)).status, 201);
    }
    const refused = await put("/t/saving", "second");
    assert.equal(refused.status, 429);
    assert.match(refused.headers.get("retry-after") ?? "", /^([1-9]|[1-5]\d|60)$/);
    assert.match(
      await refused.text(),
      /may save 1 times a minute \(its limit savesPerMinute, else BERTH_SAVES_PER_MINUTE_PER_TENANT\); try again in \d/,
    );
    assert.equal((await fetch(`${berth.url}/t/saving/api/variables/plan`)).status, 200);
    assert.equal((await put("", "second")).status, 200);
  });

  it("reviewsPerMinute: reviews above it are refused with 429 until their time has come, saves and others are not (C8)", async () => {
    const review = (tenant: string): Promise<Response> =>
      fetch(`${berth.url}${tenant}/api/definitions/say/review`, {
        method: "POST",
        headers: { "Content-Type": "text/plain" },
        body: SAY.replace("hello", "good morning"),
      });
    // Side by side, since one that waits for a compiler may take as long as the time until the next.
    const both = await Promise.all([review("/t/saving"), review("/t/saving")]);
    const [taken, refused] = both.sort((left, right) => left.status - right.status);
    assert.deepEqual([taken.status, refused.status], [200, 429]);
    assert.match(refused.headers.get("retry-after") ?? "", /^([1-9]|1[0-5])$/);
    assert.match(
      await refused.text(),
      /may review 4 times a minute \(its limit reviewsPerMinute, else BERTH_REVIEWS_PER_MINUTE_PER_TENANT\); try again in \d/,
    );
    assert.equal((await review("")).status, 200);
  });

  const listenAt = (tenant: string): Promise<EventReader> => listenTo(at(tenant, "say"));

  it("streams: of every kind a tenant has as many as it may, its calls and other tenants' streams go on (C8)", async () => {
    const legacy = await LegacyClient.start(at("streaming", "say"));
    const [first, second] = [await listenAt("streaming"), await legacy.listen()];
    assert.deepEqual([first.status, second.status], [200, 200]);

    const refused = await listenAt("streaming");
    assert.equal(refused.status, 429);
    assert.equal(refused.headers.get("retry-after"), "1");
    assert.match(
      (await refused.next())!.data,
      /the tenant \\"streaming\\" has 2 streams under way, the most that it may/,
    );
    assert.equal((await legacy.listen()).status, 429);
    const sse = await fetch(`${at("streaming", "say")}/sse`, { headers: { Accept: "text/event-stream" } });
    assert.equal(sse.status, 429);
    assert.match(await sse.text(), /has 2 streams under way/);

    assert.equal((await call(at("streaming", "say"), "say")).content[0].text, "hello");
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

  it("streams: the answer to a call may be a stream at the limit, too, since it ends (C8)", async () => {
    await until(async () => {
      const streams = [await listenAt("streaming"), await listenAt("streaming")];
      if (streams.some(({ status }) => status !== 200)) {
        for (const stream of streams) stream.close();
        return false;
      }
      const answer = await post(at("streaming", "say"), request("tools/call", { name: "say", arguments: {} }), {
        Accept: "application/json, text/event-stream",
      });
      assert.equal(answer.body.result.content[0].text, "hello");
      for (const stream of streams) stream.close();
      return true;
    });
  });
});
