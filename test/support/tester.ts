import type { Locator, Page } from "playwright-core";
import type { TestBrowser } from "./browser.ts";

/** A tester in a browser, used as a person does: by labels, roles and texts. */
export class TesterPage {
  readonly page: Page;
  readonly section: Locator;

  private constructor(page: Page) {
    this.page = page;
    this.section = page.locator("#tester");
  }

  /** Opens a server's page at a tool, so that the tester opens by itself, and waits until it is connected. */
  static async open(browser: TestBrowser, server: string, tool: string): Promise<TesterPage> {
    const tester = new TesterPage(await browser.open(`${server}#tool=${tool}`));
    await tester.connected();
    return tester;
  }

  async connected(revision = "2026-07-28"): Promise<void> {
    await this.section.getByText(`revision ${revision}`).waitFor();
  }

  async speak(revision: string): Promise<void> {
    await this.section.getByText(revision, { exact: true }).click();
    await this.connected(revision);
  }

  async choose(tool: string): Promise<void> {
    await this.section.getByRole("tab", { name: "Tools" }).click();
    await this.section.getByLabel("Tool", { exact: true }).selectOption(tool);
  }

  field(label: string, exact = false): Locator {
    return this.section.getByLabel(label, { exact });
  }

  button(name: string): Locator {
    return this.section.getByRole("button", { name, exact: true });
  }

  /** Runs the chosen tool, and waits until its outcome is shown. */
  async run(said: string): Promise<void> {
    await this.button("Run").click();
    await this.says(said);
  }

  async says(said: string): Promise<void> {
    await this.result.getByRole("status").getByText(said, { exact: true }).waitFor();
  }

  get result(): Locator {
    return this.section.getByRole("region", { name: "Result" });
  }

  /** The raw messages, opened: one text for each. */
  async messages(): Promise<string[]> {
    const list = this.section.locator(".messages");
    if ((await list.getAttribute("open")) === null) await list.getByRole("heading", { name: "Messages" }).click();
    return list.locator("li").allInnerTexts();
  }
}
