import assert from "node:assert/strict";
import { describe, it, type TestContext } from "node:test";
import type { Contract } from "../../../src/contract/contract.ts";
import { judge } from "../../../src/features/drift/drift.ts";
import { jsonBlock } from "../../../src/lib/cid.ts";
import type { JsonObject } from "../../../src/lib/json.ts";
import { modern, type Reply } from "../../support/berth.ts";
import { addUpstream, scripted, type Script } from "../../support/hosted-upstreams.ts";
import { lower } from "../../support/lowered-limits.ts";
import { rows } from "../../support/rows.ts";
import { berthInSuite } from "../../support/suite.ts";
import { until } from "../../support/until.ts";

const MIME_TYPE = "text/html;profile=mcp-app";
const URI = "ui://clock/page.html";
const REFUSED = /differs from the approved one/;

const tool = (name: string, _meta?: JsonObject): JsonObject => ({
  name,
  inputSchema: { type: "object" },
  ...(_meta && { _meta }),
});
const CLOCK = tool("clock", { ui: { resourceUri: URI } });
const OLDER = tool("older", { "ui/resourceUri": URI });

function script(html: string, also: { tools?: JsonObject[]; _meta?: JsonObject } = {}): Script {
  const contents = [{ uri: URI, mimeType: MIME_TYPE, text: html, ...(also._meta && { _meta: also._meta }) }];
  return {
    capabilities: { tools: {}, resources: {} },
    answers: {
      "tools/list": { result: { tools: also.tools ?? [CLOCK, OLDER, tool("plain")] } },
      "resources/list": { result: { resources: [] } },
      "resources/read": { result: { contents } },
      "tools/call plain": { result: { content: [{ type: "text", text: "called" }] } },
    },
  };
}

describe("the app of an upstream", () => {
  const berth = berthInSuite({
    env: { BERTH_UPSTREAM_PROGRAMS: "on", BERTH_UPSTREAM_APP_BYTES: "100", BERTH_UPSTREAM_APPS: "2" },
  });
  const hosted = async (t: TestContext, first: Script, entry: JsonObject = {}) => {
    const upstream = scripted(t, first);
    const server = await addUpstream(berth, upstream.uri, entry);
    const read = async (uri = URI): Promise<Reply["body"]> =>
      (await modern(server.url, "resources/read", { uri })).body;
    return { upstream, server, read };
  };

  it("is passed as it was approved, listed or not, with its _meta", async (t) => {
    const _meta = { ui: { csp: { connectDomains: ["https://example.com"] } }, "example.com/mine": 1 };
    const { read, server } = await hosted(t, script("<p>1</p>", { _meta }));
    assert.deepEqual(await server.tools(), ["clock", "older", "plain"]);
    assert.deepEqual((await read()).result.contents, [{ uri: URI, mimeType: MIME_TYPE, text: "<p>1</p>", _meta }]);
  });

  it("is refused with other contents, and its tools are withheld until a person approves them", async (t) => {
    const { upstream, server, read } = await hosted(t, script("<p>1</p>"));
    upstream.write(script("<p>2</p>"));
    assert.match(
      (await read()).error.message,
      /^The upstream has changed: the app "ui:\/\/clock\/page\.html" differs from the approved one/,
    );
    // That read starts another examination.
    await until(async () => (await server.tools()).join() === "plain");
    assert.match(await server.call("clock"), /withheld until a person approves/);
    assert.equal(await server.call("plain"), "called");
    assert.match((await read()).error.message, REFUSED);
    const pending = await server.pending();
    assert.deepEqual(rows(pending.changes, "subject", "name", "pointer"), [`resource ${URI} /contents`]);
    await server.approve(pending);
    assert.deepEqual(await server.tools(), ["clock", "older", "plain"]);
    assert.equal((await read()).result.contents[0].text, "<p>2</p>");
  });

  it("is refused where only its _meta has changed, such as where it may connect to", async (t) => {
    const { upstream, read } = await hosted(t, script("<p>1</p>"));
    upstream.write(script("<p>1</p>", { _meta: { ui: { csp: { connectDomains: ["https://evil.example"] } } } }));
    assert.match((await read()).error.message, REFUSED);
  });

  it("upstreamAppBytes: is refused if it is larger", async (t) => {
    const { read, server } = await hosted(t, script("x".repeat(101)));
    assert.deepEqual(await server.tools(), ["clock", "older", "plain"]);
    assert.match((await read()).error.message, REFUSED);
  });

  it("upstreamApps: is not read beyond that many", async (t) => {
    const many = [1, 2, 3].map((each) => tool(`t${each}`, { ui: { resourceUri: `ui://clock/${each}` } }));
    const { server, read } = await hosted(t, script("<p>1</p>", { tools: many }));
    assert.match(
      await server.problems(),
      /ui:\/\/clock\/3 is not passed on: the tools name 3 apps, and at most 2 are read/,
    );
    assert.equal((await read("ui://clock/2")).result.contents[0].text, "<p>1</p>");
    assert.match((await read("ui://clock/3")).error.message, REFUSED);
  });

  it("is not taken over where removed ones fill upstreamApps: its tools wait", async (t) => {
    const offer = (...numbers: number[]): Contract => ({
      tools: numbers.map((each) => ({
        name: `t${each}`,
        inputSchema: { type: "object" },
        _meta: { ui: { resourceUri: `ui://clock/${each}` } },
      })),
      apps: numbers.map((each) => ({ uri: `ui://clock/${each}`, cid: jsonBlock(each).cid })),
      resources: [],
      resourceTemplates: [],
      prompts: [],
    });
    const hold = { changes: "any", texts: true, refuses: false } as const;
    t.after(lower({ upstreamApps: 2 }));
    const { served, held } = await judge(offer(1, 2), offer(2, 3), { hold });
    const [names, waiting] = [served.tools, held.tools].map((tools) => tools.map(({ name }) => name));
    assert.deepEqual([names, waiting], [["t2"], ["t3"]]);
    assert.deepEqual(rows(served.apps!, "uri"), ["ui://clock/1", "ui://clock/2"]);
  });

  it("is refused where it could not be approved, though only a withheld tool names it", async (t) => {
    const other = "ui://clock/other.html";
    const clock = tool("clock", { ui: { resourceUri: other } });
    const large = (...tools: JsonObject[]): Script => script("x".repeat(101), { tools });
    const { upstream, read, server } = await hosted(t, large(OLDER, clock));
    upstream.write(large(OLDER, { ...clock, description: "Another clock." }));
    assert.match((await read()).error.message, REFUSED);
    await until(async () => (await server.tools()).join() === "older");
    assert.match((await read(other)).error.message, REFUSED);
  });

  it("is taken over with other contents where its entry holds nothing back", async (t) => {
    const { upstream, server, read } = await hosted(t, script("<p>1</p>"), { hold: "none" });
    upstream.write(script("<p>2</p>"));
    assert.match((await read()).error.message, REFUSED);
    await until(async () => (await read()).result?.contents[0].text === "<p>2</p>");
    assert.deepEqual(await server.tools(), ["clock", "older", "plain"]);
  });
});
