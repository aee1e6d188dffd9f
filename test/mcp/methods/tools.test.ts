import assert from "node:assert/strict";
import { before, describe, it } from "node:test";
import { Ajv2020 } from "ajv/dist/2020.js";
import { clock } from "../../../src/lib/clock.ts";
import { defaultLimits } from "../../../src/limits/limits.ts";
import { call, post, request } from "../../support/berth.ts";
import { rows } from "../../support/rows.ts";
import { berthInSuite } from "../../support/suite.ts";
import { until } from "../../support/until.ts";

const SIXTY = Array.from(
  { length: 60 },
  (_, n) => `/** Tool ${n}. */\nexport function tool${n}(): number { return ${n}; }`,
);

/** Two such definitions give their own types the same name. */
const own = (type: string): string =>
  `/** @inputSchema { "$id": "https://example.com/own", "type": "object", "properties": { "args": { "type": "${type}" } } } */
export function take(args: unknown): string { return typeof args; }`;

describe("tools", () => {
  const berth = berthInSuite({
    files: ["test/fixtures/servers/everyday.ts"],
    texts: {
      "sixty.ts": SIXTY.join("\n"),
      "private.ts":
        "/** Seen. */\nexport function seen(): void {}\nexport function _hidden(): void {}\nfunction own(): void {}\n" +
        "/** @internal */\nexport function internal(): void {}\nexport const value = own;\nexport type T = 1;",
      "texts.ts": own("string"),
      "numbers.ts": own("number"),
      "partly.ts": "export function good(): number { return 1; }\nexport function bad(f: () => void): void { f(); }",
    },
    mcps: {
      off: { definition: "everyday.ts", enabled: false },
      optedOut: { definition: "everyday.ts", mcp_enabled: false },
      renamed: { definition: "everyday.ts", tools: { echo: { description: "Configured words" } } },
    },
    env: { BERTH_OUTPUT_BYTES: "1000000" },
  });
  let url: string;
  before(() => void (url = `${berth.url}/mcp/everyday`));

  const list = async (server: string, params = {}) =>
    (await post(`${berth.url}/mcp/${server}`, request("tools/list", params))).body;

  it("tools that are configured show the configured words, and only they are listed (T4.1)", async () => {
    const { tools } = (await list("renamed")).result;
    assert.deepEqual(rows(tools, "name", "description"), ["echo Configured words"]);
  });

  it("tools are discovered, in the order of the source (T4.2)", async () => {
    const { tools } = (await list("everyday")).result;
    assert.deepEqual(rows(tools.slice(0, 4), "name"), ["echo", "add", "measure", "fail"]);
  });

  it("each of sixty functions is a tool, and all come on one page (T4.5, T11.3)", async () => {
    const { tools, nextCursor } = (await list("sixty")).result;
    assert.equal(nextCursor, undefined);
    assert.deepEqual(
      rows(tools, "name"),
      Array.from({ length: 60 }, (_, index) => `tool${index}`),
    );
    assert.equal((await call(`${berth.url}/mcp/sixty`, "tool59")).isError, undefined);
    const cursorOf = (text: string): string => Buffer.from(text).toString("base64url");
    const padded = `${cursorOf("tools:50")}${" ".repeat(100)}`;
    for (const cursor of ["nonsense", "", 7, padded, ...["tools:0", "tools:60", "prompts:1"].map(cursorOf)]) {
      assert.equal((await list("sixty", { cursor })).error.code, -32602);
    }
  });

  it("every schema is a valid JSON Schema 2020-12 (T4.6)", async () => {
    const ajv = new Ajv2020({ strict: false });
    for (const tool of (await list("everyday")).result.tools) {
      assert.equal(ajv.validateSchema(tool.inputSchema), true);
      if (tool.outputSchema) assert.equal(ajv.validateSchema(tool.outputSchema), true);
    }
  });

  it("functions that are private, internal or not exported are no tools (T11.4)", async () => {
    const { tools } = (await list("private")).result;
    assert.deepEqual(rows(tools, "name"), ["seen", "value"]);
  });

  it("doc comments are the descriptions of tools and arguments (T11.5)", async () => {
    const { tools } = (await list("everyday")).result;
    const add = tools.find((tool: { name: string }) => tool.name === "add");
    assert.equal(add.description, "Adds numbers.");
    assert.equal(add.inputSchema.properties.b.description, "The second; 10 unless told otherwise.");
  });

  it("a tool that cannot be published leaves the good ones of its file served", async () => {
    const { tools } = (await list("partly")).result;
    assert.deepEqual(rows(tools, "name"), ["good"]);
  });

  it("definitions whose own schemas have the same name are each held to their own (T5.2)", async () => {
    const take = async (server: string, args: unknown): Promise<{ isError?: boolean; content: { text: string }[] }> =>
      call(`${berth.url}/mcp/${server}`, "take", { args });
    assert.equal((await take("texts", "a")).content[0]?.text, "string");
    assert.equal((await take("numbers", 1)).content[0]?.text, "number");
    assert.match((await take("texts", 1)).content[0]?.text ?? "", /must be string/);
    assert.match((await take("numbers", "a")).content[0]?.text ?? "", /must be number/);
  });

  it("a disabled server refuses calls, and so does one that opted out (T5.6, T14.3)", async () => {
    for (const server of ["off", "optedOut"]) {
      const { status, body } = await post(`${berth.url}/mcp/${server}`, request("tools/call", { name: "echo" }));
      assert.equal(status, 403);
      assert.match(body.error.message, /disabled/);
    }
  });

  it("a result that is MCP content already stays what it is", async () => {
    assert.deepEqual(await call(url, "blocks"), { content: [{ type: "text", text: "made by hand" }] });
  });

  it("a call that takes too long ends with an error that says so (T12.5)", async () => {
    for (const [tool, args] of [
      ["wait", { ms: 3_600_000 }],
      ["spin", {}],
    ] as const) {
      await call(url, "nothing");
      let result: Awaited<ReturnType<typeof call>>;
      void call(url, tool, args).then((ended) => (result = ended));
      // A leap ends only calls that have begun.
      await until(() => (clock.leap(defaultLimits.callMs), result));
      assert.equal(result.isError, true);
      assert.match(result.content[0].text, /30000 ms/);
    }
    assert.equal((await call(url, "echo", { message: "still here" })).content[0].text, "still here");
  });

  it("a tool without arguments takes {} and no arguments at all (T13.1)", async () => {
    assert.deepEqual(await call(url, "nothing"), { content: [] });
    const { body } = await post(url, request("tools/call", { name: "nothing" }));
    assert.deepEqual(body.result.content, []);
  });

  it("output larger than the limit is an error that names the limit; smaller output arrives whole (T13.2)", async () => {
    const whole = await call(url, "long", { bytes: 300_000 });
    assert.equal(whole.content[0].text.length, 300_000);
    const result = await call(url, "long", { bytes: 2_000_000 });
    assert.equal(result.isError, true);
    assert.match(result.content[0].text, /1000000/);
  });

  it("unicode arrives as it left (T13.3)", async () => {
    const message = "héllo 世界 🚢 \u2028 \u0000 \ud83d";
    const echoed = (await call(url, "echo", { message })).content[0].text;
    assert.equal(echoed, message);
  });

  it("nested objects, arrays and nulls arrive as they are (T13.5, T13.6, T13.7)", async () => {
    const result = await call(url, "measure", { tree: { name: "t", children: ["a", null, "b"], note: null } });
    assert.equal(result.structuredContent.result, 2);
    const wrong = await call(url, "measure", { tree: { name: null, children: [], note: null } });
    assert.equal(wrong.isError, true);
    assert.match(wrong.content[0].text, /\/tree\/name/);
  });
});
