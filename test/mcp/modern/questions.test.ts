import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { before, describe, it } from "node:test";
import type { InputRequests } from "../../../src/executor/executor.ts";
import type { CallOptions, CallResult, InputRequired } from "../../../src/host/offers/catalog.ts";
import type { Json, JsonObject } from "../../../src/lib/json.ts";
import { modern, withStatus, type Reply } from "../../support/berth.ts";
import { declaring, MemoryHost, startRig } from "../../support/mcp-host.ts";
import { inSuite } from "../../support/suite.ts";

const EVERYTHING = declaring({ elicitation: { form: {}, url: {} }, sampling: { tools: {}, context: {} }, roots: {} });

const NAME: InputRequests[string] = {
  method: "elicitation/create",
  params: { message: "Who?", requestedSchema: { type: "object", properties: { name: { type: "string" } } } },
};
const URL_QUESTION: InputRequests[string] = {
  method: "elicitation/create",
  params: { mode: "url", message: "Log in", url: "https://example.com", elicitationId: "1" },
};
const SAMPLE: InputRequests[string] = { method: "sampling/createMessage", params: { messages: [], maxTokens: 10 } };
const ROOTS: InputRequests[string] = { method: "roots/list", params: {} };

const named = (name: string): JsonObject => ({ action: "accept", content: { name } });
const says = (text: string): CallResult => ({ content: [{ type: "text", text }] });

/** Asks for each of these until it has them, all missing ones at once. */
const asking =
  (questions: InputRequests) =>
  (_args: JsonObject, { answers = {} }: CallOptions): CallResult | InputRequired => {
    const missing = Object.entries(questions).filter(([key]) => !Object.hasOwn(answers, key));
    if (missing.length > 0) return { inputRequests: Object.fromEntries(missing) };
    return says(JSON.stringify(answers));
  };

/** Asks for one after the other. */
const inTurn = (_args: JsonObject, { answers = {} }: CallOptions): CallResult | InputRequired => {
  for (const key of ["first", "second", "third"]) if (!answers[key]) return { inputRequests: { [key]: NAME } };
  return says(JSON.stringify(answers));
};

describe("questions in the modern era", () => {
  const sealKey = randomBytes(32);
  const rig = inSuite(() => startRig({ sealKeys: [sealKey] }));
  before(() => {
    rig.host.offer("asks", {
      tools: {
        who: asking({ user: NAME }),
        both: asking({ one: NAME, two: NAME }),
        inTurn,
        login: asking({ login: URL_QUESTION }),
        sample: asking({ sample: SAMPLE }),
        sampleWithTools: asking({ sample: { ...SAMPLE, params: { ...SAMPLE.params, tools: [] } } }),
        sampleWithContext: asking({
          sample: { ...SAMPLE, params: { ...SAMPLE.params, includeContext: "thisServer" } },
        }),
        roots: asking({ roots: ROOTS }),
        several: asking({ user: NAME, sample: SAMPLE, roots: ROOTS }),
        defaults(args, options) {
          args["filledIn"] ??= 7;
          return asking({ user: NAME })(args, options);
        },
      },
      prompts: { greeting: (_args, { answers }) => (answers?.["user"] ? "Hello" : { inputRequests: { user: NAME } }) },
      resources: {
        "test://r": (_args, { answers }) => (answers?.["user"] ? "Read" : { inputRequests: { user: NAME } }),
      },
    });
  });

  const ask = (name: string, params: JsonObject = {}): Promise<Reply> =>
    modern(rig.url("asks"), "tools/call", { name, arguments: {}, _meta: EVERYTHING, ...params });

  it("answerBytes: a call takes no more answers, of all its rounds together", async () => {
    const answer = (units: number) => named("x".repeat(units));
    const refused = /a call cannot take answers of more than 1048576 bytes, .*/;
    const first = (await ask("both")).body.result;
    const one = { requestState: first.requestState, inputResponses: { one: answer(600_000) } };
    const { requestState } = (await ask("both", one)).body.result;
    const { error } = (await ask("both", { requestState, inputResponses: { two: answer(600_000) } })).body;
    assert.match(error.message, refused);
    assert.match((await ask("both", { inputResponses: { one: answer(1_100_000) } })).body.error.message, refused);
    const last = await ask("both", { requestState, inputResponses: { two: answer(1) } });
    assert.equal(JSON.parse(last.body.result.content[0].text).two.content.name, "x");
  });

  it("a function that asks ends its request with the questions and a sealed state", async () => {
    const { body } = await withStatus(200, ask("who"));
    assert.equal(body.result.resultType, "input_required");
    assert.deepEqual(body.result.inputRequests, { user: NAME });
    assert.equal(typeof body.result.requestState, "string");
    assert.equal(body.result._meta["io.modelcontextprotocol/serverInfo"].name, "asks");
    assert.equal(body.result.ttlMs, undefined);
  });

  it("the same request with the answer gets the result", async () => {
    const { requestState } = (await ask("who")).body.result;
    const { body } = await ask("who", { requestState, inputResponses: { user: named("Ada") } });
    assert.equal(body.result.resultType, "complete");
    assert.deepEqual(JSON.parse(body.result.content[0].text), { user: named("Ada") });
  });

  it("a function runs from its top with all answers of all rounds", async () => {
    let params: JsonObject = {};
    for (const key of ["first", "second", "third"]) {
      const { result } = (await ask("inTurn", params)).body;
      assert.deepEqual(Object.keys(result.inputRequests), [key]);
      params = { requestState: result.requestState, inputResponses: { [key]: named(key) } };
    }
    const { result } = (await ask("inTurn", params)).body;
    const all = { first: named("first"), second: named("second"), third: named("third") };
    assert.deepEqual(JSON.parse(result.content[0].text), all);
  });

  it("prompts and resources ask in the same way", async () => {
    for (const [method, params] of [
      ["prompts/get", { name: "greeting" }],
      ["resources/read", { uri: "test://r" }],
    ] as const) {
      const first = await modern(rig.url("asks"), method, { ...params, _meta: EVERYTHING });
      const { requestState } = first.body.result;
      const again = { ...params, _meta: EVERYTHING, requestState, inputResponses: { user: named("Ada") } };
      const { body } = await modern(rig.url("asks"), method, again);
      assert.equal(body.result.resultType, "complete", method);
    }
  });

  it("answers that are missing are asked for again, and those that came are kept", async () => {
    const first = (await ask("both")).body.result;
    const second = (await ask("both", { requestState: first.requestState, inputResponses: { one: named("1") } })).body;
    assert.equal(second.result.resultType, "input_required");
    assert.deepEqual(Object.keys(second.result.inputRequests), ["two"]);
    const { requestState } = second.result;
    const third = (await ask("both", { requestState, inputResponses: { two: named("2") } })).body;
    assert.deepEqual(JSON.parse(third.result.content[0].text), { one: named("1"), two: named("2") });

    const none = (await ask("both", { requestState: first.requestState })).body.result;
    assert.deepEqual(Object.keys(none.inputRequests), ["one", "two"]);
  });

  it("keys that nobody asked for are ignored, whatever they hold", async () => {
    const { requestState } = (await ask("who")).body.result;
    const inputResponses = { user: named("Ada"), other: 7, ["__proto__"]: 7, constructor: { action: "accept" } };
    const { body } = await ask("who", { requestState, inputResponses });
    assert.deepEqual(JSON.parse(body.result.content[0].text), { user: named("Ada") });
  });

  it("answers that come before anybody asked are taken, too", async () => {
    const { body } = await ask("who", { inputResponses: { user: named("Ada") } });
    assert.deepEqual(JSON.parse(body.result.content[0].text), { user: named("Ada") });
  });

  it("more answers than a call may ever have asked for are refused, and of wrong ones the first are named", async () => {
    const many = (count: number, answer: Json): JsonObject =>
      Object.fromEntries(Array.from({ length: count }, (_, at) => [`k${at}`, answer]));
    const tooMany = (await ask("who", { inputResponses: many(641, named("Ada")) })).body;
    assert.deepEqual([tooMany.error.code, /more than 640 keys/.test(tooMany.error.message)], [-32602, true]);
    const wrong = (await ask("who", { inputResponses: many(600, 7) })).body;
    assert.match(wrong.error.message, /"k9" must be .*; and 590 more$/);
    assert.ok(wrong.error.message.length < 2_000);
    const { requestState } = (await ask("who")).body.result;
    const unasked = { ...many(641, named("x")), user: named("Ada") };
    const { body } = await ask("who", { requestState, inputResponses: unasked });
    assert.deepEqual(JSON.parse(body.result.content[0].text), { user: named("Ada") });
  });

  it("what is no answer to the question is -32602 that names its key", async () => {
    const wrong: [tool: string, key: string, answers: unknown[]][] = [
      ["who", "user", [12345, null, [], {}, { action: "perhaps" }, { action: "accept", content: { name: {} } }]],
      ["sample", "sample", [named("x"), { role: "user", content: "text", model: "m" }, { role: "user", content: [] }]],
      ["roots", "roots", [{}, { roots: {} }, { roots: [{ name: "no uri" }] }]],
    ];
    for (const [tool, key, answers] of wrong) {
      const { requestState } = (await ask(tool)).body.result;
      for (const answer of answers) {
        const { body } = await ask(tool, { requestState, inputResponses: { [key]: answer } as JsonObject });
        assert.equal(body.error?.code, -32602, JSON.stringify(answer));
        assert.match(body.error.message, new RegExp(`"${key}"`));
      }
    }
    for (const inputResponses of [null, 7, [], "x"]) {
      assert.equal((await ask("who", { inputResponses })).body.error?.code, -32602);
    }
  });

  it("state that was changed, however little, is -32602", async () => {
    const { requestState } = (await ask("who")).body.result as { requestState: string };
    const swapped = requestState.slice(0, -1) + (requestState.endsWith("A") ? "B" : "A");
    const changed = [`${requestState}-TAMPERED`, swapped, requestState.slice(2), "", "1.", `${requestState}=`, "x"];
    for (const each of [...changed, 7, {}, null]) {
      const { body } = await ask("who", { requestState: each, inputResponses: { user: named("Ada") } });
      assert.equal(body.error?.code, -32602, JSON.stringify(each));
      assert.equal(body.result, undefined);
    }
  });

  it("state is good for its own request alone", async () => {
    rig.host.offer("twin", { tools: { who: asking({ user: NAME }) } });
    const { requestState } = (await ask("who")).body.result;
    const answered = { requestState, inputResponses: { user: named("Ada") }, _meta: EVERYTHING };
    const elsewhere: [server: string, method: string, params: JsonObject][] = [
      ["asks", "tools/call", { name: "who", arguments: { other: 1 } }],
      ["asks", "tools/call", { name: "both", arguments: {} }],
      ["asks", "prompts/get", { name: "greeting" }],
      ["twin", "tools/call", { name: "who", arguments: {} }],
    ];
    for (const [server, method, params] of elsewhere) {
      const { body } = await modern(rig.url(server), method, { ...params, ...answered });
      assert.equal(body.error?.code, -32602, JSON.stringify([server, method, params]));
    }
    assert.ok((await ask("who", answered)).body.result);
  });

  it("defaults that were filled in and the order of keys make no other request", async () => {
    const { requestState } = (await ask("defaults", { arguments: { b: 1, a: { d: 1, c: 2 } } })).body.result;
    const inputResponses = { user: named("Ada") };
    const { body } = await ask("defaults", { arguments: { a: { c: 2, d: 1 }, b: 1 }, requestState, inputResponses });
    assert.ok(body.result?.content, JSON.stringify(body.error));
  });

  it("a key of another service opens nothing, and the same key does after a restart", async () => {
    const { requestState } = (await ask("who")).body.result;
    const answered = { requestState, inputResponses: { user: named("A") } };
    const params = { name: "who", arguments: {}, _meta: EVERYTHING, ...answered };
    for (const key of [randomBytes(32), sealKey]) {
      const host = new MemoryHost();
      host.offer("asks", { tools: { who: asking({ user: NAME }) } });
      const other = await startRig({ host, sealKeys: [key] });
      const { body } = await modern(other.url("asks"), "tools/call", params);
      assert.equal(body.error === undefined, key === sealKey);
      await other.close();
    }
  });

  it("a retry after a deploy runs the release that asked", async () => {
    rig.host.offer("moves", { release: "old", tools: { who: asking({ user: NAME }) } });
    const call = (params: JsonObject): Promise<Reply> =>
      modern(rig.url("moves"), "tools/call", { name: "who", arguments: {}, _meta: EVERYTHING, ...params });
    const { requestState } = (await call({})).body.result;
    const retry = { requestState, inputResponses: { user: named("Ada") } };

    rig.host.offer("moves", { release: "new", tools: { who: () => "the new one" } });
    const { result } = (await call(retry)).body;
    assert.deepEqual(JSON.parse(result.content[0].text), { user: named("Ada") });
    assert.match(result._meta["io.modelcontextprotocol/serverInfo"].version, /\+old$/);

    rig.host.kept.delete("moves@old");
    const { error } = (await call(retry)).body;
    assert.equal(error.code, -32602);
    assert.match(error.message, /old.* is gone/);
  });

  it("a client is never asked for what it does not declare: -32021 with what is missing", async () => {
    const cases: [tool: string, declared: JsonObject, missing: JsonObject | undefined][] = [
      ["who", {}, { elicitation: { form: {} } }],
      ["who", { elicitation: {} }, undefined],
      ["who", { elicitation: { form: {} } }, undefined],
      ["who", { elicitation: { url: {} } }, { elicitation: { form: {} } }],
      ["who", { elicitation: true }, { elicitation: { form: {} } }],
      ["login", { elicitation: {} }, { elicitation: { url: {} } }],
      ["login", { elicitation: { url: {} } }, undefined],
      ["sample", {}, { sampling: {} }],
      ["sample", { sampling: {} }, undefined],
      ["sampleWithTools", { sampling: {} }, { sampling: { tools: {} } }],
      ["sampleWithTools", { sampling: { tools: {} } }, undefined],
      ["sampleWithContext", { sampling: { tools: {} } }, { sampling: { context: {} } }],
      ["sampleWithContext", { sampling: { context: {} } }, undefined],
      ["roots", {}, { roots: {} }],
      ["roots", { roots: {} }, undefined],
      ["several", { roots: {} }, { elicitation: { form: {} }, sampling: {} }],
    ];
    for (const [tool, declared, missing] of cases) {
      const { status, body } = await ask(tool, { _meta: declaring(declared) });
      const what = `${tool} ${JSON.stringify(declared)}`;
      if (missing) {
        assert.equal(status, 400, what);
        assert.equal(body.error.code, -32021, what);
        assert.deepEqual(body.error.data.requiredCapabilities, missing, what);
      } else assert.equal(body.result.resultType, "input_required", what);
    }
  });
});
