import assert from "node:assert/strict";
import { after, afterEach, before, beforeEach, describe, it } from "node:test";
import { call, startTestBerth, type TestBerth } from "../support/berth.ts";
import {
  isTooWide,
  screenshot,
  spilledTexts,
  startBrowser,
  violationsOf,
  type TestBrowser,
} from "../support/browser.ts";
import { TesterPage } from "../support/tester.ts";
import { until } from "../support/until.ts";

let berth: TestBerth;
let browser: TestBrowser;
let server: string;
let starting: Promise<void> | undefined;

/** Once for all suites of this file. */
async function start(): Promise<void> {
  [berth, browser] = await Promise.all([
    startTestBerth({ files: ["test/fixtures/servers/workbench.ts"] }),
    startBrowser(),
  ]);
  server = `${berth.url}/mcp/meta/workbench`;
}
after(async () => {
  await browser.close();
  await berth.close();
});

for (const revision of ["2026-07-28", "2025-11-25"]) {
  describe(`the tester in revision ${revision}`, () => {
    let tester: TesterPage;
    before(async () => {
      await (starting ??= start());
      tester = await TesterPage.open(browser, server, "echo");
      await tester.speak(revision);
    });
    after(() => browser.leave(tester.page));

    it("C6 runs a tool with a form made from its schema", async () => {
      await tester.choose("order");
      await tester.field("Which kind").selectOption("kind: letter");
      await tester.field("registered").check();
      await tester.field("name required").fill("Ada");
      await tester.field("country").selectOption("NO");
      await tester.field("day").fill("2026-02-03");
      await tester.button("Add an item to tags").click();
      await tester.field("Item 1").fill("urgent");
      await tester.button("Run").click();
      await tester.says("order answered");
      const { request, result } = await lastCall(tester);
      assert.deepEqual(request.params.arguments, {
        item: { kind: "letter", registered: true },
        to: { name: "Ada", country: "NO" },
        day: "2026-02-03",
        speed: "fast",
        tags: ["urgent"],
        notify: [],
        gift: false,
      });
      assert.deepEqual(JSON.parse(result.content[0].text), request.params.arguments);
    });

    it("S5 cancels a call, and the tool's signal is aborted", async () => {
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

    it("P4 answers what the tool asks, or declines", async () => {
      await tester.choose("forecast");
      await tester.run("forecast has a question");
      await tester.button("Send the answer").click();
      await tester.result.getByText("is required").waitFor();
      await tester.field("City").fill("Oslo");
      await tester.field("Unit").selectOption("Fahrenheit");
      await tester.field("Wind").check();
      await tester.page.keyboard.press("Tab");
      assert.deepEqual(await violationsOf(tester.page), []);
      await tester.button("Send the answer").click();
      await tester.says("forecast answered");
      await tester.result.getByText('"Oslo"').waitFor();
      const { result } = await lastCall(tester);
      assert.deepEqual(JSON.parse(result.content[0].text), { city: "Oslo", unit: "F", days: 2, warn: ["wind"] });

      await tester.run("forecast has a question");
      await tester.button("Decline").click();
      await tester.says("forecast answered");
      await tester.result.getByText("no place: decline").first().waitFor();
    });

    it("P4 has the person play the model, and asks before it opens a page", async () => {
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

    it("P4 opens nothing but pages of the web", async () => {
      await tester.choose("visit");
      await tester.field("url").fill("javascript:alert(1)");
      await tester.run("visit has a question");
      assert.equal(await tester.button("Open the page").isDisabled(), true);
      await tester.button("Dismiss").click();
      await tester.says("visit answered");
      await tester.result.getByText("the page: cancel").first().waitFor();
    });

    it("S3 shows progress while the tool works", async () => {
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

    it("S11 shows what the tool logs", async () => {
      await tester.choose("remark");
      await tester.field("text required").fill("rain");
      await tester.run("remark answered");
      const lines = await tester.result.locator(".lines li").allInnerTexts();
      assert.deepEqual(
        lines.map((line) => line.replaceAll(/\s+/g, " ")),
        ["debug a detail of rain", 'warning {"text":"rain"}'],
      );
    });

    it("T5.5 shows an error of the tool as one", async () => {
      await tester.choose("broken");
      await tester.run("broken reported an error");
      await tester.result.getByText("out of tea").waitFor();
    });

    it("T7.3 gets a prompt with arguments, and suggests values", async () => {
      await tester.turnTo("prompt");
      await tester.field("language").fill("D");
      await tester.section.locator("datalist option[value=Danish]").waitFor({ state: "attached" });
      await tester.field("language").fill("Danish");
      await tester.button("Get the prompt").click();
      await tester.says("greet answered");
      await tester.result.getByText("Greet you in Danish.").waitFor();
    });

    it("T6.2 reads resources, and those of a template", async () => {
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

describe("the tester", () => {
  before(() => (starting ??= start()));
  let tester: TesterPage;
  beforeEach(async () => {
    tester = await TesterPage.open(browser, server, "echo");
  });
  afterEach(() => browser.leave(tester.page));

  it("S8 shows each kind of content, and runs none of it", async () => {
    await tester.choose("picture");
    await tester.run("picture answered");
    const width = () => tester.page.evaluate("document.querySelector('.tester img')?.naturalWidth");
    assert.equal(await until(width, "the picture is decoded"), 16);
    await tester.choose("sound");
    await tester.run("sound answered");
    assert.equal(await tester.result.locator("audio").count(), 1);
    await tester.choose("mixed");
    await tester.run("mixed answered");
    const { result } = tester;
    // T14.2
    await result.getByText("<img src=x onerror=alert(1)> & <b>bold</b>").waitFor();
    assert.equal(await result.locator("img").count(), 1);
    await result.getByText("an embedded note").waitFor();
    await result.getByText('"one"').waitFor();
    assert.equal(await result.getByRole("link", { name: "Save" }).getAttribute("download"), "dot.png");
    // The page elsewhere is no resource of this server.
    assert.equal(await result.getByRole("button", { name: "Read it" }).count(), 1);
    await screenshot(tester.page, "tester");
    assert.deepEqual(await violationsOf(tester.page), []);
    await result.getByRole("button", { name: "Read it" }).click();
    await tester.says("note://7 answered");
    assert.deepEqual(browser.problems, []);
  });

  it("C6 shows the raw messages of both directions", async () => {
    await tester.field("message").fill("hello");
    await tester.run("echo answered");
    await tester.messages();
    const request = tester.section.locator(".messages li.sent").last();
    await request.locator("summary").click();
    await request.locator("pre").waitFor();
    assert.match(
      await request.innerText(),
      /tools\/call[\s\S]*POST \/mcp\/workbench[\s\S]*mcp-method[\s\S]*"message": "hello"/,
    );
    const answer = tester.section.locator(".messages li.received").last();
    await answer.locator("summary").click();
    await answer.locator("pre").waitFor();
    assert.match(
      await answer.innerText(),
      /result of tools\/call[\s\S]*HTTP 200[\s\S]*content-type[\s\S]*"text": "hello"/,
    );
    assert.deepEqual(await spilledTexts(tester.page), []);
    assert.deepEqual(await violationsOf(tester.page), []);
  });

  it("C6 keeps the form and the JSON the same, and says what is no JSON", async () => {
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

  it("C6 says at each field what is wrong, and sends it anyway when told to", async () => {
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

  it("C6 is opened by the link at a tool, and loads nothing before", async () => {
    const page = await browser.open(server);
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

  it("C6 is used with the keyboard alone, and the focus goes where one needs it", async () => {
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

  it("C6 keeps each tool's result with its tool", async () => {
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

  it("C6 runs one tool at a time, whichever of them the person presses", async () => {
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

  it("C6 says that a tool of the address is there no more", async () => {
    const page = await browser.open(`${server}#tool=gone`);
    await page.getByText("There is no tool gone any more.").waitFor();
    await browser.leave(page);
  });

  it("C6 fits a small screen", async () => {
    await tester.page.setViewportSize({ width: 390, height: 800 });
    await tester.choose("mixed");
    await tester.run("mixed answered");
    await tester.messages();
    await screenshot(tester.page, "tester-390");
    assert.equal(await isTooWide(tester.page), false);
  });

  it("C6 says why it is not connected, and connects again", async () => {
    await tester.page.route("**/mcp/workbench", (route) => route.abort());
    await tester.button("Connect again").click();
    await tester.section.getByText("Not connected").waitFor();
    await tester.section.getByText("could not be reached").waitFor();
    await tester.page.unroute("**/mcp/workbench");
    await tester.button("Connect again").click();
    await tester.connected();
  });
});

// The client, the form library and everything shown, compressed.
const MOST_BYTES = 150 * 1024;

// Scripts and styles as they came over the wire, compressed.
const SIZES = `performance.getEntriesByType("resource")
  .filter(({ name }) => name.includes("/assets/"))
  .map(({ encodedBodySize }) => encodedBodySize)`;

/** The last call of a tool, as sent over the wire. */
async function lastCall(tester: TesterPage): Promise<{ request: Body; result: Body }> {
  await tester.messages();
  const body = async (direction: string, label: string): Promise<Body> => {
    const entry = tester.section.locator(`.messages li.${direction}`).filter({ hasText: label }).last();
    if ((await entry.locator("pre").count()) === 0) await entry.locator("summary").click();
    return JSON.parse(await entry.locator("pre").innerText());
  };
  const request = await body("sent", "tools/call");
  const { result } = await body("received", "result of tools/call");
  return { request, result };
}

// Messages have any shape; tests look into them freely.
// oxlint-disable-next-line typescript/no-explicit-any
type Body = any;
