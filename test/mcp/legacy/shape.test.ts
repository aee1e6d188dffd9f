import assert from "node:assert/strict";
import { before, describe, it } from "node:test";
import type { JsonObject } from "../../../src/lib/json.ts";
import { post, request } from "../../support/berth.ts";
import { LegacyClient } from "../../support/legacy-client.ts";
import { startRig } from "../../support/mcp-host.ts";
import { rows } from "../../support/rows.ts";
import { inSuite } from "../../support/suite.ts";

const AUDIO = { type: "audio", data: "AAAA", mimeType: "audio/wav" };
const LINK = { type: "resource_link", uri: "test://a", name: "a", description: "The first" };
const PAIR = { type: "array", prefixItems: [{ type: "string" }, { type: "number" }], items: false };
const LENIENT_PAIR = { type: "array", prefixItems: PAIR.prefixItems, maxItems: 2 };
const PAIRS = { type: "object", properties: { pair: PAIR } };
const HEAD = { type: "array", prefixItems: [{ type: "string" }], items: { type: "number" } };
const TEXT = { type: "text", text: "plain" };
const META = { "example.org/mark": 1 };

/**
 * Each revision's own form of results, and how others are converted: the schemas of the specification differ in this.
 */
describe("results in each legacy revision", () => {
  const rig = inSuite(startRig);
  let url: string;
  before(() => {
    url = rig.url("one");
    rig.host.offer("one", {
      tools: {
        rich: {
          title: "Rich",
          annotations: { readOnlyHint: true },
          _meta: META,
          outputSchema: { type: "object" },
          run: () => ({ content: [TEXT, AUDIO, LINK] as never, structuredContent: { a: 1 } }),
        },
        listed: { outputSchema: { type: "array" }, run: () => ({ content: [], structuredContent: [1] }) },
        loose: () => ({ content: [], structuredContent: "text" }),
        tuples: {
          inputSchema: {
            type: "object",
            properties: { pair: PAIR, items: { $ref: "#/$defs/pairs" }, kept: { const: PAIR, default: PAIR } },
            $defs: { pairs: { type: "array", items: PAIR }, head: HEAD },
          },
          outputSchema: { type: "array", prefixItems: [PAIR], items: false, maxItems: 9 },
          run: () => ({ content: [], structuredContent: [["a", 1]] }),
        },
        draft: { inputSchema: { ...PAIRS, $schema: "http://json-schema.org/draft-07/schema#" }, run: () => "" },
      },
      prompts: { talk: () => "hello" },
    });
  });

  const rich = async (version: string): Promise<{ tool: JsonObject; result: JsonObject }> => {
    const client = await LegacyClient.start(url, version);
    const { tools } = await client.result("tools/list");
    return { tool: tools[0], result: await client.result("tools/call", { name: "rich" }) };
  };

  it("2025-11-25 and 2025-06-18 have titles, output schemas, structured content, audio and links", async () => {
    for (const version of ["2025-11-25", "2025-06-18"]) {
      const { tool, result } = await rich(version);
      assert.deepEqual(tool, {
        name: "rich",
        title: "Rich",
        inputSchema: { type: "object" },
        outputSchema: { type: "object" },
        annotations: { readOnlyHint: true },
        _meta: META,
      });
      assert.deepEqual(result, { content: [TEXT, AUDIO, LINK], structuredContent: { a: 1 } });
    }
  });

  it("2025-03-26 has a title among the annotations, no _meta, audio, and text for a link", async () => {
    const { tool, result } = await rich("2025-03-26");
    assert.deepEqual(tool, {
      name: "rich",
      inputSchema: { type: "object" },
      annotations: { title: "Rich", readOnlyHint: true },
    });
    assert.deepEqual(result, { content: [TEXT, AUDIO, { type: "text", text: "a <test://a>: The first" }] });
  });

  it("2024-11-05 has neither annotations nor audio", async () => {
    const { tool, result } = await rich("2024-11-05");
    assert.deepEqual(tool, { name: "rich", inputSchema: { type: "object" } });
    assert.deepEqual(rows(result["content"] as JsonObject[], "type"), ["text", "text", "text"]);
    assert.match(JSON.stringify(result["content"]), /audio\/wav/);
  });

  it("structured content that is no object travels as one, whether a schema says so or not", async () => {
    const client = await LegacyClient.start(url, "2025-06-18");
    assert.deepEqual((await client.result("tools/call", { name: "listed" })).structuredContent, { result: [1] });
    assert.deepEqual((await client.result("tools/call", { name: "loose" })).structuredContent, { result: "text" });
    const { tools } = await client.result("tools/list");
    assert.equal(tools[1].outputSchema.properties.result.type, "array");
  });

  it("writes structured content without other content as text in revisions that have none", async () => {
    const text = (value: string) => ({ content: [{ type: "text", text: value }] });
    for (const version of ["2025-03-26", "2024-11-05"]) {
      const client = await LegacyClient.start(url, version);
      const results = ["listed", "loose"].map((name) => client.result("tools/call", { name }));
      assert.deepEqual(await Promise.all(results), [text("[1]"), text('"text"')], version);
    }
    const { body } = await post(url, request("tools/call", { name: "listed", arguments: {} }));
    assert.deepEqual(body.result, text("[1]"), "a client without the version header");
  });

  it("a tuple is told so that a client that knows draft 7 alone takes what it allows, and nothing else is touched", async () => {
    for (const version of ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"]) {
      const client = await LegacyClient.start(url, version);
      const { tools } = await client.result("tools/list");
      const tuples = tools.find(({ name }: { name: string }) => name === "tuples");
      assert.deepEqual(tuples.inputSchema, {
        type: "object",
        properties: { pair: LENIENT_PAIR, items: { $ref: "#/$defs/pairs" }, kept: { const: PAIR, default: PAIR } },
        $defs: {
          pairs: { type: "array", items: LENIENT_PAIR },
          head: { type: "array", prefixItems: [{ type: "string" }], unevaluatedItems: { type: "number" } },
        },
      });
      if (version < "2025-06-18") continue;
      const result = { type: "array", prefixItems: [LENIENT_PAIR], maxItems: 1 };
      assert.deepEqual(tuples.outputSchema, { type: "object", properties: { result }, required: ["result"] });
    }
  });

  it("a schema of another draft stays as it is", async () => {
    const client = await LegacyClient.start(url, "2025-11-25");
    const { tools } = await client.result("tools/list");
    const draft = tools.find(({ name }: { name: string }) => name === "draft");
    assert.deepEqual(draft.inputSchema, { ...PAIRS, $schema: "http://json-schema.org/draft-07/schema#" });
  });
});
