import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { newToken } from "../../src/access/token-text.ts";
import type { JsonObject } from "../../src/lib/json.ts";
import { apiOf } from "../support/api.ts";
import { modern, post, request, withStatus } from "../support/berth.ts";
import { LegacyClient } from "../support/legacy-client.ts";
import { Nodes } from "../support/nodes.ts";
import { stopwatch } from "../support/stopwatch.ts";
import { inSuite } from "../support/suite.ts";
import { WITH_TASKS } from "../support/task-offer.ts";
import { bearer, makeToken } from "../support/tokens.ts";
import { until } from "../support/until.ts";

const ADMIN = bearer("the-admin-token-of-this-test");
const DEFINITION = `import { setTimeout as sleep } from "node:timers/promises";
import type { ToolContext } from "berth";

export const echo = (): string => "hello";

export async function keep(value: string, { state }: ToolContext): Promise<string> {
  await state.set("kept", value);
  return value;
}

/** @task */
export async function* work(seconds: number): AsyncGenerator<string, string> {
  for (let second = 0; second < seconds; second++) {
    yield String(second);
    await sleep(1_000);
  }
  return "worked";
}
`;

/** `npm run soak -- --outage 30` has a longer one. */
const OUTAGE_MS = Number(process.env["BERTH_TEST_OUTAGE_MS"] ?? 12_000);
/** Shorter than the outage: nobody gave a sign of life for longer than a node may be silent. */
const NODE_LEASE_MS = 4_000;
const STALE_MS = 6_000;
/** Well again without help. */
const WELL_MS = 5_000;
const [ONE, OTHER, STALE] = [0, 1, 2];

/** A legacy client with a token. */
class Holder extends LegacyClient {
  token = "";

  override get headers(): Record<string, string> {
    return { ...super.headers, ...bearer(this.token) };
  }
}

describe("nodes whose database is out of reach", () => {
  const nodes = inSuite(() =>
    Nodes.start({
      onPostgres: true,
      texts: { "kit.ts": DEFINITION },
      env: {
        BERTH_ACCESS: "required",
        BERTH_ADMIN_TOKEN: "the-admin-token-of-this-test",
        BERTH_NODE_LEASE_MS: String(NODE_LEASE_MS),
        // Looked up again in the middle of the outage.
        BERTH_KNOWN_TOKEN_MS: "3000",
      },
      envs: [{}, {}, { BERTH_DATABASE_OUTAGE_MS: String(STALE_MS) }],
    }),
  );

  const kit = (node: number): string => `${nodes.urls[node]}/mcp/kit`;
  const callAt = (node: number, name: string, headers: Record<string, string>, args: JsonObject = {}) =>
    post(kit(node), request("tools/call", { name, arguments: args }), headers);
  const save = (node: number, text: string) =>
    apiOf({ url: nodes.urls[node]! }).send("PUT", "/variables/saved", text, { "If-Match": "*", ...ADMIN });
  const ready = async (node: number) => {
    const response = await fetch(`${nodes.urls[node]}/readyz`);
    return { status: response.status, body: (await response.json()) as JsonObject };
  };

  async function holder(node: number, token: string): Promise<Holder> {
    const client = new Holder(kit(node), "2025-11-25");
    client.token = token;
    await client.initialize();
    return client;
  }

  const statusOf = (node: number, taskId: string, token: string) =>
    modern(kit(node), "tasks/get", { taskId, _meta: WITH_TASKS }, { "Mcp-Name": taskId, ...bearer(token) });

  /** Calls what is warm again and again, until it is told to stop; resolves with what was answered wrongly. */
  function load(token: string, { signal }: AbortController): Promise<string[]> {
    const wrong: string[] = [];
    const calling = [ONE, OTHER].map(async (node) => {
      while (!signal.aborted) {
        const { status, text } = await callAt(node, "echo", bearer(token));
        if (status !== 200 || !text.includes("hello")) wrong.push(`${status} ${text}`);
        await sleep(20);
      }
    });
    return Promise.all(calling).then(() => wrong);
  }

  it("go on with what is warm, refuse what needs it and no one as unknown, and are well again by themselves", async (t) => {
    const { token } = await makeToken(nodes, { can: ["call", "read"] });
    const { token: cold } = await makeToken(nodes, { can: ["call"] });
    const first = await apiOf({ url: nodes.urls[ONE]! }).send("PUT", "/variables/saved", "0", {
      "If-None-Match": "*",
      ...ADMIN,
    });
    assert.ok(first.status < 300, String(first.body));
    for (const node of nodes.urls.keys()) assert.equal((await callAt(node, "echo", bearer(token))).status, 200);
    const session = await holder(ONE, token);
    const task = await modern(
      kit(ONE),
      "tools/call",
      { name: "work", arguments: { seconds: OUTAGE_MS / 1_000 + 4 }, _meta: WITH_TASKS },
      bearer(token),
    );
    const { taskId } = task.body.result;
    const over = new AbortController();
    const loading = load(token, over);
    t.after(() => over.abort());
    const stream = await session.call("work", { seconds: OUTAGE_MS / 1_000 + 4 }, "long");

    const began = performance.now();
    await nodes.postgres!.stop("crash");
    assert.equal((await save(ONE, "1")).status, 503);
    assert.equal((await save(OTHER, "1")).body.error.code, "store_failed");
    for (const other of [cold, newToken()]) assert.equal((await callAt(ONE, "echo", bearer(other))).status, 503);
    assert.equal((await session.request("ping")).status, 200);
    const elsewhere = session.at(kit(OTHER));
    assert.equal((await elsewhere.request("ping")).status, 503);
    const asked = await statusOf(OTHER, taskId, token);
    assert.match(asked.body.error.message, /The store failed: the database cannot be reached/);
    const keeping = await callAt(ONE, "keep", bearer(token), { value: "x" });
    assert.equal(keeping.body.result.isError, true, keeping.text);

    const said = await until(async () => {
      const { body } = await withStatus(200, ready(ONE));
      return (body["warnings"] as string[] | undefined)?.find((text) => text.includes("out of reach"));
    });
    assert.match(said, /The database has been out of reach for \d+ s/);
    await until(async () => (await ready(STALE)).status === 503);
    const stale = await callAt(STALE, "echo", bearer(token));
    assert.deepEqual([stale.status, stale.headers.get("Retry-After")], [503, "5"]);
    assert.match(stale.text, /has not reached the database/);
    await sleep(OUTAGE_MS - (performance.now() - began));
    assert.equal((await ready(ONE)).status, 200);

    await nodes.postgres!.startAgain();
    const tookMs = stopwatch();
    for (const node of nodes.urls.keys()) await until(async () => (await save(node, `${node + 2}`)).status < 300);
    await until(async () => (await ready(STALE)).status === 200);
    assert.equal((await elsewhere.request("ping")).status, 200);
    assert.equal((await callAt(STALE, "echo", bearer(cold))).status, 200);
    const wellMs = tookMs();
    assert.ok(wellMs < WELL_MS, `well again after ${wellMs} ms`);

    for (let message; (message = await stream.nextMessage());) {
      if (message.id === "long") assert.equal(message.result.content[0].text, "worked");
    }
    const result = await until(async () => {
      const { body } = await statusOf(OTHER, taskId, token);
      assert.notEqual(body.result?.status, "failed", JSON.stringify(body));
      return body.result?.status === "completed" && body.result;
    });
    assert.equal(result.result.content[0].text, "worked");
    over.abort();
    assert.deepEqual(await loading, []);
  });
});
