import assert from "node:assert/strict";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { text as textOf } from "node:stream/consumers";
import { after, before, describe, it } from "node:test";
import { inspect } from "node:util";
import { brotliCompressSync, deflateSync, gzipSync } from "node:zlib";
import { clock } from "../../src/lib/clock.ts";
import type { Json, JsonObject } from "../../src/lib/json.ts";
import { defaultLimits } from "../../src/limits/limits.ts";
import { parseAllowedHost, type AllowedHost } from "../../src/network/allow-list.ts";
import { Fetches, type FetchLimits, type FetchStep } from "../../src/network/fetches.ts";
import { openSender, openPublicSender, openPublicFetch } from "../../src/network/public-fetch.ts";
import { listening } from "../support/listening.ts";
import { lower } from "../support/lowered-limits.ts";
import { until } from "../support/until.ts";

/** A guest's call that a test can end. */
class Call {
  readonly closers: ((why: string) => void)[] = [];
  onOver(close: (why: string) => void): void {
    this.closers.push(close);
  }
  over(): void {
    for (const close of this.closers) close("its call is over");
  }
}

describe("the fetches of a server's code", () => {
  const seen: { url: string; headers: IncomingMessage["headers"]; body: string; method: string; from: string }[] = [];
  let answer: (request: IncomingMessage, response: ServerResponse, body: string) => void = () => {};
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => {
      const body = Buffer.concat(chunks).toString();
      const { url = "", headers, method = "", socket } = request;
      seen.push({ url, headers, body, method, from: socket.localAddress ?? "" });
      answer(request, response, body);
    });
  });
  let port = 0;
  const names: Record<string, string[][]> = {};
  const asked: string[] = [];

  before(async () => {
    port = await listening(server, "0.0.0.0");
  });
  after(() => {
    server.close();
    server.closeAllConnections();
  });

  /** The hosts in `names` have the addresses there, one list for each look-up. */
  const resolve = async (hostname: string): Promise<readonly string[]> => {
    asked.push(hostname);
    const answers = names[hostname] ?? [];
    return (answers.length > 1 ? answers.shift() : answers[0]) ?? [];
  };

  const open = (list: readonly string[], limits: Partial<FetchLimits> = {}) => {
    const allowed = list.map((text) => parseAllowedHost(text) as AllowedHost);
    const fetches = new Fetches(allowed, { ...defaultLimits, ...limits }, { privateToo: true, resolve });
    const call = new Call();
    let id = 0;
    const request = (step: FetchStep, params: JsonObject) => fetches.request(step, params, call);
    return {
      call,
      fetches,
      request,
      begin: (url: string, params: JsonObject = {}) =>
        request("fetch", { id: ++id, url, method: "GET", headers: [], ...params }) as Promise<Head>,
      text: async (fetchId = id): Promise<string> => {
        let text = "";
        for (;;) {
          const part = (await request("fetchRead", { id: fetchId })) as { base64: string } | null;
          if (!part) return text;
          text += Buffer.from(part.base64, "base64").toString();
        }
      },
    };
  };
  type Head = { status: number; headers: [string, string][]; hasBody: boolean; url: string; redirected: boolean };

  it("refuse an unlisted host without resolving it", async () => {
    const { begin } = open([`good.test:${port}`]);
    asked.length = 0;
    await assert.rejects(begin(`http://evil.test:${port}/?token=secret`), (error: Error) => {
      assert.match(error.message, /fetching from evil\.test:\d+ failed: .*"network" of this server's entry/);
      assert.doesNotMatch(error.message, /token=secret/);
      return true;
    });
    assert.deepEqual(asked, []);
  });

  it("resolve a host once for each connection, and connect to an address that was checked", async () => {
    names["rebind.test"] = [["10.255.255.1", "127.0.0.1", "::1"], ["127.0.0.2"]];
    const { begin, text } = open([`*:${port}`, `127.0.0.1:${port}`]);
    answer = (_request, response) => response.setHeader("Connection", "close").end("hello");
    asked.length = 0;
    assert.equal((await begin(`http://rebind.test:${port}/a?b`)).status, 200);
    assert.equal(await text(), "hello");
    assert.deepEqual(asked, ["rebind.test"]);
    assert.deepEqual([seen.at(-1)!.from, seen.at(-1)!.headers.host], ["127.0.0.1", `rebind.test:${port}`]);
    const before = seen.length;
    await assert.rejects(begin(`http://rebind.test:${port}/`), /127\.0\.0\.2 is not a public address/);
    await assert.rejects(begin(`http://[::1]:${port}/`), /::1 is not a public address/);
    await assert.rejects(begin(`http://none.test:${port}/`), /the host has no address/);
    assert.equal(seen.length, before);
  });

  it("check each redirect by host, address and scheme", async () => {
    names["good.test"] = [["127.0.0.1"]];
    names["inside.test"] = [["127.0.0.2"]];
    const list = [`good.test:${port}`, `inside.test:${port}`, `127.0.0.1:${port}`];
    const { begin, text } = open(list);
    const targets: [string, RegExp | undefined][] = [
      ["/second", undefined],
      [`http://evil.test:${port}/`, /evil\.test:\d+ may not be reached/],
      [`http://good.test@evil.test:${port}/`, /evil\.test|may not be reached|failed/],
      [`http://127.0.0.2:${port}/`, /may not be reached/],
      [`http://inside.test:${port}/`, /127\.0\.0\.2 is not a public address.*: add "127\.0\.0\.2:<port>"/],
      [`http://good.test:${port - 1}/`, /may not be reached/],
      ["file:///etc/passwd", /failed/],
      ["data:text/plain,inside", /failed/],
    ];
    for (const [target, refusal] of targets) {
      answer = (request, response) => {
        if (request.url === "/second") response.end("second");
        else response.writeHead(302, { Location: target }).end();
      };
      const before = seen.length;
      if (refusal) {
        await assert.rejects(begin(`http://good.test:${port}/first`), refusal, target);
        assert.equal(seen.length, before + 1, target);
      } else {
        const head = await begin(`http://good.test:${port}/first`);
        assert.deepEqual([head.redirected, head.url], [true, `http://good.test:${port}/second`]);
        assert.equal(await text(), "second");
      }
    }
    answer = (_request, response) => response.writeHead(302, { Location: "http://evil.test/" }).end();
    const manual = await begin(`http://good.test:${port}/`, { redirect: "manual" });
    assert.equal(manual.status, 302);
    answer = (_request, response) => response.writeHead(302, { Location: "/again" }).end();
    await assert.rejects(begin(`http://good.test:${port}/`), /redirect/);
  });

  it("leave connection headers to the host", async () => {
    const { begin, text } = open([`127.0.0.1:${port}`]);
    answer = (_request, response) => response.end("ok");
    const headers = [
      ["Host", "evil.test"],
      ["Connection", "keep-alive, X-Mine"],
      ["Transfer-Encoding", "chunked"],
      ["Content-Length", "3"],
      ["Upgrade", "websocket"],
      ["Expect", "100-continue"],
      ["Proxy-Authorization", "x"],
      ["X-Mine", "mine"],
      ["Authorization", "Bearer token"],
    ];
    const base64 = Buffer.from("hello").toString("base64");
    await begin(`http://127.0.0.1:${port}/`, { headers, method: "POST", base64 });
    await text();
    const { headers: sent, body } = seen.at(-1)!;
    assert.equal(body, "hello");
    assert.deepEqual(
      [sent.host, sent["content-length"], sent["x-mine"], sent.authorization, sent["user-agent"]],
      [`127.0.0.1:${port}`, "5", "mine", "Bearer token", "Berth"],
    );
    for (const name of ["upgrade", "expect", "proxy-authorization", "transfer-encoding"])
      assert.equal(sent[name], undefined);
    for (const bad of [[["X-A", "a\r\nHost: evil"]], [["X A", "a"]], [["X-A", 1]], "X-A"]) {
      await assert.rejects(begin(`http://127.0.0.1:${port}/`, { headers: bad as Json }), /./, JSON.stringify(bad));
    }
    for (const method of ["CONNECT", "TRACE", "GET / HTTP/1.1\r\nX: y", ""]) {
      await assert.rejects(begin(`http://127.0.0.1:${port}/`, { method }), /./, method);
    }
  });

  it("stream bodies in both directions with backpressure", async () => {
    const { request, begin, text } = open([`127.0.0.1:${port}`]);
    let written = 0;
    answer = (_request, response) => {
      response.write("begun");
      const more = (): void => {
        while (written < 12 * 1024 * 1024 && response.write("x".repeat(64 * 1024))) written += 64 * 1024;
        response.once("drain", more);
      };
      more();
    };
    const length = 300_000;
    const beginning = begin(`http://127.0.0.1:${port}/`, { method: "PUT", parts: true, length });
    for (let sent = 0; sent < length; sent += 100_000) {
      await request("fetchWrite", { id: 1, base64: Buffer.alloc(100_000, "y").toString("base64") });
    }
    await request("fetchWrite", { id: 1 });
    assert.equal((await beginning).status, 200);
    assert.deepEqual([seen.at(-1)!.body.length, seen.at(-1)!.headers["content-length"]], [length, String(length)]);
    await request("fetchRead", { id: 1 });
    // In the time that this takes, all of the other body could have come.
    answer = (_request, response) => response.end("x".repeat(12 * 1024 * 1024));
    await begin(`http://127.0.0.1:${port}/`);
    await text();
    assert.ok(written < 12 * 1024 * 1024, "what nobody reads does not pile up");
    await request("fetchAbort", { id: 1 });
    await assert.rejects(request("fetchRead", { id: 1 }), /this fetch is over/);
  });

  it("send no request whose body does not match its length", async () => {
    const { request, begin } = open([`127.0.0.1:${port}`]);
    answer = (_request, response) => response.end("ok");
    const before = seen.length;
    const beginning = assert.rejects(begin(`http://127.0.0.1:${port}/`, { method: "POST", parts: true, length: 3 }));
    await request("fetchWrite", { id: 1, base64: Buffer.from("GET / HTTP/1.1").toString("base64") }).catch(() => {});
    await request("fetchWrite", { id: 1 }).catch(() => {});
    await beginning;
    assert.equal(seen.length, before);
  });

  it("fetchResponseBytes: cut off a longer response, even if it is compressed", async () => {
    const { begin, text } = open([`127.0.0.1:${port}`], { fetchResponseBytes: 100_000 });
    answer = (_request, response) => response.end("x".repeat(100_000));
    await begin(`http://127.0.0.1:${port}/`);
    assert.equal((await text()).length, 100_000);
    const bomb = gzipSync(Buffer.alloc(5 * 1024 * 1024));
    answer = (_request, response) => response.setHeader("Content-Encoding", "gzip").end(bomb);
    await begin(`http://127.0.0.1:${port}/`);
    await assert.rejects(text(), /longer than 100000 bytes \(BERTH_FETCH_RESPONSE_BYTES\)/);
  });

  it("decode one Content-Encoding and refuse more, for guests, upstreams and issuers", async () => {
    const here = parseAllowedHost(`127.0.0.1:${port}`) as AllowedHost;
    const url = `http://127.0.0.1:${port}/`;
    const { begin, text } = open([`127.0.0.1:${port}`]);
    const guests = (): Promise<string> => begin(url).then(() => text());
    const issuers = (): Promise<string> => openPublicFetch([here])(url).then((response) => response.text());
    const send = openSender();
    const upstreams = (): Promise<string> =>
      send(url, {}).then(({ pieces }) => textOf(pieces as AsyncIterable<Buffer>));
    await assert.rejects(openPublicSender()(url, {}), /127\.0\.0\.1/, "not for an upstream of a tenant");
    for (const get of [guests, issuers, upstreams]) {
      for (const codings of ["gzip, gzip", ["GZip", "gzip"], "gzip,"]) {
        answer = (_request, response) => response.setHeader("Content-Encoding", codings).end(gzipSync(gzipSync("x")));
        const refused = (error: Error): boolean => /more than one Content-Encoding \(/.test(inspect(error));
        await assert.rejects(get(), refused);
      }
      for (const [coding, body, text = "x"] of [
        ["gzip", gzipSync("x")],
        ["deflate", deflateSync("x")],
        ["br", brotliCompressSync("x")],
        ["gzip", "", ""],
      ] as const) {
        answer = (_request, response) => response.setHeader("Content-Encoding", coding).end(body);
        assert.equal(await get(), text, coding);
      }
    }
  });

  it("fetchRequestBytes: send no longer body", async (t) => {
    t.after(lower({ fetchRequestBytes: 1000 }));
    const { request, begin } = open([`127.0.0.1:${port}`]);
    const limit = /longer than 1000 bytes/;
    const base64 = Buffer.alloc(1001).toString("base64");
    await assert.rejects(begin(`http://127.0.0.1:${port}/`, { method: "POST", base64 }), limit);
    await assert.rejects(begin(`http://127.0.0.1:${port}/`, { method: "POST", parts: true, length: 1001 }), limit);
    const beginning = assert.rejects(begin(`http://127.0.0.1:${port}/`, { method: "POST", parts: true }), limit);
    await assert.rejects(request("fetchWrite", { id: 3, base64 }), limit);
    await beginning;
  });

  it("fetchMs: end a slow fetch before its head and within its body", async () => {
    const { begin, text } = open([`127.0.0.1:${port}`]);
    const late = new RegExp(`longer than ${defaultLimits.fetchMs} ms \\(BERTH_FETCH_MS\\)`);
    answer = () => clock.leap(defaultLimits.fetchMs);
    await assert.rejects(begin(`http://127.0.0.1:${port}/`), late);
    answer = (_request, response) => void response.write("half");
    await begin(`http://127.0.0.1:${port}/`);
    const reading = assert.rejects(text(), late);
    clock.leap(defaultLimits.fetchMs);
    await reading;
  });

  it("accept a few interim responses, and end a fetch with too many", async () => {
    const { begin, text } = open([`127.0.0.1:${port}`]);
    let hints = 3;
    answer = (_request, response) => {
      response.socket!.write("HTTP/1.1 103 Early Hints\r\n\r\n".repeat(hints));
      if (hints === 3) response.end("at last");
    };
    await begin(`http://127.0.0.1:${port}/`);
    assert.equal(await text(), "at last");
    hints = 100;
    await assert.rejects(begin(`http://127.0.0.1:${port}/`), /it sent more than 16 interim answers/);
  });

  it("fetchesPerCall and openFetches: limit the fetches of a call and of a server", async (t) => {
    t.after(lower({ openFetches: 2 }));
    answer = (_request, response) => void response.write("open");
    const { begin, request, fetches } = open([`127.0.0.1:${port}`], { fetchesPerCall: 3 });
    await begin(`http://127.0.0.1:${port}/`);
    await begin(`http://127.0.0.1:${port}/`);
    const params = { id: 1, url: `http://127.0.0.1:${port}/`, method: "GET", headers: [] };
    await assert.rejects(fetches.request("fetch", params, new Call()), /fetches of this server are open/);
    await request("fetchAbort", { id: 1 });
    await begin(`http://127.0.0.1:${port}/`);
    await assert.rejects(begin(`http://127.0.0.1:${port}/`), /\(BERTH_FETCHES_PER_CALL\)/);
  });

  it("end with their call, and belong to it alone", async (t) => {
    let closed = 0;
    answer = (_request, response) => {
      response.on("close", () => closed++);
      response.write("open");
    };
    t.after(lower({ openFetches: 2 }));
    const { begin, fetches, call, text } = open([`127.0.0.1:${port}`]);
    await begin(`http://127.0.0.1:${port}/`);
    const other = new Call();
    await assert.rejects(fetches.request("fetchRead", { id: 1 }, other), /this fetch is over/);
    assert.equal(await fetches.request("fetchAbort", { id: 1 }, other), null);
    const pending = assert.rejects(text());
    call.over();
    await pending;
    await until(() => closed === 1);
    await assert.rejects(begin(`http://127.0.0.1:${port}/`), /its call is over/);
    await fetches.request("fetch", { id: 1, url: `http://127.0.0.1:${port}/`, method: "GET", headers: [] }, other);
    other.over();
    await until(() => closed === 2);
  });
});
