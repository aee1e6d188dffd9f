import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { apiOf } from "../../support/api.ts";
import { call, startTestBerth } from "../../support/berth.ts";
import { berthInSuite } from "../../support/suite.ts";
import { addTenant, onStoreOf } from "../../support/tenants.ts";

const GUEST = `/** Tells a secret. */
export async function tell(name: string, context: import("berth").ToolContext): Promise<string> {
  return (await context.secret(name)) ?? "nothing";
}
`;

const VALUE = "-----BEGIN KEY-----\nvery <b>secret</b>\n-----END KEY-----";

const secrets = ["API_TOKEN", "OTHER_TOKEN"];

describe("the API of secrets", () => {
  const berth = berthInSuite({
    texts: { "guest.ts": GUEST },
    mcps: { guest: { definition: "guest.ts", secrets } },
  });

  it("stores a value and returns none, by any method", async () => {
    const api = apiOf(berth);
    assert.equal((await api.send("PUT", "/secrets/API_TOKEN", VALUE)).status, 204);
    assert.equal((await api.send("PUT", "/secrets/OTHER_TOKEN", { value: "in JSON" })).status, 204);
    for (const [method, path] of [
      ["GET", "/secrets/API_TOKEN"],
      ["POST", "/secrets/API_TOKEN"],
      ["GET", "/secrets/API_TOKEN/history"],
      ["GET", "/variables/API_TOKEN"],
      ["POST", "/secrets"],
    ] as const) {
      const { status, body } = await api.send(method, path);
      assert.ok(status === 404 || status === 405, `${method} ${path}: ${status}`);
      assert.doesNotMatch(JSON.stringify(body), /very/);
    }
    const { body } = await api.send("GET", "/secrets");
    const facts = { isSet: true, by: "api", servers: ["guest"] };
    const [one, other] = body.secrets;
    assert.deepEqual(one, { name: "API_TOKEN", changedAt: one.changedAt, ...facts });
    assert.deepEqual(other, { name: "OTHER_TOKEN", changedAt: other.changedAt, ...facts });
  });

  it("lists names and servers on the page of secrets, each tenant its own, and no value (C8)", async () => {
    const mcps = JSON.stringify({ guest: { secrets: ["OF_ACME"] } });
    await onStoreOf(berth, (store) => addTenant(store, "acme", { servers: { guest: GUEST }, variables: { mcps } }));
    const html = async (path: string): Promise<string> =>
      (await fetch(`${berth.url}${path}`, { headers: { Accept: "text/html" } })).text();
    const page = await html("/secrets");
    assert.match(page, /API_TOKEN[^]*href="\/mcp\/meta\/guest"/);
    assert.doesNotMatch(page, /very|OF_ACME|not set/);
    const theirs = await html("/t/acme/secrets");
    assert.match(theirs, /OF_ACME[^]*not set/);
    assert.doesNotMatch(theirs, /OTHER_TOKEN/);
    const tell = async (at: string) => (await call(`${berth.url}${at}/mcp/guest`, "tell", { name: "OF_ACME" })).content;
    await apiOf({ url: `${berth.url}/t/acme` }).send("PUT", "/secrets/OF_ACME", "of acme alone");
    assert.equal((await tell("/t/acme"))[0].text, "of acme alone");
    assert.match((await tell(""))[0].text, /is not given the secret/);
  });

  it("reports what is wrong with a request without repeating the value", async () => {
    const api = apiOf(berth);
    const json = { "Content-Type": "application/json" };
    const refused: [string, unknown, Record<string, string>, number][] = [
      ["API-TOKEN", VALUE, {}, 422],
      ["SHORT", "tiny", {}, 422],
      ["LONG", "x".repeat(65 * 1024), {}, 422],
      ["FORM", "value=tiny-secret", { "Content-Type": "application/x-www-form-urlencoded" }, 403],
      ["XML", "tiny-secret", { "Content-Type": "application/xml" }, 415],
      ["BAD", '{"value":"tiny-secret"', json, 400],
      ["BAD", '"tiny-secret"', json, 400],
      ["BAD", { value: 1 }, {}, 400],
      ["BAD", { value: "tiny-secret", more: 1 }, {}, 400],
      ["API_TOKEN", VALUE, { "If-None-Match": "*" }, 412],
    ];
    for (const [name, body, headers, status] of refused) {
      const answer = await api.send("PUT", `/secrets/${name}`, body, headers);
      assert.equal(answer.status, status, `${name}: ${JSON.stringify(answer.body)}`);
      assert.doesNotMatch(JSON.stringify(answer.body), /tiny|very|xxx/);
    }
    const gone = await api.send("DELETE", "/secrets/NOT_THERE");
    assert.deepEqual([gone.status, gone.body.error.code], [404, "secret_not_found"]);
  });

  it("shows names and changes nothing on a read-only instance", async (t) => {
    const readonly = await startTestBerth({ texts: { "guest.ts": GUEST }, config: { image: "readonly" } });
    t.after(() => readonly.close());
    const { status, body } = await apiOf(readonly).send("PUT", "/secrets/API_TOKEN", VALUE);
    assert.deepEqual([status, body.error.code], [403, "read_only"]);
    const page = await (await fetch(`${readonly.url}/secrets`, { headers: { Accept: "text/html" } })).text();
    assert.match(page, /started read-only/);
    assert.doesNotMatch(page, /<form/);
  });
});
