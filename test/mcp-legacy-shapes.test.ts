import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import type { JsonObject } from "../src/json.ts";
import { LegacyClient } from "./legacy-client.ts";
import { startRig, type Rig } from "./mcp-modern.rig.ts";

const AUDIO = { type: "audio", data: "AAAA", mimeType: "audio/wav" };
const LINK = { type: "resource_link", uri: "test://a", name: "a", description: "The first" };
const TEXT = { type: "text", text: "plain" };

/** What each revision can say, and what becomes of what it cannot: the schemas of the specification differ in this. */
describe("results in each legacy revision", () => {
  let rig: Rig;
  let url: string;
  before(async () => {
    rig = await startRig();
    url = rig.url("one");
    rig.host.offer("one", {
      tools: {
        rich: {
          title: "Rich",
          annotations: { readOnlyHint: true },
          outputSchema: { type: "object" },
          run: () => ({ content: [TEXT, AUDIO, LINK] as never, structuredContent: { a: 1 } }),
        },
        listed: { outputSchema: { type: "array" }, run: () => ({ content: [], structuredContent: [1] }) },
        loose: () => ({ content: [], structuredContent: "text" }),
      },
      prompts: { talk: () => "hello" },
    });
  });
  after(() => rig.close());

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
      });
      assert.deepEqual(result, { content: [TEXT, AUDIO, LINK], structuredContent: { a: 1 } });
    }
  });

  it("2025-03-26 has a title among the annotations, audio, and text for a link", async () => {
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
    assert.deepEqual(
      (result["content"] as JsonObject[]).map(({ type }) => type),
      ["text", "text", "text"],
    );
    assert.match(JSON.stringify(result["content"]), /audio\/wav/);
  });

  it("structured content that is no object travels as one, whether a schema says so or not", async () => {
    const client = await LegacyClient.start(url, "2025-06-18");
    assert.deepEqual((await client.result("tools/call", { name: "listed" })).structuredContent, { result: [1] });
    assert.deepEqual((await client.result("tools/call", { name: "loose" })).structuredContent, { result: "text" });
    const { tools } = await client.result("tools/list");
    assert.equal(tools[1].outputSchema.properties.result.type, "array");
  });

  it("lists of one revision are not those of another", async () => {
    const [first, second] = [await rich("2024-11-05"), await rich("2025-06-18")];
    assert.notDeepEqual(first.tool, second.tool);
    assert.deepEqual((await rich("2024-11-05")).tool, first.tool);
  });
});
