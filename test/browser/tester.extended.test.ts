import assert from "node:assert/strict";
import { after, afterEach, before, beforeEach, describe, it } from "node:test";
import { call } from "../support/berth.ts";
import { isTooWide, screenshot, startBrowser, violationsOf } from "../support/browser.ts";
import { berthInSuite, inSuite } from "../support/suite.ts";
import { TesterPage } from "../support/tester.ts";
import { until } from "../support/until.ts";

const NOTES = `/** Writes a note. */
export const write = (path: string): string => "wrote " + path;
`;

describe("the tester", () => {
  const browser = inSuite(startBrowser);
  const berth = berthInSuite({
    files: ["test/fixtures/servers/workbench.ts"],
    texts: { "notes.ts": NOTES },
    mcps: { notes: { definition: "notes.ts", consent: ["write"] } },
  });
  const server = (): string => `${berth.url}/mcp/meta/workbench`;

  for (const revision of ["2026-07-28", "2025-11-25"]) {
    describe(`in revision ${revision}`, () => {
      let tester: TesterPage;
      before(async () => {
        tester = await TesterPage.open(browser, server(), "echo");
        await tester.speak(revision);
      });
      after(() => browser.leave(tester.page));

      it("cancels a call and aborts the signal of its tool", async () => {
        const name = `of ${revision}`;
        const fate = async () => (await call(`${berth.url}/mcp/workbench`, "fate", { name })).content[0].text;
        await tester.choose("work");
        await tester.field("name").fill(name);
        await tester.run("work is running");
        await until(async () => (await fate()) === "running");
        await tester.button("Cancel").click();
        await tester.says("work was cancelled");
        await until(async () => (await fate()) !== "running");
        assert.equal(await fate(), "cancelled");
      });

      it("lets the user answer for the model, and asks before it opens a page", async () => {
        await tester.choose("poem");
        await tester.field("topic").fill("tea");
        await tester.run("poem has a question");
        await tester.result.getByText("A poem about tea").waitFor();
        await tester.field("The model's answer").fill("leaves");
        await tester.button("Send the answer").click();
        await tester.says("poem answered");
        await tester.result.getByText("leaves").first().waitFor();

        await tester.choose("visit");
        await tester.field("url").fill(`${berth.url}/mcp`);
        await tester.run("visit has a question");
        const opened = browser.context.waitForEvent("page");
        await tester.button("Open the page").click();
        const page = await opened;
        await page.waitForURL("**/mcp");
        await page.close();
        await tester.says("visit answered");
        await tester.result.getByText("the page: accept").first().waitFor();
      });

      it("opens only http and https pages", async () => {
        await tester.choose("visit");
        await tester.field("url").fill("javascript:alert(1)");
        await tester.run("visit has a question");
        assert.equal(await tester.button("Open the page").isDisabled(), true);
        await tester.button("Dismiss").click();
        await tester.says("visit answered");
        await tester.result.getByText("the page: cancel").first().waitFor();
      });

      it("asks for consent to a call, with nothing ticked beforehand", async () => {
        const notes = await TesterPage.open(browser, `${berth.url}/mcp/meta/notes`, "write");
        await notes.speak(revision);
        await notes.field("path").fill("</pre><b>bold</b>");
        const declined = notes.result.getByText("the user was asked about this call, and declined it").first();
        await notes.run("write has a question");
        const question = await notes.result.innerText();
        assert.match(question, /"notes" asks to run its tool "write" once[^]*\\u003cb\\u003ebold/);
        assert.deepEqual(await violationsOf(notes.page), []);
        await notes.button("Decline").click();
        await declined.waitFor();
        await notes.run("write has a question");
        await notes.button("Send the answer").click();
        await declined.waitFor();
        await notes.run("write has a question");
        await notes.field("Run this call").check();
        await notes.button("Send the answer").click();
        await notes.says("write answered");
        await notes.result.getByText("wrote </pre>").first().waitFor();
        await browser.leave(notes.page);
      });

      it("shows progress while the tool runs", async () => {
        await tester.choose("steps");
        await tester.field("ms").fill("60");
        await tester.button("Run").click();
        await tester.result.getByRole("progressbar").waitFor();
        await tester.says("steps answered");
        assert.equal(await tester.result.getByRole("progressbar").getAttribute("value"), "4");
        assert.deepEqual(await tester.result.locator(".lines li").allInnerTexts(), [
          "step 1",
          "step 2",
          "step 3",
          "step 4",
        ]);
      });

      it("shows the log messages of the tool", async () => {
        await tester.choose("remark");
        await tester.field("text required").fill("rain");
        await tester.run("remark answered");
        const lines = await tester.result.locator(".lines li").allInnerTexts();
        const shown = lines.map((line) => line.replaceAll(/\s+/g, " "));
        assert.deepEqual(shown, ["debug a detail of rain", 'warning {"text":"rain"}']);
      });

      it("shows an error of the tool", async () => {
        await tester.choose("broken");
        await tester.run("broken reported an error");
        await tester.result.getByText("out of tea").waitFor();
      });

      it("gets a prompt with arguments and suggests values", async () => {
        await tester.turnTo("prompt");
        await tester.field("language").fill("D");
        await tester.section.locator("datalist option[value=Danish]").waitFor({ state: "attached" });
        await tester.field("language").fill("Danish");
        await tester.button("Get the prompt").click();
        await tester.says("greet answered");
        await tester.result.getByText("Greet you in Danish.").waitFor();
      });

      it("reads resources and resource templates", async () => {
        await tester.turnTo("resource");
        await tester.button("Read").click();
        await tester.says("note://all answered");
        await tester.result.getByText("- seven").waitFor();
        await tester.field("Resource", true).selectOption("note://{id}");
        await tester.field("id", true).fill("7");
        await tester.button("Read").click();
        await tester.says("note://7 answered");
        await tester.result.getByText("note 7").waitFor();
      });
    });
  }

  describe("in the newest revision", () => {
    let tester: TesterPage;
    beforeEach(async () => {
      tester = await TesterPage.open(browser, server(), "echo");
    });
    afterEach(() => browser.leave(tester.page));

    it("keeps the form and the JSON in step, and reports invalid JSON", async () => {
      await tester.choose("order");
      await tester.field("name required").fill("Ada");
      await tester.button("JSON").click();
      const json = tester.field("Arguments as JSON");
      const value = JSON.parse(await json.inputValue());
      assert.equal(value.to.name, "Ada");
      await json.fill('{ "to": ');
      await tester.section.getByText("This is not JSON yet").waitFor();
      assert.equal(await tester.button("Form").isDisabled(), true);
      await json.fill(JSON.stringify({ ...value, to: { name: "Grace", country: "SE" }, gift: true }));
      await tester.button("Form").click();
      assert.equal(await tester.field("name required").inputValue(), "Grace");
      assert.equal(await tester.field("country").locator("option:checked").innerText(), "SE");
      assert.equal(await tester.field("gift").isChecked(), true);
    });

    it("reports invalid fields, and sends them on request", async () => {
      await tester.choose("order");
      await tester.button("Run").click();
      await tester.section.getByText("4 fields need correction.").waitFor();
      assert.equal(await tester.section.getByText("is required").count(), 4);
      assert.deepEqual(await violationsOf(tester.page), []);
      await tester.field("weight").fill("3");
      await tester.section.getByText("3 fields need correction.").waitFor();
      await tester.button("Run anyway").click();
      await tester.result.getByText("day").first().waitFor();
      assert.match(await tester.result.innerText(), /order (failed|reported an error)/);
    });

    it("loads its scripts only when it is opened", async () => {
      const page = await browser.open(server());
      const loaded = async () => (await page.evaluate(SIZES)) as number[];
      const before = await loaded();
      await page.locator("summary").filter({ hasText: "mixed" }).click();
      await page.getByRole("link", { name: "Try it with mixed" }).click();
      await page.locator("#tool-mixed").getByText("revision 2026-07-28").waitFor();
      await page.locator("#tool-mixed").getByRole("button", { name: "Run", exact: true }).waitFor();
      const sizes = (await loaded()).slice(before.length);
      assert.ok(Math.max(...sizes) > 50_000, "the client was loaded before");
      const bytes = sizes.reduce((sum, size) => sum + size, 0);
      assert.ok(bytes <= MOST_BYTES, `the tester has ${bytes} bytes`);
      await browser.leave(page);
    });

    it("moves the focus for users of the keyboard", async () => {
      const { page } = tester;
      const focused = (start: string) =>
        page.locator(":focus", { hasText: new RegExp(`^\\s*${start}`) }).waitFor({ state: "attached" });
      await tester.choose("forecast");
      await focused("Try forecast");
      await tester.button("Run").focus();
      await page.keyboard.press("Enter");
      await tester.says("forecast has a question");
      await focused("The server asks you");
      await page.keyboard.press("Tab");
      await page.keyboard.type("Oslo");
      await page.keyboard.press("Enter");
      await tester.says("forecast answered");
      await focused("forecast answered");
      await page.locator("#tool-echo").getByRole("link", { name: "Try it with echo" }).focus();
      await page.keyboard.press("Enter");
      await focused("Try echo");
      await page.locator("#prompts a[data-try]").first().focus();
      await page.keyboard.press("Enter");
      await focused("Try greet");
    });

    it("keeps the result of each tool", async () => {
      await tester.field("message").fill("first");
      await tester.run("echo answered");
      await tester.choose("remark");
      assert.match(await tester.result.innerText(), /The result will appear here/);
      await tester.field("text required").fill("rain");
      await tester.run("remark answered");
      await tester.choose("echo");
      await tester.says("echo answered");
      assert.match(await tester.result.innerText(), /first/);
    });

    it("runs one tool at a time", async () => {
      await tester.choose("work");
      await tester.field("name").fill("alone");
      await tester.run("work is running");
      await tester.choose("echo");
      assert.equal(await tester.button("Run").getAttribute("aria-disabled"), "true");
      await tester.choose("work");
      await tester.button("Cancel").click();
      await tester.says("work was cancelled");
      await tester.choose("echo");
      assert.equal(await tester.button("Run").getAttribute("aria-disabled"), "false");
    });

    it("reports a tool of the address that no longer exists", async () => {
      const page = await browser.open(`${server()}#tool=gone`);
      await page.getByText("There is no tool gone any more.").waitFor();
      await browser.leave(page);
    });

    it("fits a small screen", async () => {
      await tester.page.setViewportSize({ width: 390, height: 800 });
      await tester.choose("mixed");
      await tester.run("mixed answered");
      await tester.messages();
      await screenshot(tester.page, "tester-390");
      assert.equal(await isTooWide(tester.page), false);
    });

    it("reports why it is not connected, and connects again", async () => {
      await tester.page.route("**/mcp/workbench", (route) => route.abort());
      await tester.button("Connect again").click();
      await tester.section.getByText("Not connected").waitFor();
      await tester.section.getByText("could not be reached").waitFor();
      await tester.page.unroute("**/mcp/workbench");
      await tester.button("Connect again").click();
      await tester.connected();
    });
  });
});

// The client, the form library and everything shown, compressed.
const MOST_BYTES = 150 * 1024;

// Scripts and styles as they came over the wire, compressed.
const SIZES = `performance.getEntriesByType("resource")
  .filter(({ name }) => name.includes("/assets/"))
  .map(({ encodedBodySize }) => encodedBodySize)`;
