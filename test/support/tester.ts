import type { Locator, Page } from "playwright-core";
import type { TestBrowser } from "./browser.ts";

/** The tester in a browser, used as a person does: by labels, roles and texts. */
export class TesterPage {
  readonly page: Page;
  /** The bench that is used now: that of one tool, of resources, or of prompts. */
  section: Locator;

  private constructor(page: Page, tool: string) {
    this.page = page;
    this.section = benchOf(page, tool);
  }

  /** Opens a server's page at a tool, so that the tester opens by itself, and waits until it is connected. */
  static async open(browser: TestBrowser, server: string, tool: string): Promise<TesterPage> {
    const tester = new TesterPage(await browser.open(`${server}#tool=${tool}`), tool);
    await tester.connected();
    return tester;
  }

  async connected(revision = ""): Promise<void> {
    await this.section.getByText(`revision ${revision}`).waitFor();
  }

  async speak(revision: string): Promise<void> {
    await this.section.getByText(revision, { exact: true }).click();
    await this.connected(revision);
  }

  /** Opens a tool where it stands, and its form there. */
  async choose(tool: string): Promise<void> {
    const details = this.page.locator("details.tool", { has: benchOf(this.page, tool) });
    if ((await details.getAttribute("open")) === null) await details.locator("summary").first().click();
    await details.getByRole("link", { name: `Try it with ${tool}`, exact: true }).click();
    this.section = benchOf(this.page, tool);
    await this.connected();
  }

  /** Turns to the resources, or to the prompts, at the first of them. */
  async turnTo(kind: "resource" | "prompt"): Promise<void> {
    await this.page.locator(`#${kind}s a[data-try]`).first().click();
    this.section = this.page.locator(`[data-bench="${kind}"]`);
    await this.connected();
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

function benchOf(page: Page, tool: string): Locator {
  return page.locator(`[data-bench="tool"][data-name="${tool}"]`);
}
