import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { startTestBerth, type TestBerth } from "../support/berth.ts";
import { inspector, mcporter } from "../support/clients/command-line.ts";

/** Command lines run through all of their commands, at one server for all tests. */
describe("command-line clients", { concurrency: 3 }, () => {
  let berth: TestBerth;
  let url: string;
  before(async () => {
    berth = await startTestBerth({ files: ["test/fixtures/servers/whole.ts"] });
    url = `${berth.url}/mcp/whole`;
  });
  after(() => berth.close());

  it("the inspector in the legacy era lists tools, resources and prompts (T6.1, T7.1)", async () => {
    const client = inspector("legacy");
    const [tools, { resources }, { prompts }] = await Promise.all([
      client.list(url),
      client.ask(url, "resources/list") as Promise<{ resources: { uri: string }[] }>,
      client.ask(url, "prompts/list") as Promise<{ prompts: { name: string }[] }>,
    ]);
    assert.ok(tools.includes("greet"));
    assert.equal(resources[0]?.uri, "notes://shopping");
    assert.equal(prompts.map(({ name }) => name).join(), "review,motto");
  });

  it("the inspector in the modern era calls, reads and gets a prompt (T5.1, T6.2, T7.3)", async () => {
    const client = inspector("modern");
    const asked = ["--prompt-name", "review", "--prompt-args", "language=Dutch"];
    const [{ text }, { contents }, { messages }] = await Promise.all([
      client.call(url, "greet", { name: "Ada" }),
      client.ask(url, "resources/read", "--uri", "notes://2025/tea") as Promise<{ contents: { text: string }[] }>,
      client.ask(url, "prompts/get", ...asked) as Promise<{ messages: { content: object }[] }>,
    ]);
    assert.equal(text, '{"greeting":"Hello, Ada!"}');
    assert.deepEqual(JSON.parse(contents[0]?.text ?? ""), { year: "2025", title: "tea" });
    assert.deepEqual(messages[0]?.content, { type: "text", text: "Review this Dutch text, be kind." });
  });

  describe("mcporter", { concurrency: false }, () => {
    const client = mcporter();

    it("mcporter lists tools and resources, calls and reads (T6.1, T6.2)", async () => {
      assert.ok((await client.list(url)).includes("greet"));
      assert.equal((await client.call(url, "greet", { name: "Ada" })).text, '{"greeting":"Hello, Ada!"}');
      assert.ok((await client.resources(url)).includes("notes://shopping"));
      assert.match(JSON.stringify(await client.read(url, "notes://2025/tea")), /2025.*tea/);
    });

    it("mcporter, which cannot be asked, is told what the tool needs (P4)", async () => {
      const { text, isError } = await client.call(url, "forecast", {});
      assert.equal(isError, true);
      assert.match(text, /needs a client that supports elicitation/);
    });
  });
});
