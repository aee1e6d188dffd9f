import assert from "node:assert/strict";
import { subscribe, unsubscribe } from "node:diagnostics_channel";
import type { IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import { before, describe, it } from "node:test";
import { readConfig } from "../../src/config.ts";
import { readingBounds } from "../../src/lib/reading-bounds.ts";
import { call, MODERN_META, post, request, startTestBerth, withStatus } from "../support/berth.ts";
import { holdTimeouts } from "../support/clock.ts";
import { rigFor } from "../support/mcp-host.ts";
import { connectRaw, rawPost } from "../support/raw-http.ts";
import { stopwatch } from "../support/stopwatch.ts";
import { berthInSuite } from "../support/suite.ts";
import { until } from "../support/until.ts";

const PING = JSON.stringify(request("ping"));

/** Sends raw bytes, and returns the output once it matches or the service ends the connection. */
async function exchangeWith(url: string, bytes: string | Buffer, until?: RegExp): Promise<string> {
  const connection = await connectRaw(url);
  connection.socket.write(bytes);
  await (until ? connection.until(until) : connection.ended());
  connection.socket.destroy();
  return connection.text();
}

describe("a client that takes its time", () => {
  const FOREVER = { BERTH_IDLE_CONNECTION_MS: "120000" };
  const files = ["test/fixtures/servers/everyday.ts"];

  it("to finish its headers is told and cut off after headersMs", async () => {
    const berth = await startTestBerth({ files, env: { ...FOREVER, BERTH_HEADERS_MS: "300" } });
    const bytes = "POST /mcp/everyday HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow:";
    assert.match(await exchangeWith(berth.url, bytes), /^HTTP\/1.1 408 /);
    await berth.close();
  });

  it("to finish its body is told and cut off after requestMs", async () => {
    const berth = await startTestBerth({ files, env: { ...FOREVER, BERTH_REQUEST_MS: "300" } });
    const bytes = rawPost("/mcp/everyday", PING, { "Content-Length": "5000" });
    assert.match(await exchangeWith(berth.url, bytes), /^HTTP\/1.1 408 /);
    await berth.close();
  });

  it("to say anything, or anything more, is cut off", async () => {
    const env = { BERTH_HEADERS_MS: "1000", BERTH_IDLE_CONNECTION_MS: "300" };
    const berth = await startTestBerth({ files, env });
    assert.match(await exchangeWith(berth.url, ""), /^(HTTP\/1.1 408 .*)?/);
    const connection = await connectRaw(berth.url);
    connection.socket.write(rawPost("/mcp/everyday", PING));
    await connection.until(/"result"/);
    await connection.ended();
    await berth.close();
  });
});

describe("a client that does not wait for answers", () => {
  const berth = berthInSuite({ texts: {} });

  const asking = (path: string, count: number): string =>
    `GET ${path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n`.repeat(count);

  it("gets those of so many requests as may wait, in their order", async () => {
    const last = "GET /nowhere HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n";
    const text = await exchangeWith(berth.url, asking("/assets/none", 32) + last);
    const statuses = [...text.matchAll(/HTTP\/1.1 (\d+)/g)].map(([, status]) => status!);
    assert.deepEqual(
      statuses,
      Array.from({ length: 33 }, () => "404"),
    );
  });

  for (const path of ["/healthz", "/readyz", "/mcp", "/nowhere", "/.well-known/oauth-protected-resource"]) {
    it(`is cut off where it asks for more of ${path}`, async () => {
      const text = await exchangeWith(berth.url, asking(path, 1_000));
      assert.ok(text.split("HTTP/1.1 ").length <= 34, text.slice(-500));
    });
  }
});

it("a request behind a stream on one connection is carried out when the stream has ended, so that no answer waits for it", async (t) => {
  const rig = await rigFor(t);
  const called: unknown[] = [];
  rig.host.offer("server", { tools: { echo: (args) => String(called.push(args["text"])) } });
  const url = rig.url("server");
  const connection = await connectRaw(url);
  const headers = { "MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "subscriptions/listen" };
  const listen = { notifications: { toolsListChanged: true }, _meta: MODERN_META };
  const behind = request("tools/call", { name: "echo", arguments: { text: "behind" } });
  connection.socket.write(
    rawPost("/mcp/server", request("subscriptions/listen", listen), headers) + rawPost("/mcp/server", behind),
  );
  await connection.until(/acknowledged/);
  await call(url, "echo", { text: "beside" });
  assert.deepEqual(called, ["beside"]);
  connection.socket.destroy();
});

describe("an answer that nobody reads", () => {
  const env = { BERTH_STALLED_MS: "300", BERTH_OUTPUT_BYTES: "30000000", BERTH_GUEST_FRAME_BYTES: "30000000" };
  const berth = berthInSuite({ files: ["test/fixtures/servers/everyday.ts"], env });
  before(async () => {
    const headers = { "Content-Type": "text/plain", "If-None-Match": "*" };
    const put = { method: "PUT", headers, body: "x".repeat(1_000_000) };
    assert.equal((await fetch(`${berth.url}/api/variables/big`, put)).status, 201);
  });

  const long = request("tools/call", { name: "long", arguments: { bytes: 15_000_000 } });
  for (const [what, requests, bytes] of [
    ["of the API", "GET /api/variables/big HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".repeat(24), 24_000_000],
    ["to a call", rawPost("/mcp/everyday", long, { Accept: "application/json" }), 15_000_000],
  ] as const) {
    it(`${what} is cut off after stalledMs`, async (t) => {
      t.after(holdTimeouts(readingBounds.checkMs));
      const served: Socket[] = [];
      const note = (message: unknown): void =>
        void served.push((message as { request: IncomingMessage }).request.socket);
      subscribe("http.server.request.start", note);
      t.after(() => unsubscribe("http.server.request.start", note));
      const connection = await connectRaw(berth.url);
      connection.socket.write(requests);
      await connection.until(/^HTTP\/1.1 200[^]*xxx/);
      connection.socket.pause();
      await until(() => served[0]!.destroyed, "Berth cuts it off");
      connection.socket.resume();
      assert.ok((await connection.closed).length < bytes);
    });
  }
});

describe("HTTP at its edges", () => {
  const berth = berthInSuite({
    files: ["test/fixtures/servers/everyday.ts"],
    env: {
      BERTH_BODY_BYTES: "100000",
      BERTH_CONNECTIONS: "20",
      BERTH_ALLOWED_HOSTS: "berth.example",
      BERTH_ALLOWED_ORIGINS: "http://localhost:3000, https://client.example",
    },
  });

  const exchange = (bytes: string | Buffer, until?: RegExp): Promise<string> => exchangeWith(berth.url, bytes, until);
  const isServing = async (): Promise<void> => {
    assert.equal((await post(`${berth.url}/mcp/everyday`, request("ping"))).status, 200);
  };

  it("has nothing at an address with a broken escape", async () => {
    for (const path of ["/cid/%", "/api/variables/%", "/api/variables/%ff"]) {
      assert.equal((await fetch(`${berth.url}${path}`)).status, 404, path);
    }
  });

  it("looks through long headers once for the page of an unknown address", async () => {
    const page = async (path: string): Promise<number> => {
      const tookMs = stopwatch();
      const response = await withStatus(404, fetch(berth.url + path, { headers: { Accept: "text/html" } }));
      await response.text();
      return tookMs();
    };
    const [plain, marks] = ["a", "@"].map((letter) => `/${letter.repeat(15_000)}%0A`) as [string, string];
    let [plainMs, marksMs] = [Infinity, Infinity];
    for (let round = 0; round < 5; round++) {
      plainMs = Math.min(plainMs, await page(plain));
      marksMs = Math.min(marksMs, await page(marks));
    }
    assert.ok(marksMs < 5 * plainMs, `${marksMs} ms, and ${plainMs} ms for an address of other letters`);
  });

  it("ignores Accept and Accept-Encoding beyond 2,048 characters", async () => {
    const get = (accept: string, encoding: string) =>
      fetch(`${berth.url}/nowhere`, { headers: { Accept: accept, "Accept-Encoding": encoding } });
    const wish = await get("text/html", "gzip");
    assert.match(wish.headers.get("content-type")!, /html/);
    assert.equal(wish.headers.get("content-encoding"), "gzip");
    const encoding = await get("text/html", `gzip,${"a,".repeat(1_100)}`);
    assert.match(encoding.headers.get("content-type")!, /html/);
    assert.equal(encoding.headers.get("content-encoding"), null);
    const type = await get(`text/html,${"a/a,".repeat(600)}`, "gzip");
    assert.match(type.headers.get("content-type")!, /json/);
    for (const response of [wish, encoding, type]) assert.equal(response.status, 404);
  });

  it("survives clients that hang up in the middle of a body", async () => {
    for (let round = 0; round < 20; round++) {
      const connection = await connectRaw(berth.url);
      connection.socket.write(rawPost("/mcp/everyday", PING, { "Content-Length": "90000" }));
      connection.socket.resetAndDestroy();
    }
    await isServing();
  });

  it("answers a client that has shut down its sending side", async () => {
    const connection = await connectRaw(berth.url);
    connection.socket.end(rawPost("/mcp/everyday", PING));
    await connection.until(/"result":\{\}/);
    await connection.closed;
  });

  it("answers pipelined requests in their order", async () => {
    const ids = Array.from({ length: 20 }, (_, index) => index + 1);
    const wait = (id: number): string =>
      rawPost("/mcp/everyday", request("tools/call", { name: "wait", arguments: { ms: id % 3 === 0 ? 60 : 0 } }, id));
    const text = await exchange(ids.map(wait).join(""), /"id":20,/);
    const answered = [...text.matchAll(/"id":(\d+)/g)].map(([, id]) => Number(id));
    assert.deepEqual(answered, ids);
  });

  it("answers Expect: 100-continue, and rejects other expectations", async () => {
    const connection = await connectRaw(berth.url);
    const [head, body] = rawPost("/mcp/everyday", PING, { Expect: "100-continue" }).split("\r\n\r\n");
    connection.socket.write(`${head}\r\n\r\n`);
    await connection.until(/^HTTP\/1.1 100 Continue/);
    connection.socket.write(body!);
    await connection.until(/"result":\{\}/);
    connection.socket.destroy();
    assert.match(await exchange(rawPost("/mcp/everyday", PING, { Expect: "a miracle" }), /\r\n\r\n/), / 417 /);
  });

  it("rejects messages with two lengths", async () => {
    const smuggled = rawPost("/mcp/everyday", PING);
    for (const headers of [
      { "Transfer-Encoding": "chunked", "Content-Length": "6" },
      { "Content-Length": ["6", "7"] },
      { "Transfer-Encoding": "chunked, identity", "Content-Length": undefined },
    ]) {
      const text = await exchange(rawPost("/mcp/everyday", `0\r\n\r\n${smuggled}`, headers));
      assert.match(text, /^HTTP\/1.1 400 /);
      assert.doesNotMatch(text, /"result"/);
    }
  });

  it("gets a JSON-RPC response for a POST of JSON (T9.1, T9.7)", async () => {
    const url = `${berth.url}/mcp/everyday`;
    const { status, headers } = await post(url, request("ping"), { "Content-Type": "application/json; charset=utf-8" });
    assert.deepEqual([status, headers.get("content-type")], [200, "application/json"]);
    for (const type of ["text/plain", "application/jsonp", "multipart/form-data"]) {
      assert.equal((await post(url, request("ping"), { "Content-Type": type })).status, 415);
    }
  });

  it("rejects origins of other sites, other ports and other schemes (T14.4)", async () => {
    const { host: Host, port } = new URL(berth.url);
    for (const Origin of [
      "https://evil.example",
      "null",
      "http://127.0.0.1.evil.example",
      `http://127.0.0.1:${Number(port) - 1}`,
      "http://127.0.0.1",
      `http://localhost:${port}`,
      `http://[::1]:${port}`,
      "http://berth.example:8080",
      "https://localhost:3000",
    ]) {
      assert.match(await exchange(rawPost("/mcp/everyday", PING, { Host, Origin }), /\}$/), / 403 /, Origin);
      const lines = [`Host: ${Host}`, `Origin: ${Origin}`, "Access-Control-Request-Method: POST", "Connection: close"];
      const preflight = await exchange(`OPTIONS /mcp/everyday HTTP/1.1\r\n${lines.join("\r\n")}\r\n\r\n`);
      assert.match(preflight, / 403 /, Origin);
      assert.doesNotMatch(preflight, /Access-Control-Allow-Origin/);
    }
    for (const [host, Origin] of [
      [Host, berth.url],
      ["berth.example", "https://berth.example"],
      [Host, "https://client.example"],
    ] as const)
      assert.match(await exchange(rawPost("/mcp/everyday", PING, { Host: host, Origin }), /\}$/), / 200 /, Origin);
    assert.throws(() => readConfig({ BERTH_ALLOWED_ORIGINS: "*" }), /BERTH_ALLOWED_ORIGINS must list origins/);
  });

  it("rejects missing, repeated and unknown Host headers", async () => {
    assert.match(
      await exchange(rawPost("/mcp/everyday", PING, { Host: ["127.0.0.1", "evil.example"] }), /\}$/),
      / 403 /,
    );
    assert.match(await exchange(rawPost("/mcp/everyday", PING, { Host: undefined })), / 400 /);
    for (const evil of ["evil.example", "127.0.0.1.evil.example"])
      assert.match(await exchange(rawPost("/mcp/everyday", PING, { Host: evil }), /\}$/), / 403 /);
    assert.match(await exchange(rawPost("/mcp/everyday", PING, { Host: "a b" }), /\}$/), / 403 /);
    assert.match(await exchange("GET /mcp HTTP/1.1\r\nHost: evil.example\r\n\r\n", /\}$/), / 403 /);
    assert.match(await exchange(rawPost("/mcp/everyday", PING, { Host: "[::1]:7420" }), /\}$/), / 200 /);
  });

  it("rejects repeated headers that contradict the body", async () => {
    const meta = {
      "io.modelcontextprotocol/protocolVersion": "2026-07-28",
      "io.modelcontextprotocol/clientCapabilities": {},
    };
    const body = request("tools/list", { _meta: meta });
    const headers = { "MCP-Protocol-Version": "2026-07-28", "Mcp-Method": ["tools/list", "tools/call"] };
    assert.match(await exchange(rawPost("/mcp/everyday", body, headers), /\}$/), /400 [\s\S]*-32020/);
  });

  it("rejects headers above 16 KiB", async () => {
    assert.match(await exchange(rawPost("/mcp/everyday", PING, { "X-Large": "x".repeat(17_000) })), / 431 /);
    await isServing();
  });

  it("rejects what is not HTTP, and goes on serving", async () => {
    for (const bytes of [
      "\0\0\0\0\r\n\r\n",
      "FOO /mcp HTTP/1.1\r\n\r\n",
      "POST /mcp HTTP/9.9\r\n\r\n",
      "\u0016\u0003\u0001\r\n\r\n",
    ]) {
      assert.match(await exchange(bytes), /^HTTP\/1.1 400 /);
    }
    await isServing();
  });

  it("rejects other methods and names those that are allowed", async () => {
    for (const method of ["GET", "DELETE", "HEAD", "PUT", "PATCH", "PROPFIND", "TRACE", "LOCK"]) {
      for (const path of ["/mcp/everyday", ...(/GET|DELETE|HEAD/.test(method) ? [] : ["/mcp"])]) {
        const text = await exchange(`${method} ${path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n`);
        assert.match(text, /^HTTP\/1.1 405 /, `${method} ${path}`);
        assert.match(text, /\r\nAllow: .*POST/);
        if (method === "HEAD") assert.match(text, /\r\n\r\n$/, "HEAD has no body");
      }
    }
  });

  it("serves absolute addresses of allowed hosts that match the Host header", async () => {
    const { port } = new URL(berth.url);
    for (const [address, status] of [
      [`http://127.0.0.1:${port}/mcp/everyday`, 200],
      [`HTTP://localhost:${port}/mcp/everyday?x=1`, 200],
      [`http://127.0.0.1:${port}/mcp/nothing-of-that-name`, 404],
      ["http://evil.example/mcp/everyday", 403],
      ["ftp://127.0.0.1/mcp/everyday", 404],
      ["http://user@127.0.0.1/mcp/everyday", 404],
    ] as const) {
      const Host = /\/\/(?:user@)?([^/:]+)/.exec(address)![1]!;
      assert.match(await exchange(rawPost(address, PING, { Host }), /\}$/), new RegExp(` ${status} `), address);
    }
    const own = `http://127.0.0.1:${port}/mcp/everyday`;
    assert.match(await exchange(rawPost(own, PING, { Host: "evil.example" }), /\}$/), / 404 /);
    assert.match(await exchange(rawPost(own, PING, { Host: "localhost" }), /\}$/), / 404 /);
    assert.match(
      await exchange(
        `GET http://127.0.0.1:${port}/healthz HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nConnection: close\r\n\r\n`,
        /\}/,
      ),
      / 200 /,
    );
  });

  it("decodes names once, and finds no server by a path in a name (T14.1)", async () => {
    assert.match(await exchange(rawPost("/mcp/%65very%64ay", PING), /\}$/), / 200 /);
    assert.match(await exchange(rawPost("/mcp/everyday/?x=1#y", PING), /\}$/), / 200 /);
    for (const path of [
      "/mcp/%E0%A4%A",
      "/mcp/%2e%2e%2fmcp%2feveryday",
      "/mcp/every%00day",
      "//mcp/everyday",
      "/mcp/..%2F..%2Fetc%2Fpasswd",
      "/mcp/__proto__",
      "/mcp/constructor",
      "/mcp/%",
    ]) {
      assert.match(await exchange(rawPost(path, PING), /\}$/), / 404 /, path);
    }
    assert.match(await exchange(rawPost("http://evil.example/mcp/everyday", PING), /\}$/), / 404 /);
  });

  it("rejects bodies that are compressed or not UTF-8", async () => {
    const latin = Buffer.concat([
      Buffer.from(rawPost("/mcp/everyday", "12")).subarray(0, -2),
      Buffer.from([0x22, 0xff]),
    ]);
    assert.match(await exchange(latin, /\}$/), / 400 [\s\S]*-32700[\s\S]*UTF-8/);
    assert.match(await exchange(rawPost("/mcp/everyday", PING, { "Content-Encoding": "gzip" }), /\}$/), / 415 /);
  });

  it("answers JSON that is deep or wide", async () => {
    const deep = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"measure","arguments":${"[".repeat(40_000)}${"]".repeat(40_000)}}}`;
    assert.match(await exchange(rawPost("/mcp/everyday", deep), /\}$/), / 400 [\s\S]*256 levels/);
    const open = "[".repeat(90_000);
    assert.match(await exchange(rawPost("/mcp/everyday", open), /\}$/), / 400 [\s\S]*-32700/);
    const wide = JSON.stringify(request("ping", { wide: Array.from({ length: 30_000 }, () => 1) }));
    assert.match(await exchange(rawPost("/mcp/everyday", wide), /\}$/), / 200 /);
    const keys = `{${Array.from({ length: 5_000 }, (_, index) => `"__proto__${index}":{}`).join()},"__proto__":{"isError":true},"a":1}`;
    const text = await exchange(
      rawPost(
        "/mcp/everyday",
        `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"add","arguments":${keys}}}`,
      ),
      /\}$/,
    );
    assert.match(text, / 200 /);
    assert.equal(({} as { isError?: boolean }).isError, undefined);
  });

  it("limits chunked bodies while they arrive", async () => {
    const head = rawPost("/mcp/everyday", "", { "Transfer-Encoding": "chunked", "Content-Length": undefined });
    const chunk = `8000\r\n${" ".repeat(0x8000)}\r\n`;
    assert.match(await exchange(head + chunk.repeat(4), /\}$/), / 413 [\s\S]*100000 bytes/);
    const small = `${PING.length.toString(16)}\r\n${PING}\r\n0\r\n\r\n`;
    assert.match(await exchange(head + small, /\}$/), / 200 /);
  });

  it("closes connections above the limit", async () => {
    const held = await Promise.all(Array.from({ length: 20 }, () => connectRaw(berth.url)));
    const surplus = await connectRaw(berth.url);
    assert.equal(await surplus.closed, "");
    for (const { socket } of held) socket.destroy();
    await until(() =>
      isServing().then(
        () => true,
        () => false,
      ),
    );
  });

  it("answers in a type that Accept allows (T9.3)", async () => {
    const send = (Accept: string): Promise<string> => exchange(rawPost("/mcp/everyday", PING, { Accept }), /\}$/);
    assert.match(await send("text/event-stream;q=0, application/json"), / 200 [\s\S]*application\/json/);
    assert.match(await send("application/json;q=0"), / 406 /);
    assert.match(await send("text/html, */*;q=0.1"), / 200 /);
    assert.match(await send("text/html"), / 406 /);
    assert.match(await exchange(rawPost("/mcp/everyday", PING, { Accept: undefined }), /\}$/), / 200 /);
  });

  it("tells a preflight which headers pages may send, those of tool parameters too (T9.6)", async () => {
    const asked = "Content-Type, mcp-param-region, Mcp-Session-Id, Last-Event-ID, X-Evil, Cookie";
    const lines = ["Host: 127.0.0.1", "Origin: http://localhost:3000", `Access-Control-Request-Headers: ${asked}`];
    for (const path of ["/mcp", "/mcp/everyday"]) {
      const text = await exchange(`OPTIONS ${path} HTTP/1.1\r\n${lines.join("\r\n")}\r\n\r\n`, /\r\n\r\n/);
      assert.match(text, /^HTTP\/1.1 204 /);
      assert.match(
        text,
        /Access-Control-Allow-Headers: content-type, mcp-param-region, mcp-session-id, last-event-id\r\n/,
      );
      assert.match(text, /Access-Control-Allow-Methods: GET, POST, DELETE, OPTIONS\r\n/);
      assert.match(text, /Vary: .*Origin/);
    }
    const answer = await exchange(rawPost("/mcp/everyday", "{", { Origin: "http://localhost:3000" }), /\}$/);
    assert.match(answer, / 400 [\s\S]*Access-Control-Allow-Origin: http:\/\/localhost:3000\r\n/);
    assert.match(answer, /Access-Control-Expose-Headers: Mcp-Session-Id/);
  });
});
