import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { CallShape, Compiled } from "../../../src/discover/discovery.ts";
import type { Json, JsonObject } from "../../../src/lib/json.ts";
import { failureOf, valueOf } from "../../support/executor.ts";
import { rows } from "../../support/rows.ts";
import { OWN_SCHEMAS, schemaCompilerInSuite } from "../../support/schema-compiler.ts";

const SOURCE = `${OWN_SCHEMAS}
  const jsonOf = (properties: object, required = Object.keys(properties)) => ({ type: "object", properties, required });
  const City = schema<{ city: string; days?: number }, { city: string; days: number }>(
    () => jsonOf({ city: { type: "string", minLength: 2 }, days: { type: "number", default: 3 } }, ["city"]),
    (it) => it.city === "Atlantis" ? { issues: [{ message: "no such city", path: ["city"] }] } : { value: { days: 3, ...it } },
  );
  type City = Infer<typeof City>;`;
const CITY = {
  type: "object",
  properties: { city: { type: "string", minLength: 2 }, days: { type: "number", default: 3 } },
  required: ["city"],
};

describe("a tool as other frameworks define it", () => {
  const compiler = schemaCompilerInSuite();
  const compile = (text: string): Promise<Compiled> => compiler.compile(`${SOURCE}\n${text}`);
  let compiled: Promise<Compiled> | undefined;
  const all = (): Promise<Compiled> =>
    (compiled ??= compile(`
      import type { ToolContext } from "berth";
      const tool = <T>(it: T): T => it;
      /** In a comment. */
      export const weather = tool({ inputSchema: City, description: "The weather.", execute: async (it: City) => it });
      /** Without words of its own. @readonly */
      export const commented = { description: "", inputSchema: City, execute: ({ days }: City) => days };
      export const named = {
        name: "get_news", title: "News", description: "The news.",
        annotations: { readOnlyHint: true, idempotentHint: "yes", other: true },
        parameters: jsonOf({ topic: { type: "string", pattern: "^a" } }),
        outputSchema: { ...jsonOf({ of: { type: "string", minLength: 1 } }), additionalProperties: false },
        handler({ topic }: { topic: string }): unknown { return { of: this.name, topic }; },
      };
      export const typed = { name: "typed", description: "By its types.", handler: (it: { a: number }) => it.a };
      export const many = {
        first: { description: "1", inputSchema: City, execute: ({ city }: City): string => city },
        second: tool({ name: "other_name", description: "2", schema: jsonOf({}), func: () => 2 }),
        other: tool({ description: "3", inputSchema: City, execute: () => 3 }),
      };
      export const worded: { description?: string | ((of: object) => string); inputSchema: unknown; execute: () => number } =
        { description: "In words.", inputSchema: City, execute: () => 4 };
      export const list = [tool({ name: "in_list", description: "4", inputSchema: City, callback: () => 4 })];
      class Structured {
        readonly given: { name: string; description: string; schema: object; func: (it: { city: string }) => string };
        readonly name: string;
        readonly description: string;
        readonly schema: object;
        constructor(given: Structured["given"]) {
          ({ name: this.name, description: this.description, schema: this.schema } = this.given = given);
        }
        invoke(it: { city: string }, config?: object): string { return this.given.func(it); }
      }
      export const structured = new Structured({
        name: "structured", description: "5", schema: City, func: ({ city }) => city,
      });
      export const under = tool({ id: "under", description: "6", inputSchema: City, execute: ({ context }: { context: City }) => context });
      export const options = tool({
        description: "7", inputSchema: City,
        execute: (it: City, { abortSignal, toolCallId }: { abortSignal: AbortSignal; toolCallId: string }) =>
          [abortSignal.aborted, toolCallId.length > 0],
      });
      export const context = { description: "8", inputSchema: City, execute: (it: City, { progress }: ToolContext) => typeof progress };
      /** @internal */
      export const hidden = { description: "9", inputSchema: City, execute: () => 9 };
      export const data = { description: "No handler.", inputSchema: City };
      export function plain(it: number): number { return it; }
      export default { description: "10", inputSchema: City, execute: () => "default" };`));
  const tool = async (name: string) => (await all()).tools.find((each) => each.name === name)!;

  it("is an object with a handler, under its own name, or that of its export or key, with its description or that of its comment", async () => {
    const { tools, problems } = await all();
    assert.deepEqual(rows(problems, "severity", "line", "message"), []);
    assert.deepEqual(rows(tools, "name", "description"), [
      "plain -",
      "weather The weather.",
      "commented Without words of its own.",
      "get_news The news.",
      "typed By its types.",
      "first 1",
      "other_name 2",
      "other 3",
      "worded In words.",
      "in_list 4",
      "structured 5",
      "under 6",
      "options 7",
      "context 8",
      "demo 10",
    ]);
  });

  it("has the title, the hints and the schemas of the object when it is loaded", async () => {
    const { title, annotations, inputSchema, outputSchema } = await tool("get_news");
    assert.deepEqual([title, annotations], ["News", { readOnlyHint: true }]);
    assert.deepEqual((await tool("commented")).annotations, { readOnlyHint: true });
    const topic = { type: "string", pattern: "^a" };
    assert.deepEqual(inputSchema, { type: "object", properties: { topic }, required: ["topic"] });
    const of = { type: "string", minLength: 1 };
    assert.deepEqual(outputSchema, { type: "object", properties: { of }, required: ["of"] });
    for (const name of ["weather", "first", "other", "in_list", "structured", "under", "demo"])
      assert.deepEqual((await tool(name)).inputSchema, CITY, name);
    const { properties, required } = (await tool("typed")).inputSchema;
    assert.deepEqual([properties, required], [{ a: { type: "number" } }, ["a"]]);
    assert.deepEqual((await tool("weather")).outputSchema, {
      type: "object",
      properties: { city: { type: "string" }, days: { type: "number" } },
      required: ["city", "days"],
    });
    assert.deepEqual((await tool("first")).outputSchema, { type: "string" });
  });

  it("is called as a method of its object, with what its schema makes of the arguments", async () => {
    const cases: readonly [name: string, call: Partial<CallShape>, args: JsonObject, result: Json][] = [
      ["weather", { export: "weather", member: ["execute"] }, { city: "Rom" }, { city: "Rom", days: 3 }],
      ["commented", { export: "commented", member: ["execute"] }, { city: "Rom", days: 1 }, 1],
      ["get_news", { export: "named", member: ["handler"] }, { topic: "a" }, { of: "get_news", topic: "a" }],
      ["typed", { export: "typed", member: ["handler"] }, { a: 4 }, 4],
      ["first", { export: "many", member: ["first", "execute"] }, { city: "Rom" }, "Rom"],
      ["other_name", { export: "many", member: ["second", "func"] }, {}, 2],
      ["in_list", { export: "list", member: ["0", "callback"] }, { city: "Rom" }, 4],
      ["structured", { export: "structured", member: ["invoke"] }, { city: "Rom" }, "Rom"],
      ["under", { member: ["execute"], under: "context" }, { city: "Rom" }, { city: "Rom", days: 3 }],
      ["options", { member: ["execute"], options: true }, { city: "Rom" }, [false, true]],
      ["context", { member: ["execute"], context: true }, { city: "Rom" }, "function"],
      ["demo", { export: "default", member: ["execute"] }, { city: "Rom" }, "default"],
    ];
    for (const [name, call, args, result] of cases) {
      const { call: found } = await tool(name);
      assert.deepEqual({ ...found, ...call }, found, name);
      assert.deepEqual(valueOf(await compiler.call(await all(), name, args)), result, name);
    }
    for (const name of ["weather", "first", "in_list", "under"]) {
      const { message } = failureOf(await compiler.call(await all(), name, { city: "Atlantis" }));
      assert.equal(message, "city: no such city", name);
    }
  });

  it("is reported where it is defined if it is invalid", async () => {
    const { tools, problems } = await compiler.compile(`${SOURCE.replaceAll("\n", " ")}
      const Bad = schema<{ city: string }>(() => { throw new Error("broken"); });
      const Text = schema<string>(() => ({ type: "string" }));
      const execute = (it: { city: string }): { city: string } => it;
      export const unread = { description: "a", inputSchema: Bad, execute };
      export const halfRead = { description: "b", inputSchema: City, outputSchema: Bad, execute };
      export const text = { description: "c", inputSchema: Text, execute: (it: string): string => it };
      export const again = { name: "halfRead", description: "d", inputSchema: City, execute };
      export const lucky = { description: "e", inputSchema: { ...jsonOf({}), $comment: String(Math.random()) }, execute };
      export const some = { good: { description: "f", inputSchema: City, execute }, version: "1" };
      const late: { description: string; inputSchema: object; execute?: () => string } = { description: "", inputSchema: City };
      export const none = late;
      const noTools: (typeof halfRead)[] = [];
      export const empty = noTools;
      export const got = { description: "g", get inputSchema(): object { throw new Error("got you"); }, execute };
      export const handled = { description: "h", inputSchema: City, get execute(): () => string { throw new Error("got you, too"); } };
      export const held = { get inner(): typeof halfRead { throw new Error("and you"); } };`);
    assert.deepEqual(rows(problems, "severity", "code", "line", "column", "message"), [
      "error invalid-schema 5 20 unread: the schema of its arguments cannot be read: broken",
      "warning schema-unread 6 20 halfRead: the schema of its results cannot be read: broken; the tool is offered without it",
      "error invalid-schema 7 20 text: the schema of its arguments must describe an object, because arguments have names",
      "error repeated-tool 8 20 halfRead: another tool has this name; export one of them under another name",
      "error invalid-schema 9 20 lucky: the schema of its arguments cannot be read: it changes with the time or with random numbers; make it the same at each load",
      "error invalid-schema 15 20 got: the schema of its arguments cannot be read: got you",
      "error invalid-schema 16 20 handled: the schema of its arguments cannot be read: got you, too",
      "error invalid-schema 17 33 inner: the schema of its arguments cannot be read: and you",
      'warning no-tool-object 10 85 some.version has no handler, such as "execute", and is not offered',
      "error no-tool-object 12 20 none: it contains no tool after the module has been loaded",
      "error no-tool-object 14 20 empty: it contains no tool after the module has been loaded",
    ]);
    assert.deepEqual(rows(tools, "name"), ["halfRead", "good"]);
  });

  it("is reported if its module does not load", async () => {
    const { tools, problems } = await compile(`
      export const one = { description: "1", inputSchema: City, execute: () => 1 };
      export const two = { description: "2", inputSchema: City, execute: () => 2 };
      throw new RangeError("top");`);
    assert.deepEqual(tools, []);
    const message =
      "it contains no tool after the module has been loaded: its program does not load: RangeError: top; it is loaded without the variables of its entry: read those in the function that needs them";
    assert.deepEqual(rows(problems, "code", "message"), [
      `no-tool-object one: ${message}`,
      `no-tool-object two: ${message}`,
    ]);
  });

  it("is a default function, too, with name, description, hints and schemas of other exports", async () => {
    const compiled = await compiler.compile(`${OWN_SCHEMAS}
      const Text = schema<string>(
        () => ({ type: "string", minLength: 2 }),
        (it) => typeof it === "string" && it.length > 1 ? { value: it + "!" } : { issues: [{ message: "too short" }] },
      );
      const Days = schema<number | undefined>(() => ({ type: "number" }), (it) => ({ value: it ?? 7 }));
      const Shape = { city: Text, days: Days };
      export { Shape as schema };
      export const metadata = { name: "get_weather", description: "The weather.", annotations: { readOnlyHint: true, title: "x" } };
      export const outputSchema = { said: Text };
      export default async function weather({ city, days }: { city: string; days?: number }) { return { said: city + days }; }`);
    assert.deepEqual(compiled.problems, []);
    const [{ name, description, annotations, inputSchema, outputSchema } = assert.fail(), ...others] = compiled.tools;
    assert.deepEqual(others, []);
    assert.deepEqual([name, description, annotations], ["get_weather", "The weather.", { readOnlyHint: true }]);
    const text = { type: "string", minLength: 2 };
    const properties = { city: text, days: { type: "number" } };
    assert.deepEqual(inputSchema, { type: "object", properties, required: ["city"] });
    assert.deepEqual(outputSchema, { type: "object", properties: { said: text }, required: ["said"] });
    const call = (args: JsonObject) => compiler.call(compiled, "get_weather", args);
    assert.deepEqual(valueOf(await call({ city: "Rom" })), { said: "Rom!7" });
    assert.equal(failureOf(await call({ city: "R" })).message, "city: too short");
  });
});
