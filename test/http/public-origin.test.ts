import assert from "node:assert/strict";
import { request as httpRequest } from "node:http";
import { describe, it } from "node:test";
import { readConfig } from "../../src/config.ts";
import { startTestBerth, type TestBerth } from "../support/berth.ts";
import { berthInSuite } from "../support/suite.ts";

const TEXTS = { "hello.ts": 'export function hello(): string { return "hello"; }' };
const PUBLIC = "https://mcp.example.com";

/** The address that a server's page tells clients, for a request with these headers. */
async function addressAt(berth: TestBerth, headers: Record<string, string>): Promise<string | number> {
  // `fetch` sets Host by itself, so this is sent by hand.
  const { status, text } = await new Promise<{ status: number; text: string }>((resolve, reject) => {
    const outgoing = httpRequest(`${berth.url}/mcp/meta/hello?tab=connect`, {
      headers: { Accept: "text/html", ...headers },
    });
    outgoing.once("error", reject).once("response", (response) => {
      let text = "";
      response.setEncoding("utf8").on("data", (chunk: string) => (text += chunk));
      response.once("end", () => resolve({ status: response.statusCode ?? 0, text }));
    });
    outgoing.end();
  });
  return /claude mcp add --transport http hello (\S+)\/mcp\/hello</.exec(text)?.[1] ?? status;
}

describe("the address that pages tell clients", () => {
  describe("behind a proxy that BERTH_PUBLIC_URL names", () => {
    const env = { BERTH_PUBLIC_URL: `${PUBLIC}/`, BERTH_ALLOWED_HOSTS: "other.example" };
    const berth = berthInSuite({ texts: TEXTS, env });

    it("uses the public address, whichever host the proxy sends (C6)", async () => {
      const forwarded = { "X-Forwarded-Proto": "https" };
      assert.equal(await addressAt(berth, { Host: "mcp.example.com", ...forwarded }), PUBLIC);
      assert.equal(await addressAt(berth, { Host: "mcp.example.com" }), PUBLIC);
      assert.equal(await addressAt(berth, forwarded), PUBLIC);
    });

    it("uses the scheme of X-Forwarded-Proto for other names, if it is http or https (C6)", async () => {
      const addressFor = (proto: string): Promise<string | number> =>
        addressAt(berth, { Host: "other.example", "X-Forwarded-Proto": proto });
      assert.equal(await addressFor("https"), "https://other.example");
      assert.equal(await addressFor("http"), "http://other.example");
      assert.equal(await addressFor("javascript"), "http://other.example");
    });

    it("uses the loopback address for local requests, and refuses unknown hosts (C6, T14.4)", async () => {
      assert.equal(await addressAt(berth, {}), berth.url);
      assert.equal(await addressAt(berth, { Host: "evil.example", "X-Forwarded-Proto": "https" }), 403);
    });
  });

  it("ignores headers of proxies without BERTH_PUBLIC_URL (C6)", async () => {
    const berth = await startTestBerth({ texts: TEXTS });
    assert.equal(
      await addressAt(berth, { "X-Forwarded-Proto": "https", "X-Forwarded-Host": "evil.example" }),
      berth.url,
    );
    assert.equal(await addressAt(berth, { Host: "mcp.example.com" }), 403);
    await berth.close();
  });

  it("accepts a scheme, a host and at most a path that Berth does not use itself", () => {
    assert.equal(readConfig({ BERTH_PUBLIC_URL: "HTTPS://MCP.example.com:443/" }).publicUrl, PUBLIC);
    assert.equal(readConfig({ BERTH_PUBLIC_URL: "" }).publicUrl, undefined);
    assert.equal(readConfig({ BERTH_PUBLIC_URL: `${PUBLIC}/tools/berth/` }).publicPath, "/tools/berth");
    const paths = ["/mcp", "/t/acme", "/api/", "//berth", "/be%20rth", "/berth?a"];
    const bad = [
      "mcp.example.com",
      "ftp://mcp.example.com",
      "https://me:secret@mcp",
      ...paths.map((path) => PUBLIC + path),
    ];
    for (const BERTH_PUBLIC_URL of bad) {
      assert.throws(
        () => readConfig({ BERTH_PUBLIC_URL }),
        /BERTH_PUBLIC_URL must be a scheme, a host and at most a path/,
      );
    }
    const explore = { BERTH_EXPLORE: "on", BERTH_PUBLIC_URL: PUBLIC };
    assert.throws(() => readConfig(explore), /cannot be combined with BERTH_PUBLIC_URL/);
  });
});
