import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import type { Page } from "playwright-core";
import { apiOf } from "../../support/api.ts";
import { call, startTestBerth, type TestBerth } from "../../support/berth.ts";
import { isTooWide, screenshot, startBrowser, violationsOf, type TestBrowser } from "../../support/browser.ts";
import { until } from "../../support/until.ts";

const CALCULATOR = `
/** Divides one number by another. */
export function divide(a: number, b: number): number {
  if (b === 0) throw new Error("cannot divide " + a + " by zero");
  return a / b;
}
/** Joins words. */
export function join(words: string[]): string { return words.join(" "); }
/**
 * Signs in.
 * @param password The secret one
 * @format password
 */
export function signIn(user: string, password: string): string { return user + " is " + password.length + " long"; }
`;
const MARKUP = `</code><img src=x onerror="document.title='owned'">{{7*7}}`;

describe("retained calls on a server's page", () => {
  let berth: TestBerth;
  let browser: TestBrowser;
  before(async () => {
    [berth, browser] = await Promise.all([
      startTestBerth({
        texts: { "calculator.ts": CALCULATOR, "shown.ts": CALCULATOR },
        mcps: { shown: { definition: "shown.ts", retain_calls: "7d" } },
        env: { BERTH_RETAINED_CALL_DELAY_MS: "20" },
      }),
      startBrowser(),
    ]);
  });
  after(async () => {
    await browser.close();
    await berth.close();
  });

  const pageOf = (server: string, query: string): string => `${berth.url}/mcp/meta/${server}${query}`;
  const use = (server: string, tool: string, args: Record<string, unknown>) =>
    call(`${berth.url}/mcp/${server}`, tool, args);
  const keptIn = (server: string, count: number): Promise<unknown> =>
    until(async () => {
      const { calls } = (await apiOf(berth).send("GET", `/servers/${server}/calls`)).body;
      return (calls as unknown[]).length === count;
    }, `${count} calls of ${server} are kept`);
  const bench = (page: Page, tool: string) => page.locator(`[data-bench="tool"][data-name="${tool}"]`);

  it("are turned on in the settings; a failed one is found, and run again with other arguments", async () => {
    await use("calculator", "divide", { a: 1, b: 0 });
    const page = await browser.open(pageOf("calculator", "?tab=calls"));
    await page.getByText("without their arguments and results").waitFor();
    await page.getByRole("link", { name: "Retain calls, in the settings" }).click();
    await page.getByLabel("Retain calls").selectOption({ label: "for 7 days" });
    await page.getByRole("button", { name: "Save", exact: true }).click();
    await page.locator(".notice.good", { hasText: "Saved." }).waitFor();

    await use("calculator", "divide", { a: 6, b: 3 });
    await use("calculator", "divide", { a: 4711, b: 0 });
    await keptIn("calculator", 2);
    await page.goto(pageOf("calculator", "?tab=calls"));
    await page.getByRole("heading", { name: "Retained calls" }).waitFor();
    assert.equal(await page.locator("table.kept tbody tr").count(), 2);
    await page.getByLabel("Only failed calls").check();
    await page.getByRole("button", { name: "Show", exact: true }).click();
    await page.waitForURL(/failed=true/);
    assert.equal(await page.locator("table.kept tbody tr").count(), 1);
    await page.getByRole("link", { name: /^divide\s+call \d+$/ }).click();
    await page.getByRole("heading", { name: /^Call \d+ of divide$/ }).waitFor();
    const text = await page.locator("#call").innerText();
    assert.match(text, /"a": 4711/);
    assert.match(text, /cannot divide 4711 by zero/);
    assert.match(text, /calculator\.ts:4:/);
    assert.match((await page.locator("#call time").getAttribute("title")) ?? "", /\d{2}:\d{2}/);

    await page.getByRole("link", { name: "Run again" }).click();
    await bench(page, "divide")
      .getByText(/revision 20/)
      .waitFor();
    assert.equal(await bench(page, "divide").getByLabel(/^a\b/).inputValue(), "4711");
    const divisor = bench(page, "divide").getByLabel(/^b\b/);
    assert.equal(await divisor.inputValue(), "0");
    await divisor.fill("2");
    await bench(page, "divide").getByRole("button", { name: "Run", exact: true }).click();
    await bench(page, "divide").getByRole("region", { name: "Result" }).getByText("2355.5").first().waitFor();
    await keptIn("calculator", 3);
    assert.deepEqual(browser.problems, []);
    await browser.leave(page);
  });

  it("are found and run again by keyboard alone", async () => {
    await use("shown", "join", { words: ["one", "two"] });
    await keptIn("shown", 1);
    const page = await browser.open(pageOf("shown", "?tab=calls"));
    const press = async (name: string | RegExp, role: "link" | "button" = "link"): Promise<void> => {
      await page.getByRole(role, { name }).focus();
      await page.keyboard.press("Enter");
    };
    await press(/^join\s+call \d+$/);
    await page.getByRole("heading", { name: /^Call \d+ of join$/ }).waitFor();
    await press("Run again");
    await bench(page, "join")
      .getByText(/revision 20/)
      .waitFor();
    await page.getByText("are filled in below").waitFor();
    const heading = bench(page, "join").getByRole("heading", { name: "Try join" });
    await until(
      () => heading.evaluate((element) => element === element.ownerDocument.activeElement),
      "it has the focus",
    );
    await bench(page, "join").getByRole("button", { name: "Run", exact: true }).focus();
    await page.keyboard.press("Enter");
    await bench(page, "join").getByRole("region", { name: "Result" }).getByText("one two").first().waitFor();
    // Back to the call, and from there to the list, by the tab itself.
    await page.getByRole("link", { name: "that call" }).click();
    await page.getByRole("heading", { name: /^Call \d+ of join$/ }).waitFor();
    await page.locator("#server-tabs").getByRole("link", { name: "Calls" }).click();
    await page.getByRole("heading", { name: "Retained calls" }).waitFor();
    await browser.leave(page);
  });

  it("leave out what was hidden when they are run again, and say so", async () => {
    await use("shown", "signIn", { user: "ann", password: "correct horse" });
    const id = await until(async () => {
      const { calls } = (await apiOf(berth).send("GET", "/servers/shown/calls?tool=signIn")).body;
      return (calls as { id: number }[])[0]?.id;
    }, "it is kept");
    const page = await browser.open(pageOf("shown", `?tab=tools&call=${id}`));
    await page.getByText("What was hidden in them is left out").waitFor();
    await bench(page, "signIn")
      .getByText(/revision 20/)
      .waitFor();
    assert.equal(await bench(page, "signIn").getByLabel(/^user/).inputValue(), "ann");
    assert.equal(
      await bench(page, "signIn")
        .getByLabel(/^password/)
        .first()
        .inputValue(),
      "",
    );
    assert.doesNotMatch(await page.content(), /correct horse/);
    await browser.leave(page);
  });

  it("work without scripts: they are listed, filtered, and shown with their arguments", async () => {
    const context = await browser.another({ javaScriptEnabled: false });
    const page = await context.newPage();
    await page.goto(pageOf("shown", "?tab=calls"));
    await page.getByLabel("Tool").selectOption("join");
    await page.getByRole("button", { name: "Show", exact: true }).click();
    await page.getByRole("link", { name: "Show all" }).waitFor();
    await page
      .getByRole("link", { name: /^join\s+call \d+$/ })
      .first()
      .click();
    assert.match(await page.locator("#call").innerText(), /"words"/);
    await page.getByRole("link", { name: "Run again" }).click();
    assert.match(await page.locator("noscript pre").first().innerText(), /"words":\["one","two"\]/);
    await context.close();
  });

  it("are shown as text, whatever was said in them", async () => {
    await use("shown", "join", { words: [MARKUP] });
    const id = await until(async () => {
      const { body } = await apiOf(berth).send("GET", "/servers/shown/calls?tool=join");
      const [latest] = body.calls as { id: number }[];
      const { body: one } = await apiOf(berth).send("GET", `/servers/shown/calls/${latest!.id}`);
      return one.arguments.words[0] === MARKUP ? latest!.id : undefined;
    }, "it is kept");
    for (const tab of ["calls", "tools"]) {
      const page = await browser.open(pageOf("shown", `?tab=${tab}&call=${id}`));
      if (tab === "tools")
        await bench(page, "join")
          .getByText(/revision 20/)
          .waitFor();
      assert.equal(await page.locator("main img").count(), 0);
      assert.doesNotMatch(await page.title(), /^owned/);
      await browser.leave(page);
    }
  });

  it("fit at 390 pixels, and axe finds nothing, in light and in dark", async () => {
    await use("shown", "divide", { a: 1, b: 0 });
    const id = await until(async () => {
      const { calls } = (await apiOf(berth).send("GET", "/servers/shown/calls?failed")).body;
      return (calls as { id: number }[])[0]?.id;
    }, "it is kept");
    for (const [name, query] of [
      ["retained-calls", "?tab=calls"],
      ["retained-call", `?tab=calls&call=${id}`],
      ["run-again", `?tab=tools&call=${id}`],
    ] as const) {
      for (const width of [1280, 390]) {
        const page = await browser.open(pageOf("shown", query));
        await page.setViewportSize({ width, height: 800 });
        if (name === "run-again")
          await bench(page, "divide")
            .getByText(/revision 20/)
            .waitFor();
        assert.equal(await isTooWide(page), false, `${name} at ${width}`);
        assert.deepEqual(await violationsOf(page), [], `${name} at ${width}`);
        await screenshot(page, `${name}-${width}`);
        await browser.leave(page);
      }
    }
  });
});
