import assert from "node:assert/strict";
import { after, describe, it } from "node:test";
import { apiOf } from "../../support/api.ts";
import { call, callText, modern, post, request } from "../../support/berth.ts";
import { hostedServer, scripted, tool } from "../../support/hosted-upstreams.ts";
import { LegacyClient } from "../../support/legacy-client.ts";
import { rows } from "../../support/rows.ts";
import { berthInSuite } from "../../support/suite.ts";
import { bearer, makeToken } from "../../support/tokens.ts";
import { hostile } from "../../support/upstreams.ts";

const URL_NEEDED = {
  elicitations: [{ mode: "url", elicitationId: "e1", url: "https://a.example/", message: "Sign in" }],
};
const LACKS = { requiredCapabilities: { sampling: {} } };
const LONG = "x".repeat(2_000);
const ERRORS = {
  url: { code: -32042, message: "Sign in first", data: URL_NEEDED },
  lacks: { code: -32021, message: "Missing capability", data: LACKS },
  own: { code: 4711, message: "Out of paper", data: ["tray 2"] },
  long: { code: -32000, message: LONG, data: { text: LONG } },
  params: { code: -32602, message: "Not like this", data: { field: "a" } },
  method: { code: -32601, message: "No such method" },
  version: { code: -32022, message: "Unsupported version", data: { supported: ["2020-01-01"] } },
  odd: { code: 0.5, message: "Half" },
};
const OF_MARKS = { "x-mcp-header": "Region" };
const marked = (name: string, properties: object): object => ({
  ...tool(name, "Marked."),
  inputSchema: { type: "object", properties },
});
const MARKS = [
  marked("good", { region: { type: "string", ...OF_MARKS } }),
  marked("number", { size: { type: "number", ...OF_MARKS } }),
  marked("twice", { a: { type: "string", ...OF_MARKS }, b: { type: "string", "x-mcp-header": "region" } }),
  marked("space", { a: { type: "string", "x-mcp-header": "two words" } }),
];

const tools = (...names: string[]) => ({ result: { tools: names.map((name) => tool(name, "Does it.")) } });

describe("what upstreams say", () => {
  const calls = Object.entries(ERRORS).map(([name, error]) => [`tools/call ${name}`, { error }] as const);
  const errors = {
    capabilities: { tools: {} },
    answers: { "tools/list": tools(...Object.keys(ERRORS)), ...Object.fromEntries(calls) },
  };
  const asks = {
    capabilities: { tools: {} },
    answers: {
      "tools/list": tools("roots", "sample"),
      "tools/call roots": { asks: "roots/list" },
      "tools/call sample": { asks: "sampling/createMessage" },
    },
  };
  const marks = { capabilities: { tools: {} }, answers: { "tools/list": { result: { tools: MARKS } } } } as never;
  const berth = berthInSuite({
    mcps: {
      old: { upstream: scripted({ after }, errors).uri },
      modern: { upstream: scripted({ after }, errors, "modern").uri },
      asks: { upstream: scripted({ after }, asks).uri },
      marks: { upstream: scripted({ after }, marks).uri },
      bad: { upstream: hostile("dies at start") },
    },
    env: { BERTH_UPSTREAM_PROGRAMS: "on", BERTH_UPSTREAM_ERROR_BYTES: "1000" },
  });

  for (const server of ["old", "modern"]) {
    it(`in an error passes with its code, words and data to clients of both eras (${server})`, async () => {
      const url = `${berth.url}/mcp/${server}`;
      for (const name of ["url", "lacks", "own"] as const) {
        const { code, message, data } = ERRORS[name];
        assert.deepEqual((await call(url, name)).error, { code, message, data });
        assert.deepEqual((await modern(url, "tools/call", { name })).body.error, { code, message, data });
      }
      const { code, message, data } = ERRORS.params;
      assert.deepEqual((await call(url, "params")).error, { code, message, data });
    });
  }

  it("in an error passes over HTTP as the era of the client has it", async () => {
    const url = `${berth.url}/mcp/old`;
    const statuses = async (name: string): Promise<number[]> => [
      (await post(url, request("tools/call", { name }))).status,
      (await modern(url, "tools/call", { name })).status,
    ];
    assert.deepEqual(await statuses("lacks"), [200, 400], "2026-07-28 has a status for it");
    assert.deepEqual(await statuses("url"), [200, 200]);
    assert.deepEqual(await statuses("method"), [200, 200], "the method that the client called is there");
  });

  it("in an error about the way to it is an internal error, and never one of Berth's own", async () => {
    for (const name of ["method", "version", "odd"] as const) {
      const { code, message } = ERRORS[name];
      const { error } = await call(`${berth.url}/mcp/old`, name);
      assert.equal(error.code, -32603);
      assert.match(error.message, new RegExp(message));
      assert.deepEqual(error.data, { rpc: code, message });
    }
  });

  it("in an error is cut above upstreamErrorBytes, and its data left out", async () => {
    const { error } = await call(`${berth.url}/mcp/old`, "long");
    assert.deepEqual(error, { code: -32000, message: `${LONG.slice(0, 1_000)}…` });
  });

  it("in a question for roots is answered with an empty list where the client has none", async () => {
    const url = `${berth.url}/mcp/asks`;
    assert.deepEqual(JSON.parse(await callText(url, "roots")), { roots: [] });
    assert.equal(JSON.parse(await callText(url, "sample")).code, -32601, "nobody answers other questions");
    const client = await LegacyClient.start(url, "2025-11-25", { sampling: {} });
    const result = await client.result("tools/call", { name: "roots" });
    assert.deepEqual(JSON.parse(result.content[0].text), { roots: [] });
  });

  it("of a header that no client can send leaves the tool out, with a problem, wherever it is listed", async () => {
    const { body } = await post(`${berth.url}/mcp/marks`, request("tools/list"));
    assert.deepEqual(rows(body.result.tools, "name"), ["good"]);
    const problems = await hostedServer(berth, "marks").problems();
    for (const why of [
      /\\"number\\" is left out: the header \\"Region\\" can only carry a string, an integer or a boolean/,
      /\\"twice\\" is left out: the header \\"region\\" is named twice/,
      /\\"space\\" is left out: the header name \\"two words\\" must be one word/,
    ]) {
      assert.match(problems, why);
    }
  });

  it("on stderr before it fails to start is shown to who may change its entry, and to nobody else", async () => {
    await call(`${berth.url}/mcp/bad`, "any");
    const WROTE = /no API key/;
    const api = apiOf(berth);
    assert.match((await api.send("GET", "/servers/bad/upstream")).body.stderr, WROTE);
    const read = async (path: string, headers: Record<string, string>): Promise<string> =>
      (await fetch(berth.url + path, { headers: { Accept: "text/html", ...headers } })).text();
    const page = async (headers: Record<string, string> = {}): Promise<string> =>
      (await read("/mcp/meta/bad", headers)) + (await read("/mcp", headers));
    assert.match(await page(), WROTE);
    const reader = bearer((await makeToken(berth, { name: "reader", can: ["read"] })).token);
    assert.equal((await api.send("GET", "/servers/bad/upstream", undefined, reader)).body.stderr, undefined);
    assert.doesNotMatch(await page(reader), WROTE);
    const proxied = { "X-Forwarded-For": "192.0.2.1" };
    assert.doesNotMatch(await page(proxied), WROTE, "whoever comes through a proxy may change nothing");
    assert.match(await read("/mcp", {}), WROTE);
  });
});
