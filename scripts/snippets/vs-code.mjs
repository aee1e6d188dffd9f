import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { startBrowser } from "../../dist/test/browser.js";
import { setUp, stopClient } from "./set-up.mjs";

const OPEN_MS_MAX = 600_000;
const END_MS_MAX = 30_000;
const DISCOVERED = /Discovered\s(\d+)\stools?/;

/** VS Code as code-server serves it, in a browser; a folder with a `.vscode/mcp.json` is opened as a person does. */
export async function openVsCode({ client, bin, folder }) {
  const home = join(folder, "vs-code");
  for (const name of ["work", "tmp"]) mkdirSync(join(home, name), { recursive: true });
  const quiet = ["--disable-telemetry", "--disable-update-check", "--disable-workspace-trust"];
  const { start } = setUp({ client, bin, home });
  const server = start("code-server", ["--auth", "none", "--bind-addr", "127.0.0.1:0", ...quiet], {}, OPEN_MS_MAX);
  const ended = new Promise((resolve) => server.once("close", resolve));
  const browser = await startBrowser();
  const address = await addressOf(server);
  return {
    async check({ home: place, server: name, tools, token }) {
      const page = await browser.context.newPage();
      try {
        await page.goto(`${address}/?folder=${encodeURIComponent(join(place, "work"))}`);
        await startServer(page, name, token);
        const log = await logOf(page, client.refusal);
        const [, count] = DISCOVERED.exec(log) ?? [];
        if (Number(count) !== tools.length) throw new Error(`VS Code's log of the server: ${log}`);
      } finally {
        await page.close();
      }
    },
    async close() {
      await browser.close();
      stopClient(server);
      await ended;
    },
  };
}

/** The command "MCP: List Servers" of the palette, and in what it opens the server, and to start it. */
async function startServer(page, name, token) {
  const input = page.locator(".quick-input-widget input");
  const choice = (text) => page.locator(".quick-input-list .monaco-list-row").filter({ hasText: text });
  await page.locator(".monaco-workbench .explorer-folders-view").waitFor();
  await page.keyboard.press("F1");
  await input.first().fill(">MCP: List Servers");
  await choice("MCP: List Servers").first().click();
  await choice(name).first().click();
  await choice("Start Server").first().click();
  if (token === undefined) return;
  await page.locator(".quick-input-widget").getByText(`Token for ${name}`).waitFor();
  await input.first().fill(token);
  await page.keyboard.press("Enter");
}

/** The server's log, which VS Code shows when a person starts one, as soon as it says how that ended. */
async function logOf(page, refusal) {
  const log = page.locator(".part.panel .view-lines");
  const end = log.filter({ hasText: new RegExp(`${DISCOVERED.source}|${refusal.source}`) });
  // What it says at the time limit says more than that there is one.
  await end.waitFor({ timeout: END_MS_MAX }).catch(() => {});
  return (await log.allInnerTexts()).join("\n");
}

function addressOf(server) {
  return new Promise((resolve, reject) => {
    let text = "";
    server.once("close", (code) => reject(new Error(`code-server ended with ${code}: ${text}`)));
    server.stderr.setEncoding("utf8").on("data", (chunk) => (text += chunk));
    createInterface({ input: server.stdout }).on("line", (line) => {
      text += `${line}\n`;
      const address = /HTTP server listening on (http:\S+?)\/?$/.exec(line)?.[1];
      if (address) resolve(address);
    });
  });
}
