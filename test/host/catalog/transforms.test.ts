import assert from "node:assert/strict";
import { join } from "node:path";
import { describe, it, test } from "node:test";
import { packageRoot } from "../../../src/config.ts";
import { rawBlock } from "../../../src/lib/cid.ts";
import { call, callText, modern } from "../../support/berth.ts";
import { longJsonIn } from "../../support/long-json.ts";
import { lowerInSuite } from "../../support/lower-in-suite.ts";
import { lower } from "../../support/lowered-limits.ts";
import { rows } from "../../support/rows.ts";
import { berthFor, berthInSuite, hostedFor, hostedInSuite } from "../../support/suite.ts";

const DEFINITION = `
/** Adds. */
export function add(a: number, b: number): number { return a + b; }
/** Says. */
export function say(text: string): string { return text; }
/** @resource note://own text/plain */
export const own = (): string => "own";
`;

const TRANSFORM = `
import type { GeneratedPrompt, GeneratedResource, GeneratedTool, TransformContext } from "berth";
export function generateTools(serverName: string, context: TransformContext): GeneratedTool[] {
  const { entry, discovered, description } = context;
  return [
    { name: "increment", function: "add", arguments: { b: 1 }, description: description + " of " + serverName },
    { name: "say", title: "Say it", description: JSON.stringify([entry.auto_discover, discovered.tools.map((tool) => tool.name)]) },
    { name: "add", hidden: true },
  ];
}
export async function generateResources(serverName: string, context: TransformContext): Promise<GeneratedResource[]> {
  return [
    { uri: "note://generated", name: "Generated", text: "by " + context.server },
    { uri: "note://motto", content: "variable://motto" },
    { uriTemplate: "motto://{name}", content: "variable://{name}" },
    { uri: "note://own", title: "Titled" },
  ];
}
export default function generatePrompts(serverName: string): GeneratedPrompt[] {
  return [{ name: "hello", arguments: [{ name: "who", required: true }], messages: [{ role: "user", content: "Hello, {{who}}" }] }];
}
`;

describe("transforms (C5)", () => {
  const berth = berthInSuite({
    texts: { "plain.ts": DEFINITION, "change.ts": TRANSFORM },
    mcps: {
      changed: {
        definition: "plain.ts",
        description: "Counting",
        auto_discover: true,
        tools_transform_cid: "change.ts",
        resources_transform_cid: "change.ts",
        prompts_transform_cid: "change.ts",
      },
    },
  });

  const result = async (server: string, method: string, params: Record<string, unknown> = {}) =>
    (await modern(`${berth.url}/mcp/${server}`, method, params)).body.result;

  it("add tools, go in the place of others, and leave others out (T4.4, T10.5)", async () => {
    const { tools } = await result("changed", "tools/list");
    const expected = ['say Say it [true,["add","say"]]', "increment - Counting of changed"];
    assert.deepEqual(rows(tools, "name", "title", "description"), expected);
    assert.deepEqual(Object.keys(tools[1].inputSchema.properties), ["a"]);
    const url = `${berth.url}/mcp/changed`;
    assert.equal((await call(url, "increment", { a: 41 })).content[0].text, "42");
    assert.equal((await call(url, "say", { text: "Hm" })).content[0].text, "Hm");
    assert.match((await call(url, "add", { a: 1, b: 2 })).error.message, /Unknown tool: add/);
  });

  it("add resources, with content of their own or by a URI, and change those that there are", async () => {
    const { resources } = await result("changed", "resources/list");
    assert.deepEqual(resources, [
      { uri: "note://own", name: "own", title: "Titled", mimeType: "text/plain" },
      { uri: "note://generated", name: "Generated" },
      { uri: "note://motto", name: "note://motto" },
    ]);
    const { resourceTemplates } = await result("changed", "resources/templates/list");
    assert.deepEqual(resourceTemplates, [{ uriTemplate: "motto://{name}", name: "motto://{name}" }]);
    const read = async (uri: string) => (await result("changed", "resources/read", { uri })).contents[0].text;
    assert.equal(await read("note://generated"), "by changed");
    assert.equal(await read("note://own"), "own");
    assert.match(await read("motto://mcps"), /tools_transform_cid/);
  });

  it("add prompts, here by a default export", async () => {
    const { prompts } = await result("changed", "prompts/list");
    assert.deepEqual(prompts, [{ name: "hello", arguments: [{ name: "who", required: true }] }]);
    const { messages } = await result("changed", "prompts/get", { name: "hello", arguments: { who: "Ada" } });
    assert.deepEqual(messages, [{ role: "user", content: { type: "text", text: "Hello, Ada" } }]);
  });

  it("make of the reference server jq tools for those who do not know its language", async (t) => {
    const shipped = await berthFor(t, { env: { BERTH_IMAGE_DIR: join(packageRoot, "boot") } });
    const url = `${shipped.url}/mcp/jq`;
    const { tools } = (await modern(url, "tools/list")).body.result;
    assert.deepEqual(rows(tools, "name"), ["jq", "query", "keys", "to_csv", "count_by"]);
    const csv = await callText(url, "to_csv", { input: '[{"a":1,"b":"x"},{"a":2,"c":[1]}]' });
    assert.equal(csv, '"a","b","c"\n1,"x",\n2,,"[1]"');
    const keys = await callText(url, "keys", { input: '{"items":[{"price":1},{"price":2}]}' });
    assert.deepEqual(keys.split("\n"), [".items", ".items[]", ".items[].price"]);
    const counts = await callText(url, "count_by", { input: ["a", "b", "a"] });
    assert.deepEqual(rows(JSON.parse(counts), "value", "count"), ["a 2", "b 1"]);
  });
});

describe("a transform that goes wrong", () => {
  lowerInSuite({ transformMs: 60_000, transformBytes: 2_000, transformItems: 3 });
  const hosted = hostedInSuite({ plain: DEFINITION });

  /** Puts a transform of tools into the server's entry, and returns the server's problems and tools. */
  const transformed = async (source: string) => {
    const transform = rawBlock(source);
    const value = rawBlock(JSON.stringify({ plain: { tools_transform_cid: transform.cid } }));
    const set = [{ kind: "variable", name: "mcps", cid: value.cid }] as const;
    await hosted.store.change("default", { by: "test", put: [transform, value], set });
    await hosted.host.reload("default");
    const { problems, contract } = await hosted.catalog("plain");
    const [tools, pointers] = [rows(contract.tools, "name"), rows(problems, "pointer")];
    return { tools, pointers, problems: rows(problems, "message") };
  };

  it("has its problem told, and its server serves what it has without it", async () => {
    const returning = (value: string): string =>
      `export async function generateTools(name: string, context: any) { return ${value}; }`;
    const cases: [source: string, message: RegExp][] = [
      [`export function generateTools() { throw new Error("no idea"); }`, /tools failed: no idea/],
      [returning(`"tools"`), /did not return a list/],
      [returning(`{ a: 1 }`), /did not return a list/],
      [returning(`[1, 2, 3, 4]`), /returned 4 tools; the limit is 3/],
      [returning(`["x".repeat(3000)]`), /bytes; the limit is 2000/],
      [returning(`["x".repeat(300_000)]`), /returned 300004 bytes; the limit is 2000/],
      [returning(`{ long: "x".repeat(300_000) }`), /did not return a list/],
      [
        `export const generateTools = 7; export const other = (): number => 1;`,
        /exports neither a function generateTools nor a default one/,
      ],
      [`export function generateTools( { return [];`, /tools failed: /],
      [`#!/bin/sh\necho []`, /a transform is a TypeScript module/],
      [returning(`context.listOffers()`), /can read only variables and content/],
      [returning(`JSON.parse(await context.variable("berth:servers"))`), /can read only variables and content/],
    ];
    for (const [source, message] of cases) {
      const { problems, tools, pointers } = await transformed(source);
      assert.deepEqual(tools, ["add", "say"], source);
      assert.equal(problems.length, 1, source);
      assert.match(problems[0]!, message, source);
      assert.deepEqual(pointers, ["/plain/tools_transform_cid"]);
    }
  });

  it("returns a long list that is read where long values are, again from what is kept of it", async (t) => {
    t.after(lower({ transformBytes: 1024 * 1024, transformItems: 1_000 }));
    const source = `export function generateTools() {
      const long = "long ä ".repeat(200);
      return Array.from({ length: 200 }, (_, at) => at === 7 ? 7 : { name: "say" + at, function: "say", description: long + at });
    }`;
    for (const _time of ["run", "kept"]) {
      let given: Awaited<ReturnType<typeof transformed>> | undefined;
      const seen = await longJsonIn(async () => void (given = await transformed(source)));
      assert.ok(!seen.some((by) => /transforms|frames/.test(by)), seen.join());
      assert.equal(given!.tools.length, 201);
      assert.ok(given!.tools.includes("say199"));
      assert.match(given!.problems.join(), /^The transform of tools returned at \/7: it must be an object$/i);
      await hosted.restart();
    }
  });

  it("has its problem told when it does not end", async (t) => {
    t.after(lower({ transformMs: 1_500 }));
    for (const [source, message] of [
      [`export function generateTools() { for (;;); }`, /tools failed: .*1500 ms/],
      [`export async function generateTools() { await new Promise(() => {}); }`, /tools failed: /],
    ] as const) {
      const { problems, tools } = await transformed(source);
      assert.deepEqual(tools, ["add", "say"], source);
      assert.match(problems.join("\n"), message, source);
    }
  });

  it("leaves out just the items that are wrong, each with its problem", async () => {
    const item = (text: string) =>
      transformed(`export function generateTools() { return [${text}, { name: "good", function: "say" }]; }`);
    const cases: [item: string, message: RegExp][] = [
      [`7`, /returned at \/0: it must be an object/],
      [`{ function: "say" }`, /It needs a "name"/],
      [`{ name: "a b", function: "say" }`, /cannot be a tool's name/],
      [`{ name: "x" }`, /no tool function "x"/],
      [
        `{ name: "x", function: "say", inputSchema: { type: "object", properties: { a: { type: "strin" } } } }`,
        /at \/0\/inputSchema: Not a JSON Schema/,
      ],
      [`{ name: "x", function: "say", extra: 1 }`, /no field "extra"/],
      [`{ name: "x", function: "say", arguments: { no: 1 } }`, /takes no argument "no"/],
    ];
    for (const [text, message] of cases) {
      const { tools, problems } = await item(text);
      assert.deepEqual(tools, ["add", "say", "good"], text);
      assert.equal(problems.length, 1, text);
      assert.match(problems[0]!, message);
    }
    assert.deepEqual((await item(`{ name: "add", inputSchema: 1 }`)).tools, ["say", "good"]);
    assert.match((await item(`{ name: "gone", hidden: true }`)).problems[0]!, /no "gone" to hide/);
    assert.deepEqual((await item(`{ name: "add", hidden: 1 }`)).tools, ["say", "good"]);
    assert.match((await item(`{ name: "good", function: "add" }`)).problems[0]!, /"good" is returned more than once/);
  });

  it("whose content is not there says so", async () => {
    const value = rawBlock(JSON.stringify({ plain: { prompts_transform_cid: rawBlock("nobody has this").cid } }));
    const set = [{ kind: "variable", name: "mcps", cid: value.cid }] as const;
    await hosted.store.change("default", { by: "test", put: [value], set });
    await hosted.host.reload("default");
    assert.match((await hosted.catalog("plain")).problems[0]!.message, /prompts failed: No content with this CID/);
  });
});

test("a transform runs once for a definition, an entry and its own code, whatever it read then", async (t) => {
  const hosted = await hostedFor(t, { plain: DEFINITION });
  const transform = rawBlock(`
      export default async function (server: string, context: any) {
        return [{ name: "told", function: "say", description: String(Math.random()) + await context.variable("motto") }];
      }`);
  const configure = async (description: string) => {
    const entry = { description, tools_transform_cid: transform.cid };
    const variables = { mcps: rawBlock(JSON.stringify({ plain: entry })), motto: rawBlock(description) };
    const set = Object.entries(variables).map(([name, { cid }]) => ({ kind: "variable", name, cid }) as const);
    await hosted.store.change("default", { by: "test", put: [transform, ...Object.values(variables)], set });
    await hosted.host.reload("default");
    const catalog = await hosted.catalog("plain");
    assert.deepEqual(catalog.problems, []);
    return { release: catalog.release, told: catalog.contract.tools.at(-1)!.description! };
  };
  const first = await configure("one");
  assert.match(first.told, /^0\.\d+one$/);
  const other = await configure("two");
  assert.notEqual(other.told, first.told);
  assert.deepEqual(await configure("one"), first);
  await hosted.restart();
  assert.equal((await hosted.catalog("plain")).release, first.release);
  const pinned = await hosted.host.release("default", "plain", other.release);
  assert.equal(pinned?.contract.tools.at(-1)?.description, other.told);
});
