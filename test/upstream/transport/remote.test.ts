import assert from "node:assert/strict";
import type { RequestListener } from "node:http";
import { test, type TestContext } from "node:test";
import type { BerthError } from "../../../src/lib/errors.ts";
import { legacyServer } from "../../support/legacy-server.ts";
import { rows } from "../../support/rows.ts";
import { berthInSuite, serve } from "../../support/suite.ts";
import { connect, withUpstream } from "../../support/upstreams.ts";

const HELLO = `/** Greets.
 * @param name - Whom. */
export function greet(name: string): string { return "Hello, " + name + "!"; }
/** Says its header.
 * @param region - Where.
 * @header Region */
export function there(region: string): string { return region; }
`;
const served = berthInSuite({ texts: { "hello.ts": HELLO } });
const remote = (path = "/mcp/hello"): string => `mcp+${served.url}${path}`;

/** An HTTP server for one test, as a launcher URI. */
const serverFor = async (t: TestContext, listener: RequestListener): Promise<string> =>
  `mcp+${await serve(t, listener)}/mcp`;

test("a remote server is reached over HTTP in the modern era (J1)", async () => {
  await withUpstream(remote(), async (upstream) => {
    assert.deepEqual([upstream.era, upstream.transport], ["modern", "http"]);
    const { items } = await upstream.listTools();
    assert.deepEqual(rows(items, "name"), ["greet", "there"]);
    const greeted = await upstream.callTool("greet", { name: "Ada" });
    assert.deepEqual(greeted.content[0]!["text"], "Hello, Ada!");
  });
});

test("a launcher URI restricts a remote server to one era (J1)", async (t) => {
  for (const era of ["modern", "legacy"]) {
    await withUpstream(`${remote()}?era=${era}`, async (upstream) => {
      assert.equal(upstream.era, era);
      assert.equal((await upstream.callTool("greet", { name: "Ada" })).content[0]!["text"], "Hello, Ada!");
    });
  }
  const older = await legacyServer(t, () => {});
  await assert.rejects(connect(`${older.uri}?era=modern`), { code: "upstream_not_started" });
  const asked = older.exchanges.map(({ message }) => message);
  assert.deepEqual(rows(asked, "method"), ["server/discover"]);
});

test("arguments that a remote server wants in headers are sent there, whether its tools were listed or not (J1)", async () => {
  await withUpstream(remote(), async (upstream) => {
    assert.deepEqual((await upstream.callTool("there", { region: "north" })).content[0]!["text"], "north");
    await upstream.listTools();
    assert.deepEqual((await upstream.callTool("there", { region: "süd" })).content[0]!["text"], "süd");
  });
});

test("a remote server that knows no server/discover is reached with a session, which is ended (J1)", async (t) => {
  const { uri, exchanges } = await legacyServer(t, () => {}, { "mcp-session-id": "one" });
  await withUpstream(uri, async (upstream) => {
    assert.equal(upstream.era, "legacy");
    assert.equal(await upstream.isResponsive(5_000), true);
  });
  const seen = exchanges.map(({ request, message: { method = "" } }) => `${request.method} ${method}`.trim());
  assert.deepEqual([seen[0], seen[1], seen.at(-1)], ["POST server/discover", "POST initialize", "DELETE"]);
  const { headers } = exchanges.at(-1)!.request;
  assert.equal(headers["mcp-session-id"], "one");
});

test("a remote server of HTTP+SSE alone is reached, too (J1)", async () => {
  await withUpstream(remote("/mcp/hello/sse"), async (upstream) => {
    assert.equal(upstream.era, "legacy");
    assert.deepEqual((await upstream.callTool("greet", { name: "Eve" })).content[0]!["text"], "Hello, Eve!");
  });
});

test("headers and query of the URI reach the server; what it refuses says what to do (J1)", async (t) => {
  const seen: (string | undefined)[] = [];
  const refuse: RequestListener = (request, response) => {
    seen.push(request.headers.authorization, request.url);
    response.writeHead(401).end("who are you?");
  };
  const env = { ...process.env, TOKEN: "very-secret" };
  const uri = `${await serverFor(t, refuse)}?query.key=1&header.Authorization=Bearer%20\${TOKEN}`;
  await assert.rejects(connect(uri, { env }), {
    code: "upstream_not_started",
    message: /HTTP 401 Unauthorized: who are you\?; the token was refused/,
  });
  assert.deepEqual(seen.slice(0, 2), ["Bearer very-secret", "/mcp?key=1"]);
});

test("credentials are not carried along to where a server redirects (J1)", async (t) => {
  const seen: (string | undefined)[] = [];
  const elsewhere = await serve(t, (request, response) => {
    seen.push(request.headers["x-api-key"] as string | undefined);
    response.writeHead(404).end();
  });
  const uri = await serverFor(t, (_request, response) => {
    response.writeHead(307, { location: `${elsewhere}/mcp` }).end();
  });
  await assert.rejects(connect(`${uri}?header.X-Api-Key=very-secret`), { code: "upstream_not_started" });
  assert.deepEqual(seen, []);
});

test("where no MCP server is reached, the error says at which address, why, and what to do", async (t) => {
  const wordsFor = async (uri: string): Promise<string> => {
    const { code, message } = await connect(uri).then(
      () => assert.fail("it is reached"),
      (error: BerthError) => error,
    );
    assert.equal(code, "upstream_not_started");
    return message.replace("The upstream cannot be started or reached: reaching ", "");
  };
  const page: RequestListener = (_request, response) =>
    response.writeHead(200, { "content-type": "text/html" }).end("");
  const uri = await serverFor(t, page);
  const { host } = new URL(uri.slice("mcp+".length));
  const noContent = `${host}/mcp: it answers with HTTP 200 and no content (text/html); is the path right?`;
  assert.equal(await wordsFor(uri), noContent);
  assert.equal(
    await wordsFor(uri.replace("http", "https")),
    `${host}/mcp: ${host} does not speak TLS there (ERR_SSL_WRONG_VERSION_NUMBER); is its address one of http, not https?`,
  );
  assert.equal(
    await wordsFor("mcp+http://127.0.0.1:2/mcp"),
    "127.0.0.1:2/mcp: nothing listens at 127.0.0.1:2 (ECONNREFUSED); start the server there, or correct its address",
  );
  const silent = await serverFor(t, (_request, response) => void response.destroy());
  assert.match(await wordsFor(silent), /mcp: 127\.0\.0\.1:\d+ closed the connection without an answer/);
  const otherJson: RequestListener = (_request, response) =>
    response.writeHead(200, { "content-type": "application/json" }).end('{"status":"ok"}');
  assert.match(await wordsFor(await serverFor(t, otherJson)), /it answers with JSON that is not a message: .*status/);
  const unknown = /the host nowhere\.invalid cannot be found \(E[A-Z_]+\); correct its name/;
  assert.match(await wordsFor("mcp+http://nowhere.invalid/mcp"), unknown);
});

test("a remote server that floods, or never answers, ends in a clear error", async (t) => {
  const flood: RequestListener = (_request, response) => {
    response.writeHead(200, { "content-type": "application/json" });
    const more = (): void => {
      while (!response.destroyed && response.write("x".repeat(65_536)));
    };
    response.on("drain", more);
    more();
  };
  const flooding = connect(await serverFor(t, flood), { limits: { upstreamMessageBytes: 1_000_000 } });
  await assert.rejects(flooding, { message: /a message of more than 1000000 bytes/ });
  const silent = connect(await serverFor(t, () => {}), { limits: { upstreamStartMs: 300 } });
  await assert.rejects(silent, { code: "upstream_timeout", message: /within 0\.3 s/ });
});
