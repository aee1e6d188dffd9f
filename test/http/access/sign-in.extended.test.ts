import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import type { Page } from "playwright-core";
import { apiOf } from "../../support/api.ts";
import { post, request, startTestBerth, type TestBerth } from "../../support/berth.ts";
import { startBrowser, violationsOf, type TestBrowser } from "../../support/browser.ts";
import { bearer, makeToken, revoke } from "../../support/tokens.ts";
import { until } from "../../support/until.ts";

const NOTES = `/** Says it louder. */
export const shout = (text: string): string => text.toUpperCase();
`;

describe("signing in", () => {
  let berth: TestBerth;
  let browser: TestBrowser;
  before(async () => {
    const env = { BERTH_ACCESS: "required" };
    [berth, browser] = await Promise.all([startTestBerth({ texts: { "notes.ts": NOTES }, env }), startBrowser()]);
  });
  after(async () => {
    await browser?.close();
    await berth?.close();
  });

  it("a user signs in, runs a tool, restores a release with another token, and signs out", async () => {
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
    const put = await apiOf(berth).send("PUT", "/definitions/notes", NOTES.replace("louder", "loudly"), write);
    assert.equal(put.status, 200, JSON.stringify(put.body));
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

  it("a page that sets a secret asks for the token again, and keeps the form", async () => {
    const { token } = await makeToken(berth, { can: ["admin"] });
    const page = await browser.open(`${berth.url}/secrets`);
    await signInOn(page, token);
    await page.waitForURL("**/secrets");
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
