import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { apiOf } from "../../support/api.ts";
import { call, modern, post, request, withStatus } from "../../support/berth.ts";
import { berthInSuite } from "../../support/suite.ts";

const texts = {
  "words.ts": `
    /** @openWorld false */
    export function shout(text: string): string { return text.toUpperCase(); }
    export function fail(): string { throw new Error("it fails"); }
    export function lead(): Response { return Response.redirect("server://words/shout?text=led"); }
  `,
  "more.ts": "export function one(): number { return 1; }\nexport function two(): number { return 2; }",
};

describe("figures for monitoring", () => {
  const berth = berthInSuite({ texts, env: { BERTH_METRIC_TOOLS: "4", BERTH_ADMIN_TOKEN: "a-token-for-figures" } });

  const figures = async (): Promise<Map<string, number>> => {
    const response = await withStatus(200, fetch(`${berth.url}/metrics`));
    const lines = (await response.text()).split("\n").filter((line) => line !== "" && !line.startsWith("#"));
    return new Map(
      lines.map((line) => [line.slice(0, line.lastIndexOf(" ")), Number(line.slice(line.lastIndexOf(" ")))]),
    );
  };
  const counted = (all: Map<string, number>, server: string, tool: string, outcome: string): number | undefined => {
    const labels = `tenant="${server === "other" ? "other" : "default"}",server="${server}",tool="${tool}",outcome="${outcome}"`;
    return all.get(`berth_call_duration_seconds_count{${labels}}`);
  };

  it("calls are counted by tenant, server, tool and outcome, by whatever way they came", async () => {
    const url = `${berth.url}/mcp/words`;
    await call(url, "shout", { text: "legacy" });
    await modern(url, "tools/call", { name: "shout", arguments: { text: "modern" } });
    await modern(`${berth.url}/mcp`, "tools/call", { name: "words.shout", arguments: { text: "of all" } });
    await post(`${berth.url}/mcp`, request("words.shout", { text: "native" }));
    await fetch(`${berth.url}/servers/words/shout?text=plain`);
    await modern(url, "resources/read", { uri: "server://words/shout?text=read" });
    await call(url, "lead");
    await call(url, "shout", { text: 1 });
    await call(url, "fail");

    const all = await figures();
    assert.equal(counted(all, "words", "shout", "ok"), 7);
    assert.equal(counted(all, "words", "shout", "invalid"), 1);
    assert.equal(counted(all, "words", "lead", "ok"), 1);
    assert.equal(counted(all, "words", "fail", "error"), 1);
    assert.equal(all.get("berth_calls_in_flight"), 0);
  });

  it("tools beyond metricTools are counted together, as other", async () => {
    const url = `${berth.url}/mcp/more`;
    await call(url, "one");
    await call(url, "two");
    await call(url, "two");
    const all = await figures();
    assert.equal(counted(all, "more", "one", "ok"), 1);
    assert.equal(counted(all, "more", "two", "ok"), undefined);
    assert.equal(counted(all, "other", "other", "ok"), 2);
  });

  it("latencies, processes, sessions, streams, tasks, compilations and the store have figures", async () => {
    const saved = await apiOf(berth).put("/definitions/late", "export const late = (): string => 'x';");
    assert.equal(saved.status, 201);
    await call(`${berth.url}/mcp/late`, "late");
    const all = await figures();
    const names = new Set([...all.keys()].map((key) => key.replace(/\{.*/, "")));
    for (const name of ["sessions", "tasks_running", "streams_open", "upstream_starts_total", "upstreams_withheld"]) {
      assert.equal(all.get(`berth_${name}`), 0, name);
    }
    assert.ok(all.get('berth_guest_processes{kind="program"}')! >= 1);
    assert.ok(all.get("berth_guest_processes_started_total")! >= 1);
    assert.ok(all.get('berth_compile_duration_seconds_count{outcome="ok"}')! >= 1);
    assert.ok(all.get("berth_store_bytes")! > 10_000);
    assert.equal(all.get('berth_upstreams{state="running"}'), 0);
    for (const name of [
      "berth_call_duration_seconds_bucket",
      "berth_info",
      "process_cpu_seconds_total",
      "process_resident_memory_bytes",
      "nodejs_eventloop_lag_p99_seconds",
    ]) {
      assert.ok(names.has(name), name);
    }
  });

  it("they are for who administers the service, or sits at its machine", async () => {
    const from = (headers: Record<string, string>): Promise<Response> => fetch(`${berth.url}/metrics`, { headers });
    assert.equal((await from({ "X-Forwarded-For": "192.0.2.1" })).status, 403);
    assert.equal((await from({ "Sec-Fetch-Site": "cross-site" })).status, 403);
    assert.equal((await from({ Authorization: "Bearer another-token-altogether" })).status, 401);
    const admin = { Authorization: "Bearer a-token-for-figures", "X-Forwarded-For": "192.0.2.1" };
    const answer = await withStatus(200, from(admin));
    assert.equal(answer.headers.get("content-type"), "text/plain; version=0.0.4; charset=utf-8");
  });
});
