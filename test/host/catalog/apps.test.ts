import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { describe, it } from "node:test";
import type { JsonObject } from "../../../src/lib/json.ts";
import { apiOf } from "../../support/api.ts";
import { call, modern, post, request, type Reply } from "../../support/berth.ts";
import { declaring } from "../../support/mcp-host.ts";
import { rows } from "../../support/rows.ts";
import { berthInSuite } from "../../support/suite.ts";

const html = readFileSync("test/fixtures/servers/board.html", "utf8");
const UI = "io.modelcontextprotocol/ui";
const URI = "ui://board/board.html";
const MIME_TYPE = "text/html;profile=mcp-app";

describe("the app of a definition", () => {
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
    const inOlder = ["2025-11-25", "2025-06-18"].map((version) => legacy(version, "tools/list"));
    for (const { tools } of await Promise.all([inNew("tools/list"), ...inOlder])) {
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
    const app = resources.find(({ uri }: Reply["body"]) => uri === URI);
    assert.deepEqual(app, { uri: URI, name: "board.html", mimeType: MIME_TYPE });
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
        message: `The app "${URI}" has different contents: it may show or do something else.`,
      },
    ]);
    assert.notEqual(effect.after, effect.before);
    assert.match((await contentsOf())[0].text, /Other board/);
    const pinned = await inNew("resources/read", { uri: URI }, `board@${effect.before}`);
    assert.equal(pinned.contents[0].text, html);
  });
});

const OTHER = "/** @ui board.html */\nexport function other() { return { count: 0 }; }\n";

describe("the apps of all servers at POST /mcp", () => {
  const berth = berthInSuite({
    files: ["test/fixtures/servers/board.ts"],
    texts: {
      "second.ts": `${OTHER}/** @ui app */\nexport function both() { return { count: 2 }; }\n`,
      "third.ts": `${OTHER}/** @ui app */\nexport function both() { return { count: 3 }; }\n`,
      "plain.ts": "export function more() { return { count: 99 }; }\nexport function lonely() { return 1; }\n",
    },
    beside: { "board.html": html },
  });

  it("reach the tools of their own server by plain names, and no server without apps", async () => {
    const url = `${berth.url}/mcp`;
    assert.deepEqual((await call(url, "more", { count: 4 })).structuredContent, { count: 5 });
    assert.match((await call(url, "lonely")).error.message, /lonely/);
    assert.match((await call(url, "forModels")).error.message, /forModels/);
    assert.equal((await call(url, "board.forModels")).content[0].text, "a model called");
  });

  it("are told where to connect when two servers have a tool of one name for their apps", async () => {
    const { message } = (await call(`${berth.url}/mcp`, "both")).error;
    assert.match(message, /apps of both second and third may call both; connect to \/mcp\/second or to \/mcp\/third/);
  });

  it("have tools of their own, which clients without apps are not shown", async () => {
    const namesFor = async (capabilities: JsonObject): Promise<string[]> => {
      const { body } = await modern(`${berth.url}/mcp`, "tools/list", { _meta: declaring(capabilities) });
      return rows(body.result.tools, "name").filter((name) => /^(?:board|plain|second|third)\./.test(name));
    };
    const models = ["board.show", "board.forModels", "plain.more", "plain.lonely", "second.other", "third.other"];
    const extensions = { [UI]: { mimeTypes: [MIME_TYPE] } };
    assert.deepEqual(await namesFor({}), models);
    assert.equal((await namesFor({ extensions })).length, models.length + 3);
    assert.deepEqual(await namesFor({}), models);
  });

  it("are read there under the URIs of their servers", async () => {
    const uri = "ui://second/board.html";
    const { body } = await modern(`${berth.url}/mcp`, "resources/read", { uri });
    assert.equal(body.result.contents[0].uri, uri);
  });
});
