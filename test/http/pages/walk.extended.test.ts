import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Locator, Page } from "playwright-core";
import { startBrowser } from "../../support/browser.ts";
import { keyboard, pointer, type Hand } from "../../support/hand.ts";
import { berthInSuite, inSuite, serverInSuite } from "../../support/suite.ts";

const KEY = "the-key-of-the-walk";
/** One person's way through the console, from a new server to one that works with a secret; once for each hand. */
describe("a walk through the console", () => {
  const browser = inSuite(startBrowser);
  const berth = berthInSuite({ texts: {}, env: { BERTH_PRIVATE_HOSTS: "localhost" } });
  const service = serverInSuite(({ headers }, response) => {
    const isKnown = headers.authorization === `Bearer ${KEY}`;
    response.statusCode = isKnown ? 200 : 401;
    response.end(JSON.stringify({ login: "ada", public_repos: 3 }));
  });

  for (const [by, handOf, server] of [
    ["by pointer", pointer, "greet"],
    ["by keyboard alone", keyboard, "salute"],
  ] as const) {
    it(`makes a server, calls it, breaks it, sees why, mends it, and rolls it back ${by} (C6)`, async () => {
      const walk = await begin(handOf);
      const { page, hand } = walk;
      await makeFromTemplate(walk, server, "Empty One TypeScript function");
      await page.locator(".offered", { hasText: `${server}(who: string` }).waitFor();
      await hand.press(page.getByRole("button", { name: "Create" }));
      await page.waitForURL(`**/mcp/meta/${server}?tab=connect`);
      await page.getByText(`claude mcp add --transport http ${server}`).waitFor();

      await openTester(walk, server);
      await hand.fill(page.getByRole("textbox", { name: "who" }), "Ada");
      await hand.press(page.getByRole("button", { name: "Run", exact: true }));
      await result(page, server).getByText("Hello, Ada!").first().waitFor();

      // The last brace goes, and with it every tool: nobody can save that.
      await hand.press(tab(page, "Code"));
      const source = page.getByRole("textbox", { name: `Source of ${server}.ts` });
      await hand.enter(source);
      await page.keyboard.press("Backspace");
      await page.keyboard.press("Backspace");
      const problem = page.locator(".problems li");
      await problem.getByRole("button", { name: new RegExp(`${server}\\.ts:\\d+:\\d+`) }).waitFor();
      assert.match(await problem.innerText(), /^error '}' expected/);
      await page.keyboard.press("ControlOrMeta+s");
      await page.getByText("Not saved: fix the problems below").waitFor();
      assert.ok(await hasFocus(source), "whoever saves by keyboard can go on writing");
      await page.keyboard.type("}");
      await page.getByText("No problems.").waitFor();
      await page.getByText("Not saved: fix the problems below").waitFor({ state: "detached" });

      // It compiles, and fails when it is called.
      await toReturn(page);
      await page.keyboard.type('if (times > 1) throw new RangeError("once is enough"); ');
      await page.getByText("its code has changed").waitFor();
      await page.keyboard.press("ControlOrMeta+s");
      await saved(page);
      assert.ok(await hasFocus(source), "saving leaves the cursor where it is");
      await openTester(walk, server);
      await hand.fill(page.getByRole("spinbutton", { name: "times" }), "2");
      await hand.press(page.getByRole("button", { name: "Run", exact: true }));
      await page.getByText(`${server} reported an error`).waitFor();
      await result(page, server).getByText("once is enough").first().waitFor();
      await hand.press(tab(page, "Calls"));
      await page.getByText(`at ${server}.ts:9:`).waitFor();

      await hand.press(tab(page, "Code"));
      await hand.enter(source);
      await toReturn(page);
      await page.keyboard.press("Shift+End");
      await page.keyboard.type('return Array.from({ length: times }, () => "Hi, " + who + "!").join(" ");');
      await page.getByText("its code has changed").waitFor();
      await hand.press(page.getByRole("button", { name: "Save", exact: true }));
      await saved(page);

      await hand.press(tab(page, "Releases"));
      const first = page.locator("#releases tbody tr").last();
      const release = await first.getByRole("link").innerText();
      await hand.press(first.getByRole("button", { name: "Restore" }));
      await page.locator("#releases tbody tr", { hasText: "current" }).getByText(release).waitFor();
      await openTester(walk, server);
      await hand.fill(page.getByRole("textbox", { name: "who" }), "Ada");
      await hand.fill(page.getByRole("spinbutton", { name: "times" }), "2");
      await hand.press(page.getByRole("button", { name: "Run", exact: true }));
      await result(page, server).getByText("Hello, Ada! Hello, Ada!").first().waitFor();
      await end(walk);
    });

    it(`is led from a template that needs a secret to a call that works ${by} (C6)`, async () => {
      const walk = await begin(handOf);
      const { page, hand } = walk;
      const name = `${server}-api`;
      await makeFromTemplate(walk, name, "Fetch with a secret");
      await page.locator(".offered", { hasText: "account(): " }).waitFor();
      await page.getByText("No other problems.").waitFor();
      const { port } = new URL(service.url);
      const given = {
        secrets: ["API_TOKEN"],
        network: ["api.github.com", `127.0.0.1:${port}`],
        env: { API_URL: `http://127.0.0.1:${port}` },
      };
      await hand.fill(page.getByLabel(`Entry of ${name} in mcps`), "{ not JSON");
      await hand.press(page.getByRole("button", { name: "Create" }));
      await page.getByText("The server is saved, but it was not given what stands above").waitFor();
      await hand.fill(page.getByLabel(`Entry of ${name} in mcps`), JSON.stringify(given));
      await hand.press(page.getByRole("button", { name: "Try again" }));
      await page.waitForURL(`**/mcp/meta/${name}?tab=connect`);
      await page.locator("#server-head").getByText("secret not set").waitFor();

      await hand.press(page.getByRole("link", { name: "Set it at Secrets" }));
      await hand.press(page.getByRole("button", { name: "Set API_TOKEN" }));
      const value = page.getByLabel("Value");
      assert.ok(await hasFocus(value), "the field for the value has the focus");
      await page.keyboard.type(KEY);
      await hand.press(page.getByRole("button", { name: "Set it" }));
      await page.getByText("The secret API_TOKEN is set.").waitFor();
      await hand.press(page.getByRole("row").filter({ hasText: "API_TOKEN" }).getByRole("link", { name }));
      await page.locator("#server-head").getByText("ready").waitFor();
      assert.equal(await page.getByText("secret not set").count(), 0);

      await openTester(walk, name, "account");
      await hand.press(page.getByRole("button", { name: "Run", exact: true }));
      await page.getByText("account answered").waitFor();
      await page.getByText('"ada"').first().waitFor();
      await page.goto(`${berth.url}/secrets`);
      await hand.press(page.getByRole("button", { name: "Delete API_TOKEN" }));
      await hand.press(page.getByRole("dialog").getByRole("button", { name: "Delete it" }));
      await page.getByText("The secret API_TOKEN is deleted.").waitFor();
      await end(walk);
    });
  }

  interface Walk {
    readonly page: Page;
    readonly hand: Hand;
  }

  async function begin(handOf: (page: Page) => Hand): Promise<Walk> {
    const page = await browser.open(`${berth.url}/mcp`);
    return { page, hand: handOf(page) };
  }

  async function end({ page }: Walk): Promise<void> {
    await browser.leave(page);
    // A refused save is answered with 422.
    const others = browser.problems.filter((problem) => !problem.includes("422"));
    assert.deepEqual(others, []);
  }

  async function makeFromTemplate({ page, hand }: Walk, name: string, template: string): Promise<void> {
    await hand.press(page.getByRole("link", { name: /New server|Begin with a template/ }).first());
    await hand.fill(page.getByLabel("Name"), name);
    await hand.choose(page.getByRole("radio", { name: template }));
    await hand.press(page.getByRole("button", { name: "Continue" }));
  }

  /** Opens the form of a tool from whatever tab is shown. */
  async function openTester({ page, hand }: Walk, server: string, tool = server): Promise<void> {
    if ((await tab(page, "Tools").getAttribute("aria-current")) === null) await hand.press(tab(page, "Tools"));
    const details = page.locator(`#tool-${tool}`);
    await details.waitFor();
    if ((await details.getAttribute("open")) === null) await hand.press(details.locator("summary").first());
    const connected = details.getByText(`revision`).first();
    if ((await connected.count()) === 0) await hand.press(details.getByRole("link", { name: `Try it with ${tool}` }));
    await connected.waitFor();
  }

  function result(page: Page, tool: string): Locator {
    return page.getByRole("region", { name: `Result of ${tool}` });
  }

  function tab(page: Page, label: string): Locator {
    return page.locator("#server-tabs").getByRole("link", { name: label });
  }

  /** Goes to the beginning of the line before the last one, which begins with `return`. */
  async function toReturn(page: Page): Promise<void> {
    await page.keyboard.press("ControlOrMeta+End");
    await page.keyboard.press("ArrowUp");
    await page.keyboard.press("Home");
  }

  async function saved(page: Page): Promise<void> {
    await page.locator(".notice.good").getByText("Saved.").waitFor();
    await page.getByText("No unsaved changes").waitFor();
  }

  function hasFocus(target: Locator): Promise<boolean> {
    return target.evaluate((element) => element === element.ownerDocument.activeElement);
  }
});
