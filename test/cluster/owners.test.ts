import assert from "node:assert/strict";
import { hash, randomBytes } from "node:crypto";
import { mkdtempSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, describe, it } from "node:test";
import { Cluster } from "../../src/cluster/cluster.ts";
import { NodeCalls, CallNotAccepted } from "../../src/cluster/node-calls.ts";
import { resultOf } from "../../src/host/offers/upstream-results.ts";
import type { HostedUpstream } from "../../src/host/upstreams/hosted.ts";
import { Hosting } from "../../src/host/upstreams/hosting.ts";
import { UPSTREAMS, type UpstreamAsked } from "../../src/host/upstreams/other-nodes.ts";
import { createLog } from "../../src/lib/log.ts";
import type { NodeStore } from "../../src/lib/node-store.ts";
import { defaultLimits } from "../../src/limits/limits.ts";
import { openSender } from "../../src/network/public-fetch.ts";
import { openStore } from "../../src/store/open-store.ts";
import type { ToolResult } from "../../src/upstream/messages/results.ts";
import { Upstream } from "../../src/upstream/upstream.ts";
import { changing, tool } from "../support/hosted-upstreams.ts";
import { lower } from "../support/lowered-limits.ts";
import { processesWith } from "../support/processes.ts";
import { testFolders } from "../support/store.ts";
import { until } from "../support/until.ts";
import { fixtures, launchOf } from "../support/upstreams.ts";

/** A node that a busy machine holds up for a while is not to count as gone. */
const LEASE_MS = 60_000;
/** Where it is about a node that counts as gone. */
const SHORT_LEASE_MS = 3_000;
const log = createLog("silent");

describe("the node that runs an upstream for all", () => {
  const closers: (() => unknown)[] = [];
  afterEach(async () => {
    for (const close of closers.splice(0).toReversed()) await close();
  });

  const folder = testFolders("owners");

  /** A node that hosts upstreams; `cut` keeps it from its store. */
  async function node(dataDir: string, key: Uint8Array, own: Partial<typeof defaultLimits>) {
    const store = await openStore({ dataDir });
    closers.push(() => store.close());
    const away = { isAway: false };
    const cut = <Args extends unknown[], Result>(method: (...args: Args) => Promise<Result>) => {
      return (...args: Args): Promise<Result> => (away.isAway ? Promise.reject(new Error("away")) : method(...args));
    };
    const nodes: NodeStore = {
      ...store.nodes,
      beat: cut((...beat: Parameters<NodeStore["beat"]>) => store.nodes.beat(...beat)),
      lease: cut((...lease: Parameters<NodeStore["lease"]>) => store.nodes.lease(...lease)),
    };
    const limits = { ...defaultLimits, ...own };
    const cluster = new Cluster({ nodes, limits, log });
    closers.push(() => cluster.close());
    const makeFolder = (prefix: string): string => mkdtempSync(join(folder(), prefix));
    const calls = new NodeCalls({ cluster, keys: [key], now: () => store.now(), makeFolder, log });
    closers.push(() => calls.close());
    await calls.open();
    const clientInfo = { name: "test", version: "1" };
    const send = openSender();
    const hosting = new Hosting({
      nodes: { cluster, calls },
      open: (launch, listener) =>
        new Upstream(launch, { env: process.env, folder: process.cwd(), clientInfo, limits, send, ...listener }),
      limitsOf: () => ({ upstreamProcesses: 10, processStartsPerMinute: 0 }),
      limits,
      log,
    });
    closers.push(() => hosting.close());
    hosting.answerNodes(() => undefined);
    await cluster.join();
    return { cluster, calls, hosting, away };
  }

  type TestNode = Awaited<ReturnType<typeof node>>;

  let marks = 0;
  /** Two nodes on one store, with an upstream of both, and the file of its calls. */
  async function pair(nodeLeaseMs = LEASE_MS) {
    const dataDir = folder();
    const key = randomBytes(32);
    const one = await node(dataDir, key, { nodeLeaseMs });
    const two = await node(dataDir, key, { nodeLeaseMs });
    await until(() => one.cluster.others.size === 1 && two.cluster.others.size === 1);
    const mark = `owners-${process.pid}-${++marks}`;
    const file = join(dataDir, "calls");
    const args = `arg=${encodeURIComponent(file)}&env.BERTH_TEST_MARK=${mark}`;
    const launch = launchOf(`mcp+node://${join(fixtures, "counting.mjs")}?${args}`);
    const hostedOn = ({ hosting }: TestNode, tenant = "acme"): HostedUpstream =>
      hosting.of(tenant, "counting", launch, undefined, "once");
    const callsMade = (): string[] => readFileSync(file, "utf8").trim().split("\n");
    return { one, two, hostedOn, processes: () => processesWith(mark).length, callsMade };
  }

  /** The text of its tool, or the code of the error. */
  async function say(hosted: HostedUpstream, name: string, args = {}, principal?: string): Promise<string> {
    const options = principal === undefined ? {} : ({ principal: { id: principal } } as never);
    try {
      const end = await hosted.run({ method: "tools/call", name, args }, options);
      const [block] = resultOf((end as { ended: ToolResult }).ended).content;
      return (block as unknown as { text: string }).text;
    } catch (error) {
      return (error as { code: string }).code;
    }
  }

  it("is the first that needs it, and another once it has let go", async () => {
    const { one, two, hostedOn, processes } = await pair();
    assert.equal(await say(hostedOn(one), "count"), "1");
    assert.equal(await say(hostedOn(two), "count"), "2");
    assert.equal(await say(hostedOn(one), "count"), "3");
    await one.hosting.leave();
    assert.equal(processes(), 0);
    assert.equal(await say(hostedOn(two), "count"), "1");
    assert.equal(await say(hostedOn(one), "count"), "2");
    assert.equal(processes(), 1);
  });

  it("is one of two that need it in the same moment", async () => {
    const { one, two, hostedOn, processes } = await pair();
    const counts = await Promise.all([one, two, one, two].map((each) => say(hostedOn(each), "count")));
    assert.deepEqual(counts.sort(), ["1", "2", "3", "4"]);
    assert.equal(processes(), 1);
  });

  it("ends what the caller of another node gives up", async () => {
    const { one, two, hostedOn, callsMade } = await pair();
    await say(hostedOn(one), "count");
    const stop = new AbortController();
    const wait = { method: "tools/call", name: "wait", args: { ms: 60_000 } } as const;
    const waiting = hostedOn(two).run(wait, { signal: stop.signal });
    await until(() => callsMade().some((line) => line.startsWith("wait")));
    stop.abort();
    await assert.rejects(waiting, { code: "cancelled" });
    await until(() => callsMade().includes("cancelled"));
    assert.equal(hostedOn(one).upstream.health.requests, 0);
  });

  it("leaves connections for the calls of other tenants, however many calls of one tenant wait", async (t) => {
    t.after(lower({ nodeConnections: 8 }));
    const { one, two, hostedOn, callsMade } = await pair();
    for (const tenant of ["acme", "globex"]) await say(hostedOn(one, tenant), "count");
    const stop = new AbortController();
    const wait = { method: "tools/call", name: "wait", args: { ms: 60_000 } } as const;
    const waiting = [1, 2].map(() => hostedOn(two).run(wait, { signal: stop.signal }));
    await until(() => callsMade().filter((line) => line.startsWith("wait")).length === 2);
    assert.equal(await say(hostedOn(two), "count"), "upstream_busy");
    assert.equal(await say(hostedOn(two, "globex"), "count"), "2");
    stop.abort();
    for (const call of waiting) await assert.rejects(call, { code: "cancelled" });
    assert.equal(await say(hostedOn(two), "count"), "2");
  });

  it("refuses a call by an older lease, for another tenant, and for what it does not run", async () => {
    const { one, two, hostedOn, callsMade } = await pair();
    await say(hostedOn(one), "count");
    await say(hostedOn(two), "count");
    const { uri } = hostedOn(one).upstream.launch;
    const digest = hash("sha256", JSON.stringify([uri, [], "once"]), "base64url");
    const { fence } = (await one.cluster.leased(`upstream/acme/counting/${digest}`))!;
    const round = {
      request: { method: "tools/call", name: "count", args: {} },
      hears: { log: false, progress: false },
      deadlineMs: 10_000,
      principal: undefined,
      capabilities: undefined,
      trace: undefined,
      answers: undefined,
    };
    const sound: UpstreamAsked = { tenant: "acme", server: "counting", digest, ask: "begin", fence, round };
    const ask = (change: object) => two.calls.call(one.cluster.id, UPSTREAMS, { ...sound, ...change });
    assert.ok(await ask({}));
    const fences = [{ fence: fence - 1 }, { fence: fence + 1 }];
    for (const change of [...fences, { tenant: "default" }, { server: "other" }, { digest: "x" }])
      await assert.rejects(ask(change), CallNotAccepted, JSON.stringify(change));
    assert.deepEqual(await ask({ ask: "resume" }), {}, "a call that is not suspended is not begun");
    assert.equal(callsMade().length, 3);
  });

  it("never passes a call on: one that is for neither of two nodes ends with an error", async () => {
    const { one, two, hostedOn } = await pair();
    let calls = 0;
    const believe = ({ cluster, calls: out }: TestNode, other: TestNode): void => {
      const lease = { node: other.cluster.id, fence: 1 };
      cluster.lease = () => Promise.resolve(lease);
      const call = out.call.bind(out);
      out.call = (...args) => (calls++, call(...args));
    };
    believe(one, two);
    believe(two, one);
    hostedOn(one);
    assert.equal(await say(hostedOn(two), "count"), "upstream_ended");
    assert.ok(calls > 1 && calls < 20, `${calls} calls`);
  });

  it("carries nothing out while it may have been taken for gone, and ends its own once another runs it", async () => {
    const { one, two, hostedOn, processes, callsMade } = await pair(SHORT_LEASE_MS);
    assert.equal(await say(hostedOn(one), "count"), "1");
    assert.equal(await say(hostedOn(two), "count"), "2");
    const waiting = say(hostedOn(one), "wait", { ms: 60_000 });
    one.away.isAway = true;
    await until(() => !one.cluster.isSure);
    assert.equal(await say(hostedOn(one), "count"), "upstream_busy");
    await until(() => two.cluster.isGone(one.cluster.id));
    assert.equal(await say(hostedOn(two), "count"), "1", "another node runs it anew");
    assert.equal(await waiting, "answer_lost");
    await until(() => processes() === 1);
    one.away.isAway = false;
    assert.equal(await say(hostedOn(one), "count"), "2");
    assert.equal(callsMade().filter((line) => line.startsWith("count")).length, 4, "each was carried out once");
  });

  it("reports a change while its lease is in doubt, and to a node that was taken for gone", async (t) => {
    const { one, two } = await pair(SHORT_LEASE_MS);
    const upstream = changing(t, [tool("hello", "first")]);
    const hostedOn = ({ hosting }: TestNode): HostedUpstream =>
      hosting.of("acme", "changing", launchOf(upstream.uri), undefined, "once");
    const offeredOn = (node: TestNode) => hostedOn(node).observed?.contract.tools[0]?.description;
    await hostedOn(one).start();
    await hostedOn(two).start();
    one.away.isAway = true;
    await until(() => !one.cluster.isSure);
    upstream.offer([tool("hello", "second")]);
    await until(() => offeredOn(one) === "second");
    one.away.isAway = false;
    await until(() => offeredOn(two) === "second");
    two.away.isAway = true;
    await until(() => one.cluster.isGone(two.cluster.id));
    upstream.offer([tool("hello", "third")]);
    await until(() => offeredOn(one) === "third");
    two.away.isAway = false;
    await until(() => offeredOn(two) === "third");
  });

  it("keeps a question of one principal from every other, whichever node the answer reaches", async () => {
    const { one, two, hostedOn } = await pair();
    await say(hostedOn(one), "count");
    const client = { capabilities: { elicitation: { form: {} } } };
    const ask = { method: "tools/call", name: "ask", args: {} } as const;
    const principal = { id: "ada" } as never;
    const asked = await hostedOn(two).run(ask, { client, principal });
    assert.ok("inputRequests" in asked);
    const [key] = Object.keys(asked.inputRequests) as [string];
    assert.ok(key.startsWith(`upstream-${one.cluster.id}.`), "its key names the node");
    const answers = { [key]: { action: "accept", content: { name: "Ada" } } };
    const gone = { code: "guest_failed", message: /The call that asked is gone/ };
    const eve = { id: "eve" } as never;
    for (const each of [one, two])
      await assert.rejects(hostedOn(each).run(ask, { client, answers, principal: eve }), gone);
    const end = await hostedOn(two).run(ask, { client, answers, principal });
    assert.match(JSON.stringify((end as { ended: ToolResult }).ended.content), /for Ada/);
    await assert.rejects(hostedOn(two).run(ask, { client, answers, principal }), gone);
    const made = { [key.replace(one.cluster.id, "nobody")]: answers[key]! };
    await assert.rejects(hostedOn(two).run(ask, { client, answers: made, principal }), gone);
  });
});
