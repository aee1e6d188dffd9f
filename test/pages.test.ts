import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { startTestBerth, type TestBerth } from "./berth.ts";
import { isTooWide, startBrowser, violationsOf, type TestBrowser } from "./browser.ts";

describe("pages", () => {
  let berth: TestBerth;
  let browser: TestBrowser;
  before(async () => {
    [berth, browser] = await Promise.all([
      startTestBerth({ files: ["test/fixtures/servers/everyday.ts"] }),
      startBrowser(),
    ]);
  });
  after(async () => {
    await browser.close();
    await berth.close();
  });

  it("C6 /mcp is fit for everyone, in light and dark", async () => {
    const page = await browser.open(`${berth.url}/mcp`);
    assert.deepEqual(await violationsOf(page), []);
    assert.equal(await isTooWide(page), false);
    assert.deepEqual(browser.problems, []);
    await page.close();
  });
});
