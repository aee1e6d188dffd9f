import assert from "node:assert/strict";
import { get as httpGet } from "node:http";
import { before, describe, it } from "node:test";
import { berthInSuite } from "../support/suite.ts";
import { until } from "../support/until.ts";

const CALLS = `
import type { ToolContext } from "berth";

export function calls(word = "none"): string { return "calls " + word; }
export function same(value: unknown, list: string[] = [], map?: Record<string, unknown> | null): { value: unknown; list: string[]; map: unknown } {
  return { value, list, map: map ?? null };
}
export function nothing(): void {}
export function html(text: string): Blob { return new Blob([text], { type: "application/xhtml+xml" }); }
export function page(text: string): Response { return new Response(text, { headers: { "Content-Type": "text/html" } }); }
export function bytes(): Uint8Array { return Uint8Array.of(0, 255); }
export function png(): Blob { return new Blob([Uint8Array.of(1)], { type: "image/png" }); }
export function odd(): { type: "image"; data: string; mimeType: string } { return { type: "image", data: "AQ==", mimeType: "text/html\\r\\nX-Bad: 1" }; }
export function two(): { content: { type: "text"; text: string }[] } { return { content: [{ type: "text", text: "a" }, { type: "text", text: "b" }] }; }
export function fail(): string { throw new Error("out of <script>tea</script>"); }
export function long(bytes: number): string { return "x".repeat(bytes); }
/** @destructive */
export function erase(): string { return "erased"; }
export async function ask(context: ToolContext): Promise<string> {
  return String((await context.elicit({ message: "Sure?", schema: { type: "object", properties: { a: { type: "string" } } } })).action);
}
export function to(location: string): Response { return new Response(null, { status: 302, headers: { location } }); }
export async function* count(to: number): AsyncGenerator<string, string> {
  for (let n = 1; n <= to; n++) yield "step " + n;
  return "counted to " + to;
}
let stopped = 0;
export async function* endless(): AsyncGenerator<number> {
  try { for (let n = 0; ; n++) { yield n; await new Promise((resolve) => setTimeout(resolve, 5)); } } finally { stopped++; }
}
export function stops(): number { return stopped; }
`;

describe("internal servers over plain HTTP", () => {
  const berth = berthInSuite({
    texts: {
      "calls.ts": CALLS,
      "off.ts": "export function f(): void {}",
      // A read-only boot refuses it.
      "refused.sh": "#!/bin/sh\n# Never runs.\necho no\n",
    },
    variables: { motd: "hello" },
    mcps: {
      calls: { definition: "calls.ts", auto_discover: true, resources: { motd: { uri: "variable://motd" } } },
      off: { definition: "off.ts", enabled: false },
      opted: { definition: "off.ts", mcp_enabled: false },
    },
    config: { image: "readonly" },
    env: { BERTH_OUTPUT_BYTES: "100000", BERTH_BODY_BYTES: "20000" },
  });
  let url: string;
  before(() => void (url = `${berth.url}/servers/calls`));

  const get = (path: string, headers: Record<string, string> = {}): Promise<Response> =>
    fetch(`${url}${path}`, { headers, redirect: "manual" });
  const send = (path: string, body: unknown, headers: Record<string, string> = {}): Promise<Response> =>
    fetch(`${url}${path}`, {
      method: "POST",
      headers: { "Content-Type": "application/json", ...headers },
      body: typeof body === "string" ? body : JSON.stringify(body),
      redirect: "manual",
    });
  const typeOf = (response: Response): string | null => response.headers.get("content-type");

  it("the function that is named as its server is called by the server's own address (T5.1, T5.3, T13.1)", async () => {
    for (const response of [
      await get(""),
      await send("", {}),
      await send("", ""),
      await get("/"),
      await get("/calls"),
    ]) {
      assert.equal(response.status, 200);
      assert.equal(typeOf(response), "text/plain; charset=utf-8");
      assert.equal(await response.text(), "calls none");
    }
    assert.equal(await (await get("?word=some%20%26")).text(), "calls some &");
    assert.equal(await (await send("/calls", { word: "w" })).text(), "calls w");
    const page = await get("?word=x", { Accept: "text/html,application/xhtml+xml,*/*;q=0.8" });
    assert.equal(await page.text(), "calls x");
  });

  it("values arrive as they are, from a query and from a body (T13.3, T13.5, T13.6, T13.7)", async () => {
    const value = { deep: [{ a: [1, null, "häl 世界 🚢"] }], none: null };
    const map = { x: { y: [] } };
    const posted = await send("/same", { value, list: ["1", "b"], map });
    assert.equal(typeOf(posted), "application/json");
    assert.deepEqual(await posted.json(), { value, list: ["1", "b"], map });
    const query = new URLSearchParams([
      ["value", JSON.stringify(value)],
      ["list", "1"],
      ["list", "b"],
      ["map", JSON.stringify(map)],
    ]);
    assert.deepEqual(await (await get(`/same?${query.toString()}`)).json(), { value, list: ["1", "b"], map });
    assert.deepEqual(await (await get("/same?value=text&list=1&map=null")).json(), {
      value: "text",
      list: ["1"],
      map: null,
    });
  });

  it("bytes have the type that they were given, and no result has no body (T5.8)", async () => {
    const octets = await get("/bytes");
    assert.equal(typeOf(octets), "application/octet-stream");
    assert.deepEqual([...new Uint8Array(await octets.arrayBuffer())], [0, 255]);
    assert.equal(typeOf(await get("/png")), "image/png");
    const nothing = await get("/nothing");
    assert.deepEqual([nothing.status, await nothing.text()], [204, ""]);
    assert.deepEqual(await (await get("/two")).json(), {
      content: [
        { type: "text", text: "a" },
        { type: "text", text: "b" },
      ],
    });
  });

  it("what a function gives back cannot run as a page of this service (T14.2)", async () => {
    const script = "<script>alert(1)</script>";
    for (const path of [
      `/html?text=${script}`,
      `/page?text=${script}`,
      `/calls?word=${script}`,
      "/fail",
      `/none${script}`,
      `/to?location=${script}`,
    ]) {
      const response = await get(path, { Accept: "text/html" });
      assert.equal(response.headers.get("x-content-type-options"), "nosniff", path);
      assert.equal(response.headers.get("content-security-policy"), "default-src 'none'; sandbox", path);
      assert.notEqual(typeOf(response)?.split(";")[0], "text/html", path);
    }
    assert.equal(typeOf(await get(`/html?text=${script}`)), "application/xhtml+xml");
    const odd = await get("/odd");
    assert.deepEqual([typeOf(odd), odd.headers.get("x-bad")], ["application/octet-stream", null]);
  });

  it("what is wrong is said with the status that it has (T5.2, T5.4, T5.5, T5.6)", async () => {
    const expect = async (response: Response, status: number, code: string, message: RegExp): Promise<void> => {
      const body = (await response.json()) as { error: { code: string; message: string } };
      assert.deepEqual([response.status, body.error.code], [status, code], body.error.message);
      assert.match(body.error.message, message);
    };
    await expect(await get("/fail"), 422, "tool_failed", /out of <script>tea/);
    await expect(await get("/html"), 400, "invalid_params", /needs the property "text"/);
    await expect(await get("/long?bytes=many&other=1"), 400, "invalid_params", /no property "other".*must be number/);
    await expect(await get("/none"), 404, "tool_not_found", /has no "none"; it has calls, same/);
    await expect(await send("/same", [1]), 400, "invalid_params", /must be an object/);
    await expect(await send("/same", "{"), 400, "parse_error", /JSON/);
    await expect(await send("/same?value=1", {}), 400, "invalid_params", /not in the query/);
    await expect(await send("/same", { value: "x".repeat(30_000) }), 413, "body_too_large", /20000 bytes/);
    await expect(
      await send("/calls", "word=x", { "Content-Type": "application/x-www-form-urlencoded" }),
      415,
      "unsupported_media_type",
      /json/,
    );
    await expect(await fetch(`${berth.url}/servers/none/f`), 404, "server_not_found", /none/);
    for (const server of ["off", "opted"]) {
      await expect(await fetch(`${berth.url}/servers/${server}/f`), 403, "server_disabled", /disabled/);
    }
    await expect(await fetch(`${berth.url}/servers/refused`), 503, "server_refused", /read-only/);
    await expect(await get("/erase"), 405, "method_not_allowed", /POST/);
    assert.equal(await (await send("/erase", {})).text(), "erased");
    await expect(await get("/ask"), 409, "input_required", /MCP/);
  });

  it("output larger than the limit is an error that names it (T13.2)", async () => {
    assert.equal((await (await get("/long?bytes=90000")).text()).length, 90_000);
    const response = await get("/long?bytes=200000");
    assert.equal(response.status, 422);
    assert.match(await response.text(), /100000 bytes/);
  });

  it("a redirect is a redirect, and what has no address is followed (T13.8)", async () => {
    for (const [location, expected] of [
      ["/servers/calls?word=a%20b", "/servers/calls?word=a%20b"],
      ["server://other/f?x=1", "/servers/other/f?x=1"],
      ["https://example.org/a?b#c", "https://example.org/a?b#c"],
    ] as const) {
      for (const response of [
        await get(`/to?location=${encodeURIComponent(location)}`),
        await send("/to", { location }),
      ]) {
        assert.deepEqual([response.status, response.headers.get("location")], [303, expected]);
      }
    }
    assert.equal(await (await send("/to", { location: "variable://motd" })).text(), "hello");
    const own = `${berth.url}/servers/calls?word=own`;
    assert.equal((await send("/to", { location: own })).headers.get("location"), own);
    for (const location of [
      `${berth.url}/t/acme/servers/note/note?text=absolute`,
      `${berth.url.replace("http:", "HTTP:")}/api/servers`,
      "/servers/x/../../t/acme/servers/note/note?text=dots",
      "server://x/%2e%2e/.%2E/api/servers",
    ]) {
      const response = await send("/to", { location });
      assert.deepEqual([response.status, response.headers.get("location")], [422, null], location);
      assert.match(await response.text(), /not a function of this tenant/);
    }
    for (const location of ["javascript:alert(1)", "//example.org", "server://calls\r\nX: y", "variable://hidden"]) {
      const response = await send("/to", { location });
      assert.deepEqual([response.status, response.headers.get("location")], [422, null], location);
    }
  });

  /** `fetch` would normalize the dots. */
  const statusOf = (path: string): Promise<number | undefined> =>
    new Promise((resolve, reject) => {
      const { hostname, port } = new URL(berth.url);
      httpGet({ hostname, port, path, agent: false }, (response) => {
        response.resume();
        resolve(response.statusCode);
      }).on("error", reject);
    });

  it("names with paths in them lead nowhere (T14.1)", async () => {
    for (const path of [
      "/servers/..%2fcalls/f",
      "/servers/%2e%2e/f",
      "/servers/calls/..%2f..%2fetc%2fpasswd",
      "/servers/calls/../calls/x",
      "/servers/%/f",
      "/servers/calls/%",
      "/servers/__proto__/f",
      "/servers/calls/constructor",
      "/servers//f",
    ]) {
      assert.equal(await statusOf(path), 404, path);
    }
  });

  it("pages of other sites cannot call (T14.4)", async () => {
    for (const site of ["cross-site", "same-site"]) {
      assert.equal((await get("/calls?word=x", { "Sec-Fetch-Site": site })).status, 403, site);
      assert.equal((await send("/calls", {}, { "Sec-Fetch-Site": site })).status, 403, site);
    }
    for (const site of ["same-origin", "none"]) {
      assert.equal((await get("/calls?word=x", { "Sec-Fetch-Site": site })).status, 200, site);
    }
    assert.equal((await send("/calls", {}, { Origin: "https://example.org" })).status, 403);
    const preflight = await fetch(url, {
      method: "OPTIONS",
      headers: { Origin: berth.url, "Access-Control-Request-Method": "POST" },
    });
    assert.equal(preflight.headers.get("access-control-allow-methods"), null);
  });

  it("a stream leaves event by event to whoever takes events, and is collected for the others (S3, S4)", async () => {
    const response = await get("/count?to=3", { Accept: "text/event-stream" });
    assert.equal(typeOf(response), "text/event-stream");
    assert.equal(
      await response.text(),
      'event: progress\ndata: "step 1"\n\nevent: progress\ndata: "step 2"\n\nevent: progress\ndata: "step 3"\n\n' +
        'event: result\ndata: {"content":[{"type":"text","text":"counted to 3"}],"structuredContent":"counted to 3"}\n\n',
    );
    assert.equal(await (await get("/count?to=3")).text(), "counted to 3");
    const failed = await get("/fail", { Accept: "text/event-stream" });
    assert.match(await failed.text(), /^event: result\ndata: .*"isError":true/);
    assert.equal((await get("/none", { Accept: "text/event-stream" })).status, 404);
  });

  it("closing the stream ends the work (S5)", async () => {
    const aborter = new AbortController();
    const response = await fetch(`${url}/endless`, {
      headers: { Accept: "text/event-stream" },
      signal: aborter.signal,
    });
    await response.body!.getReader().read();
    aborter.abort();
    assert.equal(await until(async () => (await (await get("/stops")).json()) as number), 1);
  });

  it("what a browser opens without a query is left to the pages (T9.2)", async () => {
    const response = await get("", { Accept: "text/html" });
    assert.equal(typeOf(response)?.split(";")[0], "text/html");
  });
});
