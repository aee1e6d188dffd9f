import assert from "node:assert/strict";
import { after, before, describe, it, test } from "node:test";
import { call, modern, startTestBerth, type TestBerth } from "../../support/berth.ts";
import { screenshot, startBrowser, violationsOf, type TestBrowser } from "../../support/browser.ts";
import { until } from "../../support/until.ts";

const HOSTILE = `/**
 * Says <script>alert("description")</script> & more.
 * @param text </code><img src=x onerror=alert("parameter")>
 */
export function shout(text: string = "\\"><script>alert(1)</script>"): string { return text.toUpperCase(); }

/** Whatever {{this}} and {{{that}}} are. @resource odd://{name} text/plain */
export function odd(name: string): string { return name; }

/** Reviews. @prompt
 * @param code What to look at
 */
export function review(code: string): string { return code; }
`;

const PARTLY = `/** Works. */
export function good(count: number): number { return count; }
/** Does not. */
export function bad(f: symbol): void {}
`;

describe("pages", () => {
  let berth: TestBerth;
  let browser: TestBrowser;
  before(async () => {
    [berth, browser] = await Promise.all([
      startTestBerth({
        files: ["test/fixtures/servers/everyday.ts"],
        env: { BERTH_RECENT_CALLS: "3" },
        texts: {
          "hostile.ts": HOSTILE,
          "partly.ts": PARTLY,
          "versions.ts": 'export function tell(): string { return "first"; }',
        },
        mcps: {
          hostile: { definition: "hostile.ts", description: "<b>bold</b> claims" },
          off: { definition: "everyday.ts", enabled: false },
        },
      }),
      startBrowser(),
    ]);
  });
  after(async () => {
    await browser.close();
    await berth.close();
  });

  const html = async (path: string, headers: Record<string, string> = {}): Promise<string> =>
    (await fetch(`${berth.url}${path}`, { headers: { Accept: "text/html", ...headers } })).text();

  it("C6 a person goes from /mcp to a server's page and copies how to connect", async () => {
    const page = await browser.open(`${berth.url}/mcp`);
    await browser.context.grantPermissions(["clipboard-read", "clipboard-write"], { origin: berth.url });
    await page.getByRole("link", { name: "everyday", exact: true }).click();
    await page.waitForURL("**/mcp/meta/everyday");
    await page.getByRole("link", { name: "Connect", exact: true }).click();
    await page.getByText("Cursor", { exact: true }).click();
    await page.getByRole("button", { name: "Copy the text for Cursor" }).click();
    await page.getByText("Copied").waitFor();
    const copied = (await page.evaluate("navigator.clipboard.readText()")) as string;
    assert.deepEqual(JSON.parse(copied), { mcpServers: { everyday: { url: `${berth.url}/mcp/everyday` } } });
    await browser.leave(page);
    assert.deepEqual(browser.problems, []);
  });

  it("C6 each client's text is shown once a person has chosen the client", async () => {
    const page = await browser.open(`${berth.url}/mcp/meta/everyday?tab=connect`);
    const labels = page.locator(".tabs > label");
    for (let at = 0; at < (await labels.count()); at++) {
      await labels.nth(at).click();
      const shown = page.locator(".tab-panel").filter({ visible: true });
      assert.equal(await shown.count(), 1, await labels.nth(at).innerText());
      assert.match(await shown.innerText(), /mcp\/everyday/);
    }
    await browser.leave(page);
  });

  it("C6 a server's page shows its tools as tables, signatures and JSON", async () => {
    const page = await browser.open(`${berth.url}/mcp/meta/everyday`);
    await page.locator("#tool-add > summary").click();
    const tool = page.locator("#tool-add");
    assert.match(await tool.innerText(), /add\(.*: number/);
    assert.deepEqual(await tool.locator("table").first().locator("tbody th").allInnerTexts(), ["a required", "b"]);
    await tool.getByText("As JSON").click();
    const shown = JSON.parse(await tool.locator(".raw code").innerText()) as { name: string };
    assert.equal(shown.name, "add");
    await tool.getByRole("button", { name: "Copy add as JSON" }).waitFor();
    await browser.leave(page);
  });

  it("C6 a tool stands as JSON at an address of its own, as clients are given it", async () => {
    const { body } = await modern(`${berth.url}/mcp/everyday`, "tools/list");
    const listed = body.result.tools.find(({ name }: { name: string }) => name === "add");
    const address = `${berth.url}/mcp/meta/everyday?tool=add`;
    assert.deepEqual(await (await fetch(address)).json(), listed);
    assert.match(listed._meta["dev.berth/implementation"], /^bagu/);
    assert.equal((await fetch(`${berth.url}/mcp/meta/everyday?tool=no_such_tool`)).status, 404);
  });

  it("C6 pages can be read without scripts", async () => {
    const plain = await startBrowser({ javaScriptEnabled: false });
    const page = await plain.open(`${berth.url}/mcp/meta/hostile`);
    await page.getByText("shout(text", { exact: false }).first().waitFor();
    await page.getByRole("link", { name: "Connect", exact: true }).click();
    await page.getByText("Codex", { exact: true }).click();
    await page.getByText("codex mcp add hostile --url").waitFor();
    for (const [tab, said] of Object.entries({ Releases: "current", Calls: "under way" })) {
      await page.getByRole("link", { name: tab, exact: true }).click();
      await page.locator("[data-tab]").getByText(said).first().waitFor();
    }
    await page.getByRole("link", { name: "Code", exact: true }).click();
    assert.equal(await page.locator("textarea").inputValue(), HOSTILE);
    await page.getByRole("link", { name: "Settings", exact: true }).click();
    await page.waitForURL("**?tab=settings");
    assert.match(await page.locator("textarea").inputValue(), /<b>bold<\/b>/);
    await plain.close();
  });

  it("T14.2 what definitions say is shown as text, and nothing of it runs", async () => {
    const before = browser.problems.length;
    const page = await browser.open(`${berth.url}/mcp/meta/hostile`);
    let alerted = false;
    page.on("dialog", (dialog) => {
      alerted = true;
      void dialog.dismiss();
    });
    await page.getByText('Says <script>alert("description")</script> & more.').last().waitFor();
    await page.getByText('</code><img src=x onerror=alert("parameter")>').first().waitFor();
    await page.getByText("<b>bold</b> claims").waitFor();
    await page.getByText("Whatever {{this}} and {{{that}}} are.").waitFor();
    assert.equal(await page.locator("script:not([src])").count(), 0);
    assert.equal(await page.locator("main img").count(), 0);
    assert.equal(alerted, false);
    assert.equal(browser.problems.length, before);
    await browser.leave(page);
  });

  it("T14.2 an inline script would not run: the policy allows none", async () => {
    const { headers } = await fetch(`${berth.url}/mcp`);
    const policy = headers.get("content-security-policy") ?? "";
    assert.match(policy, /default-src 'none'; script-src 'self'; style-src 'self'/);
    assert.doesNotMatch(policy, /unsafe/);
    assert.equal(headers.get("x-content-type-options"), "nosniff");
  });

  it("T9.2 a browser that opens an endpoint gets the page about the server", async () => {
    const page = await browser.open(`${berth.url}/mcp/everyday`);
    assert.equal(new URL(page.url()).pathname, "/mcp/meta/everyday");
    assert.equal(await page.locator("h1").innerText(), "everyday");
    await browser.leave(page);
    const client = await fetch(`${berth.url}/mcp/everyday`, { headers: { Accept: "application/json" } });
    assert.equal(client.status, 405);
    assert.match(client.headers.get("vary") ?? "", /Accept/);
  });

  it("T9.2 the endpoint of a release shows the page of that release, with its own address to copy", async () => {
    const release = /\/cid\/(\w+)/.exec(await html("/mcp/meta/everyday"))![1]!;
    const page = await browser.open(`${berth.url}/mcp/everyday@${release}`);
    assert.equal(new URL(page.url()).pathname, `/mcp/meta/everyday@${release}`);
    await page.getByText("serves exactly this version for ever").waitFor();
    assert.ok(
      (await html(`/mcp/meta/everyday@${release}?tab=connect`)).includes(
        `claude mcp add --transport http everyday ${berth.url}/mcp/everyday@${release}`,
      ),
    );
    await browser.leave(page);
    const unknown = await fetch(`${berth.url}/mcp/meta/everyday@${release}a`, { headers: { Accept: "text/html" } });
    assert.equal(unknown.status, 404);
  });

  it("an earlier release is restored by one press, and a breaking one only when the person insists", async () => {
    const put = async (text: string): Promise<void> => {
      const { status } = await fetch(`${berth.url}/api/definitions/versions?allow_breaking=true`, {
        method: "PUT",
        headers: { "Content-Type": "text/plain", "If-Match": "*" },
        body: text,
      });
      assert.equal(status, 200);
    };
    const url = `${berth.url}/mcp/versions`;
    assert.equal((await call(url, "tell")).content[0].text, "first");
    await put('export function tell(): string { return "second"; }');
    await put('export function tell(): string { return "third"; }\nexport function more(): void {}');
    assert.equal((await call(url, "tell")).content[0].text, "third");

    const page = await browser.open(`${berth.url}/mcp/meta/versions?tab=releases`);
    const rows = page.locator("#releases tbody tr");
    assert.equal(await rows.count(), 3);
    await rows.nth(1).getByRole("button", { name: "Restore" }).click();
    await page.getByText("would break callers").waitFor();
    assert.equal((await call(url, "tell")).content[0].text, "third");
    await screenshot(page, "restore-breaking");
    assert.deepEqual(await violationsOf(page), []);
    await Promise.all([page.waitForEvent("load"), page.getByRole("button", { name: "Restore anyway" }).click()]);
    assert.equal((await call(url, "tell")).content[0].text, "second");

    const restore = page.locator("#releases tbody tr", { has: page.locator(".badge.good") });
    assert.equal(await restore.count(), 1);
    await Promise.all([
      page.waitForEvent("load"),
      page.locator("#releases tbody tr").last().getByRole("button", { name: "Restore" }).click(),
    ]);
    assert.equal((await call(url, "tell")).content[0].text, "first");
    await browser.leave(page);

    const { releases } = (await (await fetch(`${berth.url}/api/servers/versions/releases`)).json()) as {
      releases: { release: string; changedAt: string; current: boolean }[];
    };
    for (const { release, changedAt, current } of releases) {
      const own = await html(`/mcp/meta/versions@${release}?tab=releases`);
      assert.match(own, current ? /the current one/ : /an earlier one/);
      const [, since] = /<dt>Since<\/dt><dd><time datetime="([^"]+)"/.exec(own)!;
      assert.equal(Date.parse(since!), new Date(changedAt).getTime());
    }
  });

  it("a problem is shown with its place, on both pages", async () => {
    for (const path of ["/mcp", "/mcp/meta/partly"]) {
      const page = await html(path);
      assert.match(page, /partly\.ts:4:21/, path);
      assert.match(page, /leaves out the tool <code>bad<\/code>/, path);
    }
    assert.match(await html("/mcp/meta/off"), /This server is disabled/);
  });

  it("recent calls are shown with times and sizes, the last recentCalls of them, and nothing that was said", async () => {
    const url = `${berth.url}/mcp/everyday`;
    assert.match(await html("/mcp/meta/everyday?tab=calls"), /No tool of this server has been called/);
    await call(url, "echo", { message: "kept between us" });
    await call(url, "add", { a: "no number" });
    await call(url, "fail");
    await call(url, "echo", { message: "kept between us" });
    const page = await browser.open(`${berth.url}/mcp/meta/everyday?tab=calls`);
    const rows = await page
      .locator(".calls tbody tr")
      .evaluateAll((rows) => rows.map((row) => [...row.querySelectorAll("td")].slice(1).map((cell) => cell.innerText)));
    assert.deepEqual(
      rows.map(([tool, outcome, , size]) => [tool, outcome, size]),
      [
        ["echo", "ok", "15 B"],
        ["fail", "error", "22 B"],
        ["add", "bad arguments", "55 B"],
      ],
    );
    for (const [, , time] of rows) assert.match(time, /^[\d.]+ ms$/);
    assert.ok(!(await page.content()).includes("kept between us"));
    await browser.leave(page);
  });

  it("calls under way are counted while they last", async () => {
    const url = `${berth.url}/mcp/everyday`;
    const stop = new AbortController();
    const body = JSON.stringify({
      jsonrpc: "2.0",
      id: 1,
      method: "tools/call",
      params: { name: "wait", arguments: { ms: 20_000 } },
    });
    const headers = { "Content-Type": "application/json", Accept: "application/json" };
    const waiting = fetch(url, { method: "POST", headers, body, signal: stop.signal }).catch(() => undefined);
    const underWay = async (count: number): Promise<void> => {
      const pattern = new RegExp(`Calls under way</dt><dd>${count}<`);
      await until(async () => pattern.test(await html("/mcp/meta/everyday?tab=calls")), `there are ${count}`);
    };
    await underWay(1);
    stop.abort();
    await waiting;
    await underWay(0);
  });

  it("an address that leads nowhere gets a page that helps, and programs get JSON", async () => {
    const page = await browser.open(`${berth.url}/mcp/meta/everydya`);
    await page.getByRole("link", { name: "everyday", exact: true }).click();
    await page.waitForURL("**/mcp/meta/everyday");
    await browser.leave(page);
    const answer = await fetch(`${berth.url}/mcp/meta/everydya`);
    assert.equal(answer.status, 404);
    assert.equal(((await answer.json()) as { error: { code: string } }).error.code, "server_not_found");
    assert.match(await html("/variables/none"), /href="\/variables">All variables</);
    assert.match(await html("/nowhere"), /href="\/mcp">All servers</);
  });

  it("content is shown by its CID, and its bytes are only ever a download", async () => {
    const release = /\/cid\/(\w+)/.exec(await html("/mcp/meta/hostile"))![1]!;
    const page = await browser.open(`${berth.url}/cid/${release}`);
    const structure = JSON.parse(await page.locator("pre code").innerText()) as { definition: string };
    await page.getByRole("link", { name: structure.definition }).click();
    await page.waitForURL(`**/cid/${structure.definition}`);
    assert.equal(await page.locator("pre code").innerText(), HOSTILE);
    await browser.leave(page);

    const raw = await fetch(`${berth.url}/cid/${structure.definition}?raw`);
    assert.equal(await raw.text(), HOSTILE);
    assert.equal(raw.headers.get("content-type"), "application/octet-stream");
    assert.match(raw.headers.get("content-disposition") ?? "", /^attachment/);
    assert.match(raw.headers.get("content-security-policy") ?? "", /^sandbox/);
    for (const cid of ["nothing", release.toUpperCase(), release.slice(0, -2)]) {
      assert.equal((await fetch(`${berth.url}/cid/${cid}`)).status, 404);
    }
  });

  it("content of any shape gives a page of bounded length, at once", async () => {
    for (const body of [
      `${"[".repeat(3000)}${"0,".repeat(90_000)}0${"]".repeat(3000)}`,
      `${"[".repeat(90_000)}${"]".repeat(90_000)}`,
      `[${"0,".repeat(450_000)}0]`,
      JSON.stringify("<".repeat(900_000)),
    ]) {
      const saved = await fetch(`${berth.url}/api/variables/shape-${body.length}`, {
        method: "PUT",
        headers: { "Content-Type": "text/plain", "If-None-Match": "*" },
        body,
      });
      assert.ok(saved.ok, await saved.clone().text());
      const { cid } = (await saved.json()) as { cid: string };
      const page = await html(`/cid/${cid}`);
      assert.ok(page.length < 1_500_000, `${page.length} characters`);
    }
  });

  it("assets are kept for ever, compressed, and nothing else is given out", async () => {
    const [, css] = /href="(\/assets\/berth\.\w+\.css)"/.exec(await html("/mcp"))!;
    for (const encoding of ["br", "gzip", "identity"]) {
      const { status, headers } = await fetch(`${berth.url}${css}`, { headers: { "Accept-Encoding": encoding } });
      assert.equal(status, 200);
      assert.equal(headers.get("content-type"), "text/css; charset=utf-8");
      assert.match(headers.get("cache-control") ?? "", /immutable/);
      assert.equal(headers.get("content-encoding") ?? "identity", encoding);
    }
    for (const path of ["assets.json", "..%2f..%2fpackage.json", "berth.css", `${css!.slice(8)}.gz`]) {
      assert.equal((await fetch(`${berth.url}/assets/${path}`)).status, 404, path);
    }
  });
});

test("C6 every page of a Berth that hosts nothing yet says so, and how to begin", async () => {
  const empty = await startTestBerth({});
  try {
    const said = {
      "/mcp": "Nothing is hosted here yet",
      "/servers/new": "Begin with",
      "/packages": "There is no package yet",
      "/secrets": "There is no secret yet",
      "/variables": "New variable",
      "/audit": "image applied",
    };
    for (const [path, words] of Object.entries(said)) {
      const response = await fetch(`${empty.url}${path}`, { headers: { Accept: "text/html" } });
      assert.equal(response.status, 200, path);
      assert.ok((await response.text()).includes(words), path);
    }
  } finally {
    await empty.close();
  }
});
