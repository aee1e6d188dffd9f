import assert from "node:assert/strict";
import { fork, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { call, modern, post, request, startTestBerth, type Reply, type TestBerth } from "../../support/berth.ts";
import { longJsonIn } from "../../support/long-json.ts";
import { lower } from "../../support/lowered-limits.ts";
import { rows } from "../../support/rows.ts";
import { berthInSuite } from "../../support/suite.ts";
import { fixtures } from "../../support/upstreams.ts";

const versions = ["2024-11-05", "2025-03-26", "2025-06-18"];
const current = { "MCP-Protocol-Version": "2025-06-18" };

describe("a body that is too long to be read by who serves", () => {
  const echo = `
export function count(list: number[], times = 2): string { return [list.length, times, Object.keys({ list })].join(); }
`;
  const berth = berthInSuite({ texts: { "long.ts": echo }, env: { BERTH_MESSAGE_VALUES: "1000" } });
  let url: string;
  before(() => void (url = `${berth.url}/mcp/long`));
  const list = Array.from({ length: 100_000 }, (_, n) => n);

  it("calls its tool with all of its arguments, filled in with their defaults", async () => {
    assert.equal((await call(url, "count", { list })).content[0].text, "100000,2,list");
    const wrong = await call(url, "count", { list: [...list, "x"] });
    assert.match(wrong.content[0].text, /\/list\/100000 must be number$/);
    const params = { name: "count", arguments: { list, times: 3 } };
    assert.equal((await modern(url, "tools/call", params)).body.result.content[0].text, "100000,3,list");
  });

  it("is answered as a short one where it is none or says too much", async () => {
    const replies = await Promise.all([
      post(url, `${JSON.stringify(list)}x`),
      post(url, `${"[".repeat(40_000)}${"]".repeat(40_000)}`),
      post(url, request("tools/list", { list })),
    ]);
    const errors = replies.map(({ body }) => body.error);
    assert.deepEqual(rows(errors, "code"), ["-32700", "-32600", "-32600"]);
    assert.match(errors[1].message, /nests at most 256 levels deep/);
    assert.match(errors[2].message, /at most 1000 values/);
  });

  it("is one of a batch", async () => {
    const one = (id: number) => request("tools/call", { name: "count", arguments: { list } }, id);
    const batch = [one(1), request("ping", {}, 2), one(3)];
    const { body } = await post(url, batch, { "MCP-Protocol-Version": "2025-03-26" });
    assert.deepEqual(rows(body, "id"), ["1", "2", "3"]);
    const texts = body.map(({ result }: Reply["body"]) => result.content?.[0].text);
    assert.deepEqual(texts, ["100000,2,list", undefined, "100000,2,list"]);
  });
});

describe("a result that is too long to be read by who serves", () => {
  const source = `
/** Numbers from zero. */
export function numbers(count: number): number[] { return Array.from({ length: count }, (_, n) => n); }
export function named(count: number): { list: number[] } { return { list: numbers(count) }; }
export function texts(count: number): string { return '"é\\n'.repeat(count); }
export function blocks(count: number): any { return numbers(count).map((n) => ({ type: "text", text: String(n) })); }
export function links(count: number): any {
  return numbers(count).map((n) => ({ type: "resource_link", uri: "urn:" + n, name: String(n) }));
}
export function audio(count: number): any { return { content: [{ type: "audio", data: "AAAA".repeat(count), mimeType: "audio/wav" }, ...links(1)] }; }
export function failed(count: number): any {
  return { content: blocks(count), isError: true, structuredContent: { count } };
}
export function structured(count: number): any { return { content: [], structuredContent: { list: numbers(count) } }; }
export function bytes(count: number): Uint8Array { return new Uint8Array(count).fill(7); }
export function envelope(count: number): any { return { type: "success", content: "x".repeat(count) }; }
export function empty(count: number): any { return numbers(count).map(() => []); }
/** @resource n:{count} */
export function listed(count: number): any { return count % 2 ? numbers(count) : { contents: blocks(count).map(({ text }: any) => ({ uri: "n:" + text, text })) }; }
/** @prompt */
export function asked(count: number): any { return count % 3 ? blocks(count) : links(count); }
/** @completes asked.count */
export function completed(): any { return numbers(2_000).map((n) => "1" + n); }
/** @prompt */
export function wrong(count: number): any { return numbers(count); }
export async function* steps(count: number): AsyncGenerator<unknown, string> { yield numbers(count); return "done"; }
export async function* stages(count: number, context: any): AsyncGenerator<unknown> { context.log.info(numbers(count)); yield numbers(count); yield "last"; }
`;
  const tools = "numbers named texts blocks links audio failed structured bytes envelope empty".split(" ");
  const texts = { "long.ts": source };
  const written = ["a", "constructor", "__proto__"].map((name) => `{{${name}}}`).join(" ");
  const prompts = {
    filled: {
      description: "Filled in",
      arguments: ["a", "constructor", "__proto__"].map((name) => ({ name })),
      messages: [
        { role: "user", content: `${written} {{ a }}` },
        { role: "assistant", content: { type: "resource_link", uri: "note://{{a}}", name: "{{a}}" } },
      ],
    },
  };
  const mcps = { long: { definition: "long.ts", prompts } };
  const patient = { BERTH_CHECK_MS: "60000", BERTH_SILENT_CALL_MS: "600000", BERTH_MESSAGE_VALUES: "2000" };
  const berth = berthInSuite({ mcps, texts, env: { ...patient, BERTH_INLINE_BODY_BYTES: "1000" } });
  const both = <Answer>(ask: (berth: TestBerth) => Promise<Answer>) => readTwice(ask, berth);

  it("is answered as if it had been read there, in every revision", async () => {
    for (const name of tools) {
      const params = { name, arguments: { count: 1_500 } };
      assert.ok((await sameInAll(both, "long", "tools/call", params)).result);
      const [native, other] = await both(
        async ({ url }) => (await post(`${url}/mcp/long`, request(`long.${name}`, { count: 1_500 }))).body,
      );
      assert.deepEqual(native, other, `${name} natively`);
    }
  });

  it("is answered so where it is of a resource, a prompt or a completion", async () => {
    const asks = [
      ["resources/read", { uri: "n:1500" }],
      ["resources/read", { uri: "n:1501" }],
      ["prompts/get", { name: "asked", arguments: { count: "1500" } }],
      ["prompts/get", { name: "asked", arguments: { count: "1501" } }],
      ["prompts/get", { name: "wrong", arguments: { count: "1500" } }],
      ["completion/complete", { ref: { type: "ref/prompt", name: "asked" }, argument: { name: "count", value: "11" } }],
    ] as const;
    for (const [method, params] of asks) {
      const short = await sameInAll(both, "long", method, params);
      assert.match(JSON.stringify(short), /1499|did not return messages|"11"/);
    }
  });

  it("is answered so where a prompt is written out", async () => {
    for (const args of [{ a: "é/\u0001\ud800 ".repeat(100), constructor: "c" }, { a: "{{a}}" }, {}]) {
      const [long, short] = await both(async ({ url }) => {
        const params = { name: "filled", arguments: args };
        return (await post(`${url}/mcp/long`, request("prompts/get", params), current)).body.result;
      });
      assert.deepEqual(long, short);
      const { a = "", constructor } = { constructor: "", ...args };
      assert.equal(short.messages[0].content.text, `${a} ${constructor}  ${a}`);
      assert.equal(short.messages[1].content.uri, `note://${encodeURIComponent(Buffer.from(a).toString())}`);
    }
  });

  it("is neither read nor written by the serving thread", async () => {
    const asks = [
      ["tools/call", { name: "named", arguments: { count: 300_000 } }],
      ["tools/call", { name: "links", arguments: { count: 30_000 } }],
      ["resources/read", { uri: "n:30000" }],
      ["resources/read", { uri: "n:30001" }],
      ["prompts/get", { name: "asked", arguments: { count: "30001" } }],
      ["prompts/get", { name: "wrong", arguments: { count: "30000" } }],
      ["prompts/get", { name: "filled", arguments: { a: "a".repeat(60_000) } }],
      ["completion/complete", { ref: { type: "ref/prompt", name: "asked" }, argument: { name: "count", value: "1" } }],
    ] as const;
    for (const version of versions) {
      for (const [method, params] of asks)
        await answerUnread(`${berth.url}/mcp/long`, request(method, params), version);
    }
  });

  it("is a text where it is progress or a log line", async () => {
    const { content, isError } = await inPlace(() => call(`${berth.url}/mcp/long`, "stages", { count: 12_000 }));
    assert.ok(!isError, JSON.stringify(content).slice(0, 200));
    const texts = content.map((block: { text: string }) => block.text);
    assert.deepEqual(texts, [JSON.stringify(Array.from({ length: 12_000 }, (_, at) => at)), "last"]);
  });

  it("is no other message: those have at most so many values", async () => {
    const result = await call(`${berth.url}/mcp/long`, "steps", { count: 3_000 });
    assert.equal(result.isError, true);
    assert.match(result.content[0].text, /a message of more than 2000 values/);
  });
});

describe("an answer of an upstream that is too long to be read by who serves", () => {
  const file = join(fixtures, "lengthy.mjs");
  const remotes: ChildProcess[] = [];
  let berth: TestBerth;
  let plain: TestBerth;
  before(async () => {
    const remote = async (manner: string): Promise<string> => {
      const child = fork(file, ["http", manner]);
      remotes.push(child);
      const [port] = (await once(child, "message")) as [number];
      return `mcp+http://127.0.0.1:${port}/mcp`;
    };
    const mcps = {
      pipe: { upstream: `mcp+node://${file}` },
      json: { upstream: await remote("json") },
      events: { upstream: await remote("events") },
    };
    const env = { BERTH_UPSTREAM_PROGRAMS: "on", BERTH_CHECK_MS: "60000", BERTH_INLINE_BODY_BYTES: "1000" };
    berth = await startTestBerth({ mcps, env });
    plain = await startTestBerth({ mcps, env });
    // The lists are read once.
    await inPlace(async () => {
      for (const server of Object.keys(mcps)) await post(`${plain.url}/mcp/${server}`, request("tools/list"), current);
    });
  });
  after(async () => {
    await berth.close();
    await plain.close();
    for (const each of remotes) each.kill("SIGKILL");
  });

  const both = (ask: (berth: TestBerth) => Promise<unknown>) => readTwice(ask, berth, plain);

  for (const server of ["pipe", "json", "events"]) {
    it(`is passed on as if it had been read there, in every revision: ${server}`, async () => {
      const ref = { type: "ref/prompt", name: "numbers" };
      const asked = [
        ...["numbers", "blocks", "links", "failed", "unknown", "envelope", "broken"].map(
          (name) => ["tools/call", { name, arguments: { count: 1_500 } }] as const,
        ),
        ["resources/read", { uri: "n:1500" }] as const,
        ["prompts/get", { name: "numbers", arguments: { count: "1500" } }] as const,
        ["completion/complete", { ref, argument: { name: "count", value: "" } }] as const,
      ];
      for (const [method, params] of asked) await sameInAll(both, server, method, params);
    });

    it(`fails alone where it nests too deep: ${server}`, async () => {
      const url = `${berth.url}/mcp/${server}`;
      const deep = await call(url, "deep", { count: 100_000 });
      assert.match(JSON.stringify(deep), /its result nests more than 256 levels deep/);
      assert.equal((await call(url, "blocks", { count: 1 })).content[0].text, "0");
    });

    it(`lists all tools but those that are too large: ${server}`, async () => {
      for (const { url } of [berth, plain]) {
        const { body } = await post(`${url}/mcp/${server}`, request("tools/list"), current);
        const names = rows(body.result.tools, "name");
        assert.ok(names.includes("numbers") && names.includes("last"), String(names));
        assert.ok(!names.includes("huge") && !names.includes("nested"), String(names));
        const messages = await (await fetch(`${url}/api/servers`)).text();
        assert.match(messages, /\\"huge\\" is left out: it has more than 131072 bytes/);
        assert.match(messages, /\\"nested\\" is left out: it nests more than 256 levels deep/);
      }
    });

    it(`is neither read nor written by the serving thread: ${server}`, async () => {
      for (const name of ["numbers", "blocks"]) {
        const params = { name, arguments: { count: 100_000 } };
        const answer = await answerUnread(`${berth.url}/mcp/${server}`, request("tools/call", params));
        assert.ok(answer.length > 500_000);
      }
    });
  }
});

/** The answer to a request, of which the serving thread parses and writes no long text. */
async function answerUnread(url: string, body: object, version = "2025-06-18"): Promise<string> {
  let text = "";
  const headers = {
    "Content-Type": "application/json",
    Accept: "application/json, text/event-stream",
    "MCP-Protocol-Version": version,
  };
  const seen = await longJsonIn(async () => {
    const sent = { method: "POST", headers, body: JSON.stringify(body) };
    text = await (await fetch(url, sent)).text();
  });
  assert.deepEqual(seen, []);
  return text;
}

/** Expects the same answers in every revision; returns the newest. */
async function sameInAll(both: Both, server: string, method: string, params: Record<string, unknown>) {
  const what = `${method} ${JSON.stringify(params)}`;
  for (const version of versions) {
    const [long, short] = await both(async ({ url }) => {
      return (await post(`${url}/mcp/${server}`, request(method, params), { "MCP-Protocol-Version": version })).body;
    });
    assert.deepEqual(long, short, `${what} in ${version}`);
  }
  const [long, short] = await both(async ({ url }) => (await modern(`${url}/mcp/${server}`, method, params)).body);
  assert.deepEqual(long, short, what);
  return short;
}

type Both = (ask: (berth: TestBerth) => Promise<Reply["body"]>) => Promise<[Reply["body"], Reply["body"]]>;

/** The answers where long values are read by the check process, and where the serving thread reads them. */
async function readTwice<Answer>(
  ask: (berth: TestBerth) => Promise<Answer>,
  berth: TestBerth,
  plain = berth,
): Promise<[Answer, Answer]> {
  return [await ask(berth), await inPlace(() => ask(plain))];
}

function inPlace<Answer>(work: () => Promise<Answer>): Promise<Answer> {
  const restore = lower({ inlineBodyBytes: 4_000_000 });
  return work().finally(restore);
}
