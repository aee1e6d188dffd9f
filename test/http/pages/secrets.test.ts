import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { call, startTestBerth, type TestBerth } from "../../support/berth.ts";
import { screenshot, startBrowser, violationsOf, type TestBrowser } from "../../support/browser.ts";
import { addTenant, onStoreOf } from "../../support/tenants.ts";

const GUEST = `/** Tells a secret. */
export async function tell(name: string, context: import("berth").ToolContext): Promise<string> {
  return (await context.secret(name)) ?? "nothing";
}
`;
const VALUE = "-----BEGIN KEY-----\nvery <b>secret</b>\n-----END KEY-----";
const secrets = ["API_TOKEN", "OTHER_TOKEN"];

describe("the page of secrets", () => {
  let berth: TestBerth;
  let browser: TestBrowser;
  before(async () => {
    [berth, browser] = await Promise.all([
      startTestBerth({ texts: { "guest.ts": GUEST }, mcps: { guest: { definition: "guest.ts", secrets } } }),
      startBrowser(),
    ]);
    const mcps = JSON.stringify({ guest: { secrets: ["API_TOKEN"] } });
    await onStoreOf(berth, (store) => addTenant(store, "acme", { servers: { guest: GUEST }, variables: { mcps } }));
  });
  after(async () => {
    await browser.close();
    await berth.close();
  });

  const tell = async (at: string, name: string): Promise<string> =>
    (await call(`${berth.url}${at}/mcp/guest`, "tell", { name })).content[0].text;

  it("C8 sets, replaces and deletes secrets, and shows names, servers and times, and never a value", async () => {
    const page = await browser.open(`${berth.url}/secrets`);
    const row = page.getByRole("row").filter({ hasText: "API_TOKEN" });
    await row.getByText("not set").waitFor();
    assert.deepEqual(await violationsOf(page), []);
    await row.getByRole("button", { name: "Set API_TOKEN" }).click();
    await page.getByLabel("Value").fill(VALUE);
    assert.equal(await page.getByLabel("Name").inputValue(), "API_TOKEN");
    await page.getByRole("button", { name: "Set it" }).click();
    await page.getByText("The secret API_TOKEN is set.").waitFor();
    await row.getByRole("button", { name: "Replace API_TOKEN" }).waitFor();
    assert.equal(await row.getByRole("link").getAttribute("href"), "/mcp/meta/guest");
    assert.equal(await page.getByLabel("Value").inputValue(), "");
    assert.doesNotMatch(await page.content(), /very|&lt;b&gt;/);
    assert.equal(await tell("", "API_TOKEN"), VALUE);
    assert.equal(await tell("/t/acme", "API_TOKEN"), "nothing");
    assert.deepEqual(await violationsOf(page), []);

    await page.getByLabel("Name").fill("PATH");
    await page.getByLabel("Value").fill("a long value");
    await page.getByRole("button", { name: "Set it" }).click();
    await page.getByText(/"PATH" cannot be its name/).waitFor();
    assert.equal(await page.getByLabel("Value").inputValue(), "a long value", "what was typed is kept");
    await screenshot(page, "secrets");

    await row.getByRole("button", { name: "Delete API_TOKEN" }).click();
    await page.getByRole("button", { name: "Keep it" }).click();
    assert.equal(await tell("", "API_TOKEN"), VALUE);
    await row.getByRole("button", { name: "Delete API_TOKEN" }).click();
    await page.getByRole("button", { name: "Delete it" }).click();
    await row.getByText("not set").waitFor();
    assert.equal(await tell("", "API_TOKEN"), "nothing");
    // A refusal appears on the page, and in the browser's console.
    const others = browser.problems.filter((problem) => !/422/.test(problem));
    assert.deepEqual(others, []);
  });

  it("C8 of a tenant is of that tenant alone", async () => {
    const page = await browser.open(`${berth.url}/t/acme/secrets`);
    assert.equal(await page.getByText("OTHER_TOKEN").count(), 0);
    await page.getByRole("button", { name: "Set API_TOKEN" }).click();
    await page.getByLabel("Value").fill("of acme alone");
    await page.getByRole("button", { name: "Set it" }).click();
    await page.getByText("The secret API_TOKEN is set.").waitFor();
    assert.equal(await tell("/t/acme", "API_TOKEN"), "of acme alone");
    assert.equal(await tell("", "API_TOKEN"), "nothing");
  });
});
