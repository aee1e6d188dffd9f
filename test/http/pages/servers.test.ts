import assert from "node:assert/strict";
import { describe, it, test } from "node:test";
import { call, modern, withStatus } from "../../support/berth.ts";
import { berthFor, berthInSuite } from "../../support/suite.ts";
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
/** Is served with a warning. */
export function odd(text: string, done?: Set<string>): string { return text + String(done); }
`;

describe("pages", () => {
  const berth = berthInSuite({
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
  });

  const html = async (path: string, headers: Record<string, string> = {}): Promise<string> =>
    (await fetch(`${berth.url}${path}`, { headers: { Accept: "text/html", ...headers } })).text();

  it("give a tool as JSON, as clients get it (C6)", async () => {
    const { body } = await modern(`${berth.url}/mcp/everyday`, "tools/list");
    const listed = body.result.tools.find(({ name }: { name: string }) => name === "add");
    const address = `${berth.url}/mcp/meta/everyday?tool=add`;
    assert.deepEqual(await (await fetch(address)).json(), listed);
    assert.match(listed._meta["dev.berth/implementation"], /^bagu/);
    assert.equal((await fetch(`${berth.url}/mcp/meta/everyday?tool=no_such_tool`)).status, 404);
  });

  it("show a server's tools, clients and source without scripts (C6)", async () => {
    assert.match(await html("/mcp"), /href="\/mcp\/meta\/everyday"/);
    const tools = await html("/mcp/meta/everyday");
    assert.match(tools, /id="tool-add"[^]*add\([^]*: number[^]*<th scope="row">[^]*a[^]*required/);
    assert.match(await html("/mcp/meta/hostile?tab=connect"), /codex mcp add hostile --url/);
    assert.match(await html("/mcp/meta/hostile?tab=releases"), /current/);
    assert.match(await html("/mcp/meta/hostile?tab=calls"), /Calls in progress/);
    assert.match(await html("/mcp/meta/hostile?tab=code"), /<textarea[^>]*>\s+\/\*\*\n \* Says &lt;script&gt;/);
    assert.match(await html("/mcp/meta/hostile?tab=settings"), /<textarea[^>]*>[^<]*&lt;b&gt;bold&lt;\/b&gt; claims/);
  });

  it("escape the texts of definitions (T14.2)", async () => {
    const page = await html("/mcp/meta/hostile");
    for (const text of [
      'Says &lt;script&gt;alert("description")&lt;/script&gt; &amp; more.',
      '&lt;/code&gt;&lt;img src=x onerror=alert("parameter")&gt;',
      "&lt;b&gt;bold&lt;/b&gt; claims",
      "Whatever {{this}} and {{{that}}} are.",
    ])
      assert.ok(page.replaceAll("&quot;", '"').replaceAll("&#x3D;", "=").includes(text), text);
    assert.doesNotMatch(page, /<script(?! type="module" src="\/assets\/)|<img(?! src="\/assets\/)/);
  });

  it("have a policy that allows no inline script (T14.2)", async () => {
    const { headers } = await fetch(`${berth.url}/mcp`);
    const policy = headers.get("content-security-policy") ?? "";
    assert.match(policy, /default-src 'none'; script-src 'self'; style-src 'self'/);
    assert.doesNotMatch(policy, /unsafe/);
    assert.equal(headers.get("x-content-type-options"), "nosniff");
  });

  it("are where a browser at an endpoint is redirected to, those of a release too (T9.2)", async () => {
    const release = /\/cid\/(\w+)/.exec(await html("/mcp/meta/everyday"))![1]!;
    for (const name of ["everyday", `everyday@${release}`]) {
      const opened = await fetch(`${berth.url}/mcp/${name}`, { headers: { Accept: "text/html" }, redirect: "manual" });
      assert.deepEqual([opened.status, opened.headers.get("location")], [303, `/mcp/meta/${name}`]);
    }
    const client = await fetch(`${berth.url}/mcp/everyday`, { headers: { Accept: "application/json" } });
    assert.equal(client.status, 405);
    assert.match(client.headers.get("vary") ?? "", /Accept/);
    assert.match(await html(`/mcp/meta/everyday@${release}`), /serves exactly this version permanently/);
    const command = `claude mcp add --transport http everyday ${berth.url}/mcp/everyday@${release}`;
    assert.ok((await html(`/mcp/meta/everyday@${release}?tab=connect`)).includes(command));
    await withStatus(404, fetch(`${berth.url}/mcp/meta/everyday@${release}a`, { headers: { Accept: "text/html" } }));
  });

  it("tell the current release from earlier ones, and since when each is served", async () => {
    const save = async (body: string): Promise<void> => {
      const headers = { "Content-Type": "text/plain", "If-Match": "*", "Berth-Allow-Breaking": "true" };
      await withStatus(200, fetch(`${berth.url}/api/definitions/versions`, { method: "PUT", headers, body }));
    };
    await save(
      "export function tell(loud = true): string { return `second ${loud}`; }\nexport function add(): void {}",
    );
    const { releases } = (await (await fetch(`${berth.url}/api/servers/versions/releases`)).json()) as {
      releases: { release: string; changedAt: string; current: boolean }[];
    };
    assert.equal(releases.length, 2);
    for (const { release, changedAt, current } of releases) {
      const own = await html(`/mcp/meta/versions@${release}?tab=releases`);
      assert.match(own, current ? /the current one/ : /an earlier one/);
      const [, since] = /<dt>Since<\/dt><dd><time datetime="([^"]+)"/.exec(own)!;
      assert.equal(Date.parse(since!), new Date(changedAt).getTime());
      assert.match(await html(`/cid/${release}`), current ? /the current release of <a/ : /an earlier release of <a/);
    }
    const page = await html("/mcp/meta/versions?tab=releases");
    const rows = page.split("<tr>").slice(-2);
    assert.match(
      rows[0]!,
      /compatible<\/span> The tool &quot;add&quot; is new\.[^]*Changed: source\.[^]*Compare the sources/,
    );
    assert.match(rows[1]!, /The first release, with 1 tool\./);
    const [, compare] = /<a href="([^"]+)">Compare/.exec(rows[0]!)!;
    const address = compare!.replaceAll("&amp;", "&").replaceAll("&#x3D;", "=");
    assert.match(await html(address), /\(\+, <time [^]*by the API\)[^]*&quot;first&quot;/);
    const old = await html(`/cid/${new URLSearchParams(address).get("from")}`);
    assert.match(old, /<h1>The source of versions<[^]*versions<\/a>, in the earlier release <a/);
    await save("export function tell(loud: string): string { return `third ${loud}`; }");
    const [, third] = (await html("/mcp/meta/versions?tab=releases")).split("<tbody>")[1]!.split("<tr>");
    assert.match(third!, /&quot;loud&quot; is no longer boolean, but string: .*The tool &quot;add&quot; is removed: /);
    assert.match(third!, /<td>the API<\/td>/);
  });

  it("show a problem with its place, in the list and at the server", async () => {
    for (const path of ["/mcp", "/mcp/meta/partly"]) {
      const page = await html(path);
      assert.match(page, /partly\.ts:4:21/, path);
      assert.match(page, /leaves out the tool <code>bad<\/code>/, path);
      assert.match(page, /Warning<[^]*about the tool <code>odd<\/code>/, path);
      assert.match(page, /class="(?:badge|status) warn">incomplete</, path);
      assert.doesNotMatch(page, /leaves out the tool <code>odd</, path);
    }
    assert.match(await html("/mcp/meta/off"), /This server is disabled/);
  });

  it("show the last recentCalls calls with duration and size, without arguments and results", async () => {
    const url = `${berth.url}/mcp/everyday`;
    assert.match(await html("/mcp/meta/everyday?tab=calls"), /No tool of this server has been called/);
    await call(url, "echo", { message: "kept between us" });
    await call(url, "add", { a: "no number" });
    await call(url, "fail");
    await call(url, "echo", { message: "kept between us" });
    const page = await html("/mcp/meta/everyday?tab=calls");
    const rows = [...page.matchAll(/<tr>(.*?)<\/tr>/gs)].map(([, row]) =>
      Array.from(row!.matchAll(/<td[^>]*>(.*?)<\/td>/gs), ([, cell]) => cell!.replaceAll(/<[^>]+>/g, "").trim()).slice(
        1,
      ),
    );
    const timed = rows.flatMap(([tool, outcome, time, size]) =>
      /^[\d.]+ ms$/.test(time ?? "") ? [[tool, outcome, size]] : [],
    );
    assert.deepEqual(timed, [
      ["echo", "ok", "15 B"],
      ["fail", "error", "22 B"],
      ["add", "bad arguments", "55 B"],
    ]);
    assert.ok(!page.includes("kept between us"));
  });

  it("count calls in progress", async () => {
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
      const pattern = new RegExp(`Calls in progress</dt><dd>${count}<`);
      await until(async () => pattern.test(await html("/mcp/meta/everyday?tab=calls")), `there are ${count}`);
    };
    await underWay(1);
    stop.abort();
    await waiting;
    await underWay(0);
  });

  it("suggest addresses for an unknown one to browsers, and answer programs in JSON", async () => {
    assert.match(await html("/mcp/meta/everydya"), /href="\/mcp\/meta\/everyday"/);
    const answer = await withStatus(404, fetch(`${berth.url}/mcp/meta/everydya`));
    assert.equal(((await answer.json()) as { error: { code: string } }).error.code, "server_not_found");
    assert.match(await html("/variables/none"), /href="\/variables">All variables</);
    assert.match(await html("/nowhere"), /href="\/mcp">All servers</);
  });

  it("show content by its CID, and give its bytes only as a download", async () => {
    const release = /\/cid\/(\w+)/.exec(await html("/mcp/meta/hostile"))![1]!;
    const definition = /"definition": "<a href="\/cid\/(\w+)"/.exec(
      (await html(`/cid/${release}`)).replaceAll("&quot;", '"'),
    )![1]!;
    const source = await html(`/cid/${definition}`);
    assert.match(source, /<h1>The source of hostile<[^]*\?tab&#x3D;code">hostile<[^]*Says &lt;script&gt;/);
    const raw = await fetch(`${berth.url}/cid/${definition}?raw`);
    assert.equal(await raw.text(), HOSTILE);
    assert.equal(raw.headers.get("content-type"), "application/octet-stream");
    assert.match(raw.headers.get("content-disposition") ?? "", /^attachment/);
    assert.match(raw.headers.get("content-security-policy") ?? "", /^sandbox/);
    for (const cid of ["nothing", release.toUpperCase(), release.slice(0, -2)]) {
      assert.equal((await fetch(`${berth.url}/cid/${cid}`)).status, 404);
    }
  });

  it("limit the length of a page of any content", async () => {
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

  it("serve assets as immutable and compressed, and no other file", async () => {
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

test("pages of a Berth without servers say how to begin (C6)", async (t) => {
  const empty = await berthFor(t, {});
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
});
