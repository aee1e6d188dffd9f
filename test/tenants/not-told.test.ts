import assert from "node:assert/strict";
import { before, describe, it } from "node:test";
import { berthInSuite } from "../support/suite.ts";
import { addTenant, onStoreOf } from "../support/tenants.ts";
import { bearer, makeToken } from "../support/tokens.ts";

/** A served, a suspended and a missing tenant; their names have the same length. */
const NAMES = ["there", "stays", "never"] as const;

/** Headers that change each time, or follow from the name itself. */
const NOISE = new Set(["date", "x-request-id", "keep-alive", "content-length", "content-encoding", "etag"]);

describe("which tenants there are", () => {
  const berth = berthInSuite({ texts: {}, env: { BERTH_ACCESS: "required" } });
  before(async () => {
    await onStoreOf(berth, async (store) => {
      for (const name of ["there", "stays"]) {
        await addTenant(store, name, { servers: { one: "export const one = (): number => 1;" } });
      }
      await store.tenants.change("stays", { by: "test", suspended: true });
    });
  });

  /** The whole answer, with the tenant's name taken out. */
  async function answer(name: string, path: string, init: RequestInit): Promise<string> {
    const response = await fetch(`${berth.url}${path.replaceAll("NAME", name)}`, { redirect: "manual", ...init });
    const headers = [...response.headers].filter(([header]) => !NOISE.has(header));
    const text = `${response.status} ${JSON.stringify(headers)} ${await response.text()}`;
    return text.replaceAll(name, "NAME").replace(/[0-9a-f]{32}/g, "ID");
  }

  it("is told to nobody without a token, by any address (C8)", async () => {
    const own = { Origin: berth.url };
    const form = { "Content-Type": "application/x-www-form-urlencoded", ...own };
    const asked: [string, RequestInit][] = [
      ["/t/NAME/sign-in", {}],
      ["/t/NAME/sign-in", { headers: { Accept: "text/html" } }],
      ["/t/NAME/sign-in", { method: "POST", headers: form, body: "token=berth_x" }],
      [
        "/t/NAME/sign-in",
        { method: "POST", headers: { "Content-Type": "application/json", ...own }, body: '{"token":"x"}' },
      ],
      ["/t/NAME/sign-out", { method: "POST", headers: own }],
      ["/t/NAME/sign-out", {}],
      ["/t/NAME/", {}],
      ["/t/NAME/mcp", { headers: { Accept: "text/html" } }],
      ["/t/NAME/mcp/one", { method: "POST" }],
      ["/t/NAME/mcp/one", { method: "POST", headers: bearer("x") }],
      ["/t/NAME/mcp/one", { method: "POST", headers: bearer("a.b.c") }],
      ["/t/NAME/mcp/one", { method: "OPTIONS", headers: own }],
      ["/t/NAME/mcp/one/sse", { headers: bearer("x") }],
      ["/t/NAME/api/servers", { headers: bearer("x") }],
      ["/t/NAME/servers/one/one", { method: "POST", headers: bearer("x") }],
      ["/t/NAME/metrics", { headers: bearer("x") }],
      ["/t/NAME/assets/none.css", {}],
      ["/t/NAME/authorize", {}],
      ["/t/NAME/.well-known/oauth-protected-resource/mcp", {}],
      ["/.well-known/oauth-protected-resource/t/NAME/mcp", {}],
      ["/.well-known/oauth-protected-resource/t/NAME/mcp/one", {}],
      ["/t/NAME/mcp", { headers: { Cookie: "berth_sign_in_NAME=x", Accept: "text/html" } }],
    ];
    const told: string[] = [];
    for (const [path, init] of asked) {
      const answers = await Promise.all(NAMES.map((name) => answer(name, path, init)));
      if (new Set(answers).size > 1) told.push(`${init.method ?? "GET"} ${path}: ${answers.join("\n").slice(0, 1500)}`);
    }
    assert.deepEqual(told, []);
  });

  it("is told to who has a token of one (C8)", async () => {
    const { token } = await makeToken(berth, { can: ["call"] }, { tenant: "stays" });
    const answered = await fetch(`${berth.url}/t/stays/mcp/one`, { method: "POST", headers: bearer(token) });
    assert.equal(answered.status, 403);
    assert.match(await answered.text(), /suspended/);
  });
});
