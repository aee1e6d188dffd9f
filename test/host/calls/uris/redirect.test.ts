import assert from "node:assert/strict";
import { before, describe, it } from "node:test";
import { rawBlock } from "../../../../src/lib/cid.ts";
import { call, MODERN_META, modern, type Reply } from "../../../support/berth.ts";
import { berthInSuite } from "../../../support/suite.ts";

const DEFINITION = `
import type { ToolContext } from "berth";

export function to(location: string, status = 302): Response { return new Response(null, { status, headers: { location } }); }
export function maybe(url?: string): Response | { none: true } { return url === undefined ? { none: true } : Response.redirect(url); }
export function sum(a: number, b: number): { sum: number } { return { sum: a + b }; }
export function picture(): Blob { return new Blob([Uint8Array.of(1, 2)], { type: "image/png" }); }
export function fail(): string { throw new Error("out of ink"); }
/** Leads to itself for ever. */
export function round(n = 0): Response { return new Response(null, { status: 307, headers: { Location: "/servers/lead/round?n=" + (n + 1) } }); }
/** Leads to itself so many times. */
export function down(n: number): Response | string {
  return n === 0 ? "the end" : new Response(null, { status: 308, headers: { Location: "server://lead/down?n=" + (n - 1) } });
}
export function web(kind: string): Response | null {
  switch (kind) {
    case "html": return new Response("<p>hi</p>", { headers: { "Content-Type": "text/html" } });
    case "json": return Response.json({ a: 1 });
    case "bytes": return new Response(Uint8Array.of(0, 255), { headers: { "Content-Type": "audio/wav" } });
    case "empty": return new Response(null, { status: 204 });
    case "not found": return new Response("no such page", { status: 404, statusText: "Not Found" });
    case "broken": return Response.error();
    case "no location": return new Response("choose", { status: 300 });
    default: return null;
  }
}
/** Asks, and leads to what asks, too. */
export async function first(context: ToolContext): Promise<Response | string> {
  const answer = await context.elicit({ message: "First?", schema: { type: "object", properties: { a: { type: "string" } } } });
  return new Response(null, { status: 302, headers: { location: "server://lead/second?got=" + String(answer.content?.a) } });
}
export async function second(got: string, context: ToolContext): Promise<string> {
  const answer = await context.elicit({ message: "Second?", schema: { type: "object", properties: { a: { type: "string" } } } });
  return got + " then " + String(answer.content?.a);
}
/** @resource lead://{+location} */
export function led(location: string): Response { return new Response(null, { status: 303, headers: { location } }); }
/** @prompt */
export function asked(location: string): Response { return new Response(null, { status: 303, headers: { location } }); }
`;
const OTHER = `
export function open(): { ok: boolean } { return { ok: true }; }
export function closed(): string { return "closed"; }
`;

describe("redirects", () => {
  const berth = berthInSuite({
    texts: { "lead.ts": DEFINITION, "other.ts": OTHER },
    variables: { motd: "hello", hidden: "only for those whom it is for" },
    mcps: {
      lead: {
        definition: "lead.ts",
        auto_discover: true,
        resources: { motd: { uri: "variable://motd" }, open: { uri: "server://other/open" } },
      },
    },
  });
  let url: string;
  before(() => void (url = `${berth.url}/mcp/lead`));

  const to = (location: string, status = 302): Promise<Reply["body"]> => call(url, "to", { location, status });
  const textTo = async (location: string): Promise<string> => {
    const result = await to(location);
    assert.equal(result.isError, undefined, JSON.stringify(result));
    return result.content[0].text;
  };

  it("a redirect within is followed, whatever its status (T13.8)", async () => {
    for (const status of [301, 302, 303, 307, 308]) {
      assert.deepEqual((await to("/servers/lead/sum?a=1&b=2", status)).structuredContent, { sum: 3 });
    }
    assert.deepEqual((await to("server://lead/sum?a=1&b=-2")).structuredContent, { sum: -1 });
    assert.deepEqual((await to("server://lead/picture")).content, [
      { type: "image", data: "AQI=", mimeType: "image/png" },
    ]);
    assert.equal(await textTo("variable://motd"), "hello");
    assert.equal(await textTo(`cid://${rawBlock("hello").cid}`), "hello");
    assert.deepEqual((await to("/servers/other/open")).structuredContent, { ok: true });
    assert.equal((await call(url, "down", { n: 5 })).content[0].text, "the end");
  });

  it("a redirect to another site is given as a link, and nobody goes there (T13.8)", async () => {
    const uri = "http://127.0.0.1:9/a/b.txt?q#f";
    for (const [tool, args] of Object.entries({ to: { location: uri }, maybe: { url: uri } }))
      assert.deepEqual((await call(url, tool, args)).content, [{ type: "resource_link", uri, name: "b.txt" }]);
    assert.deepEqual((await call(url, "maybe")).content, [{ type: "text", text: '{"none":true}' }]);
    const { tools } = (await modern(url, "tools/list")).body.result;
    for (const name of ["to", "maybe", "down", "web"]) {
      assert.equal(tools.find((tool: { name: string }) => tool.name === name).outputSchema, undefined, name);
    }
  });

  it("a redirect to any other scheme, to nothing, or to what the server may not read is an error (T13.8, T14.1)", async () => {
    for (const [location, message] of [
      ["javascript:alert(1)", /is refused/],
      ["file:///etc/passwd", /is refused/],
      ["data:text/html,x", /is refused/],
      ["//example.org/x", /is refused/],
      ["/mcp/lead", /is refused/],
      ["elsewhere", /is refused/],
      ["server://lead/to?location=\u00e9", /is refused/],
      ["variable://hidden", /No such resource/],
      ["variable://none", /No such resource/],
      ["/servers/other/closed", /No such resource/],
      ["server://other/../lead/sum", /No such resource/],
      [`cid://${rawBlock("nobody has this").cid}`, /No such resource/],
      ["server://lead/sum?a=x", /\/a must be number/],
      ["server://lead/fail", /out of ink/],
      [`server://lead/${"a".repeat(9_000)}`, /longer than 8192/],
    ] as const) {
      const result = await to(location);
      assert.equal(result.isError, true, location);
      assert.match(result.content[0].text, message, location);
      assert.doesNotMatch(result.content[0].text, /only for those/);
    }
  });

  it("a circle of redirects ends at the limit, which is named (T13.8)", async () => {
    for (const [tool, args] of [
      ["round", {}],
      ["down", { n: 6 }],
    ] as const) {
      const result = await call(url, tool, args);
      assert.equal(result.isError, true);
      assert.match(result.content[0].text, /more than 5 functions/);
    }
  });

  it("a Response is what its body and its type are, and its failure is the tool's (T5.7, T5.8)", async () => {
    const web = (kind: string): Promise<Reply["body"]> => call(url, "web", { kind });
    assert.deepEqual(await web("html"), { content: [{ type: "text", text: "<p>hi</p>" }] });
    assert.deepEqual(await web("json"), { content: [{ type: "text", text: '{"a":1}' }] });
    assert.deepEqual(await web("bytes"), { content: [{ type: "audio", data: "AP8=", mimeType: "audio/wav" }] });
    assert.deepEqual(await web("empty"), { content: [] });
    assert.deepEqual(await web("no location"), { content: [{ type: "text", text: "choose" }] });
    assert.deepEqual(await web("not found"), {
      content: [{ type: "text", text: "HTTP 404 Not Found: no such page" }],
      isError: true,
    });
    assert.equal((await web("broken")).isError, true);
  });

  it("the questions of both functions reach the client, and each gets its own answers (T13.8)", async () => {
    const ask = async (params: object): Promise<Reply["body"]> => {
      const _meta = { ...MODERN_META, "io.modelcontextprotocol/clientCapabilities": { elicitation: {} } };
      const { body } = await modern(url, "tools/call", { name: "first", arguments: {}, _meta, ...params });
      return body.result ?? body;
    };
    let result = await ask({});
    const said: string[] = [];
    for (const a of ["one", "two"]) {
      const [[key, question]] = Object.entries(result.inputRequests) as [[string, { params: { message: string } }]];
      said.push(question.params.message);
      const inputResponses = { [key]: { action: "accept", content: { a } } };
      result = await ask({ requestState: result.requestState, inputResponses });
    }
    assert.deepEqual(said, ["First?", "Second?"]);
    assert.equal(result.content[0].text, "one then two");
  });

  it("resources and prompts are led on as tools are (T13.8)", async () => {
    const read = async (location: string): Promise<Reply["body"]> =>
      (await modern(url, "resources/read", { uri: `lead://${location}` })).body;
    const target = "server://lead/sum?a=1&b=2";
    assert.deepEqual((await read(target)).result.contents, [
      { uri: `lead://${target}`, mimeType: "application/json", text: '{"sum":3}' },
    ]);
    assert.equal((await read("variable://motd")).result.contents[0].text, "hello");
    assert.deepEqual((await read("https://example.org/a")).result.contents, [
      { uri: "lead://https://example.org/a", mimeType: "text/uri-list", text: "https://example.org/a\r\n" },
    ]);
    assert.match((await read("file:///etc/passwd")).error.message, /is refused/);

    const prompt = async (location: string): Promise<Reply["body"]> =>
      (await modern(url, "prompts/get", { name: "asked", arguments: { location } })).body;
    assert.deepEqual((await prompt("variable://motd")).result.messages, [
      { role: "user", content: { type: "text", text: "hello" } },
    ]);
    assert.match((await prompt("variable://hidden")).error.message, /No such resource/);
  });
});
