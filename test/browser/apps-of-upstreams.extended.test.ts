import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { appendFile, cp, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it, type TestContext } from "node:test";
import { stripVTControlCharacters } from "node:util";
import { modern, startTestBerth, type Reply, type TestBerth } from "../support/berth.ts";
import { startBrowser, type TestBrowser } from "../support/browser.ts";
import { freePort } from "../support/free-port.ts";
import { TesterPage } from "../support/tester.ts";
import { until } from "../support/until.ts";

const PACKAGE = "test/upstreams/node_modules/@modelcontextprotocol/server-system-monitor";
const URI = "ui://system-monitor/mcp-app.html";

const CLIENTS = "test/clients/node_modules";

/** The address of its page; it ends with the test. It needs a newer Node than Berth does. */
async function startInspector(t: TestContext, url: string): Promise<string> {
  const home = await mkdtemp(join(tmpdir(), "berth-inspector-"));
  const [port, sandbox, app] = await Promise.all([freePort(), freePort(), freePort()]);
  const launcher = join(CLIENTS, "@modelcontextprotocol/inspector/clients/launcher/build/index.js");
  const child = spawn(join(CLIENTS, "node/bin/node"), [launcher, "--transport", "http", "--server-url", url], {
    env: {
      PATH: process.env["PATH"],
      HOME: home,
      CLIENT_PORT: String(port),
      MCP_SANDBOX_PORT: String(sandbox),
      MCP_APP_ORIGIN_PORT: String(app),
      MCP_AUTO_OPEN_ENABLED: "false",
      MCP_INSPECTOR_SECRET_STORE: "memory",
    },
    stdio: ["ignore", "pipe", "inherit"],
  });
  const ended = once(child, "close");
  t.after(async () => {
    child.kill();
    await ended;
    await rm(home, { recursive: true, force: true });
  });
  let said = "";
  child.stdout.setEncoding("utf8").on("data", (chunk: string) => (said += stripVTControlCharacters(chunk)));
  return until(() => /running at:\s+(http:\S+)/.exec(said)?.[1]);
}

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

  it("is shown in the Inspector's web page, and updates itself there", async (t) => {
    const address = await startInspector(t, `${berth.url}/mcp/monitor/mcp`);
    const page = await browser.context.newPage();
    t.after(() => page.close());
    await page.goto(address);
    // The switch itself is an invisible input beside what is drawn.
    await page.getByRole("switch").first().dispatchEvent("click");
    await page.getByText("Apps", { exact: true }).click();
    await page.getByText("Get System Info").first().click();
    const shown = async (): Promise<string | undefined> => {
      const texts = await Promise.all(
        page.frames().map((frame) =>
          frame
            .locator("body")
            .innerText()
            .catch(() => ""),
        ),
      );
      return texts.find((text) => text.startsWith("System Monitor"));
    };
    const timeIn = (text = ""): string | undefined => /\d\d:\d\d:\d\d/.exec(text)?.[0];
    const first = await until(async () => timeIn(await shown()));
    await until(async () => {
      const next = timeIn(await shown());
      return next !== undefined && next !== first;
    });
    assert.match((await shown())!, /linux/);
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
