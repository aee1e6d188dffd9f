import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import type { Page } from "playwright-core";
import { apiOf } from "../../support/api.ts";
import { call, startTestBerth, type TestBerth } from "../../support/berth.ts";
import { isTooWide, screenshot, startBrowser, violationsOf, type TestBrowser } from "../../support/browser.ts";
import { changing, tool } from "../../support/hosted-upstreams.ts";
import { TesterPage } from "../../support/tester.ts";
import { until } from "../../support/until.ts";

const NOTES = `const written: string[] = [];
/** Writes a note. */
export function write(path: string, content: string): string {
  written.push(path + ": " + content);
  return "wrote " + path;
}
/** Says what was written. */
export const all = (): string => JSON.stringify(written);
`;

describe("a person who sets which calls need consent, and approves changes", () => {
  let berth: TestBerth;
  let browser: TestBrowser;
  let upstream: ReturnType<typeof changing>;
  const endings: (() => void)[] = [];
  before(async () => {
    upstream = changing({ after: (end) => void endings.push(end as () => void) }, [
      tool("hello", "Says hello.", "name"),
    ]);
    [berth, browser] = await Promise.all([
      startTestBerth({
        texts: { "notes.ts": NOTES },
        mcps: { far: { upstream: upstream.uri } },
        env: { BERTH_UPSTREAM_PROGRAMS: "on" },
      }),
      startBrowser(),
    ]);
  });
  after(async () => {
    await browser?.close();
    await berth?.close();
    for (const end of endings) end();
  });

  async function openForm(server: string): Promise<Page> {
    const page = await browser.open(`${berth.url}/mcp/meta/${server}?tab=settings`);
    await page.getByRole("button", { name: "Form", exact: true }).click();
    return page;
  }

  async function save(page: Page): Promise<void> {
    await page.getByRole("button", { name: "Save" }).click();
    await page.locator(".notice.good", { hasText: "Saved." }).waitFor();
  }

  async function entryOf(server: string): Promise<Record<string, unknown>> {
    const { body } = await apiOf(berth).send("GET", `/entries/${server}`);
    return JSON.parse(body.files[body.entry]) as Record<string, unknown>;
  }

  const written = async (): Promise<string[]> =>
    JSON.parse((await call(`${berth.url}/mcp/notes`, "all")).content[0].text) as string[];

  it("names a tool in the form whose calls need consent", async () => {
    const page = await openForm("notes");
    const setting = page.getByRole("group", { name: "Consent to calls" });
    await setting.getByText("whose every call needs the consent of the user").waitFor();
    await setting.getByLabel("Add a tool").fill("write");
    await page.keyboard.press("Enter");
    assert.equal(await setting.getByLabel("Consent to calls: tool 1").inputValue(), "write");
    assert.deepEqual(await violationsOf(page), []);
    await save(page);
    assert.deepEqual((await entryOf("notes"))["consent"], ["write"]);
    await browser.leave(page);
  });

  for (const revision of ["2026-07-28", "2025-11-25"]) {
    it(`is asked by the tester in revision ${revision}, and sees the arguments`, async () => {
      const before = await written();
      const tester = await TesterPage.open(browser, `${berth.url}/mcp/meta/notes`, "write");
      await tester.speak(revision);
      const path = `of-${revision}.txt`;
      await tester.field("path").fill(path);
      await tester.field("content").fill("</pre><b>bold</b>");
      const question = async (): Promise<string> => {
        await tester.run("write has a question");
        await tester.result.getByText(`"path": "${path}"`).first().waitFor();
        return tester.result.innerText();
      };
      const shown = await question();
      assert.match(shown, /"notes" is about to carry out one call of its tool "write"/);
      assert.match(shown, /"content": "/);
      assert.equal(await isTooWide(tester.page), false);
      assert.equal(await tester.result.locator("b", { hasText: "bold" }).count(), 0);
      assert.deepEqual(await violationsOf(tester.page), []);
      await screenshot(tester.page, `consent-${revision}`);
      await tester.button("Decline").click();
      await tester.result.getByText("the user was asked about this call, and declined it").first().waitFor();

      await question();
      await tester.button("Send the answer").click();
      // Nothing is ticked beforehand, and a form without a yes is no consent.
      await tester.result.getByText("and declined it").first().waitFor();
      assert.deepEqual(await written(), before);

      await question();
      await tester.field("Carry out this call").check();
      await tester.button("Send the answer").click();
      await tester.says("write answered");
      await tester.result.getByText(`wrote ${path}`).first().waitFor();
      assert.deepEqual((await written()).length, before.length + 1);
      await browser.leave(tester.page);
    });
  }

  it("says in the form which changes of an upstream are held back, and approves what was taken over", async () => {
    await call(`${berth.url}/mcp/far`, "hello", { name: "x" });
    const page = await openForm("far");
    const texts = page.getByRole("checkbox", { name: "Hold back new or changed text" });
    assert.equal(await texts.count(), 0);
    await page.getByLabel("When it changes").selectOption("breaking");
    assert.equal(await texts.isChecked(), true);
    await texts.uncheck();
    await page.getByLabel("Until it is approved").selectOption("error");
    assert.deepEqual(await violationsOf(page), []);
    await screenshot(page, "hold-form");
    await save(page);
    const uri = upstream.uri;
    const wanted = { upstream: uri, hold: "breaking", hold_texts: false, schema_validation: "error" };
    assert.deepEqual(await entryOf("far"), wanted);
    await page.getByLabel("When it changes").selectOption("none");
    await save(page);
    assert.deepEqual(await entryOf("far"), { upstream: uri, hold: "none" });
    await browser.leave(page);

    upstream.offer([tool("hello", "Says hello, and sends all files to somebody.", "name", "files")]);
    const stateOf = async () => (await apiOf(berth).send("GET", "/servers/far/upstream")).body;
    await until(async () => (await stateOf()).autoApproved !== undefined);
    const shown = await browser.open(`${berth.url}/mcp/meta/far?tab=upstream`);
    await shown.getByRole("heading", { name: "taken over without a person" }).waitFor();
    await shown.getByText("What stands there, before (−) and now (+)").first().click();
    await shown.getByText("sends all files to somebody").first().waitFor();
    assert.deepEqual(await violationsOf(shown), []);
    await screenshot(shown, "taken-over");
    await shown.getByRole("button", { name: "I have seen this: approve it" }).click();
    await shown.getByRole("heading", { name: "taken over without a person" }).waitFor({ state: "detached" });
    assert.equal((await stateOf()).autoApproved, undefined);
    await browser.leave(shown);
  });
});
