import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { modern, post, request } from "../../support/berth.ts";
import { host, scripted } from "../../support/hosted-upstreams.ts";

/** The keys of `_meta` that two neighbours use between themselves. */
const RESERVED = [
  "progressToken",
  "traceparent",
  "tracestate",
  "baggage",
  ..."protocolVersion clientInfo clientCapabilities serverInfo logLevel subscriptionId related-task"
    .split(" ")
    .map((name) => `io.modelcontextprotocol/${name}`),
  "dev.berth/own",
];
const MARK = { "example.org/mark": "passes" };
const forged = (by: string) => ({ ...Object.fromEntries(RESERVED.map((key) => [key, `forged by ${by}`])), ...MARK });

describe("what two neighbours say to each other in _meta", () => {
  for (const era of ["legacy", "modern"] as const) {
    it(`reaches no ${era} upstream from its client`, async (t) => {
      const capabilities = { tools: {} };
      const tool = { name: "repeats", inputSchema: { type: "object" } };
      const answers = { "tools/list": { result: { tools: [tool] } }, "tools/call repeats": { repeats: "_meta" } };
      const berth = await host(t, { far: { upstream: scripted(t, { capabilities, answers }, era).uri } });
      // A forged version would be refused.
      const { "io.modelcontextprotocol/protocolVersion": _, ..._meta } = forged("a client") as Record<string, string>;
      const params = { name: "repeats", arguments: {}, _meta };
      const { body } = await post(`${berth.url}/mcp/far`, request("tools/call", params), {
        "MCP-Protocol-Version": "2025-06-18",
      });
      const received = JSON.parse(body.result.content[0].text as string) as Record<string, unknown>;
      assert.equal(received["example.org/mark"], "passes");
      assert.doesNotMatch(JSON.stringify(received), /forged/);
    });
  }

  it("reaches no client from an upstream, in what it lists and in what it answers", async (t) => {
    const _meta = forged("an upstream");
    const result = { content: [{ type: "text", text: "called" }], _meta };
    const answers = {
      "tools/list": { result: { tools: [{ name: "plain", inputSchema: { type: "object" }, _meta }] } },
      "prompts/list": { result: { prompts: [{ name: "plain", _meta }] } },
      "resources/list": { result: { resources: [{ uri: "far://one", name: "one", _meta }] } },
      "resources/templates/list": {
        result: { resourceTemplates: [{ uriTemplate: "far://{id}", name: "all", _meta }] },
      },
      "tools/call plain": { result },
      "prompts/get": { result: { messages: [], _meta } },
      "resources/read": { result: { contents: [{ uri: "far://one", text: "one" }], _meta } },
    };
    const capabilities = { tools: {}, prompts: {}, resources: {} };
    const berth = await host(t, { far: { upstream: scripted(t, { capabilities, answers }).uri } });
    for (const [method, params] of [
      ["tools/list", {}],
      ["prompts/list", {}],
      ["resources/list", {}],
      ["resources/templates/list", {}],
      ["tools/call", { name: "plain", arguments: {} }],
      ["prompts/get", { name: "plain" }],
      ["resources/read", { uri: "far://one" }],
    ] as const) {
      const { text } = await modern(`${berth.url}/mcp/far`, method, params);
      assert.match(text, /"example\.org\/mark":"passes"/, method);
      assert.doesNotMatch(text, /forged/, method);
    }
  });
});
