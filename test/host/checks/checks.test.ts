import assert from "node:assert/strict";
import { after, describe, it } from "node:test";
import { Checks } from "../../../src/host/checks/checks.ts";
import { codeOf } from "../../../src/host/checks/schema-code.ts";
import type { BerthError } from "../../../src/lib/errors.ts";
import type { JsonObject } from "../../../src/lib/json.ts";
import { defaultLimits } from "../../../src/limits/limits.ts";
import { LongAnswer } from "../../../src/upstream/messages/results.ts";
import { lower } from "../../support/lowered-limits.ts";
import { closeAfter } from "../../support/temporary-folder.ts";

describe("values that are checked by the process for it", () => {
  const checks = new Checks(defaultLimits);
  after(() => checks.close());
  const list = { type: "object", properties: { list: { type: "array", items: { type: "number", default: 1 } } } };

  it("is asked for the first value, and no more for those that are found right at once", async () => {
    const check = checks.of("one")(list);
    assert.equal(await check({ list: [1] }), undefined);
    assert.equal(check({ list: [1, 2] }), undefined);
    assert.equal(await check({ list: [1, "a"] }), "/list/1 must be number");
  });

  it("makes code again that was forgotten for that of others, and finds the same", async (t) => {
    const checks = closeAfter(t, new Checks(defaultLimits, { codesBytes: 1 }));
    const names = Array.from({ length: 300 }, (_, at) => `p${at}`);
    const properties = Object.fromEntries(names.map((name) => [name, { type: "string", pattern: "a" }]));
    const validators = ["0", "1", "2", "3"].map((title) => checks.of("one")({ type: "object", title, properties }));
    for (let round = 0; round < 3; round++) {
      for (const validate of validators) {
        assert.equal(await validate({ p1: "a" }), undefined);
        assert.match((await validate({ p1: "b" }))!, /p1 must match pattern/);
      }
    }
  });

  it("checkMemoryMb: gives up a value that takes more, and says so", async (t) => {
    t.after(lower({ checkMemoryMb: 16 }));
    const small = closeAfter(t, new Checks(defaultLimits));
    const body = `[${"[],".repeat(1_000_000)}0]`;
    await assert.rejects(small.readMessage("one", body), /with 16 MB of memory/);
  });

  it("checkMemoryMb: has room for an answer of millions of numbers", async (t) => {
    t.after(lower({ checkMemoryMb: 64 }));
    const small = closeAfter(t, new Checks(defaultLimits));
    const zeros = `[${Array(2_000_000).fill(0).join()}]`;
    const json = new TextEncoder().encode(`{"content":[],"structuredContent":{"list":${zeros}}}`);
    const { tool } = await small.readAnswer("one", "tools/call", "tool", new LongAnswer(json));
    assert.ok(tool && "structured" in tool && new TextDecoder().decode(tool.structured) === `{"list":${zeros}}`);
  });

  it("queuedChecksPerTenant: refuses what one tenant has beyond it, says when to try again, and takes another's", async (t) => {
    t.after(lower({ queuedChecksPerTenant: 1 }));
    const short = closeAfter(t, new Checks(defaultLimits));
    const taken = [short.readMessage("one", "1"), short.readMessage("one", "2")];
    await assert.rejects(short.readMessage("one", "3"), ({ code, message, data }: BerthError) => {
      assert.match(message, /1 values are waiting to be checked/);
      assert.deepEqual([code, data], ["too_many_requests", { retryAfterSeconds: 1 }]);
      return true;
    });
    assert.deepEqual(await Promise.all([...taken, short.readMessage("two", "4")]), [1, 2, 4]);
  });

  for (const limit of ["queuedCheckBytesPerTenant", "queuedCheckBytes"] as const) {
    it(`${limit}: refuses a long value beside others beyond it, and takes it alone`, async (t) => {
      const short = closeAfter(t, new Checks({ ...defaultLimits, [limit]: 10 }));
      const [tenant, variable] =
        limit === "queuedCheckBytes" ? ["two", / 10 bytes are waiting/] : ["one", /10 bytes of the tenant are waiting/];
      const long = JSON.stringify("x".repeat(20));
      const taken = short.readMessage("one", "1");
      await assert.rejects(short.readMessage(tenant, long), ({ code, message, data }: BerthError) => {
        assert.match(message, variable);
        assert.deepEqual([code, data], ["too_many_requests", { retryAfterSeconds: 1 }]);
        return true;
      });
      if (tenant === "one") assert.equal(await short.readMessage("two", long), "x".repeat(20));
      assert.equal(await taken, 1);
      assert.equal(await short.readMessage(tenant, long), "x".repeat(20));
    });
  }

  it("fills in what it was given, where that took the process", async () => {
    const properties = { a: { default: 1 }, b: { type: "array", items: list } };
    const check = checks.of("one")({ type: "object", properties });
    const first: JsonObject = { b: [{}] };
    assert.equal(await check(first), undefined);
    assert.deepEqual(first, { b: [{}], a: 1 });
    const large: JsonObject = { b: Array.from({ length: 100_000 }, () => ({})) };
    const judged = check(large);
    assert.ok(judged instanceof Promise);
    assert.equal(await judged, undefined);
    assert.equal(large["a"], 1);
  });

  it("says of a default that leads to itself that it does, each time, and goes on", async (t) => {
    const checks = closeAfter(t, new Checks(defaultLimits));
    const n = { type: "object", properties: { a: { $ref: "#/$defs/n", default: {} } } };
    const schema = { type: "object", properties: { o: { $ref: "#/$defs/n" } }, $defs: { n } };
    const check = checks.of("t")(schema);
    assert.equal(await check({}), undefined, "the quick code is there from now on");
    for (let turn = 0; turn < 3; turn++) {
      assert.match((await check({ o: {} })) ?? "", /the defaults of its schema (lead back to themselves|would make)/);
    }
    const fresh = checks.of("u")(schema);
    assert.match((await fresh({ o: {} })) ?? "", /the defaults of its schema (lead back to themselves|would make)/);
    assert.equal(await fresh({}), undefined);
  });

  it("inlineBodyBytes: takes no more defaults into a short value, and says so", async (t) => {
    t.after(lower({ inlineBodyBytes: 10_000 }));
    const checks = closeAfter(t, new Checks(defaultLimits));
    const a = { default: Array.from({ length: 1_000 }, () => []) };
    for (const length of [3, 4, 4_000]) {
      const value: JsonObject[] = Array.from({ length }, () => ({}));
      const problem = await checks.of("one")({ type: "array", items: { properties: { a } } })(value);
      const says = length === 3 ? /^undefined$/ : /would make it longer by more than 10000 characters/;
      assert.match(String(problem), says);
      assert.ok(value.filter((item) => "a" in item).length < 100);
    }
  });

  it("lets a tenant's value pass the queue of another", async () => {
    const [one, other] = [checks.of("one")(list), checks.of("other")(list)];
    const order: string[] = [];
    const wrong = { list: ["a"] };
    await Promise.all([
      ...Array.from({ length: 20 }, () => one(wrong)?.then(() => order.push("one"))),
      other(wrong)?.then(() => order.push("other")),
    ]);
    assert.ok(order.indexOf("other") < 3, order.join(" "));
  });

  it("makes code of a schema that is made to grow", async () => {
    const names = Array.from({ length: 100 }, (_, n) => `p${n}`);
    const properties = Object.fromEntries(names.map((name) => [name, { type: "string", minLength: 1 }]));
    const anyOf = Array.from({ length: 200 }, () => ({ $ref: "#/$defs/a" }));
    const schema = { type: "object", $defs: { a: { properties } }, anyOf };
    assert.ok(codeOf(schema, { texts: false }, true).code.length < 1024 * 1024);
    assert.equal(await checks.faultOf("one", schema), undefined);
    assert.match((await checks.faultOf("one", { type: "nothing" })) ?? "", /schema is invalid/);
  });
});
