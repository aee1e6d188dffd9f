import assert from "node:assert/strict";
import { describe, it, type TestContext } from "node:test";
import type { Contract } from "../../../src/contract/contract.ts";
import { judge } from "../../../src/host/catalog/judge.ts";
import { jsonBlock } from "../../../src/lib/cid.ts";
import type { JsonObject } from "../../../src/lib/json.ts";
import { apiOf } from "../../support/api.ts";
import { call, modern, type Reply, type TestBerth } from "../../support/berth.ts";
import { host, scripted, type Script } from "../../support/hosted-upstreams.ts";
import { lower } from "../../support/lowered-limits.ts";
import { until } from "../../support/until.ts";

const MIME_TYPE = "text/html;profile=mcp-app";
const URI = "ui://clock/page.html";

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

async function hosted(t: TestContext, first: Script, env: Record<string, string> = {}, entry: JsonObject = {}) {
  const upstream = scripted(t, first);
  const berth = await host(t, { clock: { upstream: upstream.uri, ...entry } }, env);
  const named = async (): Promise<string[]> =>
    (await modern(`${berth.url}/mcp/clock`, "tools/list")).body.result.tools.map(({ name }: Reply["body"]) => name);
  const read = async (): Promise<Reply["body"]> =>
    (await modern(`${berth.url}/mcp/clock`, "resources/read", { uri: URI })).body;
  await until(async () => (await named()).length > 0 || undefined);
  return { upstream, berth, named, read };
}

const pending = async (berth: TestBerth): Promise<Reply["body"]> =>
  (await apiOf(berth).send("GET", "/servers/clock/upstream")).body.pending;

describe("the app of an upstream", () => {
  it("is given as it was approved, listed or not, with all that is said of it", async (t) => {
    const _meta = { ui: { csp: { connectDomains: ["https://example.com"] } }, "example.com/mine": 1 };
    const { read, named } = await hosted(t, script("<p>1</p>", { _meta }));
    assert.deepEqual(await named(), ["clock", "older", "plain"]);
    const { contents } = (await read()).result;
    assert.deepEqual(contents, [{ uri: URI, mimeType: MIME_TYPE, text: "<p>1</p>", _meta }]);
  });

  it("is refused with other contents, and its tools are held back until a person approves them", async (t) => {
    const { upstream, berth, named, read } = await hosted(t, script("<p>1</p>"));
    upstream.write(script("<p>2</p>"));
    const { error } = await read();
    assert.match(
      error.message,
      /^The upstream has changed: the app "ui:\/\/clock\/page\.html" is not what was approved/,
    );
    // That read had it looked at again.
    await until(async () => (await named()).length === 1 || undefined);
    assert.deepEqual(await named(), ["plain"]);
    assert.match((await call(`${berth.url}/mcp/clock`, "clock")).content[0].text, /held back until a person approves/);
    assert.equal((await call(`${berth.url}/mcp/clock`, "plain")).content[0].text, "called");
    assert.match((await read()).error.message, /is not what was approved/);
    const { contract, changes } = await pending(berth);
    assert.deepEqual(
      changes.map(({ subject, name, pointer }: Reply["body"]) => [subject, name, pointer]),
      [["resource", URI, "/contents"]],
    );
    const approved = await apiOf(berth).send("POST", "/servers/clock/approve", { contract });
    assert.equal(approved.status, 200, JSON.stringify(approved.body));
    assert.deepEqual(await named(), ["clock", "older", "plain"]);
    assert.equal((await read()).result.contents[0].text, "<p>2</p>");
  });

  it("is held back as well where only what is said of it has changed, such as where it may connect to", async (t) => {
    const { upstream, read } = await hosted(t, script("<p>1</p>"));
    const _meta = { ui: { csp: { connectDomains: ["https://evil.example"] } } };
    upstream.write(script("<p>1</p>", { _meta }));
    assert.match((await read()).error.message, /is not what was approved/);
  });

  it("is not given where it is larger than an app may be", async (t) => {
    const { read, named } = await hosted(t, script("x".repeat(101)), { BERTH_UPSTREAM_APP_BYTES: "100" });
    assert.deepEqual(await named(), ["clock", "older", "plain"]);
    assert.match((await read()).error.message, /is not what was approved/);
  });

  it("is not looked at beyond the number of apps that one upstream may have", async (t) => {
    const many = [1, 2, 3].map((each) => tool(`t${each}`, { ui: { resourceUri: `ui://clock/${each}` } }));
    const env = { BERTH_UPSTREAM_APPS: "2" };
    const { berth } = await hosted(t, script("<p>1</p>", { tools: many }), env);
    const problems = await (await fetch(`${berth.url}/mcp/meta/clock`, { headers: { Accept: "text/html" } })).text();
    assert.match(problems, /ui:\/\/clock\/3 is not passed on: the tools name 3 apps, and at most 2 are read/);
    const read = async (number: number): Promise<Reply["body"]> =>
      (await modern(`${berth.url}/mcp/clock`, "resources/read", { uri: `ui://clock/${number}` })).body;
    assert.equal((await read(2)).result.contents[0].text, "<p>1</p>");
    assert.match((await read(3)).error.message, /is not what was approved/);
  });

  it("is not taken over where gone ones fill the number of apps: its tools wait", async (t) => {
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
    assert.deepEqual(
      served.apps!.map(({ uri }) => uri),
      ["ui://clock/1", "ui://clock/2"],
    );
  });

  it("is not given where it could not be approved, though only a tool that is held back names it", async (t) => {
    const other = "ui://clock/other.html";
    const clock = tool("clock", { ui: { resourceUri: other } });
    const large = (...tools: JsonObject[]): Script => script("x".repeat(101), { tools });
    const env = { BERTH_UPSTREAM_APP_BYTES: "100" };
    const { upstream, read, berth, named } = await hosted(t, large(OLDER, clock), env);
    upstream.write(large(OLDER, { ...clock, description: "Another clock." }));
    // That read has it looked at again.
    assert.match((await read()).error.message, /is not what was approved/);
    await until(async () => (await named()).join() === "older" || undefined);
    const { error } = (await modern(`${berth.url}/mcp/clock`, "resources/read", { uri: other })).body;
    assert.match(error.message, /is not what was approved/);
  });

  it("is taken over with other contents where its entry holds nothing back", async (t) => {
    const { upstream, named, read } = await hosted(t, script("<p>1</p>"), {}, { hold: "none" });
    upstream.write(script("<p>2</p>"));
    assert.match((await read()).error.message, /is not what was approved/);
    await until(async () => (await read()).result?.contents[0].text === "<p>2</p>" || undefined);
    assert.deepEqual(await named(), ["clock", "older", "plain"]);
  });
});
