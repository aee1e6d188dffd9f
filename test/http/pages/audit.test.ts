import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { rawBlock } from "../../../src/lib/cid.ts";
import { apiOf } from "../../support/api.ts";
import { call, startTestBerth, type TestBerth } from "../../support/berth.ts";
import { isTooWide, screenshot, startBrowser, violationsOf, type TestBrowser } from "../../support/browser.ts";
import { addTenant, onStoreOf } from "../../support/tenants.ts";
import { bearer, makeToken } from "../../support/tokens.ts";
import { until } from "../../support/until.ts";

const NOTES = `/** Says it louder. */
export const shout = (text: string): string => text.toUpperCase();
`;

describe("the page of the audit log", () => {
  let berth: TestBerth;
  let browser: TestBrowser;
  before(async () => {
    const env = { BERTH_AUDIT: "all", BERTH_AUDIT_DELAY_MS: "5" };
    [berth, browser] = await Promise.all([startTestBerth({ texts: { "notes.ts": NOTES }, env }), startBrowser()]);
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
  after(async () => {
    await browser?.close();
    await berth?.close();
  });

  it("C8 shows fifty records a page, is searched by a form, and fits screens of every width, bright and dark", async () => {
    const page = await browser.open(`${berth.url}/audit`);
    assert.equal(await page.getByRole("link", { name: "Audit", exact: true }).getAttribute("aria-current"), "page");
    assert.equal(await page.locator("tbody tr").count(), 50);
    for (const width of [1280, 390]) {
      await page.setViewportSize({ width, height: 900 });
      for (const colorScheme of ["light", "dark"] as const) {
        await page.emulateMedia({ colorScheme });
        assert.deepEqual(await violationsOf(page), [], `${width} ${colorScheme}`);
      }
      await screenshot(page, `audit-${width}`);
      assert.equal(await isTooWide(page), false, `too wide at ${width}`);
    }
    await page.getByRole("link", { name: "Earlier records" }).click();
    await page.getByRole("link", { name: "Newest" }).waitFor();

    await page.getByLabel("What").selectOption("edit");
    await page.getByLabel("Since").fill("1h");
    await page.getByRole("button", { name: "Show", exact: true }).click();
    const row = page.locator("tr").filter({ hasText: "variable <b>bold</b>" });
    await row.locator("summary").click();
    assert.match(await row.innerText(), /variable <b>bold<\/b>[^]*<i>me<\/i>, api[^]*bafkre/);
    assert.equal(await page.getByLabel("What").inputValue(), "edit");
    assert.equal(await page.getByLabel("Since").inputValue(), "1h");
    assert.equal(await isTooWide(page), false);
    await page.getByLabel("Server").fill("nobody");
    await page.getByRole("button", { name: "Show", exact: true }).click();
    await page.getByText("No record matches.").waitFor();
    await browser.leave(page);
    assert.deepEqual(browser.problems, []);
  });

  it("C8 goes through all records without scripts, each once", async () => {
    const seen: string[] = [];
    let path: string | undefined = "/audit?kind=call";
    while (path !== undefined) {
      const html: string = await (await fetch(berth.url + path)).text();
      for (const [, id = ""] of html.matchAll(/<dt>request<\/dt><dd>([^<]+)</g)) seen.push(id);
      path = /rel="next" href="([^"]+)"/.exec(html)?.[1]?.replaceAll("&amp;", "&").replaceAll("&#x3D;", "=");
    }
    assert.deepEqual([seen.length, new Set(seen).size], [60, 60]);
  });

  it("C8 of a tenant shows its own, links within it, and says what is wrong with a search", async () => {
    const theirs = await (await fetch(`${berth.url}/t/acme/audit`)).text();
    assert.match(theirs, /variable motto/);
    assert.match(theirs, /href="\/t\/acme\/cid\/bafkre/);
    assert.doesNotMatch(theirs, /shout|bold/);
    const wrong = await fetch(`${berth.url}/audit?since=yesterday`, { headers: { Accept: "text/html" } });
    assert.equal(wrong.status, 400);
    assert.match(await wrong.text(), /since must be a time such as/);
    const proxied = await fetch(`${berth.url}/audit`, { headers: { "X-Forwarded-For": "192.0.2.1" } });
    assert.equal(proxied.status, 403, "who sits elsewhere needs a token");
  });

  it("C8 is in the navigation of those alone who may see it", async () => {
    const navOf = async (can: string[]): Promise<boolean> => {
      const { token } = await makeToken(berth, { can });
      const html = await (await fetch(`${berth.url}/variables`, { headers: bearer(token) })).text();
      assert.match(html, /href="\/secrets"/);
      return html.includes('href="/audit"');
    };
    assert.deepEqual([await navOf(["read"]), await navOf(["admin"])], [false, true]);
  });
});
