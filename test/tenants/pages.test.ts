import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { call, startTestBerth, type TestBerth } from "../support/berth.ts";
import { startBrowser, write, type TestBrowser } from "../support/browser.ts";
import { addTenant, onStoreOf, type NewTenant } from "../support/tenants.ts";
import { TesterPage } from "../support/tester.ts";
import { until } from "../support/until.ts";

const GREET = `/** Greets somebody. */
export function greet(who: string): string {
  return "Hello, " + who + "!";
}

/** Leads to another function. */
export function elsewhere(): Response {
  return new Response(null, { status: 303, headers: { location: "/servers/greet/greet?who=you" } });
}
`;
const ACME: NewTenant = {
  servers: { greet: GREET, broken: "export function (" },
  variables: { motto: "onwards", mcps: JSON.stringify({ greet: { description: "Greets" } }) },
  hosts: ["acme.localhost"],
};

/** Berth as a person of one tenant sees it; nothing on any page leads to another tenant. */
describe("the pages of a tenant", () => {
  let berth: TestBerth;
  let browser: TestBrowser;
  let base: string;
  before(async () => {
    [berth, browser] = await Promise.all([
      startTestBerth({ texts: { "greet.ts": GREET.replace("Hello", "Default") }, variables: { motto: "backwards" } }),
      startBrowser(),
    ]);
    await onStoreOf(berth, (store) => addTenant(store, "acme", ACME));
    base = `${berth.url}/t/acme`;
  });
  after(async () => {
    await browser.close();
    await berth.close();
  });

  it("C8 redirects and addresses in answers stay with the tenant", async () => {
    const get = (path: string, accept = "text/html") =>
      fetch(`${base}${path}`, { redirect: "manual", headers: { Accept: accept } });
    const leadsTo = async (path: string, accept?: string) => (await get(path, accept)).headers.get("location");
    assert.equal(await leadsTo("/"), "/t/acme/mcp");
    assert.equal(await leadsTo(""), "/t/acme/mcp");
    assert.equal(await leadsTo("/mcp/greet"), "/t/acme/mcp/meta/greet");
    assert.equal(await leadsTo("/servers?name=greet"), "/t/acme/servers/greet");
    assert.equal(await leadsTo("/variables?name=motto"), "/t/acme/variables/motto?new");
    assert.equal(await leadsTo("/servers/greet/elsewhere?", "*/*"), "/t/acme/servers/greet/greet?who=you");
    const { servers } = (await (await get("/api/servers", "application/json")).json()) as {
      servers: { url: string }[];
    };
    assert.deepEqual(
      servers.map(({ url }) => url),
      ["/t/acme/mcp/broken", "/t/acme/mcp/greet"],
    );
    const missing = await (await get("/mcp/meta/gret")).text();
    assert.match(missing, /href="\/t\/acme\/mcp\/meta\/greet"/, "what was meant, of this tenant");
    assert.match(missing, /\/t\/acme\/mcp\/meta\/gret/, "the address as it was asked for");
  });

  it("C8 a person goes from the tenant's list to a server, and runs a tool in the tester", async () => {
    const list = await browser.open(`${base}/mcp`);
    assert.ok((await list.locator("code").allTextContents()).includes(`${base}/mcp/greet`));
    await list.getByRole("link", { name: "greet", exact: true }).click();
    await list.waitForURL(`${base}/mcp/meta/greet`);
    await list.getByRole("link", { name: "Connect", exact: true }).click();
    assert.match(await list.locator("#connect").innerText(), new RegExp(`claude mcp add .* ${base}/mcp/greet`));
    await list.close();

    for (const revision of ["2026-07-28", "2025-11-25"]) {
      const tester = await TesterPage.open(browser, `${base}/mcp/meta/greet`, "greet");
      await tester.speak(revision);
      await tester.field("who").fill("Ada");
      await tester.run("greet answered");
      assert.match(await tester.result.innerText(), /Hello, Ada!/);
      await tester.page.close();
    }
  });

  it("C8 a person edits a variable and a definition of the tenant, and no other tenant's change", async () => {
    const page = await browser.open(`${base}/variables/motto`);
    await write(page, "Value of motto", "upwards");
    await page.keyboard.press("ControlOrMeta+s");
    await page.getByText("Saved.").waitFor();
    const source = await browser.open(`${base}/servers/greet`);
    await write(source, "Source of greet.ts", GREET.replace("Hello", "Good day"));
    await source.keyboard.press("ControlOrMeta+s");
    await source.getByText("Saved.").waitFor();
    assert.equal(await source.getByRole("link", { name: "See greet" }).getAttribute("href"), "/t/acme/mcp/meta/greet");
    for (const each of [page, source]) await each.close();

    const value = async (at: string) => {
      const { files, entry } = (await (await fetch(`${at}/api/variables/motto`)).json()) as never;
      return files[entry];
    };
    assert.deepEqual([await value(base), await value(berth.url)], ["upwards", "backwards"]);
    const said = async (at: string) => (await call(`${at}/mcp/greet`, "greet", { who: "you" })).content[0].text;
    assert.deepEqual([await said(base), await said(berth.url)], ["Good day, you!", "Default, you!"]);
  });

  it("C8 no page, script or set-up of a tenant names an address outside of /t/<tenant>", async () => {
    const seen = new Set<string>();
    const queue = ["/mcp", "/mcp/meta/greet", "/servers/greet", "/variables/motto", "/variables?name=new"];
    for (const start of queue) {
      const path = start.startsWith("/t/") ? start : `/t/acme${start}`;
      if (seen.has(path)) continue;
      seen.add(path);
      const response = await fetch(`${berth.url}${path}`, { headers: { Accept: "text/html" } });
      const html = await response.text();
      assert.ok(response.status < 500, `${path}: ${response.status}`);
      for (const address of addressesIn(html)) {
        assert.match(address, /^(?:\/t\/acme(?:\/|$)|\/assets\/)/, `on ${path}`);
        if (!/^\/assets\/|\?raw$/.test(address)) queue.push(address.replace(/#.*$/, ""));
      }
    }
    assert.ok(seen.size > 10, [...seen].join(" "));
    for (const part of ["/cid/", "/mcp/meta/greet@", "/servers?", "/variables/mcps"]) {
      assert.ok(
        [...seen].some((path) => path.startsWith(`/t/acme${part}`)),
        part,
      );
    }
  });

  it("C8 what a browser keeps of one tenant it gives to no other, and Berth sets no cookie", async () => {
    const page = await browser.open(`${base}/variables/motto`);
    await write(page, "Value of motto", "not saved yet");
    await until(() => page.evaluate("localStorage.length > 0"), "the draft is kept");
    const keys = (await page.evaluate("Object.keys(localStorage)")) as string[];
    assert.deepEqual(keys, ["berth:draft:/t/acme/api/variables/motto"]);
    const other = await browser.open(`${berth.url}/variables/motto`);
    assert.match(await other.getByRole("textbox", { name: "Value of motto" }).innerText(), /^backwards/);
    await page.evaluate("localStorage.clear()");
    page.on("dialog", (dialog) => void dialog.accept());
    for (const each of [page, other]) await each.close();
    assert.deepEqual(await browser.context.cookies(), []);
  });

  it("C8 at a tenant's host name, pages and tools are the tenant's without a prefix", async () => {
    const { port } = new URL(berth.url);
    const at = `http://acme.localhost:${port}`;
    const page = await browser.open(`${at}/mcp`);
    await page.getByRole("link", { name: "greet", exact: true }).click();
    await page.waitForURL(`${at}/mcp/meta/greet`);
    await page.close();
    const tester = await TesterPage.open(browser, `${at}/mcp/meta/greet`, "greet");
    await tester.field("who").fill("Ada");
    await tester.run("greet answered");
    await tester.page.close();
  });

  it("C8 no page of a tenant has a script that fails", () => assert.deepEqual(browser.problems, []));
});

/** Every address of this service on a page: in links, forms, scripts, and data for scripts. */
function addressesIn(html: string): string[] {
  const attributes = html.matchAll(/ (?:href|src|action|data-(?!base|copy)[\w-]+)="(\/[^"]*)"/g);
  const inSetups = html.matchAll(/"(?:api|href|url|endpoint|path)":"(\/[^"]*)"/g);
  return [...attributes, ...inSetups].map(([, address]) => address!.replaceAll("&amp;", "&").replaceAll("&#x3D;", "="));
}
