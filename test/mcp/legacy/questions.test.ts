import assert from "node:assert/strict";
import { before, beforeEach, describe, it } from "node:test";
import type { InputRequest } from "../../../src/host/offers/catalog.ts";
import type { JsonObject } from "../../../src/lib/json.ts";
import { defaultLimits } from "../../../src/limits/limits.ts";
import { modern, request } from "../../support/berth.ts";
import { LegacyClient } from "../../support/legacy-client.ts";
import { declaring, rigFor, startRig } from "../../support/mcp-host.ts";
import { rows } from "../../support/rows.ts";
import { inSuite } from "../../support/suite.ts";

const FORM: InputRequest = {
  method: "elicitation/create",
  params: {
    mode: "form",
    message: "Who?",
    requestedSchema: { type: "object", properties: { name: { type: "string", default: "x", title: "Name" } } },
  },
};
const VISIT: InputRequest = {
  method: "elicitation/create",
  params: { mode: "url", message: "Go", url: "https://a.example/" },
};
const SAMPLE: InputRequest = {
  method: "sampling/createMessage",
  params: { messages: [{ role: "user", content: { type: "text", text: "hi" } }], maxTokens: 5 },
};
const SAID = { role: "assistant", content: [], model: "m" };
const ROOTS: InputRequest = { method: "roots/list", params: {} };

const ALL = { elicitation: { form: {}, url: {} }, sampling: { tools: {} }, roots: { listChanged: true } };

describe("questions to legacy clients", () => {
  const rig = inSuite(() => startRig({ limits: { ...defaultLimits, answerMs: 60_000 } }));
  let url: string;
  let asked: Record<string, InputRequest>;
  let runs: JsonObject[];
  before(() => {
    url = rig.url("one");
    const code = (_args: JsonObject, { answers = {} }: { answers?: JsonObject }) => {
      runs.push(answers);
      const open = Object.entries(asked).filter(([key]) => answers[key] === undefined);
      return open.length > 0 ? { inputRequests: Object.fromEntries(open) } : JSON.stringify(answers);
    };
    rig.host.offer("one", { tools: { ask: code }, prompts: { ask: code }, resources: { "test://ask": code } });
  });
  beforeEach(() => {
    asked = { q: FORM };
    runs = [];
  });

  it("a tool's question is elicitation/create on its stream, and the tool runs again with the answer (S11)", async () => {
    for (const version of ["2025-11-25", "2025-06-18"]) {
      runs = [];
      const client = await LegacyClient.start(url, version, { elicitation: {} });
      const reader = await client.call("ask");
      const question = await reader.nextMessage();
      assert.equal(question.method, "elicitation/create");
      const { mode, ...form } = FORM.params;
      assert.deepEqual(question.params, version === "2025-11-25" ? { mode, ...form } : form);
      assert.equal((await client.answer(question.id, { action: "accept", content: { name: "Ada" } })).status, 202);
      const { result } = await reader.nextMessage();
      assert.deepEqual(JSON.parse(result.content[0].text), { q: { action: "accept", content: { name: "Ada" } } });
      assert.equal(runs.length, 2);
    }
  });

  it("prompts and resources ask, too", async () => {
    const client = await LegacyClient.start(url, "2025-06-18", ALL);
    for (const [method, params] of [
      ["prompts/get", { name: "ask" }],
      ["resources/read", { uri: "test://ask" }],
    ] as const) {
      const reader = await client.request(method, params);
      await client.answer((await reader.nextMessage()).id, { action: "decline" });
      assert.match(JSON.stringify((await reader.nextMessage()).result), /decline/);
    }
  });

  it("several questions go out at once, and are answered in any order", async () => {
    asked = { form: FORM, sample: SAMPLE, roots: ROOTS };
    const client = await LegacyClient.start(url, "2025-11-25", ALL);
    const reader = await client.call("ask");
    const questions = [await reader.nextMessage(), await reader.nextMessage(), await reader.nextMessage()];
    assert.deepEqual(rows(questions, "method"), ["elicitation/create", "sampling/createMessage", "roots/list"]);
    assert.equal(new Set(questions.map(({ id }) => id)).size, 3);
    for (const { id, method } of questions.toReversed()) await client.answer(id, { answers: method });
    const { result } = await reader.nextMessage();
    assert.deepEqual(JSON.parse(result.content[0].text), {
      form: { answers: "elicitation/create" },
      sample: { answers: "sampling/createMessage" },
      roots: { answers: "roots/list" },
    });
  });

  it("a question by URL has an id in 2025-11-25, and is not put to clients that know forms alone", async () => {
    asked = { q: VISIT };
    const client = await LegacyClient.start(url, "2025-11-25", ALL);
    const reader = await client.call("ask");
    const { id, params } = await reader.nextMessage();
    const { elicitationId, ...rest } = params;
    assert.match(elicitationId, /^[0-9a-f-]{36}$/);
    assert.deepEqual(rest, VISIT.params);
    await client.answer(id, { action: "accept" });
    assert.ok((await reader.nextMessage()).result);
    for (const [version, capabilities] of [
      ["2025-11-25", { elicitation: {} }],
      ["2025-11-25", { elicitation: { form: {} } }],
      ["2025-06-18", ALL],
    ] as const) {
      const other = await LegacyClient.start(url, version, capabilities);
      const { result } = await (await other.call("ask")).nextMessage();
      assert.match(result.content[0].text, /elicitation by URL/);
    }
  });

  it("a client is never asked for what it cannot do, and the tool fails with the reason", async () => {
    const lacking: [InputRequest, string, object, RegExp][] = [
      [FORM, "2025-11-25", {}, /supports elicitation/],
      [FORM, "2025-03-26", ALL, /supports elicitation/],
      [FORM, "2025-11-25", { elicitation: { url: {} } }, /elicitation by form/],
      [SAMPLE, "2025-06-18", { roots: {} }, /supports sampling/],
      [{ ...SAMPLE, params: { ...SAMPLE.params, tools: [] } }, "2025-11-25", { sampling: {} }, /sampling with tools/],
      [ROOTS, "2024-11-05", { sampling: {} }, /supports roots/],
    ];
    for (const [question, version, capabilities, reason] of lacking) {
      asked = { q: question };
      const client = await LegacyClient.start(url, version, capabilities);
      const { result } = await (await client.call("ask")).nextMessage();
      assert.equal(result.isError, true);
      assert.match(result.content[0].text, reason);
      const prompt = await client.result("prompts/get", { name: "ask" });
      assert.match(prompt.error.message, reason);
    }
  });

  it("without a session, or without a stream, nobody can be asked", async () => {
    const stranger = new LegacyClient(url, "2025-06-18");
    assert.match((await stranger.result("tools/call", { name: "ask" })).content[0].text, /Mcp-Session-Id/);
    const client = await LegacyClient.start(url, "2025-06-18", ALL);
    const body = { jsonrpc: "2.0", id: 1, method: "tools/call", params: { name: "ask" } };
    const reader = await client.send(body, { Accept: "application/json" });
    assert.match((await reader.nextMessage()).result.content[0].text, /text\/event-stream/);
  });

  it("what a client's sampling cannot take of the context is left out", async () => {
    asked = { q: { ...SAMPLE, params: { ...SAMPLE.params, includeContext: "thisServer" } } };
    const expected: [string, object, boolean][] = [
      ["2025-11-25", { sampling: {} }, false],
      ["2025-11-25", { sampling: { context: {} } }, true],
      ["2025-06-18", { sampling: {} }, true],
    ];
    for (const [version, capabilities, isSent] of expected) {
      const client = await LegacyClient.start(url, version, capabilities);
      const reader = await client.call("ask");
      const { id, params } = await reader.nextMessage();
      assert.equal("includeContext" in params, isSent);
      await client.answer(id, { ...SAID, content: { type: "text", text: "ok" } });
      assert.ok((await reader.nextMessage()).result);
    }
  });

  it("an error as the answer is the tool's failure", async () => {
    const client = await LegacyClient.start(url, "2025-06-18", ALL);
    const reader = await client.call("ask");
    const { id } = await reader.nextMessage();
    await client.send({ jsonrpc: "2.0", id, error: { code: -1, message: "User rejected it" } });
    const { result } = await reader.nextMessage();
    assert.equal(result.isError, true);
    assert.match(result.content[0].text, /User rejected it/);
  });

  it("an answer that nobody waits for is refused: unknown, given twice, or of another session", async () => {
    const client = await LegacyClient.start(url, "2025-06-18", ALL);
    const other = await LegacyClient.start(url, "2025-06-18", ALL);
    const reader = await client.call("ask");
    const { id } = await reader.nextMessage();
    for (const reply of [await other.answer(id, {}), await client.answer("nope", {})]) {
      assert.equal(reply.status, 400);
      assert.match((await reply.nextMessage()).error.message, /no request is waiting/);
    }
    assert.equal((await client.answer(id, { action: "cancel" })).status, 202);
    assert.ok((await reader.nextMessage()).result);
    assert.equal((await client.answer(id, { action: "cancel" })).status, 400);
  });

  it("questionBytes: a question that is longer is put to no client, and the call fails with the limit's name", async () => {
    const long = { ...FORM, params: { ...FORM.params, message: "x".repeat(1_048_576) } };
    const code = () => ({ inputRequests: { q: long } });
    rig.host.offer("long", { tools: { ask: code }, prompts: { ask: code } });
    const client = await LegacyClient.start(rig.url("long"), "2025-06-18", ALL);
    const { result } = await (await client.call("ask")).nextMessage();
    assert.equal(result.isError, true);
    assert.match(result.content[0].text, /have \d+ bytes in total, and the limit is 1048576/);
    const prompt = await client.result("prompts/get", { name: "ask" });
    assert.match(prompt.error.message, /the limit is 1048576/);
    const { body } = await modern(rig.url("long"), "tools/call", { name: "ask", _meta: declaring(ALL) });
    assert.match(JSON.stringify(body.error), /the limit is 1048576/);
  });

  it("questions of clients that left, and their calls, have half of replayBytesPerTenant; further calls fail", async (t) => {
    const small = await rigFor(t, { limits: { ...defaultLimits, replayBytesPerTenant: 40_000 } });
    const code = (_args: JsonObject, { answers }: { answers?: JsonObject }) =>
      answers ? "answered" : { inputRequests: { q: SAMPLE } };
    small.host.offer("one", { tools: { ask: code } });
    const args = { text: "x".repeat(8_000) };
    const waiting: { client: LegacyClient; id: unknown; stream: string }[] = [];
    for (const version of ["2025-11-25", "2025-06-18"]) {
      const client = await LegacyClient.start(small.url("one"), version, ALL);
      const reader = await client.call("ask", args);
      let event = await reader.next();
      while (event?.data === "") event = await reader.next();
      waiting.push({ client, id: event!.message.id, stream: event!.id! });
      reader.close();
    }
    const client = await LegacyClient.start(small.url("one"), "2025-11-25", ALL);
    const { result } = await (await client.call("ask", args)).nextMessage();
    assert.equal(result.isError, true);
    assert.match(result.content[0].text, /questions of a tenant may have 20000 bytes/);
    const batching = await LegacyClient.start(small.url("one"), "2025-03-26", ALL);
    const call = { jsonrpc: "2.0", id: 1, method: "tools/call", params: { name: "ask", arguments: args } };
    const refused = JSON.stringify(await (await batching.send([call])).nextMessage());
    assert.match(refused, /questions of a tenant may have 20000 bytes/);

    const [first] = waiting;
    await first!.client.answer(first!.id, SAID);
    const answered = await first!.client.listen(first!.stream);
    assert.equal((await answered.nextMessage()).result.content[0].text, "answered");
    const again = await client.call("ask", args);
    const question = await again.nextMessage();
    assert.equal(question.method, "sampling/createMessage");
    await client.answer(question.id, SAID);
    assert.equal((await again.nextMessage()).result.content[0].text, "answered");
  });

  it("answerBytes: answers of one call have as much together, of all its rounds: above, it fails and waits for no other", async () => {
    asked = { a: SAMPLE, b: SAMPLE, c: SAMPLE };
    const client = await LegacyClient.start(url, "2025-11-25", ALL);
    const long = (units: number) => ({ ...SAID, content: { type: "text", text: "x".repeat(units) } });
    const reader = await client.call("ask");
    const [first, second, third] = [await reader.nextMessage(), await reader.nextMessage(), await reader.nextMessage()];
    await client.answer(first.id, long(700_000));
    await client.answer(second.id, long(400_000));
    const takenBack = await reader.nextMessage();
    assert.deepEqual([takenBack.method, takenBack.params.requestId], ["notifications/cancelled", third.id]);
    const { result } = await reader.nextMessage();
    assert.equal(result.isError, true);
    assert.match(
      result.content[0].text,
      /its client sent answers of more than 1048576 bytes, counting 32 for each value/,
    );
    assert.equal((await client.answer(third.id, long(1))).status, 400);

    const code = (_args: JsonObject, { answers = {} }: { answers?: JsonObject }) => ({
      inputRequests: { [`q${Object.keys(answers).length}`]: SAMPLE },
    });
    rig.host.offer("rounds", { tools: { ask: code } });
    const patient = await LegacyClient.start(rig.url("rounds"), "2025-11-25", ALL);
    const rounds = await patient.call("ask");
    for (const units of [700_000, 400_000]) await patient.answer((await rounds.nextMessage()).id, long(units));
    assert.match((await rounds.nextMessage()).result.content[0].text, /answers of more than 1048576 bytes/);
  });

  it("answers of many values are longer than their text", async () => {
    asked = { a: ROOTS, b: ROOTS };
    const client = await LegacyClient.start(url, "2025-11-25", ALL);
    const reader = await client.call("ask");
    const [first, second] = [await reader.nextMessage(), await reader.nextMessage()];
    const roots = Array.from({ length: 20_000 }, () => 0);
    await client.answer(first.id, { roots });
    await client.answer(second.id, { roots });
    assert.match((await reader.nextMessage()).result.content[0].text, /answers of more than 1048576 bytes/);
  });

  it("answers that wait for others have a share of their tenant as questions have", async (t) => {
    const small = await rigFor(t, { limits: { ...defaultLimits, replayBytesPerTenant: 40_000 } });
    small.host.offer("one", { tools: { ask: () => ({ inputRequests: { a: SAMPLE, b: SAMPLE } }) } });
    const client = await LegacyClient.start(small.url("one"), "2025-11-25", ALL);
    const reader = await client.call("ask");
    const { id } = await reader.nextMessage();
    await client.answer(id, { ...SAID, content: { type: "text", text: "x".repeat(20_000) } });
    let message = await reader.nextMessage();
    while (!message.result) message = await reader.nextMessage();
    assert.match(message.result.content[0].text, /questions of a tenant may have 20000 bytes/);
  });

  it("answers of a batch that wait with a question of it for its end are counted, and lost where there is no room", async (t) => {
    const small = await rigFor(t, { limits: { ...defaultLimits, replayBytesPerTenant: 28_000 } });
    let goOn!: () => void;
    const isAsked = new Promise<void>((resolve) => (goOn = resolve));
    const ask = (_args: JsonObject, { answers }: { answers?: JsonObject }) =>
      answers ? "answered" : { inputRequests: { q: SAMPLE } };
    const long = () => isAsked.then(() => "x".repeat(6_000));
    small.host.offer("one", { tools: { ask, long } });
    const client = await LegacyClient.start(small.url("one"), "2025-03-26", ALL);
    const calls = ["ask", "long", "long"].map((name, id) => request("tools/call", { name }, id));
    const reader = await client.send(calls);
    const question = await reader.nextMessage();
    goOn();
    const answers = [await reader.nextMessage(), await reader.nextMessage()];
    assert.equal(answers.filter(({ result }) => result?.content[0].text.length === 6_000).length, 1);
    assert.match(answers.find(({ error }) => error).error.message, /send the request again/);
    await client.answer(question.id, SAID);
    assert.equal((await reader.nextMessage()).result.content[0].text, "answered");
  });

  it("a question that is not answered within answerMs is taken back, and the tool fails", async (t) => {
    const hasty = await rigFor(t, { limits: { ...defaultLimits, answerMs: 20 } });
    hasty.host.offer("one", { tools: { ask: () => ({ inputRequests: { q: FORM } }) } });
    const client = await LegacyClient.start(hasty.url("one"), "2025-06-18", ALL);
    const reader = await client.call("ask");
    const { id } = await reader.nextMessage();
    const takenBack = await reader.nextMessage();
    assert.deepEqual([takenBack.method, takenBack.params.requestId], ["notifications/cancelled", id]);
    assert.match((await reader.nextMessage()).result.content[0].text, /within 20 ms/);
    assert.equal((await client.answer(id, {})).status, 400);
  });

  it("a call that is cancelled while it asks takes its question back", async () => {
    const client = await LegacyClient.start(url, "2025-06-18", ALL);
    const reader = await client.call("ask", {}, "c");
    const { id } = await reader.nextMessage();
    await client.notify("notifications/cancelled", { requestId: "c" });
    assert.equal((await reader.nextMessage()).params.requestId, id);
    assert.equal(await reader.nextMessage(), undefined);
  });

  it("a question is asked again on a connection that takes the stream up (S7)", async () => {
    const client = await LegacyClient.start(url, "2025-11-25", ALL);
    const broken = await client.call("ask");
    const first = await broken.next();
    broken.close();
    const again = await client.listen(first!.id);
    const { id } = await again.nextMessage();
    await client.answer(id, { action: "accept", content: {} });
    assert.ok((await again.nextMessage()).result);
  });
});
