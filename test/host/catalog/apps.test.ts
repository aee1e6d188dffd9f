import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { describe, it } from "node:test";
import { apiOf } from "../../support/api.ts";
import { modern, post, request, type Reply } from "../../support/berth.ts";
import { berthInSuite } from "../../support/suite.ts";

const UI = "io.modelcontextprotocol/ui";
const URI = "ui://board/board.html";
const MIME_TYPE = "text/html;profile=mcp-app";

describe("the app of a definition", () => {
  const html = readFileSync("test/fixtures/servers/board.html", "utf8");
  const berth = berthInSuite({
    files: ["test/fixtures/servers/board.ts"],
    texts: { "plain.ts": "export function plain() {}" },
    beside: { "board.html": html },
  });
  const api = apiOf(berth);

  const legacy = async (version: string, method: string, params?: unknown): Promise<Reply["body"]> =>
    (await post(`${berth.url}/mcp/board`, request(method, params), { "MCP-Protocol-Version": version })).body.result;
  const inNew = async (method: string, params?: Record<string, unknown>, server = "board"): Promise<Reply["body"]> =>
    (await modern(`${berth.url}/mcp/${server}`, method, params)).body.result;
  const contentsOf = async (): Promise<Reply["body"]> => (await inNew("resources/read", { uri: URI })).contents;
  const initialize = async (server: string): Promise<Reply["body"]> => {
    const params = { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "test", version: "1" } };
    return (await post(`${berth.url}/mcp/${server}`, request("initialize", params))).body.result.capabilities;
  };

  it("is named by its tools in each revision that has _meta, with who may call them", async () => {
    const lists = [
      await inNew("tools/list"),
      await legacy("2025-11-25", "tools/list"),
      await legacy("2025-06-18", "tools/list"),
    ];
    for (const { tools } of lists) {
      const told = tools.map(({ name, _meta }: Reply["body"]) => [name, _meta.ui, _meta["ui/resourceUri"]]);
      assert.deepEqual(told, [
        ["show", { resourceUri: URI }, URI],
        ["more", { resourceUri: URI, visibility: ["app"] }, URI],
        ["forModels", { visibility: ["model"] }, undefined],
      ]);
    }
  });

  it("is a resource with the bytes of its file and the wishes in it", async () => {
    const { resources } = await inNew("resources/list");
    assert.deepEqual(
      resources.find(({ uri }: Reply["body"]) => uri === URI),
      { uri: URI, name: "board.html", mimeType: MIME_TYPE },
    );
    const contents = [{ uri: URI, mimeType: MIME_TYPE, text: html, _meta: { ui: { prefersBorder: true } } }];
    assert.deepEqual(await contentsOf(), contents);
    assert.deepEqual((await legacy("2025-11-25", "resources/read", { uri: URI })).contents, contents);
  });

  it("is advertised in both eras, by its server alone", async () => {
    const settings = { mimeTypes: [MIME_TYPE] };
    assert.deepEqual((await inNew("server/discover")).capabilities.extensions, { [UI]: settings });
    assert.deepEqual((await initialize("board")).extensions, { [UI]: settings });
    assert.equal((await inNew("server/discover", {}, "plain")).capabilities.extensions, undefined);
    assert.equal((await initialize("plain")).extensions, undefined);
  });

  it("is another release with other HTML, which the review says, and the old one is served as it was", async () => {
    const { entry, files } = (await api.send("GET", "/definitions/board")).body;
    const draft = { entry, files: { ...files, "board.html": html.replace("Board", "Other board") } };
    const { body } = await api.send("PUT", "/definitions/board", draft, { "If-Match": "*" });
    const [effect] = body.review.servers;
    assert.deepEqual(effect.changes, [
      {
        subject: "resource",
        name: URI,
        pointer: "/contents",
        effect: "review",
        message: `The app "${URI}" has other contents: it may show or do something else.`,
      },
    ]);
    assert.notEqual(effect.after, effect.before);
    assert.match((await contentsOf())[0].text, /Other board/);
    const pinned = (await modern(`${berth.url}/mcp/board@${effect.before}`, "resources/read", { uri: URI })).body
      .result;
    assert.equal(pinned.contents[0].text, html);
  });
});
