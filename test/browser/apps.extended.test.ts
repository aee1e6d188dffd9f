import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, before, describe, it } from "node:test";
import type { FrameLocator } from "playwright-core";
import { startTestBerth, type TestBerth } from "../support/berth.ts";
import { startBrowser, type TestBrowser } from "../support/browser.ts";
import { TesterPage } from "../support/tester.ts";
import { until } from "../support/until.ts";

const servers = "test/fixtures/servers";
const beside = { "board.html": readFileSync(`${servers}/board.html`, "utf8") };

for (const revision of ["2026-07-28", "2025-11-25"]) {
  describe(`the app of a tool in the tester, in revision ${revision}`, () => {
    let berth: TestBerth;
    let browser: TestBrowser;
    let tester: TesterPage;
    let frame: FrameLocator;

    before(async () => {
      [berth, browser] = await Promise.all([
        startTestBerth({ files: [`${servers}/board.ts`], beside }),
        startBrowser(),
      ]);
      tester = await TesterPage.open(browser, `${berth.url}/mcp/meta/board`, "show");
      await tester.speak(revision);
      await tester.field("count").fill("3");
      await tester.run("show answered");
      frame = tester.section.frameLocator('iframe[title="App ui://board/board.html"]');
      await frame.locator("#count").getByText("3").waitFor();
    });
    after(async () => {
      await browser.close();
      await berth.close();
    });

    const saysAfter = async (button: string): Promise<string> => {
      // By keyboard: its place in the page may move while the list of what it did grows.
      await frame.getByRole("button", { name: button, exact: true }).press("Enter");
      const said = frame.locator("#said");
      await said.getByText(`${button}: `).waitFor();
      return said.innerText();
    };
    const events = (): Promise<string[]> =>
      tester.section.getByRole("list", { name: "What the app did" }).locator("> li").allInnerTexts();

    it("is shown with the arguments and the result of the call, and is told of its surroundings", async () => {
      assert.equal(await frame.locator("#input").innerText(), '{"count":3}');
      const context = JSON.parse(await frame.locator("#context").innerText());
      assert.deepEqual(context, { theme: "light", locale: "en-US", platform: "web" });
      const place = tester.section.locator("iframe");
      await until(async () => (await place.boundingBox())?.height === 321 || undefined);
      await tester.page.emulateMedia({ colorScheme: "dark" });
      await frame.locator("#context").getByText('{"theme":"dark"}').waitFor();
      await tester.page.emulateMedia({ colorScheme: null });
    });

    it("updates itself by calls of the tools of its server that are for apps, and of no others", async () => {
      assert.equal(await saysAfter("more"), "more: 4");
      assert.equal(await frame.locator("#count").innerText(), "4");
      assert.match(await saysAfter("for models"), /^for models: .*its visibility does not include apps$/);
      assert.match(await saysAfter("unknown"), /^unknown: .*its server has no such tool$/);
      assert.match(await saysAfter("read"), /"text":"a note"/);
    });

    it("has links opened by a person alone, and its messages shown as texts", async () => {
      assert.equal(await saysAfter("bad link"), 'bad link: {"isError":true}');
      await frame.getByRole("button", { name: "link", exact: true }).click();
      await tester.button("Refuse").click();
      await frame.getByText('link: {"isError":true}').waitFor();
      await browser.context.route("https://example.com/**", (route) => route.fulfill({ body: "opened" }));
      await frame.getByRole("button", { name: "link", exact: true }).click();
      const opened = browser.context.waitForEvent("page");
      await tester.section.getByRole("link", { name: "Open the link" }).click();
      const page = await opened;
      await page.getByText("opened").waitFor();
      assert.equal(await page.evaluate("opener === null && document.referrer === ''"), true);
      await page.close();
      await frame.getByText("link: {}").waitFor();

      assert.equal(await saysAfter("message"), "message: {}");
      assert.equal(await saysAfter("context"), "context: {}");
      // The page shows it a moment after its app was answered.
      for (const words of ["<b>hello</b>", "seen: 3"]) {
        await until(async () => (await events()).some((text) => text.includes(words)), words);
      }
    });

    it("is refused plainly what the tester does not do", async () => {
      assert.equal(await saysAfter("fullscreen"), 'fullscreen: {"mode":"inline"}');
      assert.match(await saysAfter("download"), /^download: .*Berth's tester does not do ui\/download-file$/);
    });

    it("makes no error of the page", () => assert.deepEqual(browser.problems, []));
  });
}
