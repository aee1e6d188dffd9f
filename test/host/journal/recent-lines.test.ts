import assert from "node:assert/strict";
import { before, describe, it } from "node:test";
import { apiOf } from "../../support/api.ts";
import { post, request, withStatus } from "../../support/berth.ts";
import { rows } from "../../support/rows.ts";
import { berthInSuite } from "../../support/suite.ts";
import { bearer, makeToken } from "../../support/tokens.ts";

const OPERATOR = "the-operators-own-token";
const SECRET = "a-value-that-nobody-sees";
const CHATTY = `/** Fails. */
export function fail(why: string): string {
  throw new Error(why);
}
export async function forget(): Promise<string> {
  void Promise.reject(new Error("forgotten"));
  await new Promise((resolve) => setTimeout(resolve, 1));
  return "done";
}
export function say(text: string): string {
  console.warn(text);
  return text;
}
export async function leak(context: import("berth").ToolContext): Promise<string> {
  const value = await context.secret("API_TOKEN");
  console.log("printed", value);
  throw new Error("failed with " + value);
}
`;

describe("the latest errors and lines of a server", () => {
  const berth = berthInSuite({
    texts: { "chatty.ts": CHATTY, "quiet.ts": "export const one = (): number => 1;" },
    mcps: { chatty: { definition: "chatty.ts", secrets: ["API_TOKEN"], variables: [] } },
    env: { BERTH_ACCESS: "required", BERTH_ADMIN_TOKEN: OPERATOR, BERTH_RECENT_LINES: "4" },
  });
  let [author, reader] = ["", ""];
  before(async () => {
    await withStatus(204, apiOf(berth).send("PUT", "/secrets/API_TOKEN", SECRET, bearer(OPERATOR)));
    ({ token: author } = await makeToken(berth, { name: "author", can: ["edit", "call"], servers: ["chatty"] }));
    ({ token: reader } = await makeToken(berth, { name: "reader", can: ["read", "call"] }));
  });

  const callTool = (name: string, args: Record<string, unknown> = {}): Promise<unknown> =>
    post(`${berth.url}/mcp/chatty`, request("tools/call", { name, arguments: args }), bearer(reader));
  const pageOf = async (server: string, token: string): Promise<string> => {
    const headers = { Accept: "text/html", ...bearer(token) };
    const answer = await withStatus(200, fetch(`${berth.url}/mcp/meta/${server}?tab=calls`, { headers }));
    return answer.text();
  };
  const recent = async (token: string, server = "chatty"): ReturnType<ReturnType<typeof apiOf>["send"]> =>
    apiOf(berth).send("GET", `/servers/${server}/recent`, undefined, bearer(token));

  it("stand on its page and in the API, newest first, for who may change its source and nobody else", async () => {
    assert.doesNotMatch(await pageOf("chatty", author), /Latest errors and lines/);
    await callTool("say", { text: "about to <b>fail</b>" });
    await callTool("fail", { why: "<img src=x onerror=alert(1)>" });
    await callTool("forget");
    const page = await pageOf("chatty", author);
    assert.match(page, /id="lines"/);
    assert.match(page, /about to &lt;b&gt;fail&lt;\/b&gt;/);
    assert.match(page, /&lt;img src&#x3D;x onerror&#x3D;alert\(1\)&gt;.*at <code>chatty\.ts:3:9<\/code>/);
    assert.doesNotMatch(page, /<b>fail|<img src=x/);
    const { body } = await recent(author);
    for (const { at } of body.recent) assert.equal(typeof at, "number");
    const told = rows(body.recent, "tool", "kind", "location", "message").map((line) => line.split("\n")[0]);
    assert.deepEqual(told, [
      "forget error chatty.ts:6:23 a promise was rejected and nobody handled it: forgotten",
      "fail failed chatty.ts:3:9 <img src=x onerror=alert(1)>",
      "say warning - about to <b>fail</b>",
    ]);

    assert.doesNotMatch(await pageOf("chatty", reader), /Latest errors and lines|about to|onerror/);
    assert.equal((await recent(reader)).status, 403);
    assert.equal((await recent(author, "quiet")).status, 403);
    assert.deepEqual((await recent(OPERATOR, "quiet")).body, { recent: [] });
    assert.equal((await recent(OPERATOR, "none")).status, 404);
  });

  it("hold no value of a secret, no more than recentLines, and the beginning of a long message", async () => {
    await callTool("leak");
    await callTool("say", { text: "x".repeat(5_000) });
    const { body } = await recent(author);
    const told = ["say warning", "leak failed", "leak info", "forget error"];
    assert.deepEqual(rows(body.recent, "tool", "kind"), told);
    assert.equal(body.recent[0].message, `${"x".repeat(1_000)}…`);
    assert.ok(!JSON.stringify(body).includes(SECRET));
    assert.ok(!(await pageOf("chatty", author)).includes(SECRET));
  });
});
