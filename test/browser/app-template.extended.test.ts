import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { FrameLocator } from "playwright-core";
import { screenshot, startBrowser, violationsOf } from "../support/browser.ts";
import { berthInSuite, inSuite } from "../support/suite.ts";
import { TesterPage } from "../support/tester.ts";
import { until } from "../support/until.ts";

describe("the template of an app with a chart", () => {
  const browser = inSuite(startBrowser);
  const berth = berthInSuite({});
  let tester: TesterPage;
  let app: FrameLocator;

  it("makes a server whose tool has an app, under the server's own name", async () => {
    const page = await browser.open(`${berth.url}/servers/new`);
    await page.getByLabel("Name").fill("credit");
    await page.getByRole("radio", { name: "App with a chart" }).check();
    await page.getByRole("button", { name: "Continue" }).click();
    await page.locator(".offered", { hasText: "repay(amount: " }).waitFor();
    await page.getByRole("tab", { name: "loan.html" }).click();
    await page.getByRole("textbox", { name: "Source of loan.html" }).getByText("<!doctype html>").waitFor();
    await screenshot(page, "app-template-new");
    await page.getByRole("button", { name: "Create" }).click();
    await page.waitForURL("**/mcp/meta/credit?tab=connect");
    await browser.leave(page);
  });

  it("shows the result of the tool in the tester", async () => {
    tester = await TesterPage.open(browser, `${berth.url}/mcp/meta/credit`, "repay");
    await tester.field("amount").fill("240000");
    await tester.field("rate").fill("3");
    await tester.field("years").fill("20");
    await tester.run("repay answered");
    app = tester.section.frameLocator('iframe[title="App ui://credit/loan.html"]');
    await app.locator("#monthly").getByText("1,331.03").waitFor();
    assert.equal(await app.locator("#chart > div").count(), 20);
    assert.match((await app.getByRole("img").getAttribute("aria-label"))!, /^Interest: [\d,.]+ in year 1, /);
  });

  it("calls the tool again for a slider that is moved by keyboard, and tells the model of the loan", async () => {
    await app.getByLabel("Years").press("ArrowRight");
    await app.locator("#monthly").getByText("1,284.83").waitFor();
    assert.equal(await app.locator("#chart > div").count(), 21);
    const told = tester.section.getByRole("list", { name: "What the app did" });
    await told.getByText("changed what the model knows of it").waitFor();
    assert.match(await told.innerText(), /called repay[^]*"years":21[^]*"monthly":1284\.83/);
  });

  it("says what is wrong where the tool refuses", async () => {
    await app.locator("#years").evaluate("years.max = 51");
    await app.getByLabel("Years").press("End");
    await app.getByRole("alert").getByText("50").waitFor();
    assert.equal(await app.locator("#monthly").innerText(), "1,284.83");
    await app.getByLabel("Years").press("Home");
    await app.getByRole("alert").getByText("50").waitFor({ state: "hidden" });
    await app.locator("#chart > div").nth(1).waitFor({ state: "detached" });
  });

  it("is accessible in light and dark, as high as what it shows, and makes no error of the page", async () => {
    await app.getByLabel("Years").press("PageUp");
    await app.locator("#chart > div").nth(5).waitFor();
    await screenshot(tester.page, "app-template");
    const frame = tester.page.frames().find((each) => each !== tester.page.mainFrame());
    assert.deepEqual(await violationsOf(tester.page, frame), []);
    await until(
      () => app.locator("html").evaluate((page) => page.scrollHeight === page.clientHeight),
      "it is as high as what it shows",
    );
    assert.deepEqual(browser.problems, []);
  });
});
