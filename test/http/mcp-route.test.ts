import assert from "node:assert/strict";
import { request as httpRequest, type IncomingHttpHeaders } from "node:http";
import { after, before, describe, it } from "node:test";
import { readConfig } from "../../src/config.ts";
import { post, request, startTestBerth, type TestBerth } from "../support/berth.ts";

const PING = JSON.stringify(request("ping"));

describe("the endpoint of a server over HTTP", () => {
  let berth: TestBerth;
  let url: string;
  before(async () => {
    berth = await startTestBerth({
      files: ["test/fixtures/servers/everyday.ts"],
      mcps: { everyday: { definition: "everyday.ts", description: "<script>alert(1)</script>" } },
      env: {
        BERTH_ALLOWED_HOSTS: "berth.example",
        BERTH_ALLOWED_ORIGINS: "http://localhost:5173, https://client.example",
      },
    });
    url = `${berth.url}/mcp/everyday`;
  });
  after(() => berth.close());

  // `fetch` sets Host by itself, so these are sent by hand.
  const send = (headers: Record<string, string>, method = "POST", path = "/mcp/everyday") =>
    new Promise<{ status: number; headers: IncomingHttpHeaders; text: string }>((resolve, reject) => {
      const outgoing = httpRequest(`${berth.url}${path}`, { method, headers }, (response) => {
        let text = "";
        response.setEncoding("utf8").on("data", (chunk: string) => (text += chunk));
        response.on("end", () => resolve({ status: response.statusCode ?? 0, headers: response.headers, text }));
      });
      outgoing.on("error", reject).end(method === "POST" ? PING : undefined);
    });
  const json = { "Content-Type": "application/json" };

  it("T9.1 a POST to the endpoint of a server gets a JSON-RPC response", async () => {
    const { status, headers } = await post(url, request("ping"));
    assert.equal(status, 200);
    assert.equal(headers.get("content-type"), "application/json");
  });

  it("T9.3 Accept: application/json gets JSON, none at all too, and what cannot be met is 406", async () => {
    assert.equal((await post(url, request("ping"), { Accept: "application/json" })).status, 200);
    assert.equal((await send(json)).status, 200);
    assert.equal((await post(url, request("ping"), { Accept: "text/html" })).status, 406);
  });

  it("T9.6 a page that may call does so, and its preflight is answered", async () => {
    const { host, origin: own } = new URL(url);
    assert.equal((await send({ ...json, Host: host, Origin: own })).status, 200);
    assert.equal((await send({ ...json, Host: "berth.example", Origin: "https://berth.example" })).status, 200);
    assert.equal((await send({ ...json, Origin: "https://client.example" })).status, 200);
    const origin = "http://localhost:5173";
    const answer = await send({ ...json, Origin: origin });
    assert.equal(answer.status, 200);
    assert.equal(answer.headers["access-control-allow-origin"], origin);
    const preflight = await send({ Origin: origin, "Access-Control-Request-Method": "POST" }, "OPTIONS");
    assert.equal(preflight.status, 204);
    assert.match(preflight.headers["access-control-allow-headers"] ?? "", /Mcp-Method/);
  });

  it("T9.7 another Content-Type is 415", async () => {
    for (const type of ["text/plain", "application/jsonp", "multipart/form-data"]) {
      assert.equal((await post(url, request("ping"), { "Content-Type": type })).status, 415);
    }
    assert.equal((await post(url, request("ping"), { "Content-Type": "application/json; charset=utf-8" })).status, 200);
  });

  it("T14.4 another site's Origin is 403", async () => {
    const { host, port } = new URL(url);
    const others = [
      "https://evil.example",
      "null",
      "http://127.0.0.1.evil.example",
      // Pages of other programs on this machine, and of other ports of one of Berth's host names.
      `http://127.0.0.1:${Number(port) - 1}`,
      "http://127.0.0.1",
      `http://localhost:${port}`,
      `http://[::1]:${port}`,
      "http://berth.example:8080",
      "https://localhost:5173",
    ];
    for (const Origin of others) {
      const { status } = await send({ ...json, Host: host, Origin });
      assert.deepEqual([Origin, status], [Origin, 403]);
      const preflight = await send({ Host: host, Origin, "Access-Control-Request-Method": "POST" }, "OPTIONS");
      assert.deepEqual([Origin, preflight.status], [Origin, 403]);
      assert.equal(preflight.headers["access-control-allow-origin"], undefined);
    }
    assert.throws(() => readConfig({ BERTH_ALLOWED_ORIGINS: "*" }), /BERTH_ALLOWED_ORIGINS must list origins/);
  });

  it("a Host that we are not known by is 403, on pages too", async () => {
    assert.equal((await send({ ...json, Host: "evil.example" })).status, 403);
    assert.equal((await send({ Host: "evil.example" }, "GET", "/mcp")).status, 403);
    assert.equal((await send({ ...json, Host: "127.0.0.1.evil.example" })).status, 403);
    assert.equal((await send({ ...json, Host: "berth.example" })).status, 200);
    assert.equal((await send({ ...json, Host: "[::1]:7420" })).status, 200);
  });

  it("GET and DELETE of an endpoint are 405 and say what is allowed", async () => {
    for (const method of ["GET", "DELETE", "PUT"]) {
      const { status, headers } = await send({}, method);
      assert.equal(status, 405);
      assert.equal(headers["allow"], "POST");
    }
  });

  it("T14.1 a name with a path in it is no server", async () => {
    for (const name of ["..%2F..%2Fetc%2Fpasswd", "%2e%2e", "%", "a%00b", "__proto__", "constructor"]) {
      const { status } = await post(`${berth.url}/mcp/${name}`, request("ping"));
      assert.equal(status, 404, name);
    }
  });

  it("C6 T14.2 the page lists servers and tools, with everything escaped", async () => {
    const response = await fetch(`${berth.url}/mcp`);
    const page = await response.text();
    assert.equal(response.status, 200);
    assert.match(response.headers.get("content-security-policy") ?? "", /default-src 'none'/);
    assert.match(page, /everyday/);
    assert.match(page, /&lt;script&gt;alert\(1\)&lt;\/script&gt;/);
    assert.doesNotMatch(page, /<script(?! type="module" src="\/assets\/)/);
  });

  it("an address where nothing stands is 404", async () => {
    assert.equal((await fetch(`${berth.url}/nothing`)).status, 404);
    assert.equal((await fetch(`${berth.url}/healthz`)).status, 200);
  });
});
