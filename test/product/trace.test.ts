import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { MODERN_META, modern, post, request } from "../support/berth.ts";
import { asker } from "../support/outcomes.ts";
import { berthInSuite } from "../support/suite.ts";

const TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const CONTEXT = {
  traceparent: TRACEPARENT,
  tracestate: "vendor=t61rcWkgMzE,x@y=1",
  baggage: "user=ada,plan=a%20b;ttl=1",
};
const UUID = /^[0-9a-f-]{36}$/;

const texts = {
  "told.ts": `
    import type { ToolContext } from "berth";
    export function told({ requestId, trace }: ToolContext): object { return { requestId, trace: trace ?? null }; }
    export function lead(): Response { return Response.redirect("server://told/told"); }
    /** @task */
    export function later({ requestId, trace }: ToolContext): object { return { requestId, trace: trace ?? null }; }
  `,
  "script.sh": `#!/bin/sh
# Prints what it was told.
# @noArgs
printf '%s|%s|%s|%s' "$BERTH_REQUEST_ID" "$TRACEPARENT" "$TRACESTATE" "$BAGGAGE"
`,
};

describe("requests are known by an id and a trace", () => {
  const berth = berthInSuite({ texts, mcps: { asker: { upstream: asker } } });
  const inMeta = { _meta: { ...MODERN_META, ...CONTEXT } };

  it("every response has the id of its request, or a new one instead of an invalid one", async () => {
    const body = JSON.stringify(request("tools/list"));
    const json = { "Content-Type": "application/json", Accept: "application/json" };
    const asked: [string, RequestInit][] = [
      ["/mcp/told", { method: "POST", headers: json, body }],
      ["/mcp/nowhere", { method: "POST", headers: json, body }],
      ["/mcp/told", { method: "POST", headers: json, body: "{" }],
      ["/mcp/told", { method: "POST", headers: { ...json, "Content-Type": "text/plain" }, body }],
      ["/mcp/told", { method: "POST", headers: json, body: '{"jsonrpc":"2.0","method":"notifications/initialized"}' }],
      ["/mcp/told", { method: "DELETE" }],
      ["/mcp", { headers: { Accept: "text/html" } }],
      ["/nowhere", { headers: { Accept: "text/html" } }],
      ["/api/servers", {}],
      ["/servers/told/told", {}],
      ["/mcp/told/sse", { method: "PUT" }],
    ];
    for (const [path, init] of asked) {
      const send = async (id?: string): Promise<string | null> => {
        const headers = {
          ...(init.headers as Record<string, string>),
          ...(id !== undefined && { "X-Request-Id": id }),
        };
        const response = await fetch(`${berth.url}${path}`, { ...init, headers });
        await response.text();
        return response.headers.get("x-request-id");
      };
      assert.equal(await send("web-7:a/b=@1.x_y+"), "web-7:a/b=@1.x_y+", path);
      for (const id of [undefined, "two words", "x".repeat(129), "<script>", '"'])
        assert.match((await send(id)) ?? "", UUID, path);
    }
    const page = await fetch(`${berth.url}/nowhere`, { headers: { Accept: "text/html", "X-Request-Id": "page-1" } });
    assert.match(await page.text(), /id of the request <code>page-1<\/code>/);
  });

  it("functions, scripts and upstreams get the trace of _meta or of headers", async () => {
    const headers = { ...CONTEXT, "X-Request-Id": "r7" };
    const said = { requestId: "r7", trace: CONTEXT };
    const calling = async (server: string, name: string, more: object, given: Record<string, string>) => {
      const params = { name, arguments: {}, ...more };
      const { body } = await modern(`${berth.url}/mcp/${server}`, "tools/call", params, given);
      return body.result.content[0].text as string;
    };
    for (const name of ["told", "lead"]) {
      assert.deepEqual(JSON.parse(await calling("told", name, {}, headers)), said);
      assert.deepEqual(JSON.parse(await calling("told", name, inMeta, { "X-Request-Id": "r7" })), said);
    }
    const script = Object.values(CONTEXT).join("|");
    assert.equal(await calling("script", "script", inMeta, { "X-Request-Id": "r8" }), `r8|${script}`);
    const plain = await fetch(`${berth.url}/servers/told/told`, { headers });
    assert.deepEqual(await plain.json(), said);
    const native = await post(`${berth.url}/mcp`, request("told.told", { _meta: CONTEXT }), { "X-Request-Id": "r7" });
    assert.deepEqual(JSON.parse(native.body.result.content[0].text), said);

    const told = JSON.parse(await calling("asker", "told", inMeta, {})) as { meta: typeof CONTEXT };
    const { traceparent, tracestate, baggage } = told.meta;
    assert.deepEqual({ traceparent, tracestate, baggage }, CONTEXT);
    const untraced = JSON.parse(await calling("told", "told", {}, {})) as { requestId: string; trace: unknown };
    assert.match(untraced.requestId, UUID);
    assert.equal(untraced.trace, null);
  });

  it("a task gets the trace of the request that created it", async () => {
    const capabilities = { extensions: { "io.modelcontextprotocol/tasks": {} } };
    const _meta = { ...inMeta._meta, "io.modelcontextprotocol/clientCapabilities": capabilities };
    const url = `${berth.url}/mcp/told`;
    const begun = await modern(url, "tools/call", { name: "later", arguments: {}, _meta }, { "X-Request-Id": "t1" });
    const { taskId } = begun.body.result;
    for (;;) {
      const { body } = await modern(url, "tasks/get", { taskId, _meta }, { "Mcp-Name": taskId });
      if (body.result.status === "working") continue;
      assert.deepEqual(JSON.parse(body.result.result.content[0].text), { requestId: "t1", trace: CONTEXT });
      return;
    }
  });
});
