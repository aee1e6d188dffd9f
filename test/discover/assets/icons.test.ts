import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { findIconFault, ICON_BYTES_MAX } from "../../../src/contract/icons.ts";
import { compileDefinition } from "../../../src/discover/compile.ts";
import { gatherDefinition } from "../../../src/discover/gather.ts";
import { modern, post, request } from "../../support/berth.ts";
import { rows } from "../../support/rows.ts";
import { berthInSuite, folderWith } from "../../support/suite.ts";

const PIXEL = Buffer.from([0x89, 0x50, 0x4e, 0x47]);
const SVG = '<svg xmlns="http://www.w3.org/2000/svg"/>';
const OF_PIXEL = { src: `data:image/png;base64,${PIXEL.toString("base64")}`, mimeType: "image/png" };
const OF_SVG = { src: `data:image/svg+xml;base64,${Buffer.from(SVG).toString("base64")}`, mimeType: "image/svg+xml" };

const SOURCE = `
/**
 * Adds.
 * @icon art/plus.png 48x48 dark
 * @icon https://example.org/plus.svg any
 */
export function add(a: number, b: number) { return a + b; }
/**
 * @resource a://b text/plain
 * @icon ./dot.svg
 */
export function dot() { return "."; }
/** @prompt
 * @icon ${OF_PIXEL.src} */
export function ask() { return "?"; }
`;
const FILES = { "a.ts": SOURCE, "art/plus.png": PIXEL.toString("base64"), "dot.svg": SVG };

const compiled = (files: Record<string, string>, entry = "a.ts") =>
  compileDefinition("compile", { language: entry.endsWith(".sh") ? "shell" : "typescript", server: "a", entry, files });

describe("@icon", () => {
  it("gives tools, resources and prompts icons: URLs, data: URIs and files beside the definition", async () => {
    const { tools, resources, prompts, problems } = await compiled(FILES);
    assert.deepEqual(problems, []);
    assert.deepEqual(tools[0]!.icons, [
      { ...OF_PIXEL, sizes: ["48x48"], theme: "dark" },
      { src: "https://example.org/plus.svg", mimeType: "image/svg+xml", sizes: ["any"] },
    ]);
    assert.deepEqual(resources[0]!.icons, [OF_SVG]);
    assert.deepEqual(prompts[0]!.icons, [OF_PIXEL]);
  });

  it("gives a script an icon", async () => {
    const { tools, problems } = await compiled(
      { "a.sh": "#!/bin/sh\n# Says hello.\n# @icon dot.svg\necho\n", "dot.svg": SVG },
      "a.sh",
    );
    assert.deepEqual([tools[0]!.icons, problems], [[OF_SVG], []]);
  });

  it("has the files of icons gathered, and none from elsewhere", async () => {
    const root = folderWith({
      "dot.svg": SVG,
      "a.ts":
        "/**\n * @icon dot.svg\n * @icon ../../etc/x.png\n * @icon https://x.org/a.png */\nexport const f = () => 1;",
      "b.sh": "#!/bin/sh\n# @icon dot.svg\n",
    });
    const { files, problems } = await gatherDefinition(root, "a.ts");
    assert.deepEqual(Object.keys(files), ["a.ts", "dot.svg"]);
    assert.deepEqual(rows(problems, "code", "line"), ["outside 3"]);
    assert.deepEqual(Object.keys((await gatherDefinition(root, "b.sh")).files), ["b.sh", "dot.svg"]);
  });

  it("leaves out what is wrong, with its place, and offers the tool", async () => {
    const big = Buffer.alloc(ICON_BYTES_MAX + 1).toString("base64");
    for (const [tag, message] of [
      ["javascript:alert(1)", /https: URL/],
      ["http://example.org/a.png", /https: URL/],
      ["https://user:pass@example.org/a.png", /https: URL/],
      ["data:text/html;base64,AAAA", /mimeType of an image/],
      ["data:image/svg+xml,<svg/>", /image in base64/],
      ["missing.png", /is not a file of the definition/],
      ["https://example.org/a.png huge", /not "huge"/],
      ["https://example.org/a text/html", /mimeType of an image/],
      ["big.png", /at most|may have/],
    ] as const) {
      const text = `/**\n * Adds.\n * @icon ${tag}\n */\nexport function add() { return 1; }`;
      const { tools, problems } = await compiled({ "a.ts": text, "big.png": big });
      assert.equal(tools[0]!.icons, undefined);
      assert.deepEqual([problems.length, problems[0]!.severity, problems[0]!.line], [1, "warning", 3]);
      assert.match(problems[0]!.message, message);
    }
  });
});

describe("an icon", () => {
  it("has at most so many bytes, and only the fields of the protocol", () => {
    const of = (bytes: number) => ({ src: `data:image/png;base64,${Buffer.alloc(bytes).toString("base64")}` });
    assert.equal(findIconFault(of(ICON_BYTES_MAX)), undefined);
    assert.match(findIconFault(of(ICON_BYTES_MAX + 100))!, /at most 16384 bytes/);
    for (const wrong of [
      7,
      {},
      { src: 7 },
      { ...OF_PIXEL, onload: "x" },
      { ...OF_PIXEL, sizes: "48x48" },
      { ...OF_PIXEL, sizes: ["big"] },
      { ...OF_PIXEL, theme: "blue" },
    ]) {
      assert.ok(findIconFault(wrong), JSON.stringify(wrong));
    }
  });
});

describe("icons that clients get", () => {
  const icons = [{ src: "https://example.org/s.png", sizes: ["48x48"] }, OF_SVG];
  const berth = berthInSuite({
    texts: { "a.ts": SOURCE },
    beside: { "art/plus.png": PIXEL, "dot.svg": SVG },
    mcps: { a: { definition: "a.ts", icons: [...icons, { src: "http://x" }] } },
  });

  it("are in lists and in what the server says of itself, and small ones are on its page", async () => {
    const url = `${berth.url}/mcp/a`;
    const { body } = await modern(url, "tools/list");
    assert.equal(body.result.tools[0].icons.length, 2);
    assert.deepEqual(body.result._meta["io.modelcontextprotocol/serverInfo"].icons, icons);
    const info = async (protocolVersion: string) => {
      const hello = { protocolVersion, capabilities: {}, clientInfo: { name: "test", version: "1" } };
      return (await post(url, request("initialize", hello))).body.result.serverInfo.icons;
    };
    assert.deepEqual([await info("2025-11-25"), await info("2025-06-18")], [icons, undefined]);
    const html = await (await fetch(`${berth.url}/mcp/meta/a`, { headers: { Accept: "text/html" } })).text();
    const page = html.replaceAll("&#x3D;", "=");
    assert.ok(page.includes(`src="${OF_SVG.src}"`), "the icon of the server");
    assert.ok(page.includes(`src="${OF_PIXEL.src}"`), "the icon of its tool");
    assert.ok(!page.includes('src="https://example.org'), "a page loads nothing from elsewhere");
  });
});
