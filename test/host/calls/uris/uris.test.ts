import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { rawBlock } from "../../../../src/lib/cid.ts";
import { modern, post, request, type Reply } from "../../../support/berth.ts";
import { rows } from "../../../support/rows.ts";
import { berthInSuite, hostedInSuite } from "../../../support/suite.ts";

const NOTES = `
/** Adds up. */
export function add(a: number, b = 1, more: number[] = [], flags?: { deep: boolean }, sure = false): { sum: number; deep: boolean; sure: boolean } {
  return { sum: [a, b, ...more].reduce((x, y) => x + y, 0), deep: flags?.deep ?? false, sure };
}
/** The tool that is named as its server. */
export function notes(word = "none"): string { return "notes: " + word; }
export function fail(): string { throw new Error("out of ink"); }
export function picture(): Blob { return new Blob([Uint8Array.of(137, 80, 78, 71)], { type: "image/png" }); }
/** @destructive */
export function erase(): string { return "erased"; }
`;
const OTHER = `
export function open(x = ""): string { return "open " + x; }
export function closed(): string { return "closed"; }
`;
const TREE = `
const nodes: Record<string, { text: string; children: string[] }> = {
  root: { text: "The whole", children: ["left", "right"] },
  left: { text: "One half", children: ["leaf"] },
  right: { text: "The other half", children: [] },
  leaf: { text: "The smallest part", children: [] },
};
/**
 * Where the tree begins.
 * @resource tree://main/node/root application/json
 */
export function root() { return node("root"); }
/**
 * One node, with the addresses of those below it.
 * @resource tree://main/node/{id} application/json
 */
export function node(id: string) {
  const found = Object.hasOwn(nodes, id) ? nodes[id] : undefined;
  return found && { text: found.text, children: found.children.map((child) => "tree://main/node/" + child) };
}
`;
const SECRET = "only for those whom it is for";
const RAW = JSON.stringify({ a: [1] });

/** A read by a client of each era: the contents, or the error. */
type Read = (server: string, uri: string) => Promise<{ contents?: Reply["body"]; error?: Reply["body"] }>;

describe("URIs of Berth's own (C4)", () => {
  const berth = berthInSuite({
    texts: { "notes.ts": NOTES, "other.ts": OTHER, "off.ts": OTHER, "tree.ts": TREE },
    variables: {
      motd: "häl",
      "odd-name": "odd",
      data: RAW,
      hidden: SECRET,
      bytes: "a\u0000b",
      long: "x".repeat(5_000),
    },
    mcps: {
      notes: {
        definition: "notes.ts",
        auto_discover: true,
        resources: {
          motd: { uri: "variable://motd", mimeType: "text/markdown" },
          data: { uri: "variable://data" },
          bytes: { uri: "variable://bytes" },
          long: { uri: "variable://long" },
          odd: { uri: "note://odd", content: "variable://odd%2Dname" },
          open: { uriTemplate: "server://other/open{?x}" },
          alias: { uriTemplate: "note://by/{word}", content: "server://notes?word={word}" },
          off: { uri: "server://off/open" },
          gone: { uri: "variable://gone" },
        },
      },
      reader: {
        definition: "other.ts",
        auto_discover: true,
        resources: { all: { uriTemplate: "variable://{name}" } },
      },
      off: { definition: "off.ts", enabled: false },
    },
    env: { BERTH_OUTPUT_BYTES: "4096" },
  });

  const eras: Record<string, Read> = {
    modern: async (server, uri) => {
      const { body } = await modern(`${berth.url}/mcp/${server}`, "resources/read", { uri });
      return { contents: body.result?.contents, error: body.error };
    },
    legacy: async (server, uri) => {
      const headers = { "MCP-Protocol-Version": "2025-06-18" };
      const { body } = await post(`${berth.url}/mcp/${server}`, request("resources/read", { uri }), headers);
      return { contents: body.result?.contents, error: body.error };
    },
  };

  for (const [era, read] of Object.entries(eras)) {
    const contents = async (server: string, uri: string): Promise<Reply["body"]> => {
      const { contents: found, error } = await read(server, uri);
      assert.equal(error, undefined, JSON.stringify(error));
      return found;
    };

    it(`content is read by its CID from every server, as what it is (${era}) (T6.4)`, async () => {
      const json = `cid://${rawBlock(RAW).cid}`;
      assert.deepEqual(await contents("other", json), [{ uri: json, mimeType: "application/json", text: RAW }]);
      const source = `cid://${rawBlock(OTHER).cid}`;
      assert.deepEqual(await contents("notes", source), [{ uri: source, mimeType: "text/plain", text: OTHER }]);
      const bytes = `cid://${rawBlock("a\u0000b").cid}`;
      assert.deepEqual(await contents("", bytes), [
        { uri: bytes, mimeType: "application/octet-stream", blob: Buffer.from("a\u0000b").toString("base64") },
      ]);
    });

    it(`variables are read as far as the server's entry lists them (${era}) (T6.4)`, async () => {
      assert.deepEqual(await contents("notes", "variable://motd"), [
        { uri: "variable://motd", mimeType: "text/markdown", text: "häl" },
      ]);
      assert.equal((await contents("notes", "variable://data"))[0].mimeType, "application/json");
      assert.equal((await contents("notes", "variable://bytes"))[0].blob, Buffer.from("a\u0000b").toString("base64"));
      assert.deepEqual(await contents("notes", "note://odd"), [
        { uri: "note://odd", mimeType: "text/plain", text: "odd" },
      ]);
      assert.equal((await contents("reader", "variable://hidden"))[0].text, SECRET);
      assert.equal((await contents("reader", "variable://odd%2Dname"))[0].text, "odd");
      assert.equal((await contents("", "variable://motd"))[0].text, "häl");
    });

    it(`functions are read by server://, with arguments from the query (${era}) (T6.4)`, async () => {
      const sum = async (query: string): Promise<unknown> => {
        const [content] = await contents("notes", `server://notes/add?${query}`);
        assert.equal(content.mimeType, "application/json");
        return JSON.parse(content.text);
      };
      assert.deepEqual(await sum("a=2"), { sum: 3, deep: false, sure: false });
      assert.deepEqual(await sum("a=2&b=-1.5&more=3&more=4&sure=true"), { sum: 7.5, deep: false, sure: true });
      assert.deepEqual(await sum(`a=1&more=[5,6]&flags=${encodeURIComponent('{"deep":true}')}`), {
        sum: 13,
        deep: true,
        sure: false,
      });
      assert.equal((await contents("notes", "server://notes"))[0].text, "notes: none");
      assert.equal((await contents("notes", "server://notes?word=1"))[0].text, "notes: 1");
      assert.equal((await contents("notes", "note://by/a%20%26b"))[0].text, "notes: a &b");
      const [picture] = await contents("notes", "server://notes/picture");
      assert.deepEqual([picture.mimeType, picture.blob], ["image/png", "iVBORw=="]);
      assert.deepEqual(await contents("notes", "server://other/open?x=%C3%BC"), [
        { uri: "server://other/open?x=%C3%BC", mimeType: "text/plain", text: "open ü" },
      ]);
      assert.equal((await contents("", "server://other/closed"))[0].text, "closed");
    });

    it(`what is not there and what is not allowed are the same to a client (${era}) (T6.5, T14.1)`, async () => {
      const unknown = "variable://there-is-none";
      const { error: expected } = await read("notes", unknown);
      assert.equal(expected.code, era === "modern" ? -32602 : -32002);
      for (const [server, uri] of [
        ["notes", "variable://hidden"],
        ["notes", "variable://gone"],
        ["notes", "variable://motd/"],
        ["notes", "variable://MOTD"],
        ["other", "variable://motd"],
        ["", "variable://none"],
        ["notes", "server://other/closed"],
        ["notes", "server://other/open/../closed"],
        ["notes", "server://other/open%2F..%2Fclosed?x=1"],
        ["notes", "server://off/open"],
        ["notes", "server://notes/../other/open"],
        ["notes", "server://notes/nothing"],
        ["notes", "server://notes/constructor"],
        ["notes", "server://notes/erase"],
        ["notes", "server://%2e%2e/open"],
        ["notes", "server://%zz/open"],
        ["notes", `cid://${rawBlock("nobody has this").cid}`],
        ["notes", "cid://../../etc/passwd"],
        ["notes", "cid://"],
        ["notes", `cid://${"b".repeat(9_000)}`],
      ] as const) {
        const { contents: found, error } = await read(server, uri);
        assert.equal(found, undefined, uri);
        assert.deepEqual(error, JSON.parse(JSON.stringify(expected).replaceAll(unknown, uri)), uri);
      }
    });

    it(`a resource that is too large is refused by the limit's name, and a failure is one (${era}) (T6.2, T13.2)`, async () => {
      for (const [server, uri] of [
        ["notes", "variable://long"],
        ["other", `cid://${rawBlock("x".repeat(5_000)).cid}`],
      ] as const) {
        const { error } = await read(server, uri);
        assert.match(error.message, /has 5000 bytes; the limit is 4096 \(BERTH_OUTPUT_BYTES\)/);
      }
      assert.match((await read("notes", "server://notes/fail")).error.message, /out of ink/);
      const { error } = await read("notes", "server://notes/add?a=many");
      assert.equal(error.code, -32602);
      assert.match(error.message, /\/a must be number/);
    });
  }

  it("a tree of content is listed by its root, and read from there node by node (S11)", async () => {
    const ask = async (method: string, params = {}) =>
      (await post(`${berth.url}/mcp/tree`, request(method, params))).body;
    const { resources } = (await ask("resources/list")).result;
    const [start] = resources;
    assert.deepEqual([resources.length, start.name, start.mimeType], [1, "root", "application/json"]);
    const { resourceTemplates } = (await ask("resources/templates/list")).result;
    assert.deepEqual(rows(resourceTemplates, "uriTemplate"), ["tree://main/node/{id}"]);

    const read: string[] = [];
    const open = [start.uri];
    for (const uri of open) {
      const [content] = (await ask("resources/read", { uri })).result.contents;
      assert.equal(content.uri, uri);
      const { text, children } = JSON.parse(content.text);
      read.push(text);
      open.push(...children);
    }
    assert.deepEqual(read, ["The whole", "One half", "The other half", "The smallest part"]);
    const missing = await ask("resources/read", { uri: "tree://main/node/twig" });
    assert.match(missing.error.message, /No such resource/);
  });
});

describe("URIs of Berth's own in one tenant (C4)", () => {
  const hosted = hostedInSuite({ notes: 'export function word(): string { return "old"; }' });

  it("content of another tenant is not there, until this one has it, too (T6.4)", async () => {
    const theirs = rawBlock("what is theirs");
    await hosted.store.change("another", { by: "test", put: [theirs] });
    const catalog = await hosted.catalog("notes");
    const uri = `cid://${theirs.cid}`;
    await assert.rejects((await catalog.resource(uri))!.read({}), { code: "resource_not_found", data: { uri } });
    await hosted.store.change("default", { by: "test", put: [theirs] });
    assert.deepEqual(await (await catalog.resource(uri))!.read({}), {
      contents: [{ uri, mimeType: "text/plain", text: "what is theirs" }],
    });
  });

  it("an earlier release reads its own functions, not those of what came after", async () => {
    const { release } = await hosted.catalog("notes");
    await hosted.define("notes", 'export function word(): string { return "new"; }');
    for (const [name, text] of [
      ["notes", "new"],
      [`notes@${release}`, "old"],
    ] as const) {
      const result = await (await (await hosted.catalog(name)).resource("server://notes/word"))!.read({});
      assert.equal("contents" in result && "text" in result.contents[0]! && result.contents[0].text, text);
    }
  });
});
