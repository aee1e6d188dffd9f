import assert from "node:assert/strict";
import { type IncomingMessage, type ServerResponse } from "node:http";
import { before, describe, it } from "node:test";
import { call } from "../support/berth.ts";
import { berthInSuite, serverInSuite } from "../support/suite.ts";
import { until } from "../support/until.ts";

const context = 'context: import("berth").ToolContext';
const GUEST = `
/** Fetches, in the way that is asked for. */
export async function get(url: string, how: string, ${context}): Promise<unknown> {
  switch (how) {
    case "global": return (await fetch(url)).text();
    case "context": return (await context.fetch(url)).text();
    case "request": return (await fetch(new Request(url, { method: "POST", body: "of a request", headers: { "X-A": "b" } }))).text();
    case "response": return fetch(url);
    case "json": return (await fetch(url, { method: "POST", body: JSON.stringify({ a: 1 }), headers: { "Content-Type": "application/json" } })).json();
    case "form": { const form = new FormData(); form.set("a", "b"); return (await fetch(url, { method: "POST", body: form })).text(); }
    case "bytes": return (await fetch(url, { method: "PUT", body: new Uint8Array(200_000).fill(120) })).text();
    case "stream": {
      const body = new ReadableStream({ async start(controller) {
        for (const part of ["one ", "two ", "three"]) controller.enqueue(new TextEncoder().encode(part));
        controller.close();
      } });
      return (await fetch(url, { method: "POST", body, duplex: "half" } as RequestInit)).text();
    }
    case "facts": { const r = await fetch(url); return [r.status, r.statusText, r.ok, r.url.replace(/:\\d+/, ""), r.redirected, r.headers.get("x-said"), r.headers.getSetCookie()]; }
    case "parts": {
      const parts: string[] = [];
      for await (const part of (await fetch(url)).body!) {
        parts.push(new TextDecoder().decode(part));
        await (await fetch(url + "?next")).text();
      }
      return parts;
    }
    case "abort": {
      const stop = new AbortController();
      const response = await fetch(url, { signal: stop.signal });
      const text = response.text().catch((error) => error.name);
      stop.abort();
      return text;
    }
    case "abort early": return fetch(url, { signal: AbortSignal.timeout(100) }).then(() => "came", (error) => error.name);
    case "aborted": return fetch(url, { signal: AbortSignal.abort() }).then(() => "came", (error) => error.name);
    case "cancel": { const { body } = await fetch(url); await body!.cancel(); return "cancelled"; }
    case "leave": { await fetch(url); return "left"; }
    case "hang": { await fetch(url); await new Promise(() => {}); return ""; }
    case "twice": return Promise.all([1, 2, 3].map(async () => (await fetch(url)).text()));
    case "error": return fetch(url).then(() => "came", (error) => error.name + ": " + error.message);
  }
}
`;

describe("guests that fetch", () => {
  let answer: (request: IncomingMessage, response: ServerResponse, body: string) => void = () => {};
  let requests = 0;
  let closed = 0;
  const server = serverInSuite((request, response) => {
    requests++;
    response.on("close", () => closed++);
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => answer(request, response, Buffer.concat(chunks).toString()));
  });
  const berth = berthInSuite(() => ({
    texts: { "guest.ts": GUEST, "offline.ts": GUEST },
    mcps: { guest: { definition: "guest.ts", network: [new URL(server.url).host, "*.example.org"] } },
  }));
  let url = "";
  before(() => void (url = `${server.url}/path`));

  // oxlint-disable-next-line typescript/no-explicit-any -- a result has any shape
  const get = async (how: string, from = url, name = "guest"): Promise<any> => {
    const result = await call(`${berth.url}/mcp/${name}`, "get", { url: from, how });
    return result.structuredContent?.result ?? result.content?.[0]?.text ?? result;
  };

  it("reach what their entry lists, by the global fetch and the context's", async () => {
    answer = ({ method }, response) => response.setHeader("Content-Type", "text/plain").end(`hello ${method}`);
    assert.equal(await get("global"), "hello GET");
    assert.equal(await get("context"), "hello GET");
    assert.equal(await get("response"), "hello GET");
    assert.deepEqual(await get("twice"), ["hello GET", "hello GET", "hello GET"]);
  });

  it("have no network when their entry lists no host", async () => {
    const before = requests;
    for (const how of ["global", "context"]) {
      assert.match(await get(how, url, "offline"), /this server has no network access; list the hosts/);
    }
    assert.equal(requests, before);
  });

  it("reach nothing else: each refusal is a TypeError that says why, without the rest of the URL", async () => {
    const before = requests;
    for (const target of ["http://localhost:1/?token=x", url.replace("127.0.0.1", "127.0.0.2"), "not a url"]) {
      const said = await get("error", target);
      assert.match(said, /^TypeError: /, target);
      assert.doesNotMatch(said, /token=x/);
    }
    assert.equal(requests, before);
  });

  it("send bodies of every kind", async () => {
    answer = ({ headers }, response, body) => {
      const said = body.length > 100 ? body.length : body;
      response.end(JSON.stringify([said, headers["content-length"] ?? "in parts", headers["x-a"] ?? ""]));
    };
    assert.equal(await get("request"), '["of a request","12","b"]');
    assert.deepEqual(await get("json"), ['{"a":1}', "7", ""]);
    assert.equal(await get("bytes"), '[200000,"200000",""]');
    assert.equal(await get("stream"), '["one two three","in parts",""]');
    assert.match(await get("form"), /^\[\d+,"\d+",""\]$/);
  });

  it("see the whole head of a response, and follow redirects to allowed hosts", async () => {
    answer = (request, response) => {
      if (request.url === "/path") return response.writeHead(307, { Location: "/there" }).end();
      response.setHeader("Set-Cookie", ["a=b", "c=d"]);
      response.writeHead(418, "Short and stout", { "X-Said": "yes" }).end();
    };
    const there = url.replace(/:\d+\/path/, "/there");
    assert.deepEqual(await get("facts"), [418, "Short and stout", false, there, true, "yes", ["a=b", "c=d"]]);
    answer = (_request, response) => response.writeHead(302, { Location: "http://127.0.0.2:80/" }).end();
    assert.match(await get("error"), /127\.0\.0\.2:80 may not be reached/);
  });

  it("get the parts of a response as they arrive", async () => {
    let streamed: ServerResponse | undefined;
    const parts = ["one", "two", "three"];
    answer = ({ url = "" }, response) => {
      if (!url.endsWith("?next")) return void (streamed = response).write(parts.shift());
      response.end();
      const part = parts.shift();
      if (part === undefined) streamed?.end();
      else streamed?.write(part);
    };
    assert.deepEqual(await get("parts"), ["one", "two", "three"]);
  });

  it("can be aborted before the response and within it, and abandoned", async () => {
    answer = (_request, response) => void response.write("half");
    assert.equal(await get("abort"), "AbortError");
    assert.equal(await get("cancel"), "cancelled");
    assert.equal(await get("leave"), "left");
    answer = () => {};
    assert.equal(await get("abort early"), "TimeoutError");
    await until(() => closed === requests);
    const before = requests;
    assert.equal(await get("aborted"), "AbortError");
    assert.equal(requests, before);
  });

  it("close their connections when the caller cancels", async () => {
    answer = (_request, response) => void response.write("half");
    const [before, asked] = [closed, requests];
    const stop = new AbortController();
    const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "guest.get", params: { url, how: "hang" } });
    const headers = { "Content-Type": "application/json", Accept: "application/json, text/event-stream" };
    const hanging = fetch(`${berth.url}/mcp`, { method: "POST", headers, body, signal: stop.signal });
    await until(() => requests === asked + 1);
    stop.abort();
    await hanging.then((response) => response.text()).catch(() => {});
    await until(() => closed === before + 1);
  });
});
