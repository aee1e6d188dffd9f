import assert from "node:assert/strict";
import { before, describe, it } from "node:test";
import type { JsonObject } from "../../src/lib/json.ts";
import { post, request } from "../support/berth.ts";
import { Nodes, withClockAhead } from "../support/nodes.ts";
import { inSuite } from "../support/suite.ts";
import { bearer, makeToken } from "../support/tokens.ts";
import { until } from "../support/until.ts";

const DEFINITION = `import type { ToolContext } from "berth";

export async function keep(key: string, ms: number, { state }: ToolContext): Promise<string> {
  await state.set(key, 1, { expiresInMs: ms });
  return "kept";
}

export async function find(key: string, { state }: ToolContext): Promise<string> {
  return (await state.get(key)) === undefined ? "gone" : "there";
}
`;
/** Less than a clock is wrong. */
const LASTS_MS = 50_000;

/** The first node takes the time to be a minute later, the second a minute earlier, than the machine does. */
describe("what expires, at nodes whose clocks are wrong", () => {
  let token: string;
  const envs = [withClockAhead(60), withClockAhead(-60)];
  const env = { BERTH_ACCESS: "required" };
  const nodes = inSuite(() => Nodes.start({ texts: { "kit.ts": DEFINITION }, env, envs }));
  before(async () => {
    ({ token } = await makeToken(nodes, { name: "lasting", can: ["admin"], expires: "1d" }));
  });

  const call = async (at: number, name: string, args: JsonObject): Promise<string> => {
    const url = `${nodes.urls[at]}/mcp/kit`;
    const { body } = await post(url, request("tools/call", { name, arguments: args }), bearer(token));
    return body.result.content[0].text as string;
  };

  it("a value of a server's state is there for as long as it was said to be", async () => {
    for (const at of [0, 1]) {
      assert.equal(await call(at, "keep", { key: `long ${at}`, ms: LASTS_MS }), "kept");
      assert.equal(await call(at, "keep", { key: `short ${at}`, ms: 1 }), "kept");
    }
    for (const at of [0, 1]) {
      for (const by of [0, 1]) {
        await until(async () => (await call(by, "find", { key: `short ${at}` })) === "gone");
        assert.equal(await call(by, "find", { key: `long ${at}` }), "there");
      }
    }
  });

  it("a token is valid, and a person is signed in, for as long as it was said, at both", async () => {
    const atAll = (status: number) => nodes.urls.map(() => status);
    const status = async (url: string, headers: Record<string, string>) =>
      (await fetch(`${url}/api/servers`, { headers, redirect: "manual" })).status;
    const statuses = (headers: Record<string, string>) => Promise.all(nodes.urls.map((url) => status(url, headers)));
    const forAMinute = (ago: number) =>
      makeToken(nodes, { name: `${ago}`, can: ["read"], expires: "1m" }, { now: Date.now() - ago });
    const [lasting, ended] = [await forAMinute(60_000 - LASTS_MS), await forAMinute(61_000)];
    assert.deepEqual(await statuses(bearer(lasting.token)), atAll(200));
    assert.deepEqual(await statuses(bearer(ended.token)), atAll(401));

    for (const url of nodes.urls) {
      const headers = { "Content-Type": "application/json", Origin: url };
      const body = JSON.stringify({ token: lasting.token });
      const signedIn = await fetch(`${url}/sign-in`, { method: "POST", headers, body, redirect: "manual" });
      const cookie = signedIn.headers.getSetCookie()[0]!;
      const lastsS = Number(/Max-Age=(\d+)/.exec(cookie)?.[1]);
      assert.ok(lastsS > 0 && lastsS <= LASTS_MS / 1_000, cookie);
      assert.deepEqual(await statuses({ Cookie: cookie.split(";")[0]! }), atAll(200));
    }
  });
});
