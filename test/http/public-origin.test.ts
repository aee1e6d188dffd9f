import assert from "node:assert/strict";
import { request as httpRequest } from "node:http";
import { describe, it } from "node:test";
import { readConfig } from "../../src/config.ts";
import { startTestBerth, type TestBerth } from "../support/berth.ts";
import { berthInSuite } from "../support/suite.ts";

const TEXTS = { "hello.ts": 'export function hello(): string { return "hello"; }' };
const PUBLIC = "https://mcp.example.com";

/** The address that a server's page tells clients, for a request with these headers. */
async function toldAt(berth: TestBerth, headers: Record<string, string>): Promise<string | number> {
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

    it("is the public one, whether the proxy hands on the host or its own (C6)", async () => {
      const forwarded = { "X-Forwarded-Proto": "https" };
      assert.equal(await toldAt(berth, { Host: "mcp.example.com", ...forwarded }), PUBLIC);
      assert.equal(await toldAt(berth, { Host: "mcp.example.com" }), PUBLIC);
      assert.equal(await toldAt(berth, forwarded), PUBLIC);
    });

    it("has the scheme that the proxy tells for another name, and no scheme that is none of the two (C6)", async () => {
      const toldFor = (proto: string): Promise<string | number> =>
        toldAt(berth, { Host: "other.example", "X-Forwarded-Proto": proto });
      assert.equal(await toldFor("https"), "https://other.example");
      assert.equal(await toldFor("http"), "http://other.example");
      assert.equal(await toldFor("javascript"), "http://other.example");
    });

    it("is the loopback one for who sits at this machine, and T14.4 still none for a host that is not known (C6)", async () => {
      assert.equal(await toldAt(berth, {}), berth.url);
      assert.equal(await toldAt(berth, { Host: "evil.example", "X-Forwarded-Proto": "https" }), 403);
    });
  });

  it("is as it was asked for without BERTH_PUBLIC_URL, whatever is said of a proxy (C6)", async () => {
    const berth = await startTestBerth({ texts: TEXTS });
    assert.equal(await toldAt(berth, { "X-Forwarded-Proto": "https", "X-Forwarded-Host": "evil.example" }), berth.url);
    assert.equal(await toldAt(berth, { Host: "mcp.example.com" }), 403);
    await berth.close();
  });

  it("is a scheme, a host and at most a path that Berth does not use itself", () => {
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
