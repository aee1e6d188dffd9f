import assert from "node:assert/strict";
import { before, describe, it } from "node:test";
import { modern, MODERN_META } from "../../support/berth.ts";
import { ALL, host, open, textOf } from "../../support/hosted-upstreams.ts";
import { berthInSuite } from "../../support/suite.ts";
import { hostile } from "../../support/upstreams.ts";

const ASKING = `
import type { ToolContext } from "berth";
const schema = { type: "object", properties: { name: { type: "string" } }, required: ["name"] } as const;
/** Asks twice, one after the other. */
export async function asks(context: ToolContext): Promise<string> {
  const names = [];
  for (let at = 1; at <= 2; at++) {
    const { content } = await context.elicit({ key: \`name\${at}\`, message: "Who?", schema });
    names.push(content?.name);
  }
  return names.join(" and ");
}
/** Asks two questions at once. */
export async function both(context: ToolContext): Promise<string> {
  const answers = await Promise.all(["a", "b"].map((key) => context.elicit({ key, message: key, schema })));
  return answers.map(({ content }) => content?.name).join(" and ");
}
/** Logs a line. */
export function logs({ log }: ToolContext): string {
  log.info("a line");
  return "done";
}
`;

const answer = (name: string) => ({ action: "accept", content: { name } });

describe("a hosted server of the modern era", () => {
  const far = berthInSuite({ texts: { "asking.ts": ASKING } });
  const berth = berthInSuite(() => ({ mcps: { asking: { upstream: `mcp+${far.url}/mcp/asking` } } }));
  let url: string;
  before(() => void (url = `${berth.url}/mcp/asking`));
  const send = async (params: Record<string, unknown>, meta: Record<string, unknown> = {}) => {
    const asking = { ...MODERN_META, "io.modelcontextprotocol/clientCapabilities": ALL, ...meta };
    return modern(url, "tools/call", { arguments: {}, _meta: asking, ...params }, { Accept: "application/json" });
  };

  it("asks under the keys that it gives its questions, round by round", async () => {
    const first = (await send({ name: "asks" })).body.result;
    assert.deepEqual(Object.keys(first.inputRequests), ["name1"]);
    const { requestState } = first;
    const other = await send({ name: "asks", requestState, inputResponses: { name2: answer("Eve") } });
    assert.deepEqual(Object.keys(other.body.result.inputRequests), ["name1"], "nobody asked for that yet");
    const { requestState: next } = other.body.result;
    const second = await send({ name: "asks", requestState: next, inputResponses: { name1: answer("Ada") } });
    assert.deepEqual(Object.keys(second.body.result.inputRequests), ["name2"]);
    const last = { requestState: second.body.result.requestState, inputResponses: { name2: answer("Bob") } };
    const { result } = (await send({ name: "asks", ...last })).body;
    assert.equal(result.content[0].text, "Ada and Bob");
  });

  it("gets answers that its client gives unasked, and asks for the others", async () => {
    const inputResponses = { name1: answer("Ada"), unknown: answer("Eve") };
    const first = (await send({ name: "asks", inputResponses })).body.result;
    assert.deepEqual(Object.keys(first.inputRequests), ["name2"]);
    const { requestState } = first;
    const last = await send({ name: "asks", requestState, inputResponses: { name2: answer("Bob") } });
    assert.equal(last.body.result.content[0].text, "Ada and Bob");
  });

  it("gets each answer for its own question, whatever their order", async () => {
    const { requestState, inputRequests } = (await send({ name: "both" })).body.result;
    assert.deepEqual(Object.keys(inputRequests), ["a", "b"]);
    const inputResponses = { b: answer("Bob"), a: answer("Ada") };
    const { result } = (await send({ name: "both", requestState, inputResponses })).body;
    assert.equal(result.content[0].text, "Ada and Bob");
  });

  it("tells a caller its log lines while another leaves a question open", async () => {
    const { result } = (await send({ name: "asks" })).body;
    assert.equal(result.resultType, "input_required");
    const headers = { "Content-Type": "application/json", Accept: "application/json, text/event-stream" };
    const meta = { ...MODERN_META, "io.modelcontextprotocol/logLevel": "debug" };
    const response = await fetch(url, {
      method: "POST",
      headers: { ...headers, "MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "logs" },
      body: JSON.stringify({
        jsonrpc: "2.0",
        id: 1,
        method: "tools/call",
        params: { name: "logs", arguments: {}, _meta: meta },
      }),
    });
    const text = await response.text();
    assert.match(text, /"data":"a line"/);
    assert.match(text, /"text":"done"/);
  });
});

describe("questions of a hosted legacy server", () => {
  it("of several calls at once reach nobody but the caller that each belongs to (J9)", async (t) => {
    const berth = await host(t, { asks: { upstream: hostile("asks each later", "&arg=100") } });
    const people = ["Ada", "Bob", "Cleo", "Dan"];
    const asked = new Map<string, string[]>();
    await Promise.all(
      people.map(async (who, index) => {
        const heard: string[] = [];
        asked.set(who, heard);
        const mode = index % 2 === 0 ? "legacy" : "auto";
        const answer = { action: "accept", content: { name: who } };
        const client = await open(t, berth, "asks", mode, () => answer);
        client.setRequestHandler("elicitation/create", ({ params }) => {
          heard.push(params.message);
          return answer as never;
        });
        for (let round = 0; round < 2; round++) {
          const result = await client.callTool({ name: "ask", arguments: { who } }, { timeout: 120_000 });
          assert.equal(textOf(result), `${who} got the answer of ${who}`);
        }
      }),
    );
    for (const who of people) assert.deepEqual(asked.get(who), [`For ${who}`, `For ${who}`]);
  });

  it("upstreamSuspended: calls that wait for an answer are not without number (J9)", async (t) => {
    const berth = await host(
      t,
      { asks: { upstream: hostile("asks each later", "&arg=1") } },
      { BERTH_UPSTREAM_SUSPENDED: "0" },
    );
    const capabilities = { "io.modelcontextprotocol/clientCapabilities": { elicitation: { form: {} } } };
    const _meta = { ...MODERN_META, ...capabilities };
    const params = { name: "ask", arguments: { who: "Ada" }, _meta };
    const { text } = await modern(`${berth.url}/mcp/asks`, "tools/call", params);
    assert.match(text, /too many calls wait for the answer to a question/);
  });
});
