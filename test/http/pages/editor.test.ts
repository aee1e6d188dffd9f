import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import type { Page } from "playwright-core";
import { jsonBlock, rawBlock } from "../../../src/lib/cid.ts";
import { call, post, request, startTestBerth, type TestBerth } from "../../support/berth.ts";
import { screenshot, startBrowser, violationsOf, write, type TestBrowser } from "../../support/browser.ts";
import { onStoreOf } from "../../support/tenants.ts";
import { until } from "../../support/until.ts";

const NOTES = `/** Says it louder. */
export function shout(text: string): string {
  return text.toUpperCase() + "!";
}

/** Says it softly. */
export function whisper(text: string): string {
  return text.toLowerCase();
}
`;
const CHOSEN = { notes: { auto_discover: false, tools: { shout: {} } } };

/** Everything is done as a person would: in a real browser, against a whole service. */
describe("pages that edit", () => {
  let berth: TestBerth;
  let browser: TestBrowser;
  before(async () => {
    [berth, browser] = await Promise.all([
      startTestBerth({ texts: { "notes.ts": NOTES, "other.ts": NOTES }, files: ["reference_templates/checksum.sh"] }),
      startBrowser(),
    ]);
    // No edit saves what cannot be served; what came with an earlier version may stand there.
    await onStoreOf(berth, async (store) => {
      const definition = rawBlock("export function half(amount: number): number {\n  return amount / ;\n}\n");
      const record = jsonBlock({ definition: definition.cid, enabled: true });
      const set = [{ kind: "server" as const, name: "broken", cid: record.cid }];
      await store.change("default", { by: "ada", put: [definition, record], set });
    });
  });
  after(async () => {
    await browser.close();
    await berth.close();
  });

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

  it("C7 shows what is wrong in mcps in its place, refuses to save it, and changes nothing", async () => {
    const before = await textOf("variables/mcps");
    const page = await open("/variables/mcps");
    const wrong = before.replace("{", '{\n  "notes2": { "enabled": "yes" },');
    await write(page, "Value of mcps", wrong);
    await page.locator(".cm-lintRange-error").first().waitFor();
    await page.locator(".problems .place").first().waitFor();
    await screenshot(page, "editor-problem");

    await page.keyboard.press("ControlOrMeta+s");
    await page.getByText("Not saved: fix the problems below").waitFor();
    assert.equal(await textOf("variables/mcps"), before);
    assert.match(await page.getByRole("textbox", { name: "Value of mcps" }).innerText(), /notes2/);
    assert.deepEqual(await violationsOf(page), []);
    await browser.leave(page);
  });

  it("C7 puts a new tool in effect when mcps is saved, without a restart", async () => {
    await put("entries/notes", JSON.stringify({ ...JSON.parse(await textOf("entries/notes")), ...CHOSEN.notes }), {
      "If-Match": "*",
    });
    assert.deepEqual(await tools("notes"), ["shout"]);
    const page = await open("/variables/mcps");
    const text = await textOf("variables/mcps");
    const mcps = JSON.parse(text);
    mcps.notes.tools.whisper = { description: "Says it quietly" };
    await write(page, "Value of mcps", JSON.stringify(mcps, null, 2));
    await page.getByText("What saving would change").waitFor();
    await page.getByRole("button", { name: "Save" }).click();
    await saved(page);
    assert.deepEqual(await tools("notes"), ["shout", "whisper"]);
    assert.equal(await page.getByRole("link", { name: "See notes" }).getAttribute("href"), "/mcp/meta/notes");
    await page.locator("#variable-history").getByText("page", { exact: true }).waitFor();
    await screenshot(page, "editor-saved");
    assert.deepEqual(await violationsOf(page), []);
    await browser.leave(page);
  });

  it("C7 puts an edited definition in effect, and asks before what breaks callers", async () => {
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
    await browser.leave(page);
  });

  it("C7 restores an earlier version in one action, through the same checks", async () => {
    const page = await open("/servers/other");
    await page.locator("#definition-history").getByRole("button", { name: "Restore" }).last().click();
    await page.getByRole("dialog").getByRole("button", { name: "Restore anyway" }).click();
    await saved(page);
    assert.deepEqual(await tools("other"), ["shout", "whisper"]);
    assert.equal(await textOf("definitions/other"), NOTES);
    await page.locator("#definition-history tbody tr").nth(2).waitFor();
    await browser.leave(page);
  });

  it("C7 shows the names of files beside their CIDs in mcps, and where two of its versions are compared", async () => {
    const page = await open("/variables/mcps");
    const names = page.locator(".cm-content .cid-name");
    await names.first().waitFor();
    assert.deepEqual(
      (await names.allInnerTexts()).map((name) => name.trim()),
      ["checksum.sh", "notes.ts, other.ts", "notes.ts, other.ts"],
      "two servers have the same definition by now",
    );
    await page.locator("#links").getByRole("row", { name: "checksum" }).getByText("checksum.sh").waitFor();
    assert.doesNotMatch(await textOf("variables/mcps"), /other\.ts/);
    await page.locator("#variable-history").getByRole("link", { name: "changes" }).first().click();
    await page.locator(".sides .cid-name").getByText("other.ts").first().waitFor();
    assert.deepEqual(await violationsOf(page), []);
    const lines = await (await fetch(page.url())).text();
    assert.match(lines, /&quot;definition&quot;: &quot;\w+&quot;,?<i class="cid-name">other\.ts<\/i>/);
    await browser.leave(page);
  });

  it("C7 tells the second of two people, keeps both texts, and saves what they make of them", async () => {
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

  it("takes theirs, piece by piece, where a person likes it better", async () => {
    await put("variables/shapes", "circle\nsquare\n", { "If-None-Match": "*" });
    const page = await open("/variables/shapes");
    await write(page, "Value of shapes", "circle\nmine\n");
    await put("variables/shapes", "circle\ntheirs\n", { "If-Match": "*" });
    await page.getByRole("button", { name: "Save" }).click();
    await page.getByText("Someone else has saved meanwhile").waitFor();
    await page.getByRole("button", { name: "Take theirs", exact: true }).click();
    await page.getByText("No unsaved changes").waitFor();
    assert.equal(await textOf("variables/shapes"), "circle\ntheirs\n");
    await browser.leave(page);
  });

  it("keeps what was not saved over a reload, and offers it", async () => {
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

  it("C7 grants what a definition requests by one press, as an edit of the entry", async () => {
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

  it("makes a variable and deletes it, and can bring it back", async () => {
    const page = await open("/variables");
    await page.getByLabel("New variable").fill("greeting");
    await page.getByRole("button", { name: "Continue" }).click();
    await write(page, "Value of greeting", "Good morning");
    await page.getByRole("button", { name: "Create" }).click();
    await page.getByText("No unsaved changes").waitFor();
    assert.equal(await textOf("variables/greeting"), "Good morning");

    await page.getByRole("button", { name: "Delete…" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
    await page.getByText("This was deleted.").waitFor();
    assert.equal((await fetch(`${berth.url}/api/variables/greeting`)).status, 404);
    assert.deepEqual(await violationsOf(page), []);
    await page.getByRole("button", { name: "Restore" }).click();
    await page.getByText("No unsaved changes").waitFor();
    assert.equal(await textOf("variables/greeting"), "Good morning");
    await browser.leave(page);
  });

  for (const [template, server, tool] of [
    ["Empty One TypeScript function", "word-count", "wordCount"],
    ["Empty shell script", "word-count-sh", "word-count-sh"],
  ] as const) {
    it(`makes a new server that works from the template "${template}", and leads to how to connect to it`, async () => {
      const page = await open("/servers/new");
      await page.getByLabel("Name").fill(server);
      await page.getByRole("radio", { name: template }).check();
      await page.getByRole("button", { name: "Continue" }).click();
      await page.locator(".offered", { hasText: `${tool}(who: string` }).waitFor();
      await page.getByRole("button", { name: "Create" }).click();
      await page.waitForURL(`**/mcp/meta/${server}?tab=connect`);
      const result = await call(`${berth.url}/mcp/${server}`, tool, { who: "Ada" });
      assert.equal(result.content[0].text.trim(), "Hello, Ada!");
      await browser.leave(page);
    });
  }

  for (const [path, label, text] of [
    ["/variables/mcps", "Value of mcps", '{"notes": {'],
    ["settings", "Value of notes", "{"],
  ] as const) {
    it(`completes and explains what ${path} can say, by the schema of mcps`, async () => {
      const page = path === "settings" ? await openSettings("notes", "JSON") : await open(path);
      await write(page, label, text);
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
  }

  it("writes a definition of several files, each in a tab", async () => {
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

  it("T14.2 shows names and texts as they are, whatever is in them", async () => {
    const name = "hostile";
    const text = '</textarea></script><script>alert(1)</script><img src=x onerror="alert(1)">\r\n\r\nend';
    const address = `/variables/${name}`;
    await put(address.slice(1), text, { "If-None-Match": "*" });
    const page = await open(address);
    assert.match(await page.getByRole("textbox", { name: `Value of ${name}` }).innerText(), /onerror="alert\(1\)"/);
    assert.equal(await page.locator("main h1").innerText(), name);
    // Untouched line ends stay as they are.
    assert.equal(await page.getByText("No unsaved changes").count(), 1);
    await write(page, `Value of ${name}`, "again", "end");
    await page.getByRole("button", { name: "Save" }).click();
    await saved(page);
    assert.equal(await textOf(address.slice(1)), `${text}again`);
    await page.getByRole("link", { name: "changes" }).click();
    await page.getByText("Two versions of").first().waitFor();
    await browser.leave(page);
  });

  it("reads, and compares versions, without scripts", async () => {
    const context = await browser.another({ javaScriptEnabled: false });
    const page = await context.newPage();
    await page.goto(`${berth.url}/servers/other`);
    assert.equal(new URL(page.url()).search, "?tab=code", "an address of before leads there");
    assert.match(await page.locator("noscript p").first().innerText(), /Editing needs JavaScript/);
    assert.equal(await page.locator("textarea").first().inputValue(), await textOf("definitions/other"));
    await page.locator("#definition-history").getByRole("button", { name: "Compare" }).click();
    const changes = await page.getByLabel("Changes of other.ts").innerText();
    assert.match(changes, /^\+ import \{ loud \}.*$/m);
    assert.match(changes, /^-   return text.toUpperCase\(\) \+ "!";$/m);
    await page.goto(`${berth.url}/variables/mcps`);
    assert.match(await page.locator("textarea").inputValue(), /notes/);
    await context.close();
  });

  /** Replaces an entry except for its definition. */
  const putEntry = async (said: object): Promise<void> => {
    const { definition } = JSON.parse(await textOf("entries/notes"));
    await put("entries/notes", JSON.stringify({ definition, ...said }), { "If-Match": "*" });
  };
  const typed = async (page: Page, label: string): Promise<Record<string, unknown>> => {
    await page.getByRole("button", { name: "JSON", exact: true }).click();
    // The name of the file behind the CID is shown, and is no part of the text.
    const text = await page.getByRole("textbox", { name: label }).innerText();
    assert.match(text, /"definition": "\w+",? notes\.ts/);
    await page.getByRole("button", { name: "Form", exact: true }).click();
    const { definition: _, ...said } = JSON.parse(text.replace(/ notes\.ts,?/, ","));
    return said;
  };

  it("changes an entry by its form, and keeps what the form does not know", async () => {
    const before = { description: "Notes", env: { REGION: "north" }, tools: { shout: { title: "Shout" } } };
    await putEntry(before);
    const page = await openSettings("notes", "Form");
    const on = (name: string) => page.getByRole("checkbox", { name, exact: true });
    assert.deepEqual([await on("shout").isChecked(), await on("whisper").isChecked()], [true, false]);
    await page.getByText("In the JSON alone: env").waitFor();

    await page.getByLabel("Description").fill("Louder notes");
    await on("whisper").check();
    await page.getByLabel("Add a host").fill("api.example.com");
    await page.keyboard.press("Enter");
    await page.getByLabel("Add a secret").fill("NOTES_TOKEN");
    await page.getByRole("button", { name: "Add the secret" }).click();
    await page.getByRole("checkbox", { name: "All variables of the tenant" }).uncheck();
    await page.getByLabel("Calls at once").fill("3");
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

  it("switches a tool off and on again with all that its entry says, and all of them at once", async () => {
    await putEntry({ tools: { shout: { title: "Shout" } }, auto_discover: true });
    const page = await openSettings("notes", "Form");
    const [shout, whisper] = ["shout", "whisper"].map((name) => page.getByRole("checkbox", { name, exact: true }));
    const auto = page.getByRole("checkbox", { name: "New functions become tools at once" });
    await shout!.uncheck();
    assert.deepEqual(await typed(page, "Value of notes"), { tools: { whisper: {} }, auto_discover: false });
    await whisper!.uncheck();
    assert.deepEqual(await typed(page, "Value of notes"), { tools: {}, auto_discover: false });
    await shout!.check();
    assert.deepEqual(await typed(page, "Value of notes"), {
      tools: { shout: { title: "Shout" } },
      auto_discover: false,
    });
    await auto.check();
    assert.deepEqual(await typed(page, "Value of notes"), {
      tools: { shout: { title: "Shout" } },
      auto_discover: true,
    });
    await page.evaluate("localStorage.clear()");
    await browser.leave(page);
  });

  it("shows a problem at its field, and says nothing of it once it is gone", async () => {
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

  it("shows what is wrong with a definition that stands refused, in its place, before anything is typed", async () => {
    await until(async () => (await fetch(`${berth.url}/mcp/meta/broken`)).ok);
    const page = await open("/mcp/meta/broken?tab=code");
    await page.locator(".editor-problems .place", { hasText: "broken.ts:2:19" }).waitFor();
    await page.locator(".cm-lintRange-error").first().waitFor();
    assert.equal(await page.getByText("No problems.").count(), 0);
    await browser.leave(page);
  });

  it("offers no button that deletes the configuration of all servers", async () => {
    const page = await open("/variables/mcps");
    await page.getByText("No problems.").waitFor();
    assert.equal(await page.getByRole("button", { name: "Delete…" }).count(), 0);
    await browser.leave(page);
  });

  it("switches tabs without a reload, and keeps what was written, opened and scrolled to in each", async () => {
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

  it("has each tab once, however often it is pressed while it loads, and shows none that comes too late", async () => {
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

  it("has no script that fails and nothing that the Content-Security-Policy refuses", () => {
    // Expected statuses: a save that is refused, breaking or outdated, or a missing resource.
    const told = /status of (?:404|409|412|422) /;
    assert.deepEqual(
      browser.problems.filter((problem) => !told.test(problem)),
      [],
    );
  });
});

describe("pages that edit on a read-only instance", () => {
  it("show everything, say so, and offer no way to save", async () => {
    const berth = await startTestBerth({ texts: { "notes.ts": NOTES }, env: { BERTH_IMAGE: "readonly" } });
    const browser = await startBrowser();
    for (const path of [
      "/variables",
      "/variables/mcps",
      "/servers/new",
      "/servers/notes",
      "/mcp/meta/notes?tab=settings",
    ]) {
      const page = await browser.open(`${berth.url}${path}`);
      await page.getByText("This instance was started read-only").waitFor();
      assert.equal(await page.getByRole("button", { name: /Save|Create|Delete|Restore|Write|Go on/ }).count(), 0, path);
      await browser.leave(page);
    }
    const list = await browser.open(`${berth.url}/mcp`);
    assert.equal(await list.getByRole("link", { name: /New server|Add remote server/ }).count(), 0);
    await browser.leave(list);
    assert.deepEqual(browser.problems, []);
    await browser.close();
    await berth.close();
  });
});

function saved(page: Page): Promise<void> {
  return page.locator(".notice.good", { hasText: "Saved." }).waitFor();
}
