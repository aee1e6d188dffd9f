import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { call, post, request, startTestBerth, type TestBerth } from "../../support/berth.ts";

const CLIENT = { capabilities: {}, clientInfo: { name: "test", version: "1" } };

describe("the legacy era", () => {
  let berth: TestBerth;
  let url: string;
  before(async () => {
    berth = await startTestBerth({
      files: ["test/fixtures/servers/everyday.ts"],
      mcps: { everyday: { definition: "everyday.ts", description: "Everyday things" } },
    });
    url = `${berth.url}/mcp/everyday`;
  });
  after(() => berth.close());

  const initialize = (protocolVersion: string) => post(url, request("initialize", { ...CLIENT, protocolVersion }));

  it("initialize gives the server's name, version and instructions (T3.1)", async () => {
    const { body } = await initialize("2025-11-25");
    assert.equal(body.result.serverInfo.name, "everyday");
    assert.match(body.result.serverInfo.version, /^\d+\.\d+\.\d+\+bagu/);
    assert.equal(body.result.instructions, "Everyday things");
  });

  it("initialize answers with the version asked for, or with the latest of the era (T3.2)", async () => {
    for (const version of ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"]) {
      assert.equal((await initialize(version)).body.result.protocolVersion, version);
    }
    assert.equal((await initialize("1999-01-01")).body.result.protocolVersion, "2025-11-25");
    assert.equal((await initialize("2026-07-28")).body.result.protocolVersion, "2025-11-25");
  });

  it("initialize names all that a server of the revision may offer (T3.3)", async () => {
    const early = {
      tools: { listChanged: true },
      resources: { subscribe: true, listChanged: true },
      prompts: { listChanged: true },
      logging: {},
    };
    assert.deepEqual((await initialize("2024-11-05")).body.result.capabilities, early);
    assert.deepEqual((await initialize("2025-06-18")).body.result.capabilities, { ...early, completions: {} });
  });

  it("a version header that no revision has is refused with those that are supported", async () => {
    const { status, body } = await post(url, request("ping"), { "MCP-Protocol-Version": "2020-01-01" });
    assert.equal(status, 400);
    assert.ok(body.error.data.supported.includes("2025-11-25"));
  });

  it("an output schema that is no object, and its value, travel wrapped as result", async () => {
    const { body } = await post(url, request("tools/list"), { "MCP-Protocol-Version": "2025-06-18" });
    const tool = body.result.tools.find((each: { name: string }) => each.name === "echo");
    assert.deepEqual(tool.outputSchema, {
      type: "object",
      properties: { result: { type: "string" } },
      required: ["result"],
    });
    const result = await call(url, "echo", { message: "hi" });
    assert.deepEqual(result.structuredContent, { result: "hi" });
    assert.deepEqual((await call(url, "add", { a: 1 })).structuredContent, { sum: 11 });
  });
});
