import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { GuestCall, GuestLog, GuestOutcome, InputRequests } from "../../src/executor/executor.ts";
import type { Json, JsonObject } from "../../src/lib/json.ts";
import { failureOf, programOf, shape, testPort, useRig, valueOf } from "../support/executor.ts";
import { GUESTS } from "../support/guests.ts";
import { until } from "../support/until.ts";

const mode = GUESTS;
const withContext = { context: true } as const;
const nameForm = {
  type: "object",
  properties: { name: { type: "string", minLength: 1 } },
  required: ["name"],
};
const accept = (content: JsonObject): JsonObject => ({ action: "accept", content });

describe(`in a ${mode} executor, a function that asks`, () => {
  const rig = useRig(mode, { outputBytes: 1_000_000 });
  const program = programOf("asking");

  const call = (name: string, answers: JsonObject = {}, more: Partial<GuestCall> = {}): Promise<GuestOutcome> =>
    rig.call(shape(name, [], withContext), {}, { program, context: { answers }, ...more });
  const asks = async (name: string, answers?: JsonObject): Promise<InputRequests> => {
    const outcome = await call(name, answers);
    assert.ok(outcome.ok && outcome.value.kind === "asks", JSON.stringify(outcome));
    return outcome.value.inputRequests;
  };

  it("ends with its question, and goes on with the answer from its top", async () => {
    const question = {
      method: "elicitation/create",
      params: { mode: "form", message: "Name?", requestedSchema: nameForm },
    };
    assert.deepEqual(await asks("one"), { "elicitation-1": question });
    const answers = { "elicitation-1": accept({ name: "Ann" }) };
    assert.deepEqual(valueOf(await call("one", answers)), { name: "Ann" });
    assert.equal(valueOf(await call("one", { "elicitation-1": { action: "decline" } })), "decline");
  });

  it("sends the questions of one turn together, as the protocol defines them", async () => {
    const requests = await asks("three");
    assert.deepEqual(requests, {
      page: { method: "elicitation/create", params: { mode: "url", message: "Go", url: "https://example.com/" } },
      "sampling-1": {
        method: "sampling/createMessage",
        params: { maxTokens: 5, temperature: 0, messages: [{ role: "user", content: { type: "text", text: "Hi" } }] },
      },
      "roots-1": { method: "roots/list", params: {} },
    });
    assert.deepEqual(Object.keys(await asks("later")), ["a", "b"]);
    const sampled = { role: "assistant", content: { type: "text", text: "Ho" }, model: "m" };
    const answers = {
      page: { action: "accept" },
      "sampling-1": sampled,
      "roots-1": { roots: [{ uri: "file:///" }] },
    };
    assert.deepEqual(valueOf(await call("three", answers)), [{ action: "accept" }, sampled, [{ uri: "file:///" }]]);
  });

  it("asks sequential questions under stable keys", async () => {
    const answers: JsonObject = {};
    for (let round = 1; round <= 3; round++) {
      const [key, ...others] = Object.keys(await asks("rounds", answers));
      assert.deepEqual([key, others], [`elicitation-${round}`, []]);
      answers[key!] = accept({ name: `${round}` });
    }
    assert.deepEqual(valueOf(await call("rounds", answers)), [{ name: "1" }, { name: "2" }, { name: "3" }]);
  });

  it("may be a generator, whose events until then are delivered", async () => {
    const events: Json[] = [];
    const onProgress = (event: Json): void => void events.push(event);
    const streaming = shape("stream", [], { ...withContext, streaming: true });
    const run = (answers: JsonObject) => rig.call(streaming, {}, { program, context: { answers }, onProgress });
    assert.deepEqual((await run({})).ok && events, ["before"]);
    assert.deepEqual(valueOf(await run({ "elicitation-1": accept({ name: "x" }) })), { name: "x" });
    assert.deepEqual(events, ["before", "before", "after"]);
  });

  it("gets no answer that does not fit its question", async () => {
    const wrong: Json[] = [
      null,
      7,
      "accept",
      [],
      {},
      { action: "maybe" },
      { action: "accept" },
      { action: "accept", content: 7 },
      accept({}),
      accept({ name: 7 }),
      accept({ name: "" }),
    ];
    for (const answer of wrong) {
      assert.deepEqual(Object.keys(await asks("one", { "elicitation-1": answer })), ["elicitation-1"]);
    }
    const others: Json[] = [{ roots: 7 }, { roots: [{}] }, null];
    for (const answer of others) assert.ok("roots-1" in (await asks("three", { "roots-1": answer })));
    assert.ok("sampling-1" in (await asks("three", { "sampling-1": { content: "x" } })));
  });

  it("gets the fields of a form as it described them", async () => {
    const choices = [
      { const: "a", title: "A" },
      { const: "b", title: "B" },
    ];
    const cases: [field: JsonObject, right: Json[], wrong: Json[]][] = [
      [{ type: "string", maxLength: 2 }, ["", "ab", "😀😀"], ["abc", 1, null]],
      [{ type: "integer", minimum: 1, maximum: 3 }, [1, 3], [0, 4, 1.5, "1"]],
      [{ type: "number" }, [1.5, -1], ["1", true]],
      [{ type: "boolean" }, [true, false], ["true", 0]],
      [{ type: "string", enum: ["a", "b"] }, ["a"], ["c", ["a"]]],
      [{ type: "string", oneOf: choices }, ["b"], ["A"]],
      [
        { type: "array", items: { type: "string", enum: ["a", "b"] }, minItems: 1, maxItems: 2 },
        [["a"]],
        ["a", [], ["c"], ["a", "b", "a"]],
      ],
      [{ type: "array", items: { anyOf: choices } }, [[], ["a", "b"]], [["A"], [1]]],
    ];
    for (const [field, right, wrong] of cases) {
      const schema = { type: "object", properties: { it: field } };
      const run = (it: Json) =>
        rig.call(
          shape("fields", ["schema"], withContext),
          { schema },
          { program, context: { answers: { form: accept({ it }) } } },
        );
      for (const value of right) assert.deepEqual(valueOf(await run(value)), { it: value }, JSON.stringify(field));
      for (const value of wrong) {
        const outcome = await run(value);
        assert.ok(
          outcome.ok && outcome.value.kind === "asks",
          `${JSON.stringify(field)} took ${JSON.stringify(value)}`,
        );
      }
    }
  });

  it("is not waited for when it does not wait for its own question", async () => {
    assert.equal(valueOf(await call("forgotten")), "done");
  });

  it("is abandoned at its question: nothing of it is delivered", async () => {
    const lines: GuestLog[] = [];
    const onLog = (line: GuestLog): void => void lines.push(line);
    assert.deepEqual(Object.keys(await asks("caught")), ["elicitation-1"]);

    const events: Json[] = [];
    let asked = 0;
    const port: typeof testPort = { request: () => (asked++, Promise.resolve(null)) };
    const guest = { ...program, port };
    const onTask = (): void => void events.push("task");
    const onProgress = (event: Json): void => void events.push(event);
    const listening = { program: guest, context: { answers: {} }, onLog, onProgress, onTask };
    const outcome = await rig.call(shape("left", [], withContext), {}, listening);
    assert.ok(outcome.ok && outcome.value.kind === "asks");
    const marks = await until(async () => {
      const all = valueOf(await rig.call(shape("marked"), {}, { program: guest })) as string[];
      return all.length >= 2 ? all : undefined;
    });
    assert.match(marks[0]!, /^AbortError/);
    assert.match(marks[1]!, /can only be asked while a call is in flight/);
    assert.deepEqual([lines, events, asked], [[], [], 0]);
  });

  it("rejects a malformed question in the guest", async () => {
    const cases: [kind: string, message: RegExp][] = [
      ["message", /needs a message/],
      ["schema", /needs a schema/],
      ["url", /its url/],
      ["key", /key must be a string of 1 to 256/],
      ["two of one key", /Two different questions have the key "k"/],
      ["too many", /More than 32 questions/],
      ["too large", /larger than 1000000 bytes \(BERTH_OUTPUT_BYTES\)/],
      ["bigint", /BigInt/],
    ];
    for (const [kind, message] of cases) {
      const outcome = await rig.call(
        shape("wrong", ["kind"], withContext),
        { kind },
        { program, context: { answers: {} } },
      );
      assert.match(failureOf(outcome).message, message, kind);
    }
  });

  it("becomes a task once", async () => {
    let tasks = 0;
    assert.equal(valueOf(await call("task", {}, { onTask: () => void tasks++ })), "result");
    assert.equal(tasks, 1);
  });
});
