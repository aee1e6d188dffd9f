import assert from "node:assert/strict";
import type { IncomingMessage, ServerResponse } from "node:http";
import { before, describe, it } from "node:test";
import type { JsonObject } from "../../src/lib/json.ts";
import { apiOf } from "../support/api.ts";
import { call, post, request } from "../support/berth.ts";
import { startExamples } from "../support/examples.ts";
import { inSuite, serverInSuite } from "../support/suite.ts";

const TOKEN = "ghp_the-token-of-the-tests";
const PAGE = `<!doctype html><html><head><title>Bread &amp; butter</title><script>alert("no")</script></head>
<body><nav><a href="/">Home</a></nav><main><h1>Bread</h1><p>Flour, <b>water</b> and <a href="/salt">salt</a>.</p>
<ul><li>one</li><li>two</li></ul><pre><code>knead()</code></pre></main><footer>Imprint</footer></body></html>`;

/** Answers as the sites do that the examples ask. */
function standIn(request: IncomingMessage, response: ServerResponse): void {
  const { pathname, searchParams } = new URL(request.url!, "http://localhost");
  const answer = (body: string, type = "text/html", status = 200): void =>
    void response.writeHead(status, { "Content-Type": `${type}; charset=utf-8` }).end(body);
  const json = (value: unknown): void => answer(JSON.stringify(value), "application/json");
  if (pathname === "/bread") return answer(PAGE);
  if (pathname === "/long") return answer("0123456789".repeat(100), "text/plain");
  if (pathname === "/image") return answer("x", "image/png");
  if (pathname === "/moved") return void response.writeHead(302, { Location: "/bread" }).end();
  if (pathname === "/out") return void response.writeHead(302, { Location: "http://192.0.2.1/" }).end();
  if (request.headers.authorization !== `token ${TOKEN}`)
    return answer('{"message":"Bad credentials"}', "application/json", 401);
  switch (pathname) {
    case "/search/repositories":
      assert.equal(searchParams.get("per_page"), "3");
      return json({
        items: [{ full_name: "nodejs/node", description: "Node", stargazers_count: 7, html_url: "https://x/node" }],
      });
    case "/search/issues":
      return json({ items: [{ number: 5, title: "Leak", state: "open", html_url: "https://x/5", pull_request: {} }] });
    case "/repos/nodejs/node/issues/5":
      return json({ title: "Leak", state: "open", user: { login: "ann" }, body: "It leaks." });
    case "/repos/nodejs/node/issues/5/comments":
      return json([{ user: { login: "bob" }, body: "Seen." }]);
    case "/repos/nodejs/node/contents/lib":
      return json([
        { name: "fs.js", type: "file" },
        { name: "internal", type: "dir" },
      ]);
    case "/repos/nodejs/node/contents/lib%2Ffs.js":
    case "/repos/nodejs/node/contents/lib/fs.js":
      return json({ type: "file", content: Buffer.from("code é").toString("base64") });
    default:
      return answer('{"message":"Not Found"}', "application/json", 404);
  }
}

describe("the examples", () => {
  const site = serverInSuite(standIn);
  let at: string;
  const served = inSuite(() => {
    at = new URL(site.url).host;
    const env = { GITHUB_TOKEN: "${GITHUB_TOKEN}", GITHUB_API_URL: `http://${at}` };
    return startExamples({ web: { network: [at] }, github: { network: [at], env }, loan: {} });
  });
  before(async () => {
    assert.equal((await apiOf(served).send("PUT", "/secrets/GITHUB_TOKEN", TOKEN)).status, 204);
  });

  const result = async (server: string, name: string, args: JsonObject) =>
    call(`${served.url}/mcp/${server}`, name, args);
  const value = async (server: string, name: string, args: JsonObject): Promise<unknown> => {
    const { structuredContent, content, isError } = await result(server, name, args);
    assert.ok(!isError, JSON.stringify(content));
    return structuredContent ?? content[0].text;
  };
  const failure = async (server: string, name: string, args: JsonObject): Promise<string> => {
    const { content, isError } = await result(server, name, args);
    assert.equal(isError, true);
    return content[0].text as string;
  };

  it("web gives what a page says as Markdown, without what stands around it", async () => {
    assert.deepEqual(await value("web", "read", { url: `http://${at}/bread` }), {
      url: `http://${at}/bread`,
      title: "Bread & butter",
      markdown: "# Bread\n\nFlour, **water** and [salt](/salt).\n\n-   one\n-   two\n\n```\nknead()\n```",
    });
  });

  it("web follows redirects within what it may reach, and no others", async () => {
    assert.match(JSON.stringify(await value("web", "read", { url: `http://${at}/moved` })), /# Bread/);
    assert.match(await failure("web", "read", { url: `http://${at}/out` }), /192\.0\.2\.1/);
    assert.match(await failure("web", "read", { url: "https://example.org/" }), /"network"/);
  });

  it("web gives long texts in parts, and says what is none", async () => {
    const first = (await value("web", "read", { url: `http://${at}/long`, length: 600 })) as { next: number };
    assert.equal(first.next, 600);
    const rest = (await value("web", "read", { url: `http://${at}/long`, start: 600, length: 600 })) as JsonObject;
    assert.equal(rest["markdown"], "0123456789".repeat(40));
    assert.equal(rest["next"], undefined);
    assert.match(await failure("web", "read", { url: `http://${at}/image` }), /is image\/png, and not a text/);
    assert.match(await failure("web", "read", { url: `http://${at}/none` }), /answered 401/);
  });

  it("loan pays back all of it, with interest and without, and brings the chart that shows it", async () => {
    const paid = (await value("loan", "repay", { amount: 240_000, rate: 3, years: 20 })) as JsonObject;
    const plan = paid["plan"] as { interest: number; repaid: number; owed: number }[];
    assert.deepEqual([paid["monthly"], paid["interest"], plan.length], [1331.03, 79_448.22, 20]);
    assert.deepEqual(plan[0], { year: 1, interest: 7078.37, repaid: 8894.04, owed: 231_105.96 });
    const free = (await value("loan", "repay", { amount: 1200, rate: 0, years: 2 })) as JsonObject;
    assert.deepEqual([free["monthly"], free["interest"]], [50, 0]);
    assert.deepEqual((free["plan"] as JsonObject[]).at(-1), { year: 2, interest: 0, repaid: 600, owed: 0 });
    const { body } = await post(`${served.url}/mcp/loan`, request("resources/read", { uri: "ui://loan/loan.html" }), {
      "MCP-Protocol-Version": "2025-06-18",
    });
    assert.match(body.result.contents[0].text, /<title>Loan<\/title>/);
  });

  it("github searches and reads with its token", async () => {
    assert.match(
      JSON.stringify(await value("github", "searchRepositories", { query: "node", count: 3 })),
      /"repository":"nodejs\/node","description":"Node","stars":7/,
    );
    assert.match(JSON.stringify(await value("github", "searchIssues", { query: "leak" })), /"kind":"pull request"/);
    assert.deepEqual(await value("github", "readIssue", { repository: "nodejs/node", number: 5 }), {
      title: "Leak",
      state: "open",
      author: "ann",
      body: "It leaks.",
      comments: [{ author: "bob", body: "Seen." }],
    });
    assert.deepEqual(await value("github", "readFile", { repository: "nodejs/node", path: "lib" }), {
      result: "fs.js\ninternal/",
    });
    assert.deepEqual(await value("github", "readFile", { repository: "nodejs/node", path: "lib/fs.js" }), {
      result: "code é",
    });
  });

  it("github says what is wrong, and never its token", async () => {
    assert.match(await failure("github", "readFile", { repository: "node" }), /write owner\/name/);
    const missing = await failure("github", "readFile", { repository: "nodejs/node", path: "nothing" });
    assert.match(missing, /Not Found/);
    assert.ok(!missing.includes(TOKEN));
  });

  it("github uses a new token from the next call on", async () => {
    const api = apiOf(served);
    assert.equal((await api.send("PUT", "/secrets/GITHUB_TOKEN", "another-token-for-tests")).status, 204);
    assert.match(await failure("github", "readIssue", { repository: "nodejs/node", number: 5 }), /Bad credentials/);
    assert.equal((await api.send("PUT", "/secrets/GITHUB_TOKEN", TOKEN)).status, 204);
    assert.match(JSON.stringify(await value("github", "searchIssues", { query: "leak" })), /Leak/);
  });
});
