import { mkdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { startBrowser } from "../../dist/test/support/browser.js";
import { setUp, stopClient } from "./set-up.mjs";

const OPEN_MS_MAX = 1_200_000;
const LOAD_MS_MAX = 60_000;
const STEP_MS_MAX = 10_000;
const TRIES_MAX = 10;
const END_MS_MAX = 30_000;
const DISCOVERED = /Discovered\s(\d+)\stools?/;
// Of a long log only the end is shown.
const STARTED = new RegExp(`Starting\\sserver|${DISCOVERED.source}`);

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
    // Each check is another person's: the editor keeps in the browser which servers it knew, and what was entered for them.
    async check({ home: place, copied, server: name, tools, token }) {
      const person = await browser.another();
      try {
        person.setDefaultTimeout(STEP_MS_MAX);
        const page = await person.newPage();
        await page.goto(`${address}/?folder=${encodeURIComponent(join(place, "work"))}`, { timeout: LOAD_MS_MAX });
        await page.locator(".monaco-workbench .explorer-folders-view").waitFor({ timeout: LOAD_MS_MAX });
        if (copied.kind === "link") await installBy(page, copied.text);
        await startServer(page, name, token, client.refusal);
        const log = await logOf(page, client.refusal);
        const [, count] = DISCOVERED.exec(log) ?? [];
        if (Number(count) !== tools.length) throw new Error(`VS Code's log of the server: ${log}`);
      } finally {
        await person.close();
        // A link adds the server for every folder.
        rmSync(join(home, ".local/share/code-server/User/mcp.json"), { force: true });
      }
    },
    async close() {
      await browser.close();
      stopClient(server);
      await ended;
    },
  };
}

/** Opens a link as the desktop hands it to the editor, which asks whether to install the server. */
async function installBy(page, link) {
  const editor = page.locator(".part.editor");
  const install = editor.getByText("Install", { exact: true }).first();
  await until(install, async () => {
    await command(page, "Open URL");
    await inputOf(page).fill(link);
    await page.keyboard.press("Enter");
  });
  await until(editor.getByText("Uninstall", { exact: true }).first(), () => install.click());
  // It starts a server that it has installed, and shows nothing of that; a manual start shows the log.
  await page.reload({ timeout: LOAD_MS_MAX });
}

/** Runs the command "MCP: List Servers" of the palette, chooses the server and its start there, and enters its token. */
async function startServer(page, name, token, refusal) {
  await until(logged(page, new RegExp(`${STARTED.source}|${refusal.source}`)), async () => {
    await command(page, "MCP: List Servers");
    await choose(page, name);
    await choose(page, "Start Server");
    if (token === undefined) return;
    await page.locator(".quick-input-widget").getByText(`Token for ${name}`).waitFor();
    await inputOf(page).fill(token);
    await page.keyboard.press("Enter");
  });
}

/** Runs a command of the palette. */
async function command(page, name) {
  await until(inputOf(page), () => page.keyboard.press("F1"), 3_000);
  await inputOf(page).fill(`>${name}`);
  await choose(page, name);
}

/** Acts until something is seen: the editor loses what is done before it is fully loaded, and does not say when it is. */
async function until(seen, act, waitMs = STEP_MS_MAX) {
  let cause;
  for (let tries = 1; tries <= TRIES_MAX && !(await seen.isVisible()); tries++) {
    // What is left of the try before would be in the way.
    if (tries > 1) await seen.page().keyboard.press("Escape");
    // What it acts on is gone where the try before had its effect late.
    cause = await act().catch((error) => error);
    await seen.waitFor({ timeout: waitMs }).catch(() => {});
  }
  if (!(await seen.isVisible())) throw new Error(`VS Code never showed ${seen}`, { cause });
}

const inputOf = (page) => page.locator(".quick-input-widget input").first();

const choose = (page, text) =>
  page.locator(".quick-input-list .monaco-list-row").filter({ hasText: text }).first().click();

/** The server's log, which VS Code shows after a manual start, as soon as it says how that ended. */
async function logOf(page, refusal) {
  const end = logged(page, new RegExp(`${DISCOVERED.source}|${refusal.source}`));
  // The log so far says more than a message about the time limit.
  await end.waitFor({ timeout: END_MS_MAX }).catch(() => {});
  return (await logged(page, /./).allInnerTexts()).join("\n");
}

const logged = (page, hasText) => page.locator(".part.panel .view-lines").filter({ hasText });

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
