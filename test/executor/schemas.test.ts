import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { CallShape, ParsedArgument, SchemaRequest } from "../../src/discover/discovery.ts";
import type { GuestLog } from "../../src/executor/executor.ts";
import type { Json, JsonObject } from "../../src/lib/json.ts";
import { failureOf, programWith, shape, useRig } from "../support/executor.ts";
import { GUESTS } from "../support/guests.ts";

const PROGRAM = `
  const schema = (validate) => ({ "~standard": { version: 1, vendor: "own", validate } });
  const texts = (it) => typeof it === "string" ? undefined : { issues: [{ message: "no text" }] };
  export const doubled = schema((it) => texts(it) ?? { value: it + it });
  export const later = { inner: schema(async (it) => texts(it) ?? { value: it + "!" }) };
  export const filled = schema((it = "none") => ({ value: it }));
  export const nothing = schema(() => ({ value: undefined }));
  export const broken = schema(() => { throw new RangeError("broken"); });
  export const whole = schema((it) => {
    const { a, ...others } = it;
    const issues = [
      ...(a === 1 ? [] : [{ message: "a must be 1", path: ["a"] }]),
      ...Object.keys(others).map((key) => ({ message: "unknown", path: ["list", { key: 0 }, { key }] })),
      ...(a === 3 ? [{ message: "all is wrong" }] : []),
    ];
    return issues.length > 0 ? { issues } : { value: { a, b: 2 } };
  });
  export const noSchema = { type: "object" };
  export const shaped = { a: doubled, b: later.inner, c: filled };

  export const same = (...values) => values;
  export const one = (value) => value;
  export const keys = (value) => [Object.keys(value), value.__proto__, Object.getPrototypeOf(value) === Object.prototype];
  export const tool = { prefix: "of", names: { run(it) { return [this === tool.names, it]; } }, execute(it) { return [this.prefix, it]; } };
  export const stops = (args, { abortSignal, signal, toolCallId, requestId, messages }) => new Promise((resolve) => {
    abortSignal.addEventListener("abort", () => {
      console.log("stopped by " + abortSignal.reason.name);
      resolve();
    });
    console.log(JSON.stringify([args, signal === abortSignal, toolCallId === requestId, messages]));
  });
`;

describe(`a ${GUESTS} executor gives functions what schemas make of their arguments`, () => {
  const rig = useRig(GUESTS);
  const program = programWith(PROGRAM);
  const parsed = (name: string, at: ParsedArgument["at"], more: Partial<ParsedArgument> = {}): ParsedArgument => {
    const [exported, ...path] = name.split(".");
    return { schema: { export: exported!, path }, at, ...more };
  };
  const value = (call: CallShape, args: JsonObject) => rig.value(call, args, { program });

  it("for one argument, for a part of it, and for all together, in one step or several", async () => {
    const cases: readonly [ParsedArgument[], args: JsonObject, result: Json][] = [
      [[parsed("doubled", ["x"])], { x: "a", y: "b" }, ["aa", "b"]],
      [[parsed("later.inner", ["x"])], { x: "a", y: "b" }, ["a!", "b"]],
      [[parsed("doubled", ["x"]), parsed("later.inner", ["y"])], { x: "a", y: "b" }, ["aa", "b!"]],
      [[parsed("doubled", ["x", "*"])], { x: ["a", "b"], y: 1 }, [["aa", "bb"], 1]],
      [[parsed("doubled", ["x", "*", "in"])], { x: { k: { in: "a" }, l: {} }, y: 1 }, [{ k: { in: "aa" }, l: {} }, 1]],
      [[parsed("later.inner", ["x", { from: 1 }])], { x: ["a", "b"], y: 1 }, [["a", "b!"], 1]],
      [[parsed("filled", ["x"], { absent: true })], { y: 1 }, ["none", 1]],
      [[parsed("filled", ["x"])], { y: 1 }, [null, 1]],
      [[parsed("doubled", ["x"], { orNull: true })], { x: null, y: 1 }, [null, 1]],
      [[parsed("nothing", ["x"])], { x: 1, y: 1 }, [null, 1]],
      [[parsed("noSchema", ["x"]), parsed("unknown.deep", ["y"])], { x: 1, y: 1 }, [1, 1]],
    ];
    for (const [all, args, result] of cases)
      assert.deepEqual(await value(shape("same", ["x", "y"], { parsed: all }), args), result, JSON.stringify(all));
    const object = { style: "object" } as const;
    const whole = { ...object, parsed: [parsed("whole", [])] };
    assert.deepEqual(await value(shape("one", ["a"], whole), { a: 1 }), { a: 1, b: 2 });
    const shaped = { ...object, parsed: [parsed("shaped", [])] };
    assert.deepEqual(await value(shape("one", ["a"], shaped), { a: "x", b: "y", other: 1 }), {
      a: "xx",
      b: "y!",
      c: "none",
    });
  });

  it("and refuses them with what schemas say, and where", async () => {
    const cases: readonly [ParsedArgument, args: JsonObject, message: string][] = [
      [parsed("doubled", ["x"]), { x: 1 }, "x: no text"],
      [parsed("later.inner", ["x"]), { x: 1 }, "x: no text"],
      [parsed("doubled", ["x", "*"]), { x: ["a", 1] }, "x.*: no text"],
      [parsed("doubled", ["x"]), { x: null }, "x: no text"],
      [parsed("whole", []), { a: 2 }, "a: a must be 1"],
      [parsed("whole", []), { a: 3, z: 1 }, "a: a must be 1; list.0.z: unknown; all is wrong"],
      [parsed("shaped", []), { a: 1, b: 2 }, "a: no text; b: no text"],
      [parsed("broken", ["x"]), { x: 1 }, "RangeError: broken"],
    ];
    for (const [argument, args, message] of cases) {
      const call = rig.call(shape("same", ["x", "y"], { parsed: [argument] }), args, { program });
      const { reason, retriable, ...failure } = failureOf(await call);
      assert.deepEqual([reason, retriable, failure.message], ["thrown", false, message]);
    }
  });

  it("under __proto__ as under any other name", async () => {
    const args = JSON.parse('{"x":{"__proto__":"a"}}') as JsonObject;
    const inner = { parsed: [parsed("doubled", ["x", "__proto__"])] };
    assert.deepEqual(await value(shape("keys", ["x"], inner), args), [["__proto__"], "aa", true]);
    const absent = { style: "object", parsed: [parsed("filled", ["__proto__"], { absent: true })] } as const;
    assert.deepEqual(await value(shape("keys", [], absent), {}), [["__proto__"], "none", true]);
  });

  it("and calls a function of an object as its method, with all arguments under a name where it takes them so", async () => {
    const object = { style: "object", parsed: [parsed("whole", [])] } as const;
    const made = { a: 1, b: 2 };
    const call = (member: string[], more: Partial<CallShape> = {}) =>
      value(shape("tool", ["a"], { ...object, member, ...more }), { a: 1 });
    assert.deepEqual(await call(["execute"]), ["of", made]);
    assert.deepEqual(await call(["names", "run"]), [true, made]);
    assert.deepEqual(await call(["execute"], { under: "context" }), ["of", { context: made }]);
    const missing = await rig.call(shape("tool", [], { member: ["names", "no"] }), {}, { program });
    assert.match(failureOf(missing).message, /exports no function "tool"/);
  });

  it("and tells a function that takes no context of a cancellation", async () => {
    const controller = new AbortController();
    const lines: Json[] = [];
    const onLog = ({ message }: GuestLog): void => {
      lines.push(message);
      controller.abort();
    };
    const call = shape("stops", ["a"], { style: "object", options: true, parsed: [parsed("whole", [])] });
    const outcome = await rig.call(call, { a: 1 }, { program, onLog, signal: controller.signal });
    assert.equal(failureOf(outcome).reason, "cancelled");
    assert.deepEqual(lines, ['[{"a":1,"b":2},true,true,[]]', "stopped by AbortError"]);
  });
});

describe(`a ${GUESTS} executor evaluates schemas`, () => {
  const rig = useRig(GUESTS);
  const described = async (code: string, request: Partial<SchemaRequest>) => {
    const describes = { schemas: [], tools: [], converters: {}, handlers: ["execute", "invoke"], ...request };
    const outcome = await rig.executor.load({ tenant: "default", code: async () => code, describes });
    assert.ok(outcome.kind === "loaded" && outcome.described, JSON.stringify(outcome));
    return outcome.described.map((text) => JSON.parse(text) as Record<"schemas" | "tools", JsonObject[]>);
  };

  it("twice, the second time more than a year later and with other random numbers, which no run changes", async () => {
    const code = `
      export const at = { type: "object", now: Date.now(), made: new Date().getTime(), text: Date().slice(11, 15), random: [Math.random(), Math.random()] };
      export const fixed = { type: "object", is: new Date(5) instanceof Date, at: new Date(5).getTime(), parsed: Date.parse("1970-01-01T00:00:01Z") };`;
    const schemas = ["at", "fixed"].map((name) => ({ export: name, path: [], io: "input" }) as const);
    const [one, other] = await described(code, { schemas });
    const at = [one, other].map(
      (each) => each!.schemas[0]!["json"] as { now: number; made: number; text: string; random: number[] },
    );
    for (const key of ["now", "made"] as const) {
      const days = (at[1]![key] - at[0]![key]) / 86_400_000;
      assert.ok(days > 366 && days < 402, `${key}: ${days} days`);
    }
    assert.ok(Number(at[1]!.text) > Number(at[0]!.text));
    assert.equal(new Set(at.flatMap(({ random }) => random)).size, 4);
    const [again] = await described(code, { schemas });
    assert.deepEqual((again!.schemas[0]!["json"] as { random: number[] }).random, at[0]!.random);
    const fixed = { json: { type: "object", is: true, at: 5, parsed: 1000 } };
    assert.deepEqual([one!.schemas[1], other!.schemas[1]], [fixed, fixed]);
  });

  it("and the tools that exports hold, by what they hold when they are loaded", async () => {
    const [{ tools } = assert.fail()] = await described(
      `const own = { execute() {} };
      export const alone = Object.assign(own, { id: "a", description: "d", inputSchema: { type: "object" }, annotations: { readOnlyHint: true, other: 1 } });
      export const many = { x: own, y: 1, z: { invoke() {}, schema: null } };
      export const none = [{}, null, () => 1];`,
      { tools: ["alone", "many", "none", "missing"] },
    );
    const tool = {
      name: "a",
      description: "d",
      annotations: { readOnlyHint: true, other: 1 },
      input: { json: { type: "object" } },
    };
    assert.deepEqual(tools, [
      [{ id: 0, at: [], ...tool }],
      [
        { id: 0, at: ["x"], ...tool },
        { id: 1, at: ["z"] },
      ],
      [],
      [],
    ]);
  });

  it("without anything to ask the host for", async () => {
    const code = `export const asks = { get type() { return process.env.SECRET ?? "none"; } };
      export const fetched = { toJsonSchema: async () => { await fetch("https://example.com"); } };`;
    const schemas = ["asks", "fetched"].map((name) => ({ export: name, path: [], io: "output" }) as const);
    for (const { schemas: found } of await described(code, { schemas }))
      assert.deepEqual(found, [
        { json: { type: "none" } },
        { fault: "TypeError: the host can only be asked while a call is in flight" },
      ]);
  });
});
