import { stripVTControlCharacters } from "node:util";
import { startBrowser } from "../../dist/test/support/browser.js";
import { stopClient } from "./set-up.mjs";

/** Opens the Inspector's page in a browser, connects, and looks for the tools. Ends it. */
export async function openInspector(child, tools) {
  const ended = new Promise((resolve) => child.once("close", resolve));
  const browser = await startBrowser();
  try {
    const page = await browser.context.newPage();
    await page.goto(await addressOf(child));
    // The switch itself is an invisible input beside what is drawn.
    await page.getByRole("switch").first().dispatchEvent("click");
    const connected = page.getByText("Connected", { exact: true });
    await connected
      .or(page.getByText("Failed", { exact: true }))
      .first()
      .waitFor();
    if (!(await connected.isVisible())) throw new Error(`the page: ${await page.locator("body").innerText()}`);
    await page.getByText("Tools", { exact: true }).click();
    for (const tool of tools) await page.getByText(tool, { exact: true }).first().waitFor();
  } finally {
    await browser.close();
    stopClient(child);
    await ended;
  }
}

function addressOf(child) {
  return new Promise((resolve, reject) => {
    let text = "";
    child.once("close", (code) => reject(new Error(`the Inspector ended with ${code}: ${text}`)));
    child.stdout.setEncoding("utf8").on("data", (chunk) => {
      text += stripVTControlCharacters(chunk);
      const address = /is up and running at:\s+(http:\S+)\s/.exec(text)?.[1];
      if (address) resolve(address);
    });
  });
}
