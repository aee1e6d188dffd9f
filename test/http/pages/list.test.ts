import assert from "node:assert/strict";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { after, before, describe, it } from "node:test";
import { apiOf } from "../../support/api.ts";
import { call, startTestBerth, type TestBerth } from "../../support/berth.ts";
import { startBrowser, violationsOf, type TestBrowser } from "../../support/browser.ts";
import { bearer, makeToken } from "../../support/tokens.ts";

const TWO = `/** Adds. */ export function add(a: number, b: number): number { return a + b; }
/** Is for few. */ export function secretHandshake(): void { throw new Error("no"); }`;

describe("the list of servers", () => {
  let berth: TestBerth;
  let browser: TestBrowser;
  before(async () => {
    [berth, browser] = await Promise.all([
      startTestBerth({
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
      }),
      startBrowser(),
    ]);
  });
  after(async () => {
    await browser.close();
    await berth.close();
  });

  const get = (path: string, headers: Record<string, string> = {}): Promise<Response> =>
    fetch(`${berth.url}${path}`, { redirect: "manual", headers: { Accept: "text/html", ...headers } });
  const html = async (path: string, headers?: Record<string, string>): Promise<string> =>
    (await get(path, headers)).text();
  const listed = (page: string): string[] =>
    [...page.matchAll(/<th scope="row"><div class="server-name"><a href="[^"]*">([^<]*)</g)].map(([, name]) => name!);
  const found = async (query: string): Promise<string[]> => listed(await html(`/mcp?${query}`));

  it("C6 finds servers by name, description and tools, state and kind, without scripts", async () => {
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

  it("C6 leads from one page of what was found to the next", async () => {
    const first = await html("/mcp?q=s&kind=definition&limit=1");
    assert.deepEqual(listed(first), ["checksum"]);
    const next = /rel="next" href="([^"]+)"/.exec(first)![1]!.replaceAll("&amp;", "&").replaceAll("&#x3D;", "=");
    assert.match(next, /q=s.*kind=definition/);
    assert.deepEqual(listed(await html(next)), ["off"]);
  });

  it("C8 finds nothing for a person by a tool that they may not know of", async () => {
    const { token } = await makeToken(berth, { can: ["call", "read"], servers: ["sums"], tools: ["add"] });
    assert.deepEqual(listed(await html("/mcp", bearer(token))), ["sums"]);
    assert.deepEqual(listed(await html("/mcp?q=add", bearer(token))), ["sums"]);
    assert.deepEqual(listed(await html("/mcp?q=handshake", bearer(token))), []);
    assert.deepEqual(listed(await html("/mcp?q=plain", bearer(token))), []);
    assert.doesNotMatch(await html("/mcp", bearer(token)), /New server|Add remote server/);
  });

  it("says how many servers a search has not reached, and finds by name without loading (C6)", async () => {
    const names = Array.from({ length: 40 }, (_, index) => `server-${String(index).padStart(2, "0")}`);
    const texts = Object.fromEntries(
      names.map((name) => [`${name}.ts`, `/** ${name} */ export function hidden(): void {}`]),
    );
    const slow = await startTestBerth({ texts, env: { BERTH_SERVER_SEARCH_MS: "1" } });
    try {
      const search = async (words: string): Promise<string> =>
        (await fetch(`${slow.url}/mcp?q=${words}`, { headers: { Accept: "text/html" } })).text();
      const first = await search("hidden");
      assert.match(first, /Not searched yet: \d+ servers/);
      assert.match(first, /<a href="\/mcp\?q&#x3D;hidden">Continue the search<\/a>/);
      const none = await search("no-such-thing");
      const [, searched, left] =
        /No server found among the (\d+) searched so far.*Not searched yet: (\d+) server/s.exec(none)!;
      assert.equal(Number(searched) + Number(left), names.length);
      assert.match(none, /No match yet\./);
      assert.doesNotMatch(none, /No server matches/);
      assert.ok(listed(first).length < names.length);
      assert.deepEqual(listed(await search("server-39")), ["server-39"], "a name needs no look at the server");
    } finally {
      await slow.close();
    }
  });

  it("C6 shows the calls and errors of the last hour, and the last call", async () => {
    const line = async (): Promise<string> => /href="\/mcp\/meta\/sums".*?<\/tbody>/s.exec(await html("/mcp"))![0];
    assert.match(await line(), /no calls.*none since Berth started/s);
    await call(`${berth.url}/mcp/sums`, "add", { a: 1, b: 2 });
    await call(`${berth.url}/mcp/sums`, "add", { a: "x" });
    await call(`${berth.url}/mcp/sums`, "secretHandshake");
    assert.match(await line(), /<span class="visually-hidden">3 calls, 2 errors<\/span>/);
    assert.match(await line(), /<path class="errors" d="M55 16v-[\d.]+h4V16z"/);
    assert.match(await line(), /<time datetime="[^"]+" title="[^"]+ UTC">just now<\/time>/);
  });

  it("C6 is searched while a person types, and its tools are shown by keyboard", async () => {
    const page = await browser.open(`${berth.url}/mcp`);
    await page.getByRole("searchbox").pressSequentially("handsh");
    await page.getByText("1 server found").waitFor();
    assert.deepEqual(await page.locator(".server-name > a").allInnerTexts(), ["sums"]);
    await page.waitForURL("**/mcp?q=handsh");
    await page.getByRole("button", { name: "Copy address of sums" }).waitFor({ state: "attached" });
    await page.locator(".names > summary").focus();
    await page.keyboard.press("Enter");
    assert.deepEqual(await page.locator(".names a").allInnerTexts(), ["add", "secretHandshake"]);
    assert.deepEqual(await violationsOf(page), []);
    await page.keyboard.press("Escape");
    await page.locator(".names a").first().waitFor({ state: "hidden" });
    await page.getByRole("combobox", { name: "State" }).selectOption("disabled");
    await page.getByText("No server matches").waitFor();
    await browser.leave(page);
    assert.deepEqual(browser.problems, []);
  });

  it("is where the addresses of definitions lead", async () => {
    const to = async (path: string): Promise<string | null> => (await get(path)).headers.get("location");
    assert.equal(await to("/servers"), "/mcp");
    assert.equal(await to("/servers?limit=2&cursor=x"), "/mcp?limit=2&cursor=x");
    assert.equal(await to("/servers?name=sums"), "/servers/sums");
    assert.equal(await to("/servers?name=fresh&new=shell"), "/servers/new?name=fresh&template=shell");
  });
});

describe("the page of a new server", () => {
  let berth: TestBerth;
  let browser: TestBrowser;
  before(async () => {
    [berth, browser] = await Promise.all([
      startTestBerth({ texts: { "there.ts": "/** Is there. */ export function there(): void {}" } }),
      startBrowser(),
    ]);
  });
  after(async () => {
    await browser.close();
    await berth.close();
  });

  const html = async (path: string): Promise<string> =>
    (await fetch(`${berth.url}${path}`, { headers: { Accept: "text/html" } })).text();

  it("is a page for a browser, with a query, too, and no server for programs", async () => {
    for (const path of ["/servers/new", "/servers/new?", "/servers/new?name=&template=ask"]) {
      assert.match(await html(path), /<h1>New server<\/h1>/, path);
      const { status, headers } = await fetch(`${berth.url}${path}`, { headers: { Accept: "application/json" } });
      assert.deepEqual([status, headers.get("content-type")], [404, "application/json"], path);
    }
  });

  it("refuses a name that is taken, or that is none, and shows nothing of it as HTML", async () => {
    assert.match(await html("/servers/new?name=there&template=ask"), /There is a server &quot;there&quot; already/);
    const hostile = await html("/servers/new?name=%3Cimg+src%3Dx%3E&template=typescript");
    assert.match(hostile, /&lt;img src&#x3D;x&gt;&quot; cannot be a server&#x27;s name/);
    assert.doesNotMatch(hostile, /<img src=x/);
    assert.match(await html("/servers/new?name=meta&template=remote"), /&quot;meta&quot; is taken/);
    assert.match(await html("/servers/new?name=new&template=typescript"), /&quot;new&quot; is taken/);
  });

  it("has templates that have no problem, and tells their tools before anything is saved", async () => {
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

  it("saves a template with what it is given, and leads to how to connect to it", async () => {
    const page = await browser.open(`${berth.url}/mcp`);
    await page.getByRole("link", { name: "New server" }).click();
    await page.getByLabel("Name").fill("asker");
    await page.getByRole("radio", { name: "Fetch with a secret" }).check();
    await page.getByRole("button", { name: "Continue" }).click();
    await page.locator(".offered", { hasText: "account(): " }).waitFor();
    const grants = page.getByLabel("Entry of asker in mcps");
    await grants.fill("{ not JSON");
    await page.getByRole("button", { name: "Create" }).click();
    await page.getByText("The server is saved, but it was not given what stands above").waitFor();
    assert.deepEqual(await violationsOf(page), []);
    await grants.fill('{ "secrets": ["API_TOKEN"], "network": ["api.github.com"] }');
    await page.getByRole("button", { name: "Try again" }).click();
    await page.waitForURL("**/mcp/meta/asker?tab=connect");
    const { body } = await apiOf(berth).send("GET", "/entries/asker");
    assert.deepEqual(JSON.parse(body.files.asker), { secrets: ["API_TOKEN"], network: ["api.github.com"] });
    await browser.leave(page);
  });

  it("adds a remote server once a person has seen what it offers, and tells why it cannot be reached", async () => {
    const page = await browser.open(`${berth.url}/mcp`);
    await page.getByRole("link", { name: "Add remote server" }).click();
    const closed = createServer().listen(0, "127.0.0.1");
    const { port } = await new Promise<AddressInfo>((resolve) =>
      closed.once("listening", () => resolve(closed.address() as AddressInfo)),
    );
    closed.close();
    await page.getByLabel("Name").fill("remote");
    await page.getByLabel("URL").fill(`http://127.0.0.1:${port}/mcp`);
    await page.getByRole("button", { name: "Look at what it offers" }).click();
    await page.getByText("Nothing was added").waitFor();
    assert.match(await page.locator("#review .problems").innerText(), /error/);
    assert.equal(await page.getByRole("button", { name: "Add remote" }).isVisible(), false);
    await page.getByLabel("URL").fill(`${berth.url}/mcp/there`);
    await page.getByRole("button", { name: "Look at what it offers" }).click();
    await page.locator("#review .offered", { hasText: "there()" }).waitFor();
    assert.deepEqual(await violationsOf(page), []);
    assert.equal((await apiOf(berth).send("GET", "/entries/remote")).status, 404);
    await page.getByRole("button", { name: "Add remote" }).click();
    await page.waitForURL("**/mcp/meta/remote?tab=connect");
    const { body } = await apiOf(berth).send("GET", "/entries/remote");
    assert.match(body.files.remote, /"upstream": "mcp\+http:\/\/127\.0\.0\.1:\d+\/mcp\/there"/);
    await browser.leave(page);
  });

  it("tells which right it takes to add a package, and starts nothing", async () => {
    const page = await browser.open(`${berth.url}/servers/new?template=npm&name=everything`);
    await page.getByLabel("Package").fill("@modelcontextprotocol/server-everything@2026.1.1");
    await page.getByLabel("Arguments").fill("stdio\n--name=a b&c");
    await page.getByRole("button", { name: "Look at what it offers" }).click();
    await page.getByText('needs "programs"').waitFor();
    assert.equal(await page.locator("#review").isVisible(), false);
    await browser.leave(page);
  });
});
