import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { readConfig } from "../../../src/config.ts";
import { checkChange } from "../../../src/http/access/permit.ts";
import { BerthError } from "../../../src/lib/errors.ts";
import { apiOf } from "../../support/api.ts";
import { withStatus } from "../../support/berth.ts";
import { contextOf } from "../../support/request-context.ts";
import { berthInSuite } from "../../support/suite.ts";

const TOKEN = "a-token-of-enough-characters";

/** `ok`, or the code of the refusal and its message. */
function judge(headers: Record<string, string>, remoteAddress = "127.0.0.1"): string {
  const request = { headers: { host: "127.0.0.1:7420", ...headers }, socket: { remoteAddress } };
  try {
    checkChange(contextOf({ request }), "values");
    return "ok";
  } catch (error) {
    assert.ok(error instanceof BerthError);
    return `${error.code}: ${error.message}`;
  }
}

describe("who may write where nobody is asked for a token", () => {
  it("is a program on this machine", () => {
    for (const address of ["127.0.0.1", "127.8.9.1", "::1", "::ffff:127.0.0.1"]) assert.equal(judge({}, address), "ok");
    for (const address of ["10.0.0.7", "::ffff:10.0.0.7", "fe80::1", ""]) {
      assert.match(judge({}, address), /^write_forbidden: .*another machine, without a token/);
    }
  });

  it("is nobody behind a proxy, wherever the proxy sits", () => {
    for (const header of ["x-forwarded-for", "forwarded", "x-real-ip", "via", "x-forwarded-host"]) {
      assert.match(judge({ [header]: "10.0.0.7" }), /^write_forbidden: .*proxy/);
    }
  });

  it("is a page of this service, and of no other", () => {
    const own = { origin: "http://127.0.0.1:7420", "sec-fetch-site": "same-origin" };
    assert.equal(judge(own), "ok");
    assert.equal(judge({ host: "berth.example", origin: "https://berth.example" }), "ok");
    const others = [
      "http://127.0.0.1:8000",
      "http://localhost:7420",
      "https://evil.example",
      "null",
      "",
      "http://127.0.0.1:7420/x",
    ];
    for (const origin of others) assert.match(judge({ ...own, origin }), /^write_forbidden/, origin);
    for (const site of ["cross-site", "same-site"]) {
      assert.match(judge({ ...own, "sec-fetch-site": site }), /^write_forbidden: .*another site/);
    }
  });

  it("is no browser that does not say which page it comes from", () => {
    const form = { "content-type": "application/x-www-form-urlencoded" };
    assert.match(judge(form), /^write_forbidden: .*Origin/);
    assert.match(judge({ "content-type": "multipart/form-data; boundary=x" }), /^write_forbidden/);
    assert.match(judge({ cookie: "a=b" }), /^write_forbidden/);
    assert.match(judge({ "sec-fetch-site": "none" }), /^write_forbidden/);
    assert.match(judge({ referer: "http://127.0.0.1:7420/" }), /^write_forbidden/);
    assert.equal(judge({ ...form, origin: "http://127.0.0.1:7420" }), "ok");
  });

  it("is nobody by another way to say who one is", () => {
    for (const authorization of [`Basic ${TOKEN}`, "Bearer", ""]) {
      assert.match(judge({ authorization }), /^unauthorized/);
    }
  });

  it("is not decided by a token that anyone could guess", () => {
    for (const token of ["short", "has a space in it, and is long"]) {
      assert.throws(() => readConfig({ BERTH_ADMIN_TOKEN: token }), /BERTH_ADMIN_TOKEN/);
    }
    assert.equal(readConfig({}).adminToken, undefined);
    assert.equal(readConfig({ BERTH_ADMIN_TOKEN: TOKEN }).adminToken, TOKEN);
  });
});

describe("the JSON API", () => {
  const berth = berthInSuite({
    texts: { "one.ts": "export const one = (): number => 1;" },
    env: { BERTH_ADMIN_TOKEN: TOKEN, BERTH_ALLOWED_ORIGINS: "http://localhost:3000" },
  });
  const api = apiOf(berth);

  it("asks every request that writes who sends it, and lets the administrator write from anywhere", async () => {
    const writes = [
      ["PUT", "/variables/x"],
      ["PUT", "/secrets/API_TOKEN"],
      ["DELETE", "/secrets/API_TOKEN"],
      ["DELETE", "/entries/one"],
      ["POST", "/definitions/one/review"],
      ["POST", "/servers/one/releases/x/restore"],
    ] as const;
    for (const [method, path] of writes) {
      const proxied = await api.send(method, path, "x", { "X-Forwarded-For": "1.2.3.4", "If-Match": "*" });
      assert.deepEqual([path, proxied.status, proxied.body.error.code], [path, 403, "write_forbidden"]);
    }
    const wrong = await api.send("PUT", "/variables/x", "x", { Authorization: "Bearer wrong", "If-None-Match": "*" });
    assert.equal(wrong.status, 401);
    assert.match(wrong.headers.get("www-authenticate")!, /^Bearer error="invalid_token", error_description="/);
    const headers = { Authorization: `Bearer ${TOKEN}`, "X-Forwarded-For": "1.2.3.4", "If-None-Match": "*" };
    assert.equal((await api.send("PUT", "/variables/x", "x", headers)).status, 201);
  });

  it("is no business of other origins, not even to read", async () => {
    const read = await withStatus(200, api.send("GET", "/variables", undefined, { Origin: "http://localhost:3000" }));
    assert.equal(read.headers.get("access-control-allow-origin"), null);
    for (const page of ["/variables/x", "/servers/one", "/audit", "/packages", "/secrets", "/mcp/meta/one"]) {
      const { headers } = await fetch(`${berth.url}${page}`, { headers: { Origin: "http://localhost:3000" } });
      assert.deepEqual([page, headers.get("access-control-allow-origin")], [page, null]);
    }
    const preflight = await api.send("OPTIONS", "/variables/x", undefined, {
      Origin: "http://localhost:3000",
      "Access-Control-Request-Method": "PUT",
    });
    assert.equal(preflight.headers.get("access-control-allow-methods"), null);
    assert.equal(preflight.headers.get("access-control-allow-origin"), null);
    await withStatus(403, api.send("PUT", "/variables/x", "y", { Origin: "http://localhost:3000", "If-Match": "*" }));
  });
});
