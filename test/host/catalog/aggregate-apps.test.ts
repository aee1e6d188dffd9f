import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { describe, it } from "node:test";
import { call, modern, MODERN_META } from "../../support/berth.ts";
import { berthInSuite } from "../../support/suite.ts";

const OTHER = "/** @ui board.html */\nexport function other() { return { count: 0 }; }\n";

describe("the apps of all servers at POST /mcp", () => {
  const berth = berthInSuite({
    files: ["test/fixtures/servers/board.ts"],
    texts: {
      "second.ts": `${OTHER}/** @ui app */\nexport function both() { return { count: 2 }; }\n`,
      "third.ts": `${OTHER}/** @ui app */\nexport function both() { return { count: 3 }; }\n`,
      "plain.ts": "export function more() { return { count: 99 }; }\nexport function lonely() { return 1; }\n",
    },
    beside: { "board.html": readFileSync("test/fixtures/servers/board.html") },
  });

  it("reach the tools of their own server by plain names, and no server without apps", async () => {
    const url = `${berth.url}/mcp`;
    assert.deepEqual((await call(url, "more", { count: 4 })).structuredContent, { count: 5 });
    assert.match((await call(url, "lonely")).error.message, /lonely/);
    assert.match((await call(url, "forModels")).error.message, /forModels/);
    assert.equal((await call(url, "board.forModels")).content[0].text, "a model called");
  });

  it("are told where to connect when two servers have a tool of one name for their apps", async () => {
    const { error } = await call(`${berth.url}/mcp`, "both");
    assert.match(
      error.message,
      /apps of both second and third may call both; connect to \/mcp\/second or to \/mcp\/third/,
    );
  });

  it("have tools of their own, which clients without apps are not shown", async () => {
    const namesFor = async (capabilities: object): Promise<string[]> => {
      const _meta = { ...MODERN_META, "io.modelcontextprotocol/clientCapabilities": capabilities };
      const { body } = await modern(`${berth.url}/mcp`, "tools/list", { _meta });
      return body.result.tools.map(({ name }: { name: string }) => name);
    };
    const ui = { "io.modelcontextprotocol/ui": { mimeTypes: ["text/html;profile=mcp-app"] } };
    const models = ["board.show", "board.forModels", "plain.more", "plain.lonely", "second.other", "third.other"];
    const named = (all: string[]): string[] => all.filter((name) => /^(?:board|plain|second|third)\./.test(name));
    assert.deepEqual(named(await namesFor({})), models);
    assert.deepEqual(named(await namesFor({ extensions: ui })).length, models.length + 3);
    assert.deepEqual(named(await namesFor({})), models);
  });

  it("are read there under the URIs of their servers", async () => {
    const uri = "ui://second/board.html";
    const { body } = await modern(`${berth.url}/mcp`, "resources/read", { uri });
    assert.equal(body.result.contents[0].uri, uri);
  });
});
