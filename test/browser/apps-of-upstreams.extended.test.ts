import assert from "node:assert/strict";
import { appendFile, cp, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { modern, startTestBerth, type Reply, type TestBerth } from "../support/berth.ts";
import { startBrowser, type TestBrowser } from "../support/browser.ts";
import { TesterPage } from "../support/tester.ts";
import { until } from "../support/until.ts";

const PACKAGE = "test/upstreams/node_modules/@modelcontextprotocol/server-system-monitor";
const URI = "ui://system-monitor/mcp-app.html";

describe("the app of the real server-system-monitor", () => {
  let folder: string;
  let berth: TestBerth;
  let browser: TestBrowser;
  let tester: TesterPage;
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), "berth-monitor-"));
    // A copy, whose HTML the test changes. The program is in one file.
    await cp(PACKAGE, folder, { recursive: true });
    const upstream = `mcp+node://${join(folder, "dist/index.js")}?arg=--stdio`;
    berth = await startTestBerth({ mcps: { monitor: { upstream } }, env: { BERTH_UPSTREAM_PROGRAMS: "on" } });
    // Its page has no tools before it has run.
    await until(async () => ((await modern(`${berth.url}/mcp/monitor`, "tools/list")).body.result ? true : undefined));
    browser = await startBrowser();
    tester = await TesterPage.open(browser, `${berth.url}/mcp/meta/monitor`, "get-system-info");
  });
  after(async () => {
    await browser.close();
    await berth.close();
    await rm(folder, { recursive: true, force: true });
  });

  it("is shown in the tester, and updates itself by calls of its own", async () => {
    await tester.run("get-system-info answered");
    const frame = tester.section.frameLocator("iframe");
    await frame.getByText("linux").waitFor();
    const calls = tester.section
      .getByRole("list", { name: "What the app did" })
      .getByText("The app called poll-system-stats");
    await until(async () => (await calls.count()) >= 2 || undefined);
    assert.match(await frame.locator("body").innerText(), /\d+%/);
    assert.deepEqual(browser.problems, []);
  });

  it("is held back with other HTML, and so is its tool", async () => {
    await appendFile(join(folder, "dist/mcp-app.html"), "<!-- changed -->");
    await tester.run("get-system-info answered");
    await tester.section.getByText("is not what was approved").waitFor();
    const named = async (): Promise<string[]> =>
      (await modern(`${berth.url}/mcp/monitor`, "tools/list")).body.result.tools.map(({ name }: Reply["body"]) => name);
    await until(async () => !(await named()).includes("get-system-info") || undefined);
    assert.deepEqual(await named(), ["poll-system-stats"]);
    const { error } = (await modern(`${berth.url}/mcp/monitor`, "resources/read", { uri: URI })).body;
    assert.match(error.message, /is held back until a person approves the change/);
  });
});
