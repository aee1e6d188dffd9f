import assert from "node:assert/strict";
import { request, type IncomingHttpHeaders } from "node:http";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { after, describe, test } from "node:test";
import { openAgentToAnywhere } from "../../src/network/agent.ts";
import { RegistryRelay } from "../../src/packages/registry-relay.ts";
import { registryOf, type TestRegistry } from "../support/registry.ts";
import { temporaryFolder } from "../support/suite.ts";

const token = "token-of-the-operator";

async function relayOf(registry: TestRegistry, path = "") {
  const dispatcher = openAgentToAnywhere();
  const relay = new RegistryRelay({
    registry: { url: registry.url + path, token, tarballOrigins: [] },
    dispatcher,
  });
  const socketPath = join(temporaryFolder(), "registry");
  await relay.listen(socketPath, undefined);
  after(async () => {
    await relay.close();
    await dispatcher.close();
  });
  const ask = (
    method: string,
    path: string,
    headers: Record<string, string> = {},
  ): Promise<{ status: number; headers: IncomingHttpHeaders; body: string }> =>
    new Promise((resolve, reject) => {
      const asked = request({ socketPath, method, path, headers }, (response) => {
        void text(response).then(
          (body) => resolve({ status: response.statusCode!, headers: response.headers, body }),
          reject,
        );
      });
      asked.on("error", reject);
      asked.end();
    });
  return { relay, ask };
}

describe("the relay of the registry", () => {
  test("passes on descriptions and tarballs, with the operator's token", async () => {
    const registry = await registryOf({ name: "@s/a" });
    const { relay, ask } = await relayOf(registry);
    assert.equal((await ask("GET", "/@s%2fa")).status, 200);
    assert.equal((await ask("GET", "/@s/a/-/a-1.0.0.tgz")).status, 200);
    assert.equal((await ask("HEAD", "/@s%2fa")).body, "");
    assert.equal((await ask("GET", "/gone")).status, 404);
    assert.deepEqual([...new Set(registry.authorizations)], [`Bearer ${token}`]);
    assert.equal(relay.refusal, undefined);
  });

  test("passes on nothing else: no method, no place of persons, tokens, or searches", async () => {
    const registry = await registryOf({ name: "a" });
    for (const [method, path] of [
      ["PUT", "/a"],
      ["POST", "/-/v1/login"],
      ["DELETE", "/a"],
      ["GET", "/-/whoami"],
      ["GET", "/-/npm/v1/tokens"],
      ["GET", "/-/v1/search?text=a"],
      ["GET", "/-/user/org.couchdb.user:me"],
      ["GET", "/-/package/a/dist-tags"],
      ["GET", "/"],
      ["GET", "/a/../../etc/passwd"],
      ["GET", "/%2e%2e/%2e%2e/etc/passwd"],
      ["GET", "//evil.example/a"],
      ["GET", "http://evil.example/a/-/a.tgz"],
      ["GET", "/a/1.0.0"],
      ["GET", "/a/-/../../secret.tgz"],
      ["GET", `/${"a".repeat(2_000)}`],
    ] as const) {
      const { relay, ask } = await relayOf(registry);
      assert.equal((await ask(method, path)).status, 403, `${method} ${path}`);
      assert.ok(relay.refusal, `${method} ${path}`);
    }
    assert.deepEqual(registry.requests, []);
  });

  test("stays below the path of the registry's address", async () => {
    const registry = await registryOf({ name: "a" });
    const { ask } = await relayOf(registry, "private/");
    assert.equal((await ask("GET", "/a")).status, 403);
    assert.equal((await ask("GET", "/private/../a")).status, 403);
    assert.equal((await ask("GET", "/private/a")).status, 404);
    assert.deepEqual(registry.requests, ["GET /private/a"]);
  });

  test("tells the registry nothing of its own accord, and npm no cookie", async () => {
    const registry = await registryOf();
    let heard: IncomingHttpHeaders = {};
    registry.at("/a", (asked, answer) => {
      heard = asked.headers;
      answer.writeHead(200, { "set-cookie": "a=b", "x-own": "1", "npm-notice": "buy", etag: '"1"' }).end("{}");
    });
    const { ask } = await relayOf(registry);
    const { headers } = await ask("GET", "/a?write=true", {
      cookie: "a=b",
      authorization: "Bearer own",
      "npm-session": "1",
    });
    const passed = ["set-cookie", "x-own", "npm-notice", "etag"].map((name) => headers[name]);
    assert.deepEqual(passed, [undefined, undefined, undefined, '"1"']);
    assert.equal(heard.authorization, `Bearer ${token}`);
    assert.deepEqual([heard.cookie, heard["npm-session"]], [undefined, undefined]);
  });
});
