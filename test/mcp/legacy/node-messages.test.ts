import assert from "node:assert/strict";
import { afterEach, beforeEach, describe, it } from "node:test";
import { createPrincipal } from "../../../src/access/principal.ts";
import type { CallOptions } from "../../../src/host/offers/catalog.ts";
import type { JsonObject } from "../../../src/lib/json.ts";
import type { NodeStore } from "../../../src/lib/node-store.ts";
import type { Records } from "../../../src/lib/records.ts";
import { defaultLimits } from "../../../src/limits/limits.ts";
import { LegacyClient, type EventReader } from "../../support/legacy-client.ts";
import { lower } from "../../support/lowered-limits.ts";
import { memoryRecords, MemoryHost, startRig, type Rig } from "../../support/mcp-host.ts";
import { memoryNodes } from "../../support/memory-nodes.ts";
import { until } from "../../support/until.ts";

const KEY = new Uint8Array(32).fill(7);
const PEOPLE = new Map(
  ["ann", "ben"].map((id) => [id, createPrincipal({ id, tenant: "default" }, [{ can: ["call", "read"] }])]),
);
const QUESTION = {
  method: "elicitation/create",
  params: { mode: "form", message: "?", requestedSchema: { type: "object", properties: {} } },
} as const;

const YES = { action: "accept", content: {} };

/** A client of one of the nodes; with a name, it sends a token of its own. */
class Person extends LegacyClient {
  static readonly readers: EventReader[] = [];
  name: string | undefined;

  override async send(...message: Parameters<LegacyClient["send"]>): Promise<EventReader> {
    const reader = await super.send(...message);
    Person.readers.push(reader);
    return reader;
  }

  override get headers(): Record<string, string> {
    return { ...super.headers, ...(this.name !== undefined && { Authorization: `Bearer ${this.name}` }) };
  }
}

describe("a legacy session on two nodes", () => {
  let nodes: NodeStore;
  let records: Records;
  let posted: string[];
  let taken: string[];
  let rigs: Rig[] = [];
  let aborted: number;
  beforeEach(async () => {
    const kept = memoryNodes();
    [posted, taken] = [[], []];
    nodes = {
      ...kept,
      post(from, letters) {
        posted.push(...letters.map(({ text }) => text));
        return kept.post(from, letters);
      },
      async take(node) {
        const letters = await kept.take(node);
        // By the next turn they are dealt with.
        setImmediate(() => taken.push(...letters));
        return letters;
      },
    };
    records = memoryRecords();
    aborted = 0;
    for (let count = 0; count < 2; count++) {
      const host = new MemoryHost();
      rigs.push(await startRig({ host, sealKeys: [KEY], nodes, records }, {}, PEOPLE));
      for (const server of ["one", "two"]) {
        host.offer(server, {
          resources: { "test://a": "a", "test://b": "b" },
          tools: {
            log(_args, { onLog }) {
              for (const level of ["debug", "info"] as const) onLog?.({ level, message: level });
              return "logged";
            },
            wait: (_args, { signal }) =>
              new Promise((resolve) =>
                signal?.addEventListener("abort", () => {
                  aborted += 1;
                  resolve("stopped");
                }),
              ),
            ask: (_args: JsonObject, { answers }: CallOptions) =>
              answers ? JSON.stringify(answers) : { inputRequests: { q: QUESTION } },
          },
        });
      }
    }
    await until(() => rigs.every(({ cluster }) => cluster.others.size === 1));
  });
  afterEach(async () => {
    // Where a test has failed, what it left open would keep its nodes.
    for (const reader of Person.readers.splice(0)) reader.close();
    for (const rig of rigs.splice(0)) await rig.close();
  });

  async function start(name?: string, server = "one"): Promise<[Person, Person]> {
    const client = new Person(rigs[0]!.url(server), "2025-11-25");
    client.name = name;
    await client.initialize({ elicitation: {} });
    const there = client.at(rigs[1]!.url(server));
    assert.deepEqual(await there.result("ping"), {}, "the other node knows the session");
    return [client, there];
  }

  /** A question that waits for its answer on the first node. */
  async function asked(client: Person) {
    const reader = await client.call("ask");
    const { id, method } = await reader.nextMessage();
    assert.equal(method, "elicitation/create");
    return {
      id: id as string,
      close: () => reader.close(),
      result: async () => JSON.stringify((await reader.nextMessage()).result),
    };
  }

  it("ends on both, with what is under way on either", async () => {
    const [here, there] = await start();
    const call = await there.call("wait");
    const listening = await there.listen();
    assert.equal(await here.end(), 204);
    await until(() => aborted === 1);
    for (const reader of [call, listening]) assert.equal(await reader.nextMessage(), undefined);
    for (const client of [here, there]) assert.equal((await client.request("ping")).status, 404);
  });

  it("that is ended while another node looks it up ends there, too", async () => {
    const client = new Person(rigs[0]!.url("one"), "2025-11-25");
    await client.initialize();
    const there = client.at(rigs[1]!.url("one"));
    const record = records.record.bind(records);
    records.record = async (...key) => {
      records.record = record;
      const found = await record(...key);
      await client.end();
      await until(() => taken.some((text) => text.includes('"end":true')));
      return found;
    };
    await there.request("ping");
    await until(async () => (await there.request("ping")).status === 404);
  });

  it("that ended while a node was out of reach ends there when it is back", async () => {
    let isAway = false;
    const cut: NodeStore = {
      ...nodes,
      beat: (...sign) => (isAway ? Promise.reject(new Error("away")) : nodes.beat(...sign)),
    };
    const limits = { ...defaultLimits, nodeLeaseMs: 2_500 };
    const near = await startRig({ sealKeys: [KEY], nodes, records });
    const far = await startRig({ sealKeys: [KEY], nodes: cut, records, limits });
    rigs.push(near, far);
    for (const { host } of [near, far]) host.offer("one", {});
    const client = new Person(near.url("one"), "2025-11-25");
    await client.initialize();
    const there = client.at(far.url("one"));
    await there.result("ping");
    isAway = true;
    await until(() => !near.cluster.others.has(far.cluster.id));
    assert.equal(await client.end(), 204);
    isAway = false;
    await until(async () => (await there.request("ping")).status === 404);
  });

  it("has what its client has set through either: the level, subscriptions, and neither undoes the other", async () => {
    const [here, there] = await start();
    const stream = await here.listen();
    await there.result("logging/setLevel", { level: "debug" });
    await here.result("resources/subscribe", { uri: "test://a" });
    await there.result("resources/subscribe", { uri: "test://b" });
    await here.result("resources/unsubscribe", { uri: "test://a" });
    const first = async (client: Person) => (await (await client.call("log")).nextMessage()).params.level as string;
    await until(async () => (await first(here)) === "debug" && (await first(there)) === "debug");
    rigs[0]!.host.update("one", "test://a");
    rigs[0]!.host.update("one", "test://b");
    assert.equal((await stream.nextMessage()).params.uri, "test://b");
    stream.close();
  });

  it("has as many subscriptions as a session may, through whichever node they come", async (t) => {
    t.after(lower({ subscriptionsPerSession: 1 }));
    const own = { sealKeys: [KEY], nodes, records };
    const small = [await startRig(own), await startRig(own)];
    rigs.push(...small);
    for (const { host } of small) host.offer("one", { resources: { "test://a": "a", "test://b": "b" } });
    const client = new Person(small[0]!.url("one"), "2025-11-25");
    await client.initialize();
    const there = client.at(small[1]!.url("one"));
    await there.result("ping");
    const both = await Promise.all([
      client.result("resources/subscribe", { uri: "test://a" }),
      there.result("resources/subscribe", { uri: "test://b" }),
    ]);
    assert.equal(both.filter(({ error }) => error === undefined).length, 1, JSON.stringify(both));
  });

  it("answers a question through the other node, however long the answer is", async () => {
    const [here, there] = await start("ann");
    for (const units of [10, 100_000, 800_000]) {
      const question = await asked(here);
      const content = { text: "x".repeat(units) };
      assert.equal((await there.answer(question.id, { action: "accept", content })).status, 202);
      assert.ok((await question.result()).includes(content.text));
      assert.equal((await there.answer(question.id, { action: "accept", content })).status, 400, "only once");
    }
    const question = await asked(here);
    const tooLong = { action: "accept", content: { text: "x".repeat(1_048_576) } };
    assert.equal((await there.answer(question.id, tooLong)).status, 202);
    assert.match(await question.result(), /answers of more than 1048576 bytes/);
    const refused = await asked(here);
    assert.equal((await there.send({ jsonrpc: "2.0", id: refused.id, error: { message: "No!" } })).status, 202);
    assert.match(await refused.result(), /did not answer: No!/);
    const long = await asked(here);
    const message = "x".repeat(100_000);
    assert.equal((await there.send({ jsonrpc: "2.0", id: long.id, error: { message } })).status, 202);
    assert.match(await long.result(), /did not answer: x{4096}…/);
    assert.ok(Math.max(...posted.map(({ length }) => length)) < 20_000, "no letter is long");
  });

  it("answers no question of another session, principal or server, and cancels none of their calls", async () => {
    const [here] = await start("ann");
    const question = await asked(here);
    const reader = await here.call("wait", {}, "mine");
    const pairs = [await start("ann"), await start("ben"), await start("ann", "two"), await start()];
    const stolen = here.at(rigs[1]!.url("one"));
    stolen.name = "ben";
    assert.equal((await stolen.answer(question.id, { action: "accept", content: {} })).status, 404);
    assert.equal(await stolen.notify("notifications/cancelled", { requestId: "mine" }), 404);
    for (const [, other] of pairs) {
      const answered = await other.answer(question.id, { action: "accept", content: {} });
      assert.equal(answered.status, 400);
      assert.match((await answered.nextMessage()).error.message, /no request is waiting for this response/);
      assert.equal(await other.notify("notifications/cancelled", { requestId: "mine" }), 202);
    }
    assert.equal((await here.at(rigs[1]!.url("one")).answer(question.id, { action: "decline" })).status, 202);
    assert.match(await question.result(), /decline/);
    assert.equal(aborted, 0);
    reader.close();
  });

  it("whose question or call another node names wrongly is not found by the node that has it", async () => {
    const [here, there] = await start("ann");
    const first = await asked(here);
    assert.equal((await there.answer(first.id, YES)).status, 202);
    await first.result();
    await there.notify("notifications/cancelled", { requestId: "none" });
    const bodyOf = (topic: string) =>
      until(() => {
        const letters = posted.map((text) => JSON.parse(text) as [string, JsonObject]);
        return letters.find(([about]) => about === topic)?.[1];
      });
    const { about, tenant } = (await bodyOf("errand")) as { about: JsonObject; tenant: string };
    const cancel = await bodyOf("cancel");

    const question = await asked(here);
    const reader = await here.call("wait", {}, "mine");
    const [{ errands, cluster }, to] = [rigs[1]!, rigs[0]!.cluster.id];
    const principals: JsonObject[] = [{ principal: "ben" }, { principal: null }];
    for (const each of [...principals, { server: "two" }, { session: "another" }, { tenant: "another" }]) {
      const letter = { tenant: (each["tenant"] as string | undefined) ?? tenant, text: JSON.stringify(YES) };
      const sent = errands.send(to, "answer", { ...letter, about: { ...about, question: question.id, ...each } });
      await assert.rejects(sent, /no request is waiting for this response/);
      await cluster.send(to, "cancel", { ...cancel, request: "mine", ...each });
    }
    assert.equal((await there.answer(question.id, YES)).status, 202);
    assert.match(await question.result(), /accept/);
    assert.equal(aborted, 0);
    await cluster.send(to, "cancel", { ...cancel, request: "mine" });
    await until(() => aborted === 1);
    reader.close();
  });

  it("takes no id that a client makes up for that of a node, and asks none for it", async () => {
    const [here, there] = await start();
    const question = await asked(here);
    const [node, uuid] = question.id.split(".");
    const before = posted.length;
    const forged = [`${"A".repeat(12)}.${uuid}`, `${node}/${uuid}`, `${node}.${"0".repeat(1_000)}`, `${node}.`];
    for (const id of [...forged, `.${uuid}`, "__proto__", node, 1])
      assert.equal((await there.answer(id, { action: "accept" })).status, 400, String(id));
    assert.equal((await here.answer(`${node}.${uuid!.replace(/./, "g")}`, {})).status, 400);
    assert.equal(posted.length, before);
    assert.equal((await there.answer(`${node}.${"0".repeat(36)}`, {})).status, 400, "that node knows no such question");
    await there.notify("notifications/cancelled", { requestId: "x".repeat(100_000) });
    await there.notify("notifications/cancelled", { requestId: { toString: 1 } });
    assert.ok(posted.every((text) => !text.startsWith('["cancel"')));
    question.close();
  });

  it("hears that nobody waits where the node that asked is gone", async () => {
    const [here, there] = await start();
    const question = await asked(here);
    question.close();
    await rigs.shift()!.close();
    await until(() => rigs[0]!.cluster.others.size === 0);
    assert.equal((await there.answer(question.id, { action: "accept" })).status, 400);
  });
});
