import assert from "node:assert/strict";
import { before, describe, it } from "node:test";
import { modern, MODERN_META, post, request, withStatus } from "../../support/berth.ts";
import { berthInSuite } from "../../support/suite.ts";

describe("the modern era", () => {
  const berth = berthInSuite({ files: ["test/fixtures/servers/everyday.ts"] });
  let url: string;
  before(() => void (url = `${berth.url}/mcp/everyday`));

  it("a request without its version or its capabilities is -32602 with HTTP 400", async () => {
    const headers = { "MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/list" };
    const without = await withStatus(400, post(url, request("tools/list", {}), headers));
    assert.equal(without.body.error.code, -32602);

    const { "io.modelcontextprotocol/clientCapabilities": _left, ...meta } = MODERN_META;
    const { body } = await withStatus(400, modern(url, "tools/list", { _meta: meta }));
    assert.equal(body.error.code, -32602);
    assert.match(body.error.message, /clientCapabilities/);
  });

  it("a version that is not supported is -32022 with those that are", async () => {
    const _meta = { ...MODERN_META, "io.modelcontextprotocol/protocolVersion": "2099-01-01" };
    const { status, body } = await modern(url, "tools/list", { _meta }, { "MCP-Protocol-Version": "2099-01-01" });
    assert.equal(status, 400);
    assert.equal(body.error.code, -32022);
    assert.ok(body.error.data.supported.includes("2026-07-28"));
    assert.equal(body.error.data.requested, "2099-01-01");
  });

  it("headers that are missing or differ from the body are -32020", async () => {
    const params = { name: "echo", arguments: { message: "hi" } };
    const wrong: Record<string, string>[] = [
      { "Mcp-Method": "" },
      { "Mcp-Method": "tools/list" },
      { "Mcp-Name": "" },
      { "Mcp-Name": "add" },
      { "Mcp-Name": "=?base64?!!?=" },
      { "MCP-Protocol-Version": "" },
      { "MCP-Protocol-Version": "2025-11-25" },
    ];
    for (const headers of wrong) {
      const { status, body } = await modern(url, "tools/call", params, headers);
      assert.equal(status, 400, JSON.stringify(headers));
      assert.equal(body.error.code, -32020, JSON.stringify(headers));
    }
  });

  it("a name in the base64 form is decoded before it is compared", async () => {
    const encoded = `=?base64?${Buffer.from("echo").toString("base64")}?=`;
    const params = { name: "echo", arguments: { message: "hi" } };
    await withStatus(200, modern(url, "tools/call", params, { "Mcp-Name": encoded }));
  });

  it("an unknown method is -32601 with HTTP 404; so are those that only legacy has", async () => {
    for (const method of ["tools/dance", "ping", "tasks/list", "tasks/result"]) {
      const { body } = await withStatus(404, modern(url, method));
      assert.equal(body.error.code, -32601);
    }
  });
});
