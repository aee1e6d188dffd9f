import assert from "node:assert/strict";
import type { Locator, Page } from "playwright-core";
import { until } from "./until.ts";

/** How a person uses a page: by pointer, or by keyboard alone. Both end in the same state of the page. */
export interface Hand {
  /** Presses a button, follows a link, opens what is closed; by `Space`, checks a box. */
  press(target: Locator, key?: "Enter" | "Space"): Promise<void>;
  /** Replaces the text of a field. */
  fill(field: Locator, text: string): Promise<void>;
  /** Goes to the end of a code editor's text. */
  enter(editor: Locator): Promise<void>;
  /** Chooses one of several radio buttons. */
  choose(option: Locator): Promise<void>;
}

export function pointer(page: Page): Hand {
  return {
    press: (target) => target.click(),
    async fill(field, text) {
      await field.click();
      await page.keyboard.press("ControlOrMeta+a");
      await page.keyboard.type(text);
    },
    async enter(editor) {
      await editor.click();
      await page.keyboard.press("ControlOrMeta+End");
    },
    choose: (option) => option.click(),
  };
}

/** More than any page has places for the focus. */
const TABS_MAX = 200;
const MARK_MS = 10_000;

/** Tab, Enter, Space, arrows and letters alone. Wherever the focus comes by, it has to be seen. */
export function keyboard(page: Page): Hand {
  const reach = async (isThere: () => Promise<boolean>, what: Locator): Promise<void> => {
    await what.waitFor();
    for (let tabs = 0; !(await isThere()); tabs++) {
      assert.ok(tabs < TABS_MAX, `the keyboard does not come to ${String(what)}`);
      // In a code editor Tab indents.
      if (await page.evaluate<boolean>(`document.activeElement.closest(".cm-editor") !== null`)) {
        await page.keyboard.press("Escape");
      }
      await page.keyboard.press("Tab");
    }
    // A code editor marks it a moment later, and the page scrolls there and takes its time.
    await until(async () => (await page.evaluate(UNMARKED)) === "", `the focus is marked at ${String(what)}`, MARK_MS);
    await until(() => page.evaluate<boolean>(IS_IN_VIEW), `${String(what)} comes into view`);
  };
  const has = (target: Locator) => (): Promise<boolean> =>
    target.evaluate((element) => element === element.ownerDocument.activeElement);
  return {
    async press(target, key = "Enter") {
      await reach(has(target), target);
      await page.keyboard.press(key);
    },
    async fill(field, text) {
      await reach(has(field), field);
      await page.keyboard.press("ControlOrMeta+a");
      await page.keyboard.type(text);
    },
    async enter(editor) {
      await reach(has(editor), editor);
      await page.keyboard.press("ControlOrMeta+End");
    },
    async choose(option) {
      const group = await option.getAttribute("name");
      await reach(() => page.evaluate<boolean>(`document.activeElement.name === ${JSON.stringify(group)}`), option);
      while (!(await option.isChecked())) await page.keyboard.press("ArrowDown");
    },
  };
}

/** Run in the page: what has the focus without a mark that people see, and if it is on the screen. */
const UNMARKED = `(() => {
  const focused = document.activeElement;
  const shown = [focused, focused.closest(".cm-editor"), ...(focused.labels ?? [])].filter(Boolean);
  const isMarked = shown.some((each) => {
    const { outlineStyle, outlineWidth } = getComputedStyle(each);
    return outlineStyle !== "none" && parseFloat(outlineWidth) >= 1;
  });
  return isMarked ? "" : focused.outerHTML.slice(0, 200);
})()`;
const IS_IN_VIEW = `(() => {
  const { top, bottom, width } = document.activeElement.getBoundingClientRect();
  return bottom > 0 && top < innerHeight && width > 0;
})()`;
