import assert from "node:assert/strict";
import { before, describe, it } from "node:test";
import { screenshot, spilledTexts, startBrowser, violationsOf } from "../support/browser.ts";
import { berthInSuite, inSuite } from "../support/suite.ts";
import { TesterPage } from "../support/tester.ts";
import { until } from "../support/until.ts";

describe("the tester", () => {
  const browser = inSuite(startBrowser);
  const berth = berthInSuite({ files: ["test/fixtures/servers/workbench.ts"] });
  let tester: TesterPage;
  before(async () => {
    tester = await TesterPage.open(browser, `${berth.url}/mcp/meta/workbench`, "echo");
  });

  it("shows the raw messages of both directions (C6)", async () => {
    await tester.field("message").fill("hello");
    await tester.run("echo answered");
    await tester.messages();
    const request = tester.section.locator(".messages li.sent").last();
    await request.locator("summary").click();
    await request.locator("pre").waitFor();
    assert.match(
      await request.innerText(),
      /tools\/call[\s\S]*POST \/mcp\/workbench[\s\S]*mcp-method[\s\S]*"message": "hello"/,
    );
    const answer = tester.section.locator(".messages li.received").last();
    await answer.locator("summary").click();
    await answer.locator("pre").waitFor();
    assert.match(
      await answer.innerText(),
      /result of tools\/call[\s\S]*HTTP 200[\s\S]*content-type[\s\S]*"text": "hello"/,
    );
    assert.deepEqual(await spilledTexts(tester.page), []);
    assert.deepEqual(await violationsOf(tester.page), []);
  });

  it("runs a tool with a form generated from its schema (C6)", async () => {
    await tester.choose("order");
    await tester.field("Which kind").selectOption("kind: letter");
    await tester.field("registered").check();
    await tester.field("name required").fill("Ada");
    await tester.field("country").selectOption("NO");
    await tester.field("day").fill("2026-02-03");
    await tester.button("Add an item to tags").click();
    await tester.field("Item 1").fill("urgent");
    await tester.button("Run").click();
    await tester.says("order answered");
    const { request, result } = await lastCall(tester);
    assert.deepEqual(request.params.arguments, {
      item: { kind: "letter", registered: true },
      to: { name: "Ada", country: "NO" },
      day: "2026-02-03",
      speed: "fast",
      tags: ["urgent"],
      notify: [],
      gift: false,
    });
    assert.deepEqual(JSON.parse(result.content[0].text), request.params.arguments);
  });

  it("answers or declines a question of the tool (P4)", async () => {
    await tester.choose("forecast");
    await tester.run("forecast has a question");
    await tester.button("Send the answer").click();
    await tester.result.getByText("is required").waitFor();
    await tester.field("City").fill("Oslo");
    await tester.field("Unit").selectOption("Fahrenheit");
    await tester.field("Wind").check();
    await tester.page.keyboard.press("Tab");
    assert.deepEqual(await violationsOf(tester.page), []);
    await tester.button("Send the answer").click();
    await tester.says("forecast answered");
    await tester.result.getByText('"Oslo"').waitFor();
    const { result } = await lastCall(tester);
    assert.deepEqual(JSON.parse(result.content[0].text), { city: "Oslo", unit: "F", days: 2, warn: ["wind"] });

    await tester.run("forecast has a question");
    await tester.button("Decline").click();
    await tester.says("forecast answered");
    await tester.result.getByText("no place: decline").first().waitFor();
  });

  it("shows each kind of content and runs none of it (S8, T14.2)", async () => {
    await tester.choose("picture");
    await tester.run("picture answered");
    const width = () => tester.page.evaluate("document.querySelector('.tester img')?.naturalWidth");
    assert.equal(await until(width, "the picture is decoded"), 16);
    await tester.choose("sound");
    await tester.run("sound answered");
    assert.equal(await tester.result.locator("audio").count(), 1);
    await tester.choose("mixed");
    await tester.run("mixed answered");
    const { result } = tester;
    await result.getByText("<img src=x onerror=alert(1)> & <b>bold</b>").waitFor();
    assert.equal(await result.locator("img").count(), 1);
    await result.getByText("an embedded note").waitFor();
    await result.getByText('"one"').waitFor();
    assert.equal(await result.getByRole("link", { name: "Save" }).getAttribute("download"), "dot.png");
    // The page elsewhere is no resource of this server.
    assert.equal(await result.getByRole("button", { name: "Read it" }).count(), 1);
    await screenshot(tester.page, "tester");
    assert.deepEqual(await violationsOf(tester.page), []);
    await result.getByRole("button", { name: "Read it" }).click();
    await tester.says("note://7 answered");
    assert.deepEqual(browser.problems, []);
  });
});

/** The last call of a tool, as sent over the wire. */
async function lastCall(tester: TesterPage): Promise<{ request: Body; result: Body }> {
  await tester.messages();
  const body = async (direction: string, label: string): Promise<Body> => {
    const entry = tester.section.locator(`.messages li.${direction}`).filter({ hasText: label }).last();
    if ((await entry.locator("pre").count()) === 0) await entry.locator("summary").click();
    return JSON.parse(await entry.locator("pre").innerText());
  };
  const request = await body("sent", "tools/call");
  const { result } = await body("received", "result of tools/call");
  return { request, result };
}

// Messages have any shape; tests look into them freely.
// oxlint-disable-next-line typescript/no-explicit-any
type Body = any;
