import assert from "node:assert/strict";
import { before, describe, it } from "node:test";
import { rawBlock } from "../../../src/lib/cid.ts";
import { apiOf } from "../../support/api.ts";
import { call } from "../../support/berth.ts";
import { berthInSuite } from "../../support/suite.ts";
import { addTenant, onStoreOf } from "../../support/tenants.ts";
import { bearer, makeToken } from "../../support/tokens.ts";
import { until } from "../../support/until.ts";

const NOTES = `/** Says it louder. */
export const shout = (text: string): string => text.toUpperCase();
`;

describe("the page of the audit log", () => {
  const env = { BERTH_AUDIT: "all", BERTH_AUDIT_DELAY_MS: "5" };
  const berth = berthInSuite({ texts: { "notes.ts": NOTES }, env });
  before(async () => {
    for (let n = 0; n < 60; n++) await call(`${berth.url}/mcp/notes`, "shout", { text: `call ${n}` });
    await onStoreOf(berth, async (store) => {
      await addTenant(store, "acme", { variables: { motto: "theirs" } });
      const value = rawBlock("of no matter");
      const set = [{ kind: "variable", name: "<b>bold</b>", cid: value.cid }] as const;
      await store.change("default", { by: "api, <i>me</i>", put: [value], set });
    });
    await until(async () => {
      const { body } = await apiOf(berth).send("GET", "/audit?kind=call&limit=100");
      return body.records.length === 60;
    });
  });

  const html = async (path: string, headers: Record<string, string> = {}): Promise<string> =>
    (await fetch(berth.url + path, { headers: { Accept: "text/html", ...headers } })).text();

  it("searches by kind, time and server, and escapes what it shows (T14.2)", async () => {
    const page = await html("/audit?kind=edit&since=1h");
    assert.match(page, /variable &lt;b&gt;bold&lt;\/b&gt;[^]*&lt;i&gt;me&lt;\/i&gt; \(API\)[^]*bafkre/);
    assert.match(page, /value="edit" selected[^]*value="1h"/);
    assert.match(await html("/audit?server=nobody"), /No record matches\./);
  });

  it("lists all records, each once, over several pages", async () => {
    const pages: string[][] = [];
    let path: string | undefined = "/audit?kind=call";
    while (path !== undefined) {
      const page = await html(path);
      pages.push(Array.from(page.matchAll(/<dt>request<\/dt><dd>([^<]+)</g), ([, id]) => id!));
      path = /rel="next" href="([^"]+)"/.exec(page)?.[1]?.replaceAll("&amp;", "&").replaceAll("&#x3D;", "=");
    }
    assert.deepEqual([pages[0]!.length, new Set(pages.flat()).size, pages.flat().length], [50, 60, 60]);
  });

  it("shows a tenant its own records, and rejects an invalid search (C8)", async () => {
    const theirs = await html("/t/acme/audit");
    assert.match(theirs, /variable motto/);
    assert.match(theirs, /href="\/t\/acme\/cid\/bafkre/);
    assert.doesNotMatch(theirs, /shout|bold/);
    const wrong = await fetch(`${berth.url}/audit?since=yesterday`, { headers: { Accept: "text/html" } });
    assert.equal(wrong.status, 400);
    assert.match(await wrong.text(), /since must be a time such as/);
    const proxied = await fetch(`${berth.url}/audit`, { headers: { "X-Forwarded-For": "192.0.2.1" } });
    assert.equal(proxied.status, 403, "a caller behind a proxy needs a token");
  });

  it("is in the navigation of those who may see it", async () => {
    for (const [can, isShown] of [
      ["read", false],
      ["admin", true],
    ] as const) {
      const { token } = await makeToken(berth, { can: [can] });
      const page = await html("/variables", bearer(token));
      assert.match(page, /href="\/secrets"/);
      assert.match(page, /<code>of no matter<[^]*The configuration of all servers</);
      assert.equal(page.includes('href="/audit"'), isShown, can);
    }
  });
});
