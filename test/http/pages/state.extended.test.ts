import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { apiOf } from "../../support/api.ts";
import { call, startTestBerth, type TestBerth } from "../../support/berth.ts";
import { screenshot, startBrowser, violationsOf, type TestBrowser } from "../../support/browser.ts";

const KEEPER = `import type { ToolContext } from "berth";
export const keep = (key: string, value: unknown, { state }: ToolContext): Promise<number> => state.set(key, value);
export const kept = async (key: string, { state }: ToolContext): Promise<string> => JSON.stringify(await state.get(key)) ?? "nothing";
export const keepBytes = (key: string, { state }: ToolContext): Promise<number> => state.set(key, Uint8Array.of(0, 255, 10));
`;

describe("the pages of state", () => {
  let berth: TestBerth;
  let browser: TestBrowser;
  before(async () => {
    [berth, browser] = await Promise.all([startTestBerth({ texts: { "keeper.ts": KEEPER } }), startBrowser()]);
  });
  after(async () => {
    await browser.close();
    await berth.close();
  });

  const tool = async (name: string, args: Record<string, unknown>): Promise<string> =>
    (await call(`${berth.url}/mcp/keeper`, name, args)).content[0].text;

  it("lead from servers to keys to a value, which a person edits, and deletes", async () => {
    const empty = await browser.open(`${berth.url}/state`);
    await empty.getByText("No server keeps anything yet.").waitFor();
    await tool("keep", { key: "notes/today", value: { title: "of the server", tags: ["a"] } });
    await tool("keepBytes", { key: "raw" });
    const page = await browser.open(`${berth.url}/state`);
    assert.deepEqual(await violationsOf(page), []);
    await screenshot(page, "state");
    await page.getByRole("link", { name: "keeper" }).click();
    await page.getByRole("row").filter({ hasText: "raw" }).getByText("3 B of bytes").waitFor();
    assert.deepEqual(await violationsOf(page), []);
    await screenshot(page, "state-keys");
    await page.getByRole("link", { name: "notes/today" }).click();
    const text = page.getByRole("textbox", { name: "JSON" });
    assert.match(await text.inputValue(), /"title": "of the server"/);
    assert.deepEqual(await violationsOf(page), []);
    await screenshot(page, "state-value");

    await text.fill('{"title": ');
    await page.getByRole("button", { name: "Save it" }).click();
    await page.getByText(/it is not JSON/).waitFor();
    await text.fill('{"title": "of a person"}');
    await page.getByRole("button", { name: "Save it" }).click();
    await page.getByText("It is saved.").waitFor();
    assert.equal(await tool("kept", { key: "notes/today" }), '{"title": "of a person"}'.replace(": ", ":"));

    await tool("keep", { key: "notes/today", value: "of the server again" });
    await text.fill('"lost?"');
    await page.getByRole("button", { name: "Save it" }).click();
    await page.getByText(/was changed by someone else/).waitFor();
    assert.equal(await text.inputValue(), '"lost?"', "what was typed is kept");
    assert.equal(await tool("kept", { key: "notes/today" }), '"of the server again"');

    await page.reload();
    await page.getByRole("button", { name: "Delete it" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Delete it" }).click();
    await page.waitForURL(/\/state\/keeper$/);
    assert.equal(await tool("kept", { key: "notes/today" }), "nothing");

    await page.getByRole("link", { name: "raw" }).click();
    await page.getByRole("textbox", { name: "base64" }).fill("AAEC");
    await page.getByRole("button", { name: "Save it" }).click();
    await page.getByText("It is saved.").waitFor();
    assert.equal((await apiOf(berth).send("GET", "/state/keeper/value?key=raw")).body.base64, "AAEC");
    const others = browser.problems.filter((problem) => !/4(?:12|22)/.test(problem));
    assert.deepEqual(others, []);
  });

  it("write a new key, find keys by what they begin with, and delete all", async () => {
    const page = await browser.open(`${berth.url}/state/keeper`);
    await page.getByLabel("New key").fill("of a person");
    await page.getByRole("button", { name: "Continue" }).click();
    await page.getByText("keeps nothing under this key").waitFor();
    await page.getByRole("textbox", { name: "JSON" }).fill("[1]");
    await page.getByRole("button", { name: "Save it" }).click();
    await page.getByText("It is saved.").waitFor();
    assert.equal(await tool("kept", { key: "of a person" }), "[1]");
    await browser.leave(page);

    const keys = await browser.open(`${berth.url}/state/keeper`);
    await keys.getByLabel("Keys that begin with").fill("of a");
    await keys.getByRole("button", { name: "Show" }).click();
    await keys.waitForURL(/prefix=of/);
    await keys.getByRole("link", { name: "of a person" }).waitFor();
    assert.equal(await keys.getByRole("link", { name: "raw" }).count(), 0);
    await keys.getByRole("button", { name: "Delete of a person" }).click();
    await keys.getByRole("button", { name: "Delete it" }).click();
    await keys.getByText("No key begins with this.").waitFor();

    const servers = await browser.open(`${berth.url}/state`);
    await servers.getByRole("button", { name: "Delete all of keeper" }).click();
    await servers.getByRole("dialog").getByRole("button", { name: "Delete it" }).click();
    await servers.getByText("No server keeps anything yet.").waitFor();
  });
});
