import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Page } from "playwright-core";
import { call, post, request } from "../../support/berth.ts";
import { screenshot, startBrowser, violationsOf, write } from "../../support/browser.ts";
import { berthInSuite, inSuite } from "../../support/suite.ts";

const NOTES = `/** Says it louder. */
export function shout(text: string): string {
  return text.toUpperCase() + "!";
}

/** Says it softly. */
export function whisper(text: string): string {
  return text.toLowerCase();
}
`;

/** Everything is done as a person would: in a real browser, against a whole service. */
describe("pages that edit", () => {
  const browser = inSuite(startBrowser);
  const texts = { "notes.ts": NOTES, "other.ts": NOTES };
  const berth = berthInSuite({ texts, files: ["reference_templates/checksum.sh"] });

  const open = (path: string): Promise<Page> => browser.open(`${berth.url}${path}`);
  const openSettings = async (server: string, view: "Form" | "JSON"): Promise<Page> => {
    const page = await open(`/mcp/meta/${server}?tab=settings`);
    await page.getByRole("button", { name: view, exact: true }).click();
    return page;
  };
  const tools = async (server: string): Promise<string[]> => {
    const { body } = await post(`${berth.url}/mcp/${server}`, request("tools/list"));
    return body.result.tools.map(({ name }: { name: string }) => name);
  };
  const read = async (path: string): Promise<{ cid: string; entry: string; files: Record<string, string> }> =>
    (await (await fetch(`${berth.url}/api/${path}`)).json()) as never;
  const textOf = async (path: string): Promise<string> => {
    const { entry, files } = await read(path);
    return files[entry]!;
  };
  const put = async (path: string, text: string, headers: Record<string, string> = {}): Promise<void> => {
    const response = await fetch(`${berth.url}/api/${path}`, {
      method: "PUT",
      headers: { "Content-Type": "text/plain", "Berth-Allow-Breaking": "true", ...headers },
      body: text,
    });
    assert.ok(response.ok, await response.text());
  };

  it("serves an edited definition, and asks before a breaking change (C7)", async () => {
    const page = await open("/servers/other");
    const softer = NOTES.replace("whisper", "hush").replace("text.toLowerCase()", 'text.toLowerCase() + "…"');
    await write(page, "Source of other.ts", softer);
    await page.locator(".editor-effects .badge", { hasText: "breaking" }).first().waitFor();
    await page.getByRole("button", { name: "Save" }).first().click();
    const dialog = page.getByRole("dialog");
    await dialog.getByText("This breaks callers").waitFor();
    await screenshot(page, "editor-breaking");
    assert.deepEqual(await violationsOf(page), []);
    await dialog.getByRole("button", { name: "Change nothing" }).click();
    await page.getByText("Nothing was changed. Your text is as you left it.").waitFor();
    assert.deepEqual(await tools("other"), ["shout", "whisper"]);

    await page.getByRole("button", { name: "Save" }).first().click();
    await dialog.getByRole("button", { name: "Save anyway" }).click();
    await saved(page);
    assert.deepEqual(await tools("other"), ["shout", "hush"]);
    assert.equal((await call(`${berth.url}/mcp/other`, "hush", { text: "HI" })).content[0].text, "hi…");
    await put("definitions/other", NOTES, { "If-Match": "*" });
    await browser.leave(page);
  });

  it("shows the names of files next to their CIDs in mcps and in comparisons (C7)", async () => {
    const page = await open("/variables/mcps");
    const names = page.locator(".cm-content .file-name");
    await names.first().waitFor();
    const shown = (await names.allInnerTexts()).map((name) => name.replace(/ bafkrei\w…\w{6}$/, ""));
    assert.deepEqual(
      shown,
      ["checksum.sh", "notes.ts, other.ts", "notes.ts, other.ts"],
      "two servers have the same definition",
    );
    await page.locator("#links").getByRole("row", { name: "checksum" }).getByText("checksum.sh").waitFor();
    assert.doesNotMatch(await textOf("variables/mcps"), /other\.ts/);
    await page.locator("#variable-history").getByRole("link", { name: "changes" }).first().click();
    await page.locator(".sides .file-name").getByText("other.ts").first().waitFor();
    assert.deepEqual(await violationsOf(page), []);
    const lines = await (await fetch(page.url())).text();
    assert.match(lines, /&quot;definition&quot;: &quot;\w+…\w+&quot;,?<i class="cid-name">other\.ts<\/i>/);
    await browser.leave(page);
  });

  it("merges concurrent edits of two users (C7)", async () => {
    const before = "red\n-\ngreen\n-\nblue\n-\nyellow\n";
    await put("variables/colours", before, { "If-None-Match": "*" });
    const other = await browser.another();
    const [first, second] = [await open("/variables/colours"), await other.newPage()];
    await second.goto(`${berth.url}/variables/colours`);

    await write(first, "Value of colours", before.replace("red", "crimson").replace("blue", "navy"));
    await write(second, "Value of colours", before.replace("green", "olive").replace("blue", "azure"));
    await first.getByRole("button", { name: "Save" }).click();
    await saved(first);
    await second.getByRole("button", { name: "Save" }).click();
    await second.getByText("Someone else has saved meanwhile").waitFor();
    await screenshot(second, "editor-conflict");
    assert.equal(await textOf("variables/colours"), "crimson\n-\ngreen\n-\nnavy\n-\nyellow\n");
    assert.deepEqual(await violationsOf(second), []);

    // Their text where only they changed it, mine where we both did; theirs can still be taken.
    await second.getByText("one place was changed by both").waitFor();
    await second.getByRole("button", { name: "Save" }).click();
    await saved(second);
    assert.equal(await textOf("variables/colours"), "crimson\n-\nolive\n-\nazure\n-\nyellow\n");
    await other.close();
    await browser.leave(first);
  });

  it("offers unsaved text after a reload", async () => {
    const page = await open("/variables/mcps");
    const before = await textOf("variables/mcps");
    await write(page, "Value of mcps", `${before}\n\n`);
    page.on("dialog", (dialog) => void dialog.accept());
    await page.reload();
    await page.getByText("You have unsaved text from").waitFor();
    assert.deepEqual(await violationsOf(page), []);
    await page.getByRole("button", { name: "Continue with it" }).click();
    await page.getByText("Unsaved changes").waitFor();
    await page.reload();
    await page.getByRole("button", { name: "Discard it" }).click();
    await page.reload();
    assert.equal(await page.getByText("You have unsaved text from").count(), 0);
    await browser.leave(page);
  });

  it("grants what a definition requests as an edit of its entry (C7)", async () => {
    const tags = "/**\n * @secret API_TOKEN to tell\n * @network api.example.org\n */\n";
    await put("definitions/asking", `${tags}import "node:path";\n${NOTES}`, { "If-None-Match": "*" });
    const page = await open("/mcp/meta/asking?tab=settings");
    const asked = page.getByRole("region", { name: "Requested, not granted" });
    await asked.getByText("@secret API_TOKEN").waitFor();
    await screenshot(page, "editor-requested");
    assert.deepEqual(await violationsOf(page), []);
    await asked.getByRole("button", { name: "Grant @secret API_TOKEN" }).click();
    await saved(page);
    await asked.getByText("@secret API_TOKEN").waitFor({ state: "detached" });
    assert.deepEqual(JSON.parse(await textOf("entries/asking")), { secrets: ["API_TOKEN"] });
    await asked.getByRole("button", { name: "Grant" }).click();
    await asked.waitFor({ state: "detached" });
    assert.deepEqual(JSON.parse(await textOf("entries/asking")), {
      secrets: ["API_TOKEN"],
      network: ["api.example.org"],
    });
    await browser.leave(page);
  });

  it("completes and explains fields by the schema of mcps", async () => {
    const label = "Value of notes";
    const page = await openSettings("notes", "JSON");
    await write(page, label, "{");
    await page.keyboard.type('"auto');
    const offered = page.locator(".cm-tooltip-autocomplete").getByText("auto_discover");
    await offered.waitFor();
    // The editor ignores clicks on an element that it has just shown: nobody can have meant it.
    while ((await offered.count()) > 0) await offered.click({ timeout: 1_000 }).catch(() => undefined);
    assert.match(await page.getByRole("textbox", { name: label }).innerText(), /"auto_discover": /);
    await page.keyboard.press("Escape");
    await page.getByRole("textbox", { name: label }).getByText('"auto_discover"').hover();
    await page.locator(".explanation strong", { hasText: "auto_discover" }).waitFor();
    await page.evaluate("localStorage.clear()");
    await browser.leave(page);
  });

  it("edits a definition of several files", async () => {
    const page = await open("/servers/other");
    await page.getByLabel("Path of the new file").fill("loud.ts");
    await page.getByRole("button", { name: "Add file" }).click();
    await write(page, "Source of loud.ts", 'export const loud = (text: string): string => text + "?!";\n');
    await page.getByRole("tab", { name: "other.ts" }).click();
    const source = `import { loud } from "./loud.ts";\n${NOTES.replace('text.toUpperCase() + "!"', "loud(text)")}`;
    await write(page, "Source of other.ts", source);
    await page.keyboard.press("ControlOrMeta+s");
    await saved(page);
    assert.equal((await call(`${berth.url}/mcp/other`, "shout", { text: "hi" })).content[0].text, "hi?!");
    await screenshot(page, "editor-files");
    await browser.leave(page);
  });

  /** Replaces an entry except for its definition. */
  const putEntry = async (said: object): Promise<void> => {
    const { definition } = JSON.parse(await textOf("entries/notes"));
    await put("entries/notes", JSON.stringify({ definition, ...said }), { "If-Match": "*" });
  };
  const typed = async (page: Page, label: string): Promise<Record<string, unknown>> => {
    await page.getByRole("button", { name: "JSON", exact: true }).click();
    // The name of a file and its short CID are shown in place of the CID.
    const text = await page.getByRole("textbox", { name: label }).innerText();
    assert.match(text, /"definition": notes\.ts bafkrei/);
    await page.getByRole("button", { name: "Form", exact: true }).click();
    const { definition: _, ...said } = JSON.parse(text.replace(/notes\.ts bafkrei\w…\w+/, '""'));
    return said;
  };

  it("changes an entry by its form, and keeps fields that the form does not have", async () => {
    const before = { description: "Notes", env: { REGION: "north" }, tools: { shout: { title: "Shout" } } };
    await putEntry(before);
    const page = await openSettings("notes", "Form");
    const on = (name: string) => page.getByRole("checkbox", { name, exact: true });
    assert.deepEqual([await on("shout").isChecked(), await on("whisper").isChecked()], [true, false]);
    await page.getByText("Edit these in the JSON view: env").waitFor();

    await page.getByLabel("Description").fill("Louder notes");
    await on("whisper").check();
    await page.getByLabel("Add a host").fill("api.example.com");
    await page.keyboard.press("Enter");
    await page.getByLabel("Add a secret").fill("NOTES_TOKEN");
    await page.getByRole("button", { name: "Add the secret" }).click();
    await page.getByRole("checkbox", { name: "All variables of the tenant" }).uncheck();
    await page.getByLabel("Concurrent calls").fill("3");
    await page.getByRole("button", { name: "Add options" }).click();
    await page.locator(".json-field").getByLabel("shout", { exact: true }).fill('{ "loud": true }');
    const wanted = {
      description: "Louder notes",
      env: { REGION: "north" },
      tools: { shout: { title: "Shout" }, whisper: {} },
      auto_discover: false,
      network: ["api.example.com"],
      secrets: ["NOTES_TOKEN"],
      variables: [],
      limits: { calls: 3 },
      options: { shout: { loud: true } },
    };
    assert.deepEqual(await typed(page, "Value of notes"), wanted);
    assert.deepEqual(await violationsOf(page), []);
    await page.getByRole("button", { name: "Save" }).click();
    await saved(page);
    const { definition: _, ...kept } = JSON.parse(await textOf("entries/notes"));
    assert.deepEqual(kept, wanted);
    assert.deepEqual(await tools("notes"), ["shout", "whisper"]);
    // The head of the page says what is missing now.
    await page.locator("#server-head .badge", { hasText: "secret not set" }).waitFor();
    await page.locator(".setting", { hasText: "Secrets" }).getByText("not set").waitFor();
    await screenshot(page, "settings");
    await browser.leave(page);
  });

  it("shows a problem at its field until it is fixed", async () => {
    await putEntry({});
    const page = await openSettings("notes", "Form");
    await page.getByLabel("Add a host").fill("https://api.example.com/");
    await page.keyboard.press("Enter");
    const network = page.locator(".setting", { has: page.getByLabel("Add a host") });
    await network.locator(".mistakes li").first().waitFor();
    assert.equal(await page.getByLabel("Network: host 1").getAttribute("aria-invalid"), "true");
    await page.getByRole("button", { name: "Save" }).click();
    await page.getByText("Not saved: fix the problems below").waitFor();
    assert.deepEqual(await violationsOf(page), []);

    // A check that takes its time: the old problem goes at once, the banner when the text is right.
    let go = (): void => {};
    const held = new Promise<void>((resolve) => (go = resolve));
    await page.route("**/review", async (route) => {
      await held;
      await route.continue();
    });
    await page.getByLabel("Network: host 1").fill("api.example.com");
    await page.getByText("Checking…").waitFor();
    assert.equal(await page.locator(".problems li, .mistakes li").count(), 0);
    assert.equal(await page.getByText("Not saved: fix the problems below").count(), 1);
    go();
    await page.getByText("Not saved: fix the problems below").waitFor({ state: "detached" });
    await page.getByText("No problems.").waitFor();
    await page.evaluate("localStorage.clear()");
    await browser.leave(page);
  });

  it("switches tabs without a reload, and keeps the state of each", async () => {
    const page = await open("/mcp/meta/other");
    await page.evaluate("window.isSamePage = true");
    const tab = (name: string) => page.getByRole("navigation", { name: "Parts of other" }).getByRole("link", { name });
    await page.locator("#tool-shout summary").first().click();
    assert.equal(await page.locator("#tool-shout").getAttribute("open"), null);
    await tab("Code").click();
    await write(page, "Source of other.ts", "// unsaved\n", "end");
    await tab("Settings").click();
    await page.getByLabel("Description").waitFor();
    assert.equal(new URL(page.url()).search, "?tab=settings");
    assert.equal(await tab("Settings").getAttribute("aria-current"), "page");
    await page.goBack();
    assert.match(await page.getByRole("textbox", { name: "Source of other.ts" }).innerText(), /unsaved/);
    await page.goBack();
    assert.equal(await page.locator("#tool-shout").getAttribute("open"), null);
    await page.goForward();
    await page.getByText("Unsaved changes", { exact: true }).waitFor();
    assert.equal(await page.evaluate("window.isSamePage"), true);
    await page.evaluate("localStorage.clear()");
    await browser.leave(page);
  });

  it("loads a tab once, and shows the one that was chosen last", async () => {
    const page = await open("/mcp/meta/other");
    const tab = (name: string) => page.getByRole("navigation", { name: "Parts of other" }).getByRole("link", { name });
    const code = page.locator('[data-tab="code"]');
    let goOn!: () => void;
    const held = new Promise<void>((resolve) => (goOn = resolve));
    await page.route(/tab=code/, async (route) => {
      await held;
      await route.continue();
    });
    await tab("Code").click();
    await tab("Code").click();
    await tab("Settings").click();
    await page.getByLabel("Description").waitFor();
    goOn();
    await page.unrouteAll({ behavior: "wait" });
    assert.equal(await page.locator("[data-tab]:visible").getAttribute("data-tab"), "settings");
    await tab("Code").click();
    await tab("Code").click();
    await page.getByRole("textbox", { name: "Source of other.ts" }).waitFor();
    assert.equal(await page.locator("[data-tab]:visible").getAttribute("data-tab"), "code");
    assert.equal(await code.count(), 1);
    await browser.leave(page);
  });

  it("reports no script error and no violation of the Content-Security-Policy", () => {
    // Expected statuses: a save that is refused, breaking or outdated, or a missing resource.
    const told = /status of (?:404|409|412|422) /;
    const others = browser.problems.filter((problem) => !told.test(problem));
    assert.deepEqual(others, []);
  });
});

function saved(page: Page): Promise<void> {
  return page.locator(".notice.good", { hasText: "Saved." }).waitFor();
}
