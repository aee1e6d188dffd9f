import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { call, modern, post, request } from "../support/berth.ts";
import { berthInSuite } from "../support/suite.ts";

const DEFINITION = `
import type { ToolContext } from "berth";
/** Adds. */
export function add(a: number, b: number): number { return a + b; }
/** Greets. @readOnly */
export function greet(name: string, greeting = "Hello", context: ToolContext): string {
  return \`\${context.options.prefix ?? ""}\${greeting}, \${name}! (\${context.tool})\`;
}
/** Anything. */
export function anything(value: unknown) { return { content: [{ type: "text", text: "see" }], structuredContent: value }; }
export function record(entries: Record<string, string>): string { return JSON.stringify(entries); }
`;
const SHELL = `#!/bin/bash\n# Says its options.\nprintf '%s' "\${BERTH_OPTIONS:-none}"\n`;

const found = { type: "object", properties: { found: { type: "integer" } }, required: ["found"] };

describe("tools that are configured", () => {
  const berth = berthInSuite({
    texts: { "plain.ts": DEFINITION, "options.sh": SHELL },
    mcps: {
      curated: {
        definition: "plain.ts",
        description: "Curated",
        tools: {
          welcome: {
            function: "greet",
            title: "Welcome",
            description: "Welcomes somebody",
            arguments: { greeting: "Welcome" },
            annotations: { idempotentHint: true },
          },
          add: {
            inputSchema: {
              type: "object",
              properties: { a: { type: "number", maximum: 10 }, b: { type: ["number", "string"] } },
              required: ["a", "b"],
            },
          },
          anything: { outputSchema: found },
        },
        options: { welcome: { prefix: "¡" } },
      },
      both: {
        definition: "plain.ts",
        auto_discover: true,
        tools: { hello: { function: "greet" }, add: { title: "Sum" } },
      },
      none: { definition: "plain.ts", auto_discover: false },
      options: { definition: "options.sh", options: { options: { depth: 2 } } },
    },
  });

  const list = async (server: string) => (await modern(`${berth.url}/mcp/${server}`, "tools/list")).body.result.tools;
  const names = async (server: string) => (await list(server)).map(({ name }: { name: string }) => name);

  it("are what tools/list has, with what is configured before what was discovered (T4.1)", async () => {
    assert.deepEqual(await names("curated"), ["add", "anything", "welcome"]);
    const [add, , welcome] = await list("curated");
    assert.equal(add.description, "Adds.");
    assert.equal(add.inputSchema.properties.a.maximum, 10);
    assert.equal(welcome.title, "Welcome");
    assert.equal(welcome.description, "Welcomes somebody");
    assert.deepEqual(welcome.annotations, { readOnlyHint: true, idempotentHint: true });
    assert.deepEqual(Object.keys(welcome.inputSchema.properties), ["name"]);
    assert.deepEqual(welcome.inputSchema.required, ["name"]);
  });

  it("stand beside the discovered ones with auto_discover, and alone without (T4.2)", async () => {
    assert.deepEqual(await names("both"), ["add", "greet", "anything", "record", "hello"]);
    assert.equal((await list("both"))[0].title, "Sum");
    assert.deepEqual((await post(`${berth.url}/mcp/none`, request("tools/list"))).body.result.tools, []);
    assert.deepEqual(await names("plain"), ["add", "greet", "anything", "record"]);
  });

  it("call the function that they name, under their own name, with their fixed arguments and options", async () => {
    const said = await call(`${berth.url}/mcp/curated`, "welcome", { name: "Ada" });
    assert.equal(said.content[0].text, "¡Welcome, Ada! (welcome)");
    const plain = await call(`${berth.url}/mcp/both`, "hello", { name: "Ada" });
    assert.equal(plain.content[0].text, "Hello, Ada! (hello)");
    const given = await call(`${berth.url}/mcp/curated`, "welcome", { name: "Ada", greeting: "Bye" });
    assert.match(given.content[0].text, /has no property "greeting"/);
  });

  it("are checked by the configured schema first and then by the function's own", async () => {
    const add = (a: unknown, b: unknown) => call(`${berth.url}/mcp/curated`, "add", { a, b });
    assert.equal((await add(1, 2)).content[0].text, "3");
    assert.match((await add(11, 2)).content[0].text, /\/a must be <= 10/);
    const wide = await add(1, "2");
    assert.equal(wide.isError, true);
    assert.match(wide.content[0].text, /The function "add" cannot take these arguments: \/b must be number/);
  });

  it("check what the function returned by a configured outputSchema", async () => {
    const right = await call(`${berth.url}/mcp/curated`, "anything", { value: { found: 1 } });
    assert.deepEqual(right.structuredContent, { found: 1 });
    assert.deepEqual(right.content, [{ type: "text", text: "see" }]);
    const broken = await call(`${berth.url}/mcp/curated`, "anything", { value: { found: "one" } });
    assert.equal(broken.isError, true);
    assert.match(broken.content[0].text, /\/found must be integer/);
  });

  it("give their options to the function that carries them out, in a script's environment too (P6)", async () => {
    assert.equal((await call(`${berth.url}/mcp/options`, "options")).content[0].text, '{"depth":2}');
  });
});
