import assert from "node:assert/strict";
import { before, describe, it } from "node:test";
import type { Client } from "@modelcontextprotocol/client";
import type { JsonObject } from "../../../src/lib/json.ts";
import { modern, MODERN_META, post, request } from "../../support/berth.ts";
import { ALL, answerTo, host, idle, open, scripted, textOf, type Script } from "../../support/hosted-upstreams.ts";
import { lower } from "../../support/lowered-limits.ts";
import { declaring, openStream } from "../../support/mcp-host.ts";
import { processesWith } from "../../support/processes.ts";
import { berthInSuite } from "../../support/suite.ts";
import { until } from "../../support/until.ts";
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
  const send = async (params: Record<string, unknown>) => {
    return modern(
      url,
      "tools/call",
      { arguments: {}, _meta: declaring(ALL), ...params },
      { Accept: "application/json" },
    );
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

  it("asks a legacy client in its own era", async (t) => {
    const client = await open(t, berth, "asking", "legacy");
    assert.equal(textOf(await client.callTool({ name: "asks" })), "Ada and Ada");
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
    const _meta = { ...MODERN_META, "io.modelcontextprotocol/logLevel": "debug" };
    const stream = await openStream(url, "tools/call", { name: "logs", arguments: {}, _meta });
    while (await stream.next());
    assert.match(stream.text(), /"data":"a line"/);
    assert.match(stream.text(), /"text":"done"/);
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
    const mcps = { asks: { upstream: hostile("asks each later", "&arg=1") } };
    const berth = await host(t, mcps, { BERTH_UPSTREAM_SUSPENDED: "0" });
    const params = { name: "ask", arguments: { who: "Ada" }, _meta: declaring({ elicitation: { form: {} } }) };
    const { text } = await modern(`${berth.url}/mcp/asks`, "tools/call", params);
    assert.match(text, /too many calls wait for the answer to a question/);
  });
});

const QUESTIONS: Readonly<Record<string, JsonObject>> = {
  "elicitation/create": { message: "Who?", requestedSchema: { type: "object", properties: {} } },
  "sampling/createMessage": { messages: [], maxTokens: 1 },
  "roots/list": {},
};
const DUAL_TOOLS = [
  ...[...Object.keys(QUESTIONS), "era"].map((name) => ({ name, inputSchema: { type: "object" } })),
  { name: "list", inputSchema: { type: "object" }, outputSchema: { type: "array" } },
];
const DUAL: Script = {
  capabilities: { tools: {}, prompts: {} },
  answers: {
    "tools/list": { result: { tools: DUAL_TOOLS } },
    "prompts/list": { result: { prompts: [] } },
    ...Object.fromEntries(
      Object.entries(QUESTIONS).map(([method, params]) => [`tools/call ${method}`, { asks: method, params }]),
    ),
    "tools/call era": { era: true },
    "tools/call list": { era: true },
  },
};

describe("a hosted server of both eras, which can ask in the legacy one alone", () => {
  it("asks a legacy client all that it can be asked, over one more connection", async (t) => {
    const upstream = scripted(t, DUAL, "both");
    const client = await open(t, await host(t, { dual: { upstream: upstream.uri } }), "dual", "legacy");
    for (const name of Object.keys(QUESTIONS)) {
      const result = await client.callTool({ name });
      assert.deepEqual(JSON.parse(textOf(result)), answerTo(name));
    }
    assert.deepEqual(upstream.hellos(), ["server/discover", "initialize"]);
  });

  it("speaks the modern era with all other clients, and where values differ between the eras", async (t) => {
    const upstream = scripted(t, DUAL, "both");
    const berth = await host(t, { dual: { upstream: upstream.uri } });
    const eraOf = async (client: Client, name = "era") => JSON.parse(textOf(await client.callTool({ name })));
    const newer = await open(t, berth, "dual", "auto");
    assert.equal(await eraOf(newer), "modern");
    const { body } = await post(`${berth.url}/mcp/dual`, request("tools/call", { name: "era" }));
    assert.equal(body.result.content[0].text, '"modern"', "a client without capabilities");
    assert.deepEqual(upstream.hellos(), ["server/discover"]);
    const older = await open(t, berth, "dual", "legacy");
    assert.equal(await eraOf(older, "list"), "modern");
    assert.equal(await eraOf(older), "legacy");
    assert.equal(await eraOf(newer), "modern");
  });

  for (const era of ["modern", "legacy"] as const) {
    it(`speaks one era with all clients if its launcher URI gives it: ${era}`, async (t) => {
      const upstream = scripted(t, DUAL, "both");
      const berth = await host(t, { dual: { upstream: `${upstream.uri}&era=${era}` } });
      for (const mode of ["legacy", "auto"] as const) {
        const client = await open(t, berth, "dual", mode);
        const { content, isError } = await client.callTool({ name: "elicitation/create" });
        if (era === "modern") assert.deepEqual([content, isError], [[], true], mode);
        else assert.deepEqual(JSON.parse(textOf({ content })), answerTo("elicitation/create"), mode);
      }
      assert.deepEqual(upstream.hellos(), [era === "modern" ? "server/discover" : "initialize"]);
    });
  }

  for (const kind of ["modern", "silent"] as const) {
    it(`is tried once in the legacy era if it knows the modern one alone (${kind})`, async (t) => {
      if (kind === "silent") t.after(lower({ upstreamLegacyMs: 300 }));
      const upstream = scripted(t, DUAL, kind);
      const berth = await host(t, { dual: { upstream: upstream.uri } });
      const client = await open(t, berth, "dual", "legacy");
      const call = async () => textOf(await client.callTool({ name: "era" }));
      assert.equal(await call(), '"modern"');
      await until(() => upstream.hellos().length === 2);
      assert.equal(await call(), '"modern"');
      assert.deepEqual(upstream.hellos(), ["server/discover", "initialize"]);
    });
  }

  it("keeps the modern era where its tenant may run no further program", async (t) => {
    const upstream = scripted(t, DUAL, "both");
    const berth = await host(t, { dual: { upstream: upstream.uri } }, { BERTH_UPSTREAM_PROCESSES_PER_TENANT: "1" });
    const client = await open(t, berth, "dual", "legacy");
    assert.equal(textOf(await client.callTool({ name: "era" })), '"modern"');
    assert.deepEqual(upstream.hellos(), ["server/discover"]);
  });

  it("ends both of its processes when it is idle", async (t) => {
    const mark = `dual-${process.pid}`;
    const upstream = scripted(t, DUAL, "both");
    const berth = await host(t, { server: { upstream: `${upstream.uri}&arg=${mark}` } });
    const client = await open(t, berth, "server", "legacy");
    await client.callTool({ name: "era" });
    assert.equal(processesWith(mark).length, 2);
    await idle(berth);
    await until(() => processesWith(mark).length === 0);
  });
});
