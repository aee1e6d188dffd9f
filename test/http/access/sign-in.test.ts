import assert from "node:assert/strict";
import { before, describe, it } from "node:test";
import { SignIns } from "../../../src/http/access/sign-in.ts";
import { createSealer } from "../../../src/lib/seal.ts";
import { post, request, withStatus } from "../../support/berth.ts";
import { berthInSuite } from "../../support/suite.ts";
import { addTenant, onStoreOf } from "../../support/tenants.ts";
import { bearer, makeToken } from "../../support/tokens.ts";

const NOTES = `/** Says it louder. */
export const shout = (text: string): string => text.toUpperCase();
/** Says it softly. */
export const whisper = (text: string): string => text.toLowerCase();
`;

describe("signing in with a browser", () => {
  const berth = berthInSuite({
    texts: { "notes.ts": NOTES, "other.ts": NOTES },
    env: { BERTH_ACCESS: "required", BERTH_ALLOWED_ORIGINS: "http://127.0.0.1:1" },
  });
  before(() => onStoreOf(berth, (store) => addTenant(store, "acme", { servers: { theirs: NOTES } })));

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

  it("names the token, links only pages that it may read, and offers another on the others", async () => {
    const pageFor = async (path: string, cookie = ""): Promise<string> =>
      (await send(path, { headers: { Accept: "text/html", Cookie: cookie } })).text();
    const { token, id } = await makeToken(berth, { can: ["call", "read"], servers: ["notes"] });
    const cookie = cookieOf(await send("/sign-in", form({ token })));
    const links = (html: string): string[] =>
      [...(/<nav aria-label="Main">(.*?)<\/nav>/s.exec(html)?.[1] ?? "").matchAll(/href="([^"]*)"/g)].map(
        ([, to]) => to!,
      );
    assert.deepEqual(links(await pageFor("/mcp", cookie)), ["/mcp"]);
    assert.match(await pageFor("/mcp", cookie), new RegExp(`Signed in as token:${id}"[^]*>Sign out<`));
    assert.deepEqual(links(await pageFor("/mcp")), []);
    const named = /<dt>Address<\/dt><dd>127\.0\.0\.1:\d+\/t\/acme<[^]*<dt>Tenant<\/dt><dd>acme</;
    assert.match(await pageFor("/t/acme/mcp"), named);
    assert.match(await pageFor("/mcp/meta/other", cookie), /href="\/sign-in\?next&#x3D;%2Fmcp%2Fmeta%2Fother"/);
  });

  it("stores a login in a cookie that no script and no other tenant's address gets", async () => {
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
    await withStatus(401, send("/t/acme/mcp", { headers: { Cookie: cookieOf(signedIn) } }));
    const out = await send("/sign-out", form({}, { Cookie: cookieOf(signedIn) }));
    assert.deepEqual(out.headers.getSetCookie(), ["berth_sign_in=; Path=/; HttpOnly; SameSite=Strict; Max-Age=0"]);
  });

  it("sets a cookie that is not a token, does not contain one, and ends when its user signs out", async () => {
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

  it("ends streams of a login when its user signs out, and not those of the token", async () => {
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
    const note = (): void => void (isOver = true);
    byToken.closed.then(note, note);
    await send("/sign-out", form({}, { Cookie }));
    await assert.rejects(async () => {
      while (!(await byCookie.read()).done);
    }, /terminated/);
    await send("/healthz");
    assert.equal(isOver, false);
    await byToken.cancel();
  });

  it("accepts a login for loginMs in every process of a data folder, until its user signs out", async () => {
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

  it("accepts a login while the store does not answer, until its user signs out", async () => {
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

  it("redirects only to pages of the same tenant", async () => {
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

  it("accepts a cookie only from pages of this service", async () => {
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
    const put = (path: string) =>
      send(path, { method: "PUT", headers: { ...own, "Content-Type": "text/plain" }, body: "a value" });
    assert.equal((await put("/api/variables/x")).status, 201);
    const stolen = await put("/api/secrets/TAKEN");
    assert.equal(((await stolen.json()) as { error: { code: string } }).error.code, "token_required");
  });
});
