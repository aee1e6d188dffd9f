import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import type { Page } from "playwright-core";
import { SignIns } from "../../../src/http/access/sign-in.ts";
import { createSealer } from "../../../src/lib/seal.ts";
import { post, request, startTestBerth, type TestBerth } from "../../support/berth.ts";
import { startBrowser, violationsOf, type TestBrowser } from "../../support/browser.ts";
import { addTenant, onStoreOf } from "../../support/tenants.ts";
import { bearer, makeToken, revoke } from "../../support/tokens.ts";
import { until } from "../../support/until.ts";

const NOTES = `/** Says it louder. */
export const shout = (text: string): string => text.toUpperCase();
/** Says it softly. */
export const whisper = (text: string): string => text.toLowerCase();
`;

describe("C8 signing in with a browser", () => {
  let berth: TestBerth;
  let browser: TestBrowser;
  before(async () => {
    [berth, browser] = await Promise.all([
      startTestBerth({
        texts: { "notes.ts": NOTES, "other.ts": NOTES },
        env: { BERTH_ACCESS: "required", BERTH_ALLOWED_ORIGINS: "http://127.0.0.1:1" },
      }),
      startBrowser(),
    ]);
    await onStoreOf(berth, (store) => addTenant(store, "acme", { servers: { theirs: NOTES } }));
  });
  after(async () => {
    await browser?.close();
    await berth?.close();
  });

  const send = (path: string, init: RequestInit = {}): Promise<Response> =>
    fetch(`${berth.url}${path}`, { redirect: "manual", ...init });
  const form = (values: Record<string, string>, headers: Record<string, string> = {}): RequestInit => ({
    method: "POST",
    headers: {
      "Content-Type": "application/x-www-form-urlencoded",
      Origin: berth.url,
      Accept: "text/html",
      ...headers,
    },
    body: new URLSearchParams(values).toString(),
  });
  const cookieOf = (response: Response): string => response.headers.get("set-cookie")!.split(";")[0]!;

  it("C8 leads nobody to pages that refuse them, and those who are refused to signing in with another token", async () => {
    const pageFor = async (path: string, cookie = ""): Promise<string> =>
      (await send(path, { headers: { Accept: "text/html", Cookie: cookie } })).text();
    const { token } = await makeToken(berth, { can: ["call", "read"], servers: ["notes"] });
    const cookie = cookieOf(await send("/sign-in", form({ token })));
    const links = (html: string): string[] =>
      [...(/<nav aria-label="Main">(.*?)<\/nav>/s.exec(html)?.[1] ?? "").matchAll(/href="([^"]*)"/g)].map(
        ([, to]) => to!,
      );
    assert.deepEqual(links(await pageFor("/mcp", cookie)), ["/mcp"]);
    assert.deepEqual(links(await pageFor("/mcp")), []);
    assert.match(await pageFor("/mcp/meta/other", cookie), /href="\/sign-in\?next&#x3D;%2Fmcp%2Fmeta%2Fother"/);
  });

  it("C8 keeps a sign-in in a cookie that no script and no other tenant's address gets", async () => {
    const { token } = await makeToken(berth, { can: ["call", "read"], expires: "1h" });
    const signedIn = await send("/sign-in", form({ token, next: "/mcp/meta/notes" }));
    assert.deepEqual([signedIn.status, signedIn.headers.get("location")], [303, "/mcp/meta/notes"]);
    assert.match(
      signedIn.headers.getSetCookie()[0]!,
      /^berth_sign_in=1\.[\w-]+; Path=\/; HttpOnly; SameSite=Strict; Max-Age=3(600|59\d)$/,
    );
    const { token: theirs } = await makeToken(berth, { can: ["read"] }, { tenant: "acme" });
    const other = await send("/t/acme/sign-in", form({ token: theirs }));
    assert.match(
      other.headers.getSetCookie()[0]!,
      /^berth_sign_in_acme=1\.[\w-]+; Path=\/t\/acme\/; HttpOnly; SameSite=Strict; Max-Age=43(200|19\d)$/,
    );
    assert.equal(other.headers.get("location"), "/t/acme/mcp");
    const both = { Cookie: `${cookieOf(signedIn)}; ${cookieOf(other)}` };
    for (const path of ["/mcp", "/t/acme/mcp"]) assert.equal((await send(path, { headers: both })).status, 200, path);
    const only = await send("/t/acme/mcp", { headers: { Cookie: cookieOf(signedIn) } });
    assert.equal(only.status, 401);
    const out = await send("/sign-out", form({}, { Cookie: cookieOf(signedIn) }));
    assert.deepEqual(out.headers.getSetCookie(), ["berth_sign_in=; Path=/; HttpOnly; SameSite=Strict; Max-Age=0"]);
  });

  it("C8 gives no token to whoever reads the cookie, which is no token itself and is void once its person signs out", async () => {
    const { token } = await makeToken(berth, { can: ["read"] });
    const Cookie = cookieOf(await send("/sign-in", form({ token })));
    const statusOf = async (headers: Record<string, string>): Promise<number> =>
      (await send("/mcp", { headers })).status;
    assert.ok(!Cookie.includes(token.slice(10)));
    assert.equal(await statusOf(bearer(Cookie.split("=")[1]!)), 401);
    assert.equal(await statusOf({ Cookie: `berth_token=${token}` }), 401);
    assert.equal(await statusOf({ Cookie: `berth_sign_in=${token}` }), 401);
    assert.equal(await statusOf({ Cookie }), 200);
    await send("/sign-out", form({}, { Cookie }));
    assert.equal(await statusOf({ Cookie }), 401);
    assert.equal(await statusOf(bearer(token)), 200);
  });

  it("C8 ends what it opened when its person signs out, and leaves what the token opened", async () => {
    const { token } = await makeToken(berth, { can: ["read", "call"] });
    const Cookie = cookieOf(await send("/sign-in", form({ token })));
    const open = async (headers: Record<string, string>) => {
      const response = await send("/mcp/notes/sse", { headers: { Accept: "text/event-stream", ...headers } });
      assert.equal(response.status, 200);
      const reader = response.body!.getReader();
      await reader.read();
      return reader;
    };
    const [byCookie, byToken] = [await open({ Cookie, Origin: berth.url }), await open(bearer(token))];
    let isOver = false;
    const over = (async () => {
      while (!(await byCookie.read()).done);
    })().then(
      () => (isOver = true),
      () => (isOver = true),
    );
    const next = byToken.read();
    await send("/sign-out", form({}, { Cookie }));
    await over;
    assert.equal(isOver, true);
    assert.equal(
      await Promise.race([next.then(({ done }) => (done ? "over" : "open")), Promise.resolve("open")]),
      "open",
    );
    await byToken.cancel();
  });

  it("C8 counts for loginMs at every process of a data folder, until one of them is signed out at", async () => {
    const key = Buffer.alloc(32, 7);
    let now = Date.now();
    const records = new Set<string>();
    const open = () =>
      new SignIns(
        createSealer([key], () => now),
        {
          now: () => now,
          record: async (_tenant, _kind, id) => (records.has(id) ? { value: "", revision: 1 } : undefined),
          putRecord: async (_tenant, _kind, id) => (records.add(id), 1),
        },
        { loginMs: 60_000 },
      );
    const [one, other] = [open(), open()];
    const { text } = one.begin("acme", "t");
    assert.equal((await other.find("acme", text)).token, "t");
    await assert.rejects(other.find("default", text), { code: "unauthorized" });
    const ended = one.begin("acme", "t").text;
    await other.end("acme", ended);
    await assert.rejects(one.find("acme", ended), { code: "unauthorized" });
    now += 60_001;
    await assert.rejects(one.find("acme", text), { code: "unauthorized" });
  });

  it("goes on while the store does not answer, until it is signed out here", async () => {
    let isAnswering = true;
    const signIns = new SignIns(
      createSealer([Buffer.alloc(32, 7)]),
      {
        now: () => Date.now(),
        record: () => (isAnswering ? Promise.resolve(undefined) : new Promise(() => {})),
        putRecord: async () => 1,
      },
      { loginMs: 60_000 },
    );
    const { text } = signIns.begin("acme", "t");
    const { id } = await signIns.find("acme", text);
    isAnswering = false;
    assert.equal((await signIns.find("acme", text)).id, id);
    let isFound = false;
    signIns.endedElsewhere(id);
    void signIns.find("acme", text).then(() => (isFound = true));
    // Others are found meanwhile.
    isAnswering = true;
    const other = signIns.begin("acme", "t").text;
    await signIns.find("acme", other);
    isAnswering = false;
    await signIns.find("acme", other);
    assert.equal(isFound, false);
  });

  it("C8 leads on to pages of the same tenant alone", async () => {
    const { token } = await makeToken(berth, { can: ["read"] });
    for (const next of [
      "/mcp/../t/acme/mcp",
      "/mcp/%2e%2e/sign-out",
      "/t/acme/../acme/mcp",
      "https://evil.example/",
      "//evil.example",
      "/..//evil.example/x",
      "/.//evil.example",
      "/%2e%2e//evil.example",
      "/\\evil.example",
      "/a\\b",
      "/x\r\nSet-Cookie: a=b",
      "",
    ]) {
      const { headers } = await send("/sign-in", form({ token, next }));
      assert.equal(headers.get("location"), "/mcp", JSON.stringify(next));
    }
    const wrong = await send("/sign-in", form({ token: `${token}x`, next: "/variables" }));
    assert.deepEqual([wrong.status, wrong.headers.get("set-cookie")], [401, null]);
    const text = await wrong.text();
    assert.match(text, /mistyped/);
    assert.match(text, /name="next" value="\/variables"/);
    assert.ok(!text.includes(token), "the page shows the token");
  });

  it("C8 a cookie counts for pages of this very service alone", async () => {
    const { token } = await makeToken(berth, { can: ["admin"] });
    const Cookie = cookieOf(await send("/sign-in", form({ token })));
    const { port } = new URL(berth.url);
    const foreign: [Record<string, string>, number][] = [
      // One may call with a token of its own, the other not at all.
      [{ Origin: "http://127.0.0.1:1" }, 401],
      [{ Origin: `http://localhost:${port}` }, 403],
      [{ "Sec-Fetch-Site": "same-site" }, 401],
      [{ "Sec-Fetch-Site": "cross-site" }, 401],
    ];
    for (const [headers, status] of foreign) {
      const call = request("tools/call", { name: "shout", arguments: { text: "x" } });
      const called = await post(`${berth.url}/mcp/notes`, call, { Cookie, ...headers });
      assert.equal(called.status, status, JSON.stringify(headers));
      const written = await send("/api/variables/x", { method: "PUT", headers: { Cookie, ...headers }, body: "x" });
      assert.equal(written.status, status, JSON.stringify(headers));
      const asked = await send("/sign-in", form({ token }, headers));
      assert.deepEqual([asked.status, asked.headers.get("set-cookie")], [403, null], JSON.stringify(headers));
    }
    const nobody = await send("/api/variables/x", {
      method: "PUT",
      headers: { Cookie, "If-None-Match": "*" },
      body: "x",
    });
    assert.equal(nobody.status, 403);
    const own = { Cookie, Origin: berth.url, "Sec-Fetch-Site": "same-origin", "If-None-Match": "*" };
    const saved = await send("/api/variables/x", {
      method: "PUT",
      headers: { ...own, "Content-Type": "text/plain" },
      body: "x",
    });
    assert.equal(saved.status, 201);
  });

  it("C8 a person signs in, tries a tool, edits, restores, and signs out", async () => {
    const { token, id } = await makeToken(berth, { can: ["call", "read"] });
    const { token: editor } = await makeToken(berth, { can: ["call", "edit"] });
    const page = await browser.open(`${berth.url}/mcp/meta/notes`);
    assert.deepEqual(await violationsOf(page), []);
    await signInOn(page, token);
    await page.waitForURL("**/mcp/meta/notes");
    assert.equal(await page.evaluate("document.cookie"), "");

    await page.goto(`${berth.url}/mcp/meta/notes#tool=shout`);
    const tester = page.locator('[data-bench="tool"][data-name="shout"]');
    await tester.getByLabel("text").first().fill("hello");
    await tester.getByRole("button", { name: "Run", exact: true }).click();
    await tester.getByText("HELLO").first().waitFor();

    const write = { ...bearer(editor), "If-Match": "*", "Content-Type": "text/plain", "Berth-Allow-Breaking": "true" };
    const put = await send("/api/definitions/notes", {
      method: "PUT",
      headers: write,
      body: NOTES.replace("louder", "loudly"),
    });
    assert.equal(put.status, 200, await put.text());
    await page.goto(`${berth.url}/mcp/meta/notes?tab=releases`);
    await page.getByRole("button", { name: "Restore" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByText(/does not permit this/).waitFor();
    assert.deepEqual(await violationsOf(page), []);
    await dialog.getByLabel("Token").fill("nonsense");
    await dialog.getByRole("button", { name: "Sign in" }).click();
    await dialog.getByRole("alert").waitFor();
    await dialog.getByLabel("Token").fill(editor);
    await Promise.all([page.waitForEvent("load"), dialog.getByRole("button", { name: "Sign in" }).click()]);
    const { body } = await post(`${berth.url}/mcp/notes`, request("tools/list"), bearer(editor));
    assert.match(body.result.tools[0].description, /louder/);

    await page.getByRole("button", { name: "Sign out" }).click();
    await page.waitForURL("**/sign-in");
    await page.goto(`${berth.url}/mcp`);
    await page.getByRole("heading", { name: "Sign in" }).waitFor();

    await signInOn(page, token);
    await revoke(berth, id);
    await until(async () => (await page.goto(`${berth.url}/mcp`))!.status() === 401);
    await page.getByText(/was revoked/).waitFor();
    const unexpected = browser.problems.filter((problem) => !/status of 40[13]/.test(problem));
    assert.deepEqual(unexpected, []);
  });

  it("C8 asks for the token again where a page sets a secret, and keeps what was typed", async () => {
    const { token } = await makeToken(berth, { can: ["admin"] });
    const page = await browser.open(`${berth.url}/secrets`);
    await signInOn(page, token);
    await page.waitForURL("**/secrets");
    const Cookie = (await page.context().cookies()).map(({ name, value }) => `${name}=${value}`).join("; ");
    const stolen = await send("/api/secrets/TAKEN", {
      method: "PUT",
      headers: { Cookie, Origin: berth.url },
      body: "x",
    });
    assert.equal(stolen.status, 403);
    assert.equal(((await stolen.json()) as { error: { code: string } }).error.code, "token_required");

    await page.getByLabel("Name").fill("PILOT");
    await page.getByLabel("Value").fill("a value of a pilot");
    await page.getByRole("button", { name: "Set it" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByText(/type your token again/).waitFor();
    assert.deepEqual(await violationsOf(page), []);
    await dialog.getByLabel("Token").fill("nonsense");
    await dialog.getByRole("button", { name: "Sign in" }).click();
    await dialog.getByRole("alert").waitFor();
    assert.equal(await page.getByLabel("Value").inputValue(), "a value of a pilot");
    await dialog.getByLabel("Token").fill(token);
    await dialog.getByRole("button", { name: "Sign in" }).click();
    await page.getByText("The secret PILOT is set.").waitFor();
    // The page keeps the typed text.
    await page.getByLabel("Name").fill("MATE");
    await page.getByLabel("Value").fill("a value of a mate");
    await page.getByRole("button", { name: "Set it" }).click();
    await page.getByText("The secret MATE is set.").waitFor();
  });

  async function signInOn(page: Page, token: string): Promise<void> {
    await page.getByLabel("Token").fill(token);
    await page.getByRole("button", { name: "Sign in" }).click();
    // The address may stay the same.
    await page.getByRole("button", { name: "Sign out" }).waitFor();
  }
});
