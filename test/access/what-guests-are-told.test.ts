import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { post, request, startTestBerth, type TestBerth } from "../support/berth.ts";
import { bearer, makeToken } from "../support/tokens.ts";

const TWO_TOOLS = `
export const first = (): string => "first";
export const second = (): string => "second";
`;
const TELLS = `import type { ToolContext } from "berth";
/** @resource test://servers */
export async function servers(context: ToolContext): Promise<string> { return (await context.variable("berth:servers")) ?? ""; }
export async function tool(context: ToolContext): Promise<string> { return (await context.variable("berth:servers")) ?? ""; }
/** @prompt */
export async function told(context: ToolContext): Promise<string> { return (await context.variable("berth:servers")) ?? ""; }
`;

describe("what guests are told of servers, for whom they are called", () => {
  let berth: TestBerth;
  before(async () => {
    berth = await startTestBerth({
      files: ["reference_templates/mcp.ts"],
      texts: { "one.ts": TWO_TOOLS, "two.ts": TWO_TOOLS, "tells.ts": TELLS },
      env: { BERTH_ACCESS: "required" },
    });
  });
  after(() => berth?.close());

  const tokenOf = async (wish: Record<string, unknown>): Promise<string> => (await makeToken(berth, wish)).token;
  const told = async (token: string): Promise<Record<string, string[]>> => {
    const call = request("tools/call", { name: "list_servers", arguments: {} });
    const { body } = await post(`${berth.url}/mcp/mcp`, call, bearer(token));
    const listed = JSON.parse(body.result.content[0].text) as { name: string; tools: string[] }[];
    return Object.fromEntries(listed.map(({ name, tools }) => [name, tools]));
  };

  it("a guest is told of what its caller may use, also while others call it", async () => {
    const all = await tokenOf({ can: ["call", "read"] });
    const one = await tokenOf({ can: ["call"], servers: ["mcp", "one"] });
    const second = await tokenOf({ can: ["call"], servers: ["mcp", "two"], tools: ["list_servers", "second"] });
    const reader = await tokenOf({ can: ["call"], servers: ["mcp"] });
    const answers = await Promise.all([all, one, second, reader].map(told));
    const [everything, ofOne, ofSecond, ofNone] = answers;
    assert.deepEqual(Object.keys(everything!), ["mcp", "one", "tells", "two"]);
    assert.deepEqual(ofOne, { mcp: everything!["mcp"], one: ["first", "second"] });
    assert.deepEqual(ofSecond, { mcp: ["list_servers"], two: ["second"] });
    assert.deepEqual(ofNone, { mcp: everything!["mcp"] });
  });

  it("the same holds for resources and prompts that guests make", async () => {
    const token = await tokenOf({ can: ["call", "read"], servers: ["tells"] });
    for (const [method, params] of [
      ["resources/read", { uri: "test://servers" }],
      ["resources/read", { uri: "server://tells/tool" }],
      ["prompts/get", { name: "told" }],
    ] as const) {
      const { text, body } = await post(`${berth.url}/mcp/tells`, request(method, params), bearer(token));
      assert.ok(body.result, text);
      assert.match(text, /tells/, method);
      assert.doesNotMatch(text, /list_servers|second|\/mcp\/one/, `${method} ${JSON.stringify(params)}`);
    }
  });
});
