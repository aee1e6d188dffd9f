import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { startTestBerth, type TestBerth } from "../../support/berth.ts";
import { isTooWide, screenshot, startBrowser, violationsOf, type TestBrowser } from "../../support/browser.ts";

const env = { BERTH_REQUESTS_PER_SECOND_PER_TENANT: "1", BERTH_REQUEST_BURST_PER_TENANT: "1" };

describe("whoever sends too many requests", () => {
  let berth: TestBerth;
  let browser: TestBrowser;
  before(async () => {
    [berth, browser] = await Promise.all([startTestBerth({ texts: {}, env }), startBrowser()]);
  });
  after(async () => {
    await browser.close();
    await berth.close();
  });

  /** Sends one request more than a second allows. */
  async function refused(accept: string): Promise<Response> {
    for (;;) {
      const response = await fetch(`${berth.url}/mcp`, { headers: { Accept: accept } });
      if (response.status === 429) return response;
      await response.text();
    }
  }

  it("C8 reads so on a page, when it is a person", async () => {
    const page = await browser.context.newPage();
    for (;;) {
      // A page may take longer than the second in which one more is allowed.
      await (await refused("text/html")).text();
      const response = await page.goto(`${berth.url}/mcp`);
      if (response?.status() !== 429) continue;
      assert.match(response.headers()["retry-after"] ?? "", /^\d+$/);
      break;
    }
    await page.getByRole("heading", { name: /^Too many requests: the tenant "default" may begin 1/ }).waitFor();
    for (const width of [1280, 390]) {
      await page.setViewportSize({ width, height: 900 });
      assert.equal(await isTooWide(page), false, String(width));
      assert.deepEqual(await violationsOf(page), []);
      await screenshot(page, `too-many-${width}`);
    }
    assert.deepEqual(
      browser.problems.filter((problem) => !problem.includes("429")),
      [],
    );
  });

  it("C8 reads so as JSON, when it is a program", async () => {
    for (const accept of ["*/*", "application/json", "application/json, text/event-stream"]) {
      const response = await refused(accept);
      assert.match(response.headers.get("content-type")!, /^application\/json/, accept);
      assert.match(((await response.json()) as { error: { message: string } }).error.message, /^Too many requests/);
    }
  });
});
