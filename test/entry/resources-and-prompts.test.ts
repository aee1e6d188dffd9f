import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { isCid, rawBlock } from "../../src/lib/cid.ts";
import { modern, post, request } from "../support/berth.ts";
import { berthInSuite } from "../support/suite.ts";

const DEFINITION = `
/** Doubles. */
export function double(value: number): number { return value * 2; }
/** @resource note://own text/plain */
export const own = (): string => "own";
/** @prompt */
export const discovered = (): string => "discovered";
`;
const CONTENT = rawBlock(DEFINITION);

/** Names of a template's variables, which are long together. */
const names = (from: number, to: number): string =>
  Array.from({ length: to - from }, (_, number) => `v${from + number}`).join(",");

describe("resources and prompts that are configured", () => {
  const berth = berthInSuite({
    texts: { "plain.ts": DEFINITION },
    mcps: {
      whole: {
        definition: "plain.ts",
        resources: {
          motto: { uri: "note://motto", title: "The motto", mimeType: "text/markdown", text: "*Float*" },
          pixel: { uri: "note://pixel", mimeType: "image/png", blob: "AAECAw==" },
          source: { uri: "note://source", mimeType: "text/plain", content: `cid://${CONTENT.cid}` },
          "the configuration": { uri: "variable://mcps" },
          doubled: { uriTemplate: "double://{value}", content: "server://whole/double?value={value}" },
          own: { uri: "note://own", description: "Curated" },
        },
        prompts: {
          plain: { description: "As it is", messages: [{ role: "user", content: "Hello" }] },
          review: {
            title: "Review",
            arguments: [
              { name: "what", description: "What to review", required: true },
              { name: "tone", description: "How" },
            ],
            messages: [
              { role: "user", content: "Review {{what}} {{ tone }}, {{unknown}}." },
              { role: "assistant", content: { type: "resource_link", uri: "note://{{what}}", name: "{{what}}" } },
            ],
          },
        },
      },
      written: {
        description: "No code at all",
        resources: {
          many: { uriTemplate: `note:{+${names(0, 400)}}{+${names(400, 800)}}{+${names(800, 1200)}}{x}`, text: "" },
        },
        prompts: {
          echo: { arguments: [{ name: "a" }], messages: [{ role: "user", content: "{{a}}".repeat(100_000) }] },
          plain: { messages: [{ role: "user", content: "Hello" }] },
        },
      },
    },
  });

  const ask = async (server: string, method: string, params: Record<string, unknown> = {}) => {
    const { body } = await modern(`${berth.url}/mcp/${server}`, method, params);
    return body.result ?? body.error;
  };
  const get = (name: string, args?: object) => ask("whole", "prompts/get", { name, ...(args && { arguments: args }) });
  const said = (text: string) => ({ role: "user", content: { type: "text", text } });

  it("are listed with the discovered ones (T6.1, T6.6)", async () => {
    const { resources } = await ask("whole", "resources/list");
    assert.deepEqual(resources, [
      { uri: "note://own", name: "own", description: "Curated", mimeType: "text/plain" },
      { uri: "note://motto", name: "motto", title: "The motto", mimeType: "text/markdown" },
      { uri: "note://pixel", name: "pixel", mimeType: "image/png" },
      { uri: "note://source", name: "source", mimeType: "text/plain" },
      { uri: "variable://mcps", name: "the configuration" },
    ]);
    for (const { uri } of resources) assert.ok(URL.canParse(uri));
  });

  it("are read: text, bytes, content, a variable, a tool's result, and a function's (T6.2, T6.3, T6.4)", async () => {
    const read = async (uri: string) => (await ask("whole", "resources/read", { uri })).contents;
    assert.deepEqual(await read("note://motto"), [{ uri: "note://motto", mimeType: "text/markdown", text: "*Float*" }]);
    assert.deepEqual(await read("note://pixel"), [{ uri: "note://pixel", mimeType: "image/png", blob: "AAECAw==" }]);
    assert.deepEqual(await read("note://source"), [{ uri: "note://source", mimeType: "text/plain", text: DEFINITION }]);
    assert.equal((await read("note://own"))[0].text, "own");
    assert.match((await read("variable://mcps"))[0].text, /"the configuration"/);
    const [doubled] = await read("double://21");
    assert.deepEqual([doubled.uri, doubled.text], ["double://21", "42"]);
    assert.match((await ask("whole", "resources/read", { uri: "note://nobody" })).message, /No such resource/);
  });

  it("prompts are listed (T7.1)", async () => {
    const { prompts } = await ask("whole", "prompts/list");
    assert.deepEqual(prompts, [
      { name: "discovered" },
      { name: "plain", description: "As it is" },
      {
        name: "review",
        title: "Review",
        arguments: [
          { name: "what", description: "What to review", required: true },
          { name: "tone", description: "How", required: false },
        ],
      },
    ]);
  });

  it("a prompt without arguments is got as it is written, from a server without code too (T7.2)", async () => {
    const { description, messages } = await get("plain");
    assert.equal(description, "As it is");
    assert.deepEqual(messages, [said("Hello")]);
    assert.deepEqual((await ask("written", "prompts/get", { name: "plain" })).messages, [said("Hello")]);
  });

  it("declared placeholders become the arguments, once, and nothing else does (T7.3)", async () => {
    const { messages } = await get("review", { what: "{{tone}} $& a/b", tone: "kindly" });
    assert.deepEqual(messages[0], said("Review {{tone}} $& a/b kindly, {{unknown}}."));
    assert.deepEqual(messages[1].content, {
      type: "resource_link",
      uri: "note://%7B%7Btone%7D%7D%20%24%26%20a%2Fb",
      name: "{{tone}} $& a/b",
    });
    assert.deepEqual((await get("review", { what: "it" })).messages[0], said("Review it , {{unknown}}."));
    assert.equal((await get("review", { what: "half \ud800" })).messages[1].content.uri, "note://half%20%EF%BF%BD");
  });

  it("a prompt that would become too long with its arguments is told before it does", async () => {
    const [{ messages }, error] = [
      await ask("written", "prompts/get", { name: "echo", arguments: { a: "ab" } }),
      await ask("written", "prompts/get", { name: "echo", arguments: { a: "x".repeat(60_000) } }),
    ];
    assert.equal(messages[0].content.text, "ab".repeat(100_000));
    assert.equal(error.code, -32602);
    assert.match(error.message, /longer than 4194304 characters/);
  });

  it("a URI is looked for no further than that takes a bounded time", async () => {
    const { code, message } = await ask("written", "resources/read", { uri: `note:${"/".repeat(8_000)}` });
    assert.equal(code, -32602);
    assert.match(message, /too long to match against the server's URI templates/);
    const found = await ask("written", "resources/read", { uri: "note:a,b/cd" });
    assert.equal(found.contents[0].uri, "note:a,b/cd");
  });

  it("wrong arguments of a prompt are told (T7.5)", async () => {
    const wrong: [args: object | undefined, message: RegExp][] = [
      [undefined, /needs the property "what"/],
      [{ what: 7 }, /\/what must be a string/],
      [{ what: "it", who: "me" }, /has no property "who"/],
    ];
    for (const [args, message] of wrong) {
      const error = await get("review", args);
      assert.equal(error.code, -32602);
      assert.match(error.message, message);
    }
  });

  it("each tool has the CIDs of its contract and of its code, in both eras and at /mcp alike", async () => {
    const [tool] = (await ask("whole", "tools/list")).tools;
    const { "dev.berth/contract": contract, "dev.berth/implementation": code, ...others } = tool._meta;
    assert.ok(isCid(contract) && isCid(code));
    assert.deepEqual(others, {});
    const legacy = async (url: string, version: string) => {
      const { body } = await post(url, request("tools/list"), { "MCP-Protocol-Version": version });
      return body.result.tools.find(({ name }: { name: string }) => /^(whole\.)?double$/.test(name));
    };
    assert.deepEqual((await legacy(`${berth.url}/mcp/whole`, "2025-11-25"))._meta, tool._meta);
    assert.deepEqual((await legacy(`${berth.url}/mcp`, "2025-11-25"))._meta, tool._meta);
    const all = (await modern(`${berth.url}/mcp`, "tools/list")).body.result.tools;
    assert.deepEqual(all.find(({ name }: { name: string }) => name === "whole.double")._meta, tool._meta);
    const old = await legacy(`${berth.url}/mcp/whole`, "2025-03-26");
    assert.equal(old._meta, undefined);
  });
});
