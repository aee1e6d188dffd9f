import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { z } from "zod";
import * as m from "zod/mini";
import { openCompiler } from "../../../src/discover/compiler.ts";
import type { Compiled } from "../../../src/discover/discovery.ts";
import { createSchemaDescriber } from "../../../src/executor/describe-schemas.ts";
import type { LoadOutcome } from "../../../src/executor/executor.ts";
import type { JsonObject, JsonSchema } from "../../../src/lib/json.ts";
import { defaultLimits } from "../../../src/limits/limits.ts";
import { failureOf, valueOf } from "../../support/executor.ts";
import { lower } from "../../support/lowered-limits.ts";
import { rows } from "../../support/rows.ts";
import { installedPackages, OWN_SCHEMAS, schemaCompilerInSuite } from "../../support/schema-compiler.ts";

/** Evaluated here with the installed zod, and in the definitions with the same as a package. */
const SCHEMAS = `
  const User = z.object({ name: z.string().min(2).describe("Any name."), mail: z.email(), age: z.int().min(0).optional(), tags: z.array(z.string().min(1)).max(3) });
  const Level = z.int().min(1).max(5).default(3);
  const Mode = z.enum(["fast", "slow"]);
  const Id = z.union([z.uuid(), z.int()]);
  const Shape = z.discriminatedUnion("kind", [z.object({ kind: z.literal("circle"), r: z.number().positive() }), z.object({ kind: z.literal("square"), side: z.number().positive() })]);
  const Tree = z.object({ name: z.string().min(1), get children() { return z.array(Tree); } });
  const Mini = m.object({ name: m.string().check(m.minLength(2)) });
  const Length = z.string().trim().min(1).transform((text) => text.length);
  const Person = z.object({ name: z.string(), home: z.object({ city: z.string().min(1), zip: z.string().regex(/^\\d{5}$/) }) });
  const Stay = z.object({ nights: z.number().min(1), on: z.date(), far: z.boolean().default(false) });
  const Free = z.string().refine(async (text) => text !== "taken", "it is taken").transform(async (text) => text + "!");
`;
const NAMES = ["User", "Level", "Mode", "Id", "Shape", "Tree", "Mini", "Length", "Person", "Stay", "Free"] as const;
// oxlint-disable-next-line typescript/no-implied-eval -- the schemas are above, and definitions need their source
const schemas = Function("z", "m", `${SCHEMAS}; return { ${NAMES.join()} };`)(z, m) as Record<
  (typeof NAMES)[number],
  z.ZodType
>;

/** The JSON Schema that zod gives. */
function said(name: keyof typeof schemas, io: "input" | "output" = "input"): JsonObject & { properties: JsonObject } {
  const { $schema: _, ...json } = z.toJSONSchema(schemas[name], { io, unrepresentable: "any" });
  return json as unknown as ReturnType<typeof said>;
}

const { additionalProperties: _, ...USER } = said("User", "output");
const { name, mail, age, tags } = USER.properties;
const rights = { type: "array", items: { type: "string" } };

function objectOf(properties: JsonObject, required: readonly string[] = Object.keys(properties)): JsonSchema {
  return { type: "object", properties, ...(required.length > 0 && { required }), additionalProperties: false };
}
const lone = (schema: unknown): JsonSchema => objectOf({ it: schema as JsonObject });

/** Parameters, and the schema of the arguments. */
const INPUTS: Readonly<Record<string, readonly [parameters: string, expected: JsonSchema]>> = {
  whole: ["it: User", lone(USER)],
  written: ["it: z.infer<typeof User>", lone(USER)],
  member: [`it: (typeof User)["_output"]`, lone(USER)],
  destructured: ["{ name, tags }: User", USER],
  several: [
    "user: User, mode: z.infer<typeof Mode>, n: number",
    objectOf({ user: USER, mode: said("Mode"), n: { type: "number" } }),
  ],
  list: ["it: User[]", lone({ type: "array", items: USER })],
  orNull: ["it: User | null", lone({ anyOf: [USER, { type: "null" }] })],
  optional: ["it?: User", objectOf({ it: USER }, [])],
  omitted: [`it: Omit<User, "mail">`, lone(objectOf({ name, age, tags } as JsonObject, ["name", "tags"]))],
  picked: [`it: Pick<User, "name" | "tags">`, lone(objectOf({ name, tags } as JsonObject))],
  partial: ["it: Partial<User>", lone(objectOf({ name, mail, age, tags } as JsonObject, []))],
  required: ["it: Required<User>", lone(objectOf({ name, mail, age, tags } as JsonObject))],
  extended: [
    "it: Admin",
    lone(objectOf({ rights, name, mail, age, tags } as JsonObject, ["rights", "name", "mail", "tags"])),
  ],
  both: [
    "it: User & { rights: string[] }",
    lone(objectOf({ name, mail, age, tags, rights } as JsonObject, ["name", "mail", "tags", "rights"])),
  ],
  property: [`name: User["name"]`, objectOf({ name } as JsonObject)],
  inner: [`it: z.infer<typeof Person>["home"]`, lone(said("Person", "output").properties["home"])],
  nested: [
    "it: Order",
    lone(objectOf({ user: USER, count: { type: "number" }, level: said("Level") }, ["user", "count"])),
  ],
  inLists: [
    "it: { level?: z.infer<typeof Level> }[]",
    lone({ type: "array", items: objectOf({ level: said("Level") }, []) }),
  ],
  defaulted: ["it: z.infer<typeof Level>", objectOf({ it: said("Level") }, [])],
  output: ["it: z.output<typeof Level>", objectOf({ it: said("Level") }, [])],
  // Defaults that differ from one evaluation to the next are left out.
  drawn: ["it: z.infer<typeof Drawn>", lone({ type: "object", properties: { n: { type: "number", minimum: 1 } } })],
  enumerated: ["it: z.infer<typeof Mode>", lone(said("Mode"))],
  union: ["it: z.infer<typeof Id>", lone(said("Id"))],
  unionOrNull: ["it: z.infer<typeof Id> | null", lone({ anyOf: [said("Id"), { type: "null" }] })],
  shape: [
    "it: z.infer<z.ZodObject<typeof rawShape>>",
    lone({ type: "object", properties: { km: { type: "string", minLength: 2 } }, required: ["km"] }),
  ],
  discriminated: ["it: z.infer<typeof Shape>", lone(said("Shape"))],
  mini: ["it: m.infer<typeof Mini>", lone(said("Mini"))],
  given: ["it: z.input<typeof Length>", lone(said("Length"))],
  standard: ["it: StandardSchemaV1.InferInput<typeof Length>", lone(said("Length"))],
  transformed: ["it: z.infer<typeof Length>", lone(said("Length"))],
  alias: ["it: Modes", lone(said("Mode"))],
  path: ["it: z.infer<typeof all.of.mode>", lone(said("Mode"))],
  recursive: [
    "it: z.infer<typeof Tree>",
    {
      ...lone({ $ref: "#/$defs/Value" }),
      $defs: {
        Value: {
          type: "object",
          properties: {
            name: { type: "string", minLength: 1 },
            children: { type: "array", items: { $ref: "#/$defs/Value" } },
          },
          required: ["name", "children"],
        },
      },
    },
  ],
  // What JSON cannot carry is described by its type.
  dated: [
    "it: z.infer<typeof Stay>",
    lone({ ...said("Stay"), properties: { ...said("Stay").properties, on: { type: "string", format: "date-time" } } }),
  ],
  imported: [
    "it: z.infer<typeof Far>",
    lone({ type: "object", properties: { km: { type: "number", minimum: 9 } }, required: ["km"] }),
  ],
  importedType: [
    "it: z.infer<typeof Near>",
    lone({ type: "object", properties: { m: { type: "number", maximum: 9 } }, required: ["m"] }),
  ],
  importedDefault: [
    "it: z.infer<typeof Standing>",
    lone({ type: "object", properties: { up: { type: "boolean", title: "Up" } }, required: ["up"] }),
  ],
};

const TYPES = `
  import { z } from "zod";
  import * as m from "zod/mini";
  import { Far } from "./far.ts";
  import type { Near } from "./far.ts";
  import Standing from "./standing.ts";
  ${SCHEMAS}
  namespace StandardSchemaV1 { export type InferInput<S extends z.ZodType> = NonNullable<S["~standard"]["types"]>["input"]; }
  const Drawn = z.object({ n: z.number().min(1).default(() => Math.random() + 1) });
  const rawShape = { km: z.string().min(2) };
  type User = z.infer<typeof User>;
  type Modes = z.infer<typeof Mode>;
  interface Admin extends User { rights: string[] }
  interface Order { user: User; count: number; level?: z.infer<typeof Level> }
  const all = { of: { mode: Mode } };
`;
const OTHERS = {
  "far.ts": `import { z } from "zod";
    const Far = z.object({ km: z.number().min(9) }), Near = z.object({ m: z.number().max(9) });
    export { Far, type Near };`,
  "standing.ts": `import { z } from "zod"; export default z.object({ up: z.boolean().meta({ title: "Up" }) });`,
};

describe("a type that is inferred from a schema of zod", () => {
  const compiler = schemaCompilerInSuite(() => installedPackages("zod"));
  let compiled: Promise<Compiled> | undefined;
  const all = (): Promise<Compiled> =>
    (compiled ??= compiler.compile(
      `${TYPES}
      ${Object.entries(INPUTS)
        .map(([name, [parameters]]) => `export function ${name}(${parameters}): unknown { return arguments[0]; }`)
        .join("\n")}
      /** Greets. @param it - Whom. @param it.name - A name. @param it.tags - Tags. */
      export function described(it: User): void {}
      /** @schema User */
      export function tagged({ name }: any): string { return name; }
      /** @schema User */
      export function inOrder(name: string, mail: string): string { return name + mail; }
      export function result(): User { throw 0; }
      export async function results(): Promise<User[]> { throw 0; }
      export function orNone(): z.infer<typeof Mode> | undefined { throw 0; }
      export function measured(it: z.infer<typeof Length>, more: z.infer<typeof Length>[]): unknown { return [it, more]; }
      export function free({ it }: { it: z.infer<typeof Free> }): string { return it; }`,
      OTHERS,
    ));
  const tool = async (name: string) => (await all()).tools.find((each) => each.name === name)!;
  const call = async (name: string, args: JsonObject) => compiler.call(await all(), name, args);

  it("is published as zod says, wherever an argument has it", async () => {
    assert.deepEqual(rows((await all()).problems, "severity", "line", "message"), []);
    for (const [name, [parameters, expected]] of Object.entries(INPUTS))
      assert.deepEqual((await tool(name)).inputSchema, expected, `${name}(${parameters})`);
  });

  it("is published as zod says where @schema names it", async () => {
    for (const name of ["tagged", "inOrder"]) assert.deepEqual((await tool(name)).inputSchema, said("User"), name);
  });

  it("is published as zod says of what it makes where a result has it", async () => {
    assert.deepEqual((await tool("result")).outputSchema, USER);
    assert.deepEqual((await tool("results")).outputSchema, { type: "array", items: USER });
    assert.deepEqual((await tool("orNone")).outputSchema, { anyOf: [said("Mode"), { type: "null" }] });
  });

  it("has the descriptions of the comment where the schema has none", async () => {
    const described = { ...(tags as JsonObject), description: "Tags." };
    const properties = { ...USER.properties, tags: described };
    assert.deepEqual((await tool("described")).inputSchema, lone({ ...USER, properties, description: "Whom." }));
  });

  it("is published as zod says where the author wrote the type, which stands for itself elsewhere", async () => {
    const { tools, problems } = await compiler.compile(`import { z } from "zod";
      interface Own { id: string }
      const Own: z.ZodType<Own> = z.object({ id: z.string().min(2) });
      export function inferred(it: z.infer<typeof Own>): void {}
      export function written(it: Own): void {}`);
    assert.deepEqual(problems, []);
    const id = { type: "string", minLength: 2 };
    assert.deepEqual(rows(tools, "name"), ["inferred", "written"]);
    assert.deepEqual(tools[0]!.inputSchema, lone({ type: "object", properties: { id }, required: ["id"] }));
    assert.deepEqual(tools[1]!.inputSchema, lone(objectOf({ id: { type: "string" } })));
  });

  it("makes what the function gets: transformed once, with defaults, or as it is", async () => {
    const user = { name: "Ada", mail: "a@b.de", tags: ["x"] };
    assert.deepEqual(
      valueOf(await call("whole", { it: { ...user, other: 1 } })),
      user,
      "what it does not name is removed",
    );
    assert.deepEqual(valueOf(await call("defaulted", {})), 3);
    assert.deepEqual(valueOf(await call("nested", { it: { user, count: 1, level: 2 } })), { user, count: 1, level: 2 });
    assert.deepEqual(valueOf(await call("nested", { it: { user, count: 1 } })), { user, count: 1, level: 3 });
    assert.deepEqual(valueOf(await call("inLists", { it: [{}, { level: 2 }] })), [{ level: 3 }, { level: 2 }]);
    assert.deepEqual(valueOf(await call("orNull", { it: null })), null);
    assert.deepEqual(valueOf(await call("optional", {})), null);
    assert.deepEqual(valueOf(await call("measured", { it: " ab ", more: ["a", "abc"] })), [2, [1, 3]]);
    assert.deepEqual(valueOf(await call("given", { it: " ab " })), " ab ");
    assert.deepEqual(valueOf(await call("free", { it: "a" })), "a!");
    assert.deepEqual(valueOf(await call("inOrder", user)), "Adaa@b.de");
    const stay = { nights: 1, on: "2026-01-02T03:04:05.000Z" };
    assert.deepEqual(valueOf(await call("dated", { it: stay })), { ...stay, far: false });
  });

  it("refuses what the schema refuses, in the words of zod and with the place", async () => {
    const refused: readonly [name: string, args: JsonObject, message: RegExp][] = [
      [
        "whole",
        { it: { name: "A", mail: "a@b.de", tags: [""] } },
        /^it\.name: Too small: .* >=2 characters; it\.tags\.0: Too small: /,
      ],
      ["destructured", { name: "Ada", mail: "a", tags: [] }, /^mail: Invalid email address$/],
      ["list", { it: [{ name: "Ada", mail: "a@b.de", tags: [] }, {}] }, /^it\.\*\.name: Invalid input/],
      ["free", { it: "taken" }, /^it: it is taken$/],
      ["importedType", { it: { m: 10 } }, /^it\.m: Too big: /],
      ["inOrder", { name: "Ada", mail: "a", tags: [] }, /^mail: Invalid email address$/],
    ];
    for (const [name, args, message] of refused) assert.match(failureOf(await call(name, args)).message, message, name);
  });

  it("is reported with its place where its schema cannot be evaluated, or does not fit", async () => {
    const { tools, problems } = await compiler.compile(`import { z } from "zod";
      const make = () => { const Inner = z.object({ a: z.string().min(3) }); return (it: z.infer<typeof Inner>): void => {}; };
      export const local = make();
      /** @schema Unknown */
      export function unknown(a: string): void {}
      const Words = z.object({ a: z.string(), n: z.number() });
      /** @schema Words */
      export function other({ a }: { a: number }): void {}
      /** @schema Words */
      export function inOrder(a: string, n: string, more: boolean): void {}
      const Text = z.string();
      /** @schema Text */
      export function noObject(a: string): void {}
      const Late = z.object({ year: z.number().max(new Date().getFullYear()) });
      export function late(it: z.infer<typeof Late>): void {}
      const Lucky = z.object({ n: z.number().max(Math.random()), id: z.string().default(() => String(Math.random())) });
      export function lucky(it: z.infer<typeof Lucky>): void {}
      /** @schema Late */
      export function taggedLate(it: any): void {}
      const built = () => Words;
      export function fromFunction(it: z.infer<ReturnType<typeof built>>): void {}`);
    const unstable = "it changes with the time or with random numbers; make it the same at each load";
    const unread = (name: string): string =>
      `the schema ${name} cannot be read, so only its type is published: ${unstable} (at it)`;
    assert.deepEqual(rows(problems, "severity", "code", "line", "column", "message"), [
      "error invalid-schema 4 19 unknown: @schema Unknown is not a constant at the top level of a file: write the name of a schema, as in @schema User",
      "error invalid-schema 7 19 other: @schema Words gives { a: string; n: number; } for args, which is of the type { a: number; }",
      "error invalid-schema 9 19 inOrder: @schema Words gives number for n, which is of the type string",
      "error invalid-schema 9 19 inOrder: @schema Words gives nothing for more, which is of the type boolean",
      "error invalid-schema 12 19 noObject: @schema Text must describe an object, because arguments have names",
      `warning schema-unread 15 28 late: ${unread("Late")}`,
      `warning schema-unread 17 29 lucky: ${unread("Lucky")}`,
      `error invalid-schema 18 19 taggedLate: @schema Late cannot be read: ${unstable}`,
      "warning schema-unread 2 105 the schema Inner is not a constant at the top level of a file, so only its type is published: put it there",
      "warning schema-unread 21 48 the schema ReturnType<typeof built> is not a constant at the top level of a file, so only its type is published: put it there",
    ]);
    assert.deepEqual(rows(tools, "name"), ["local", "late", "lucky", "fromFunction"]);
    assert.deepEqual(tools[1]!.inputSchema, lone(objectOf({ year: { type: "number" } })));
  });
});

describe("a schema that does harm when it is evaluated", () => {
  const compiler = schemaCompilerInSuite();

  /** Why the schemas of `bad0`, `bad1` … are unread, and that of `good`; the types of all are published. */
  const reasons = async (jsons: readonly string[], top = ""): Promise<string[]> => {
    const { tools, problems } = await compiler.compile(`${OWN_SCHEMAS}
      const Good = schema<{ a: string }>(() => ({ type: "object", properties: { a: { type: "string", minLength: 3 } } }));
      export function good(it: Infer<typeof Good>): void {}
      ${jsons.map((json, index) => `const Bad${index} = schema<{ b: string }>(${json});`).join("\n")}
      ${jsons.map((_, index) => `export function bad${index}(it: Infer<typeof Bad${index}>): void {}`).join("\n")}
      ${top}`);
    const [good, ...bad] = tools;
    const expected = Object.keys(jsons).map((index) => `bad${index}`);
    assert.deepEqual(rows(bad, "name"), expected);
    for (const { inputSchema } of bad) assert.deepEqual(inputSchema, lone(objectOf({ b: { type: "string" } })));
    const isUnread = problems.some(({ tool }) => tool === "good");
    assert.equal(JSON.stringify(good!.inputSchema).includes("minLength"), !isUnread);
    return problems.map(({ code, line, message }) => {
      assert.equal(code, "schema-unread");
      assert.ok(line! > 10);
      return /^(\w+: ).*type is published: (.*) \(at it\)$/s.exec(message)!.slice(1).join("");
    });
  };

  it("is left out with its reason, and no other one with it", async () => {
    const cases: readonly [json: string, reason: RegExp][] = [
      [`() => "no"`, /it is not a schema that can describe itself/],
      ["() => null", /it is not a schema that can describe itself/],
      ["() => () => 1", /it is not a schema that can describe itself/],
      ["() => [1]", /./],
      ["() => ({ toJSON: () => 1 })", /./],
      ["() => ({ n: 1n })", /Do not know how to serialize a BigInt$/],
      [`() => ({ get type() { throw new Error("got you"); } })`, /got you$/],
      [`() => { throw new Error("x".repeat(9_000)); }`, /: x{500}$/],
      ["() => { const one: any = {}; return Object.assign(one, { one }); }", /Converting circular structure to JSON/],
      ["() => { let at = {}; for (let n = 0; n < 50_000; n++) at = { items: at }; return at; }", /Maximum call stack/],
    ];
    const found = await reasons(cases.map(([json]) => json));
    assert.equal(found.length, cases.length, found.join("\n"));
    for (const [index, [, reason]] of cases.entries()) {
      assert.match(found[index]!, reason);
      assert.ok(found[index]!.startsWith(`bad${index}: `));
    }
  });

  it("leaves the types where it ends the guest, or says more than can be read", async () => {
    const cases: readonly [json: string, top: string, reason: string][] = [
      ["() => ({ $comment: 'x'.repeat(5_000_000) })", "", "its process wrote a frame of more than 4194304 bytes"],
      ["() => (globalThis as any).process.exit(3)", "", "its process ended with exit code 3"],
      [
        "() => { let at = {}; for (let n = 0; n < 900; n++) at = { items: at }; return at; }",
        "",
        "its answer cannot be read",
      ],
      [
        "() => ({})",
        "throw new RangeError('top');",
        "its program does not load: RangeError: top; it is loaded without the variables of its entry: read those in the function that needs them",
      ],
    ];
    for (const [json, top, reason] of cases)
      assert.deepEqual(await reasons([json], top), [`good: ${reason}`, `bad0: ${reason}`]);
  });

  it("leaves the types if it never ends", async (t) => {
    t.after(lower({ loadMs: 300 }));
    const endless = "for (let n = 0; ; n++) if (n < 0) break;";
    const reason = "its top level took more than 300 ms of CPU time";
    for (const [json, top] of [
      ["() => ({})", endless],
      [`() => { ${endless} }`, ""],
    ] as const)
      assert.deepEqual(await reasons([json], top), [`good: ${reason}`, `bad0: ${reason}`]);
  });

  it("leaves the types where the top level waits for something, and is tried again where the machine is busy", async (t) => {
    const text = `${OWN_SCHEMAS.replaceAll("\n", " ")}
      const Text = schema<string>(() => ({ type: "string", minLength: 2 }));
      export function one(it: Infer<typeof Text>): string { return it; }
      await new Promise(() => {});`;
    const after = async (outcome: LoadOutcome): Promise<Compiled> => {
      const compiler = openCompiler(defaultLimits, { describe: createSchemaDescriber(async () => outcome, "default") });
      t.after(() => compiler.close());
      return compiler.compile({ language: "typescript", server: "demo", entry: "demo.ts", files: { "demo.ts": text } });
    };
    const { tools, problems } = await after({ kind: "unfinished", loadElapsedMs: 10_000 });
    assert.deepEqual(rows(problems, "severity", "code", "line", "column", "message"), [
      "warning schema-unread 3 27 one: the schema Text cannot be read, so only its type is published: its top level had not finished after 10000 ms: move what it awaits into the function that needs it (at it)",
    ]);
    assert.deepEqual(tools[0]!.inputSchema, lone({ type: "string" }));
    const starved = await after({ kind: "unfinished", loadElapsedMs: 10_000, lacksTime: true });
    assert.deepEqual(rows(starved.problems, "severity", "code", "message"), [
      "error compiler-unavailable its schemas were not evaluated: its top level had not finished after 10000 ms: the machine is busy; try again",
    ]);
  });

  it("has no effect on other objects by names that every object inherits", async () => {
    const json = `{"type":"object","__proto__":{"evil":1},"properties":{"__proto__":{"type":"string"},"b":{"type":"string"}}}`;
    const { tools, problems } = await compiler.compile(`${OWN_SCHEMAS}
      const Bad = schema<{ b: string }>(() => JSON.parse('${json}'));
      export function bad(it: Infer<typeof Bad>): void {}`);
    assert.deepEqual(problems, []);
    assert.deepEqual(tools[0]!.inputSchema, lone(JSON.parse(json)));
    assert.equal(({} as Record<string, unknown>)["evil"], undefined);
  });

  it("is refused where what it says is no JSON Schema", async () => {
    const jsons = ["{ properties: { b: { minLength: 'two' } } }", "{ properties: 7 }", "{ properties: { b: 7 } }"];
    const { tools, problems } = await compiler.compile(`${OWN_SCHEMAS}
      ${jsons.map((json, index) => `const Bad${index} = schema<{ b: string }>(() => (${json}));`).join("\n")}
      ${jsons.map((_, index) => `export function bad${index}(it: Infer<typeof Bad${index}>): void {}`).join("\n")}`);
    assert.deepEqual(tools, []);
    const invalid = (at: string): string =>
      `its schema is not valid JSON Schema 2020-12 (/properties/it/properties${at}): correct it there`;
    assert.deepEqual(rows(problems, "severity", "code", "message"), [
      `error invalid-schema bad0: ${invalid("/b/minLength must be integer")}`,
      `error invalid-schema bad1: ${invalid(" must be object")}`,
      `error invalid-schema bad2: ${invalid("/b must be object,boolean")}`,
    ]);
  });
});
