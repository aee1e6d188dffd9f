import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { JsonObject } from "../../../src/lib/json.ts";
import { modern, MODERN_META, request, withStatus } from "../../support/berth.ts";
import { MemoryHost, openStream, startRig, stdioClient, type OpenStream } from "../../support/mcp-host.ts";
import { inSuite } from "../../support/suite.ts";
import { until } from "../../support/until.ts";

const SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId";
const ALL = { toolsListChanged: true, promptsListChanged: true, resourcesListChanged: true };

const offered = {
  tools: { echo: () => "echo" },
  prompts: { greeting: () => "Hello" },
  resources: { "test://a": "A", "test://b": "B" },
};

describe("subscriptions/listen", () => {
  const rig = inSuite(startRig);

  const listen = (notifications: JsonObject, id: unknown = 1): Promise<OpenStream> =>
    openStream(rig.url("server"), "subscriptions/listen", { notifications }, id);

  it("is acknowledged first, with what of it can be fulfilled (S11)", async () => {
    rig.host.offer("server", offered);
    const uris = ["test://a", "test://nothing", "test://a"];
    const stream = await listen({ ...ALL, promptsListChanged: false, other: true, resourceSubscriptions: uris }, "sub");
    assert.deepEqual(await stream.next(), {
      jsonrpc: "2.0",
      method: "notifications/subscriptions/acknowledged",
      params: {
        _meta: { [SUBSCRIPTION]: "sub" },
        notifications: { toolsListChanged: true, resourcesListChanged: true, resourceSubscriptions: ["test://a"] },
      },
    });
    stream.close();
  });

  it("reports a list change when that part of the contract changes, to clients that asked for it", async () => {
    rig.host.offer("server", offered);
    const streams = await Promise.all(
      [
        { id: "all", kinds: ["tools", "prompts", "resources"] },
        { id: 7, kinds: ["tools"] },
        { id: "7", kinds: ["prompts"] },
      ].map(async ({ id, kinds }) => {
        const filter = Object.fromEntries(kinds.map((kind) => [`${kind}ListChanged`, true]));
        return { id, kinds, stream: await listen(filter, id) };
      }),
    );
    for (const { stream } of streams) await stream.next();

    for (const [offer, ...changed] of [
      [{ ...offered, release: "2" }],
      [{ ...offered, release: "3", description: "other words" }],
      [{ ...offered, release: "4", tools: { echo: () => "other code" } }],
      [{ ...offered, tools: { ...offered.tools, more: () => "more" } }, "tools"],
      [{ ...offered, prompts: {} }, "tools", "prompts"],
      [{ ...offered, resources: { "test://{x}": "X", ...offered.resources } }, "prompts", "resources"],
      [{ tools: {} }, "tools", "prompts", "resources"],
    ] as const) {
      rig.host.offer("server", offer);
      for (const { stream, id, kinds } of streams) {
        for (const kind of changed.filter((each) => kinds.includes(each))) {
          const { method, params } = await stream.next();
          assert.deepEqual([method, params._meta[SUBSCRIPTION]], [`notifications/${kind}/list_changed`, id]);
        }
      }
    }
    for (const { stream } of streams) stream.close();
  });

  it("an update of a resource is told to those who subscribed to its URI (S11)", async () => {
    rig.host.offer("server", offered);
    const a = await listen({ resourceSubscriptions: ["test://a"] }, "a");
    const b = await listen({ resourceSubscriptions: ["test://b"], toolsListChanged: true }, "b");
    for (const stream of [a, b]) await stream.next();
    rig.host.update("server", "test://a");
    rig.host.update("server", "test://b");
    for (const [name, stream] of Object.entries({ a, b })) {
      const { method, params } = await stream.next();
      assert.equal(method, "notifications/resources/updated");
      assert.deepEqual(params, { _meta: { [SUBSCRIPTION]: name }, uri: `test://${name}` });
      stream.close();
    }
  });

  it("what one server does is not told to who listens to another", async () => {
    rig.host.offer("server", offered);
    rig.host.offer("other", offered);
    const stream = await listen(ALL);
    await stream.next();
    rig.host.offer("other", { tools: {} });
    rig.host.offer("server", { ...offered, tools: {} });
    assert.equal((await stream.next()).method, "notifications/tools/list_changed");
    assert.equal(stream.text().match(/list_changed/g)?.length, 1);
    stream.close();
  });

  it("a wish that nothing can fulfil is acknowledged and answered at once", async () => {
    rig.host.offer("server", { tools: offered.tools });
    rig.host.offer("pinned", { ...offered, pinned: true });
    const wishes: [server: string, notifications: JsonObject][] = [
      ["server", {}],
      ["server", { promptsListChanged: true, resourceSubscriptions: ["test://a"] }],
      ["pinned", ALL],
    ];
    for (const [server, notifications] of wishes) {
      const stream = await openStream(rig.url(server), "subscriptions/listen", { notifications });
      assert.deepEqual((await stream.next()).params.notifications, {});
      const { id, result } = await stream.next();
      assert.equal(id, 1);
      assert.equal(result._meta[SUBSCRIPTION], 1);
      assert.equal(await stream.next(), undefined);
    }
  });

  it("what are no wishes is -32602", async () => {
    rig.host.offer("server", offered);
    const wrong: unknown[] = [
      undefined,
      null,
      [],
      "all",
      { toolsListChanged: "yes" },
      { resourceSubscriptions: "test://a" },
      { resourceSubscriptions: [7] },
      { resourceSubscriptions: Array.from({ length: 2000 }, (_, n) => `test://${n}`) },
    ];
    for (const notifications of wrong) {
      const { body } = await modern(rig.url("server"), "subscriptions/listen", { notifications });
      assert.equal(body.error.code, -32602, JSON.stringify(notifications)?.slice(0, 80));
    }
  });

  it("a client that takes no stream of events is told so", async () => {
    rig.host.offer("server", offered);
    const params = { notifications: ALL };
    const { status, body } = await modern(rig.url("server"), "subscriptions/listen", params, {
      Accept: "application/json",
    });
    assert.equal(status, 406);
    assert.match(body.error.message, /text\/event-stream/);
  });

  it("a closed stream is forgotten, and the server is watched only while somebody listens (S5)", async () => {
    rig.host.offer("server", offered);
    const watchers = (): number => rig.host.watchers.get("server")?.size ?? 0;
    await until(() => watchers() === 0);
    const streams = await Promise.all([listen(ALL, 1), listen(ALL, 2)]);
    for (const stream of streams) await stream.next();
    assert.equal(watchers(), 1);
    streams[0].close();
    rig.host.offer("server", { ...offered, tools: {} });
    assert.equal((await streams[1].next()).method, "notifications/tools/list_changed");
    assert.equal(watchers(), 1);
    streams[1].close();
    await until(() => watchers() === 0);
  });
});

describe("streams that listen", () => {
  it("end with their results when the service shuts down", async () => {
    const rig = await startRig();
    rig.host.offer("server", offered);
    const stream = await openStream(rig.url("server"), "subscriptions/listen", { notifications: ALL }, "last");
    await stream.next();
    const closed = rig.close();
    const { id, result } = await stream.next();
    assert.equal(id, "last");
    assert.equal(result.resultType, "complete");
    assert.equal(result._meta[SUBSCRIPTION], "last");
    assert.equal(await stream.next(), undefined);
    await closed;
  });

  it("are limited in number", async () => {
    const rig = await startRig({}, { openStreams: 2 });
    rig.host.offer("server", offered);
    const open = (): Promise<OpenStream> =>
      openStream(rig.url("server"), "subscriptions/listen", { notifications: ALL });
    const streams = await Promise.all([open(), open()]);
    for (const stream of streams) await stream.next();
    const third = await withStatus(406, open());
    assert.match((await third.next()).error.message, /a free stream/);
    streams[0].close();
    await until(async () => (await open()).status === 200);
    await rig.close();
  });
});

it("subscriptions/listen on stdio shares the line with everything else, is cancelled by a notification, and ends with its result (S6)", async () => {
  const host = new MemoryHost();
  host.offer("server", offered);
  const { endpoint, connection, input, say, next } = stdioClient(host);
  const open = async (id: string, notifications: JsonObject): Promise<void> => {
    say(request("subscriptions/listen", { notifications, _meta: MODERN_META }, id));
    const { method, params } = await next();
    assert.equal(method, "notifications/subscriptions/acknowledged");
    assert.equal(params._meta[SUBSCRIPTION], id);
  };
  await open("tools", { toolsListChanged: true });
  await open("both", { toolsListChanged: true, promptsListChanged: true });

  host.offer("server", { ...offered, tools: {} });
  const told = [await next(), await next()];
  assert.deepEqual(new Set(told.map(({ params }) => params._meta[SUBSCRIPTION])), new Set(["both", "tools"]));

  say({ jsonrpc: "2.0", method: "notifications/cancelled", params: { requestId: "tools" } });
  say(request("server/discover", { _meta: MODERN_META }, "other"));
  assert.equal((await next()).id, "other");
  host.offer("server", { ...offered, prompts: {} });
  const after = [await next(), await next()];
  for (const { params } of after) assert.equal(params._meta[SUBSCRIPTION], "both");

  endpoint.close();
  const { id, result } = await next();
  assert.equal(id, "both");
  assert.equal(result._meta[SUBSCRIPTION], "both");
  await connection.close();
  input.end();
  await connection.ended;
});
