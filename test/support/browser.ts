import assert from "node:assert/strict";
import { join } from "node:path";
import { after } from "node:test";
import axe, { type Result } from "axe-core";
import type { Browser, BrowserContext, BrowserContextOptions, Frame, Page } from "playwright-core";
import { launchChromium } from "./chromium.ts";

/** A real browser for a test; every page of it fails the test's `problems` when its console has an error. */
export interface TestBrowser {
  readonly context: BrowserContext;
  /** Another person, who shares only `problems` with the first. */
  another(options?: BrowserContextOptions): Promise<BrowserContext>;
  /** Opens an address and waits until its scripts have run. */
  open(url: string): Promise<Page>;
  /** Returns a page for reuse by `open`, since a new one is five times the work for the browser. */
  leave(page: Page): Promise<void>;
  /** The complaints of pages so far: script errors, and violations of the Content-Security-Policy. */
  readonly problems: readonly string[];
  close(): Promise<void>;
}

const VIEWPORT = { width: 1280, height: 900 };
const WAIT_MS = 240_000;

/** One for all files that share this process: each of its tests has contexts of its own, which share nothing. */
let started: Promise<Browser> | undefined;
after(async () => (await started)?.close());

export async function startBrowser(options: BrowserContextOptions = {}): Promise<TestBrowser> {
  const browser = await (started ??= launchChromium());
  const problems: string[] = [];
  const contexts: BrowserContext[] = [];
  const openContext = async (of: BrowserContextOptions): Promise<BrowserContext> => {
    const context = await browser.newContext({ viewport: VIEWPORT, ...of });
    contexts.push(context);
    context.setDefaultTimeout(WAIT_MS);
    context.on("weberror", (error) => problems.push(String(error.error())));
    context.on("console", (message) => {
      if (message.type() === "error") problems.push(`${message.text()} (${message.location().url})`);
    });
    return context;
  };
  const context = await openContext(options);
  const idle: Page[] = [];
  return {
    context,
    problems,
    another: (of = {}) => openContext(of),
    async open(url) {
      const page = idle.pop() ?? (await context.newPage());
      await page.goto(url, { waitUntil: "load" });
      return page;
    },
    async leave(page) {
      page.removeAllListeners();
      await page.evaluate("sessionStorage.clear()");
      await page.goto("about:blank");
      await page.setViewportSize(VIEWPORT);
      idle.push(page);
    },
    close: async () => {
      await Promise.all(contexts.map((each) => each.close()));
    },
  };
}

/** Runs in the page. Elements without faults are left out of the result. */
const runAxe = (rules?: readonly string[]): string =>
  `axe.run(document, ${JSON.stringify({ resultTypes: ["violations"], runOnly: rules })}).then((found) => found.violations)`;

/** The rules about colours, the only ones that can differ in dark mode. */
const ABOUT_COLOURS = ["color-contrast", "link-in-text-block"];

/** The faults that axe finds in the page as it stands, or in a frame of it, in light and in dark: a line for each element. */
export async function violationsOf(page: Page, frame: Frame = page.mainFrame()): Promise<string[]> {
  assert.equal(frame.childFrames().length, 0, "axe is asked of one page alone, and would not see a frame in it");
  const found: string[] = [];
  await frame.evaluate(axe.source);
  for (const colorScheme of ["light", "dark"] as const) {
    // Colours have no contrast while they change from one scheme to the other.
    await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
    const violations = (await frame.evaluate(runAxe(colorScheme === "dark" ? ABOUT_COLOURS : undefined))) as Result[];
    for (const { id, help, nodes } of violations) {
      for (const { target, any } of nodes) {
        found.push(`${colorScheme} ${id}: ${help}: ${target.join(" ")}: ${any.map((each) => each.message).join("; ")}`);
      }
    }
  }
  await page.emulateMedia({ colorScheme: null, reducedMotion: null });
  return found;
}

/** True if the page is wider than its window, so that a person has to scroll sideways. */
export function isTooWide(page: Page): Promise<boolean> {
  return page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth");
}

/** Pastes, as a person does: over the whole text, or at its end. */
export async function write(page: Page, label: string, text: string, where: "all" | "end" = "all"): Promise<void> {
  await page.getByRole("textbox", { name: label }).click();
  await page.keyboard.press(where === "all" ? "ControlOrMeta+a" : "ControlOrMeta+End");
  await page.evaluate(`{
    const clipboardData = new DataTransfer();
    clipboardData.setData("text/plain", ${JSON.stringify(text)});
    const event = new ClipboardEvent("paste", { clipboardData, bubbles: true, cancelable: true });
    document.activeElement.dispatchEvent(event);
  }`);
}

/** The beginnings of texts that overflow their boxes and cover other content. */
export function spilledTexts(page: Page): Promise<string[]> {
  return page.evaluate(`[...document.querySelectorAll("pre, td, th, dd, .badge, .panel, .notice")].filter((box) =>
    getComputedStyle(box).overflow === "visible" && !box.closest("thead") &&
    (box.scrollHeight > box.clientHeight + 2 || box.scrollWidth > box.clientWidth + 2) && box.clientWidth > 2
  ).map((box) => box.tagName + "." + box.className + ": " + box.textContent.trim().slice(0, 60))`);
}

/** Saves pictures of the whole page in the folder BERTH_TEST_SCREENSHOTS, if it is set. */
export async function screenshot(page: Page, name: string): Promise<void> {
  const folder = process.env["BERTH_TEST_SCREENSHOTS"];
  if (!folder) return;
  for (const colorScheme of ["light", "dark"] as const) {
    await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
    await page.screenshot({ path: join(folder, `${name}-${colorScheme}.png`), fullPage: true });
  }
  await page.emulateMedia({ colorScheme: null, reducedMotion: null });
}
