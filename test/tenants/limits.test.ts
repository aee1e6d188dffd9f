import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { NODES, call, post, request, startTestBerth, type TestBerth } from "../support/berth.ts";
import { addTenant, onStoreOf } from "../support/tenants.ts";
import { inOneOf, until } from "../support/until.ts";

const HELD = `import { setTimeout } from "node:timers/promises";
/** Ends after a while. */
export async function held(ms: number): Promise<string> {
  await setTimeout(ms);
  return "done";
}
`;
const SPIN = `/** Never ends. */\nexport function spin(): never { for (;;); }\n`;
const SAY = `/** Says hello. */\nexport function say(): string { return "hello"; }\n`;

describe("limits of tenants", () => {
  let berth: TestBerth;
  before(async () => {
    berth = await startTestBerth({
      texts: { "say.ts": SAY, "single.ts": HELD, "seldom.ts": SAY },
      mcps: {
        single: { definition: "single.ts", limits: { calls: 1 } },
        seldom: { definition: "seldom.ts", limits: { calls_per_second: 1 } },
      },
    });
    await onStoreOf(berth, async (store) => {
      await addTenant(store, "narrow", { servers: { held: HELD, say: SAY }, limits: { requests: 2 } });
      await addTenant(store, "slow", { servers: { say: SAY }, limits: { requestsPerSecond: 1, requestBurst: 2 } });
      const [one, two, three] = [1, 2, 3].map((number) => HELD.replace("done", `done ${number}`));
      await addTenant(store, "crowded", {
        servers: { one: one!, two: two!, three: three! },
        limits: { guestProcesses: 2 },
      });
    });
  });
  after(() => berth.close());

  const urlOf = (tenant: string, server: string): string => `${berth.url}/t/${tenant}/mcp/${server}`;
  const callBody = (name: string, args: object) => request("tools/call", { name, arguments: args });

  /** The refusal while a call of each of these is under way; they and others of another server are not disturbed. */
  const whileHeld = async <T>(urls: readonly string[], refused: () => Promise<T | undefined>): Promise<T> => {
    for (;;) {
      const over = new AbortController();
      const held = Promise.all(urls.map((url) => call(url, "held", { ms: 2_500 }))).finally(() => over.abort());
      let told: T | undefined;
      while (told === undefined && !over.signal.aborted) told = await refused();
      assert.equal((await call(`${berth.url}/mcp/say`, "say")).content[0].text, "hello");
      for (const { content } of await held) assert.equal(content[0].text, "done");
      // On a stalled machine they were over before the next request.
      if (told !== undefined) return told;
    }
  };

  it("requests above what may be under way are refused with 429 and Retry-After; other tenants notice nothing (C8)", async () => {
    const url = urlOf("narrow", "held");
    await call(url, "held", { ms: 0 });
    const refused = await whileHeld([url, url], async () => {
      const answer = await post(urlOf("narrow", "say"), callBody("say", {}));
      return answer.status === 429 ? answer : undefined;
    });
    assert.equal(refused.headers.get("retry-after"), "1");
    assert.match(refused.body.error.message, /the tenant "narrow" has 2 requests under way/);
    assert.equal((await call(urlOf("narrow", "say"), "say")).content[0].text, "hello");
  });

  it("requests that come too often are refused until their time has come (C8)", async () => {
    const url = urlOf("slow", "say");
    const statuses = await Promise.all(
      Array.from({ length: 4 * NODES }, async () => (await post(url, callBody("say", {}))).status),
    );
    assert.ok(statuses.includes(429), statuses.join());
    await until(async () => (await post(url, callBody("say", {}))).status === 200);
  });

  it("what uses more processor time than its tenant may is held up, and a call that ends for it says so (C8)", async (t) => {
    const hasty = await startTestBerth({ env: { BERTH_CALL_MS: "5000" } });
    t.after(() => hasty.close());
    const limits = { cpuMsPerSecond: 50 };
    await onStoreOf(hasty, (store) => addTenant(store, "thrifty", { servers: { spin: SPIN }, limits }));
    const why =
      /longer than its deadline of 5000 ms: the guests of the tenant "thrifty" may use 50 ms of processor time in/;
    await inOneOf(3, async () => {
      const { content } = await call(`${hasty.url}/t/thrifty/mcp/spin`, "spin");
      assert.match(content[0].text, why);
    });
  });

  it("another limit of a tenant counts from when it is said, without a restart (C8)", async () => {
    const url = urlOf("slow", "say");
    const change = { by: "test", limits: { requestsPerSecond: 1_000, requestBurst: 1_000 } };
    await onStoreOf(berth, (store) => store.tenants.change("slow", change));
    await until(async () => {
      const answers = await Promise.all(Array.from({ length: 20 }, () => post(url, callBody("say", {}))));
      return answers.every(({ status }) => status === 200);
    });
  });

  it("calls of a server above its own limits fail with a clear tool error; other servers of the tenant do not (C8)", async () => {
    const url = `${berth.url}/mcp/single`;
    await call(url, "held", { ms: 0 });
    const refused = await whileHeld([url], async () => {
      const { isError, content } = await call(url, "held", { ms: 0 });
      return isError ? (content[0].text as string) : undefined;
    });
    assert.match(
      refused,
      /the server "single" has 1 calls under way, the most that it may \("calls" of "limits" in its entry in mcps\); try again in 1 s/,
    );
    assert.equal((await call(url, "held", { ms: 0 })).content[0].text, "done");

    const seldom = await Promise.all([1, 2, 3].map(() => call(`${berth.url}/mcp/seldom`, "say")));
    assert.ok(seldom.some(({ isError }) => isError));
  });

  it("a tenant has as many guest processes as it may; its further servers take turns with them (C8)", async () => {
    const names = ["one", "two", "three"];
    const results = await Promise.all(names.map((name) => call(urlOf("crowded", name), "held", { ms: 300 })));
    assert.deepEqual(
      results.map(({ content }) => content[0].text),
      ["done 1", "done 2", "done 3"],
    );
  });
});
