import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { apiOf } from "../../support/api.ts";
import { call } from "../../support/berth.ts";
import { berthFor, berthInSuite } from "../../support/suite.ts";
import { bearer, makeToken } from "../../support/tokens.ts";

const TWO = `/** Adds. */ export function add(a: number, b: number): number { return a + b; }
/** Is for few. */ export function secretHandshake(): void { throw new Error("no"); }`;

describe("the list of servers", () => {
  const berth = berthInSuite({
    files: ["reference_templates/checksum.sh"],
    texts: {
      "sums.ts": TWO,
      "plain.ts": "/** Tells. */ export function tell(): string { return 'told'; }",
      "partly.ts": "export function fine(): void {}\nexport function bad(f: symbol): void {}",
    },
    mcps: {
      off: { definition: "plain.ts", enabled: false, description: "Switched off" },
      far: { upstream: "mcp+http://127.0.0.1:1/mcp", description: "Of others" },
      plain: { definition: "plain.ts", description: "Says <i>one</i> thing" },
    },
  });

  const get = (path: string, headers: Record<string, string> = {}): Promise<Response> =>
    fetch(`${berth.url}${path}`, { redirect: "manual", headers: { Accept: "text/html", ...headers } });
  const html = async (path: string, headers?: Record<string, string>): Promise<string> =>
    (await get(path, headers)).text();
  const listed = (page: string): string[] =>
    [...page.matchAll(/<th scope="row"><div class="server-name"><a href="[^"]*">([^<]*)</g)].map(([, name]) => name!);
  const found = async (query: string): Promise<string[]> => listed(await html(`/mcp?${query}`));

  it("is searched by name, description, tools, state and kind, without scripts (C6)", async () => {
    assert.deepEqual(await found(""), ["checksum", "far", "off", "partly", "plain", "sums"]);
    assert.deepEqual(await found("q=SUM"), ["checksum", "sums"]);
    assert.deepEqual(await found("q=one+thing"), ["plain"]);
    assert.deepEqual(await found("q=handshake"), ["sums"]);
    assert.deepEqual(await found("q=no-such-thing"), []);
    assert.deepEqual(await found("state=disabled"), ["off"]);
    assert.deepEqual(await found("state=problems"), ["partly"]);
    assert.deepEqual(await found("state=ready&q=t"), ["checksum", "partly", "plain", "sums"]);
    assert.deepEqual(await found("kind=upstream"), ["far"]);
    assert.deepEqual(await found("kind=definition&state=disabled"), ["off"]);
    assert.deepEqual(await found("state=&kind=&other=odd"), await found(""));
    const page = await html("/mcp?q=%3Cb%3E%22&state=ready");
    assert.match(page, /value="&lt;b&gt;&quot;"/);
    assert.match(page, /<option value="ready" selected>/);
  });

  it("refuses an unknown state or kind and names the valid ones (C6)", async () => {
    const states = /&quot;state&quot; must be one of ready, disabled, refused, unstarted, starting, problems/;
    for (const [query, reason] of [
      ["state=odd", states],
      ["state=READY", states],
      ["state=ready&state=disabled", states],
      ["state=toString", states],
      ["kind=odd", /&quot;kind&quot; must be one of definition, upstream, builtin/],
      ["q=a&q=b", /&quot;q&quot; may appear only once/],
    ] as const) {
      const response = await get(`/mcp?${query}`);
      assert.equal(response.status, 400, query);
      assert.match(await response.text(), reason);
    }
  });

  it("has pages of search results (C6)", async () => {
    const first = await html("/mcp?q=s&kind=definition&limit=1");
    assert.deepEqual(listed(first), ["checksum"]);
    const next = /rel="next" href="([^"]+)"/.exec(first)![1]!.replaceAll("&amp;", "&").replaceAll("&#x3D;", "=");
    assert.match(next, /q=s.*kind=definition/);
    assert.deepEqual(listed(await html(next)), ["off"]);
  });

  it("finds no server by a tool that the token may not see", async () => {
    const { token } = await makeToken(berth, { can: ["call", "read"], servers: ["sums"], tools: ["add"] });
    assert.deepEqual(listed(await html("/mcp", bearer(token))), ["sums"]);
    assert.deepEqual(listed(await html("/mcp?q=add", bearer(token))), ["sums"]);
    assert.deepEqual(listed(await html("/mcp?q=handshake", bearer(token))), []);
    assert.deepEqual(listed(await html("/mcp?q=plain", bearer(token))), []);
    assert.doesNotMatch(await html("/mcp", bearer(token)), /New server|Add remote server/);
  });

  it("reports how many servers a search has not reached, and finds by name without loading (C6)", async (t) => {
    const names = Array.from({ length: 40 }, (_, index) => `server-${String(index).padStart(2, "0")}`);
    const texts = Object.fromEntries(
      names.map((name) => [`${name}.ts`, `/** ${name} */ export function hidden(): void {}`]),
    );
    const slow = await berthFor(t, { texts, env: { BERTH_SERVER_SEARCH_MS: "1" } });
    const search = async (words: string): Promise<string> =>
      (await fetch(`${slow.url}/mcp?q=${words}`, { headers: { Accept: "text/html" } })).text();
    const first = await search("hidden");
    assert.match(first, /Not searched yet: \d+ servers/);
    assert.match(first, /<a href="\/mcp\?q&#x3D;hidden">Continue the search<\/a>/);
    const none = await search("no-such-thing");
    const [, searched, left] = /No server found among the (\d+) searched so far.*Not searched yet: (\d+) server/s.exec(
      none,
    )!;
    assert.equal(Number(searched) + Number(left), names.length);
    assert.match(none, /No match yet\./);
    assert.doesNotMatch(none, /No server matches/);
    assert.ok(listed(first).length < names.length);
    assert.deepEqual(listed(await search("server-39")), ["server-39"], "a name needs no look at the server");
  });

  it("shows the calls and errors of the last hour, and the last call (C6)", async () => {
    const line = async (): Promise<string> => /href="\/mcp\/meta\/sums".*?<\/tbody>/s.exec(await html("/mcp"))![0];
    assert.match(await line(), /no calls.*none since Berth started/s);
    await call(`${berth.url}/mcp/sums`, "add", { a: 1, b: 2 });
    await call(`${berth.url}/mcp/sums`, "add", { a: "x" });
    await call(`${berth.url}/mcp/sums`, "secretHandshake");
    assert.match(await line(), /<span class="visually-hidden">3 calls, 2 errors<\/span>/);
    assert.match(await line(), /<path class="errors" d="M55 16v-[\d.]+h4V16z"/);
    assert.match(await line(), /<time datetime="[^"]+" title="[^"]+ UTC">just now<\/time>/);
  });

  it("is where addresses of definitions are redirected to", async () => {
    const to = async (path: string): Promise<string | null> => (await get(path)).headers.get("location");
    assert.equal(await to("/servers"), "/mcp");
    assert.equal(await to("/servers?limit=2&cursor=x"), "/mcp?limit=2&cursor=x");
    assert.equal(await to("/servers?name=sums"), "/servers/sums");
    assert.equal(await to("/servers?name=fresh&new=shell"), "/servers/new?name=fresh&template=shell");
  });
  it("has a page for a new server for browsers, and none for programs", async () => {
    for (const path of ["/servers/new", "/servers/new?", "/servers/new?name=&template=ask"]) {
      assert.match(await html(path), /<h1>New server<\/h1>/, path);
      const { status, headers } = await fetch(`${berth.url}${path}`, { headers: { Accept: "application/json" } });
      assert.deepEqual([status, headers.get("content-type")], [404, "application/json"], path);
    }
  });

  it("rejects a name that is taken or invalid, and escapes it", async () => {
    assert.match(await html("/servers/new?name=sums&template=ask"), /There is a server &quot;sums&quot; already/);
    const hostile = await html("/servers/new?name=%3Cimg+src%3Dx%3E&template=typescript");
    assert.match(hostile, /&lt;img src&#x3D;x&gt;&quot; cannot be a server&#x27;s name/);
    assert.doesNotMatch(hostile, /<img src=x/);
    assert.match(await html("/servers/new?name=meta&template=remote"), /&quot;meta&quot; is taken/);
    assert.match(await html("/servers/new?name=new&template=typescript"), /&quot;new&quot; is taken/);
  });

  it("offers templates without a problem, whose tools are known before anything is saved", async () => {
    const api = apiOf(berth);
    const tools = {
      typescript: "fresh",
      shell: "fresh",
      api: "account",
      ask: "bookTable",
      notes: "append",
      loan: "repay",
    };
    for (const [template, tool] of Object.entries(tools)) {
      const page = await html(`/servers/new?name=fresh&template=${template}`);
      const files = [...page.matchAll(/<textarea data-path="([^"]+)"[^>]*>\n([^]*?)<\/textarea>/g)].map(
        ([, path, text]) => [path!, text!.replaceAll("&lt;", "<").replaceAll("&gt;", ">").replaceAll("&amp;", "&")],
      );
      const draft = { entry: files[0]![0], files: Object.fromEntries(files) };
      const { body } = await api.send("POST", "/definitions/fresh/review", draft);
      // Its grants stand beside it until both are saved.
      const codes = body.problems.map(({ code }: { code: string }) => code);
      assert.deepEqual(codes, template === "api" ? ["secret-requested", "network-requested"] : [], template);
      const names = body.servers[0].tools.map(({ name }: { name: string }) => name);
      assert.ok(names.includes(tool), `${template}: ${names}`);
    }
    assert.match(await html("/servers/new?name=fresh&template=postgres"), /<code>pg-cursor<\/code>[^]*DATABASE_URL/);
    assert.equal((await api.send("GET", "/definitions/fresh")).status, 404);
  });
});
