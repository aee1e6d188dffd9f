import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { apiOf } from "../../support/api.ts";
import { call, startTestBerth, type TestBerth } from "../../support/berth.ts";
import { screenshot, startBrowser, violationsOf, type TestBrowser } from "../../support/browser.ts";
import { startTestRegistry, type TestPackage, type TestRegistry } from "../../support/registry.ts";
import { addTenant, onStoreOf } from "../../support/tenants.ts";

const greet = (version: string, more = ""): TestPackage => ({
  name: "greet",
  version,
  manifest: { type: "module", main: "index.js", types: "index.d.ts" },
  files: {
    "index.js": `export const greet = (name) => "${version} greets " + name;\n`,
    "index.d.ts": `export interface Wish { name: string${more} }\nexport declare function greet(name: string): string;\n`,
  },
});
const SOURCE = `import { greet, type Wish } from "greet";
/** Greets. */
export function hello(wish: Wish): string { return greet(wish.name); }
`;

describe("the page of packages", () => {
  let registry: TestRegistry;
  let berth: TestBerth;
  let browser: TestBrowser;
  before(async () => {
    registry = await startTestRegistry(greet("1.0.0"));
    const env = {
      BERTH_REGISTRY: registry.url,
      BERTH_TENANT_PACKAGES: "acme",
      BERTH_SAVES_PER_MINUTE_PER_TENANT: "0",
      BERTH_REVIEWS_PER_MINUTE_PER_TENANT: "0",
    };
    [berth, browser] = await Promise.all([
      startTestBerth({ texts: { "own.ts": "export function own(): void {}" }, env }),
      startBrowser(),
    ]);
    await onStoreOf(berth, (store) => addTenant(store, "acme"));
  });
  after(async () => {
    await browser.close();
    await berth.close();
    await registry.close();
  });

  const hello = async (wish: object): Promise<string> =>
    (await call(`${berth.url}/t/acme/mcp/hello`, "hello", { wish })).content[0].text;

  it("adds a package that a definition then imports, reviews an update that breaks callers, and goes back", async () => {
    const page = await browser.open(`${berth.url}/t/acme/packages`);
    await page.getByText("There is no package yet.").waitFor();
    const add = page.getByLabel("Add a package");
    await add.fill("greet@^1");
    await page.getByRole("button", { name: "Review it" }).click();
    const review = page.getByRole("region", { name: /what this would change/ });
    await review.getByRole("cell", { name: "1.0.0" }).waitFor();
    await review.getByText("No server uses any of these packages.").waitFor();
    assert.deepEqual(await violationsOf(page), []);
    await review.getByRole("button", { name: "Change nothing" }).click();
    assert.ok(await page.getByText("There is no package yet.").isVisible());
    await add.fill("greet@^1");
    await page.getByRole("button", { name: "Review it" }).click();
    await review.getByRole("button", { name: "Save it" }).click();
    await page.getByText("It is in effect now.").waitFor();
    const row = page.locator("#packages").getByRole("row").filter({ hasText: "greet" });
    await row.getByText("1.0.0").waitFor();

    assert.ok((await apiOf({ url: `${berth.url}/t/acme` }).put("/definitions/hello", SOURCE)).status < 300);
    assert.equal(await hello({ name: "Ada" }), "1.0.0 greets Ada");
    registry.publish(greet("1.1.0", "; loud: boolean"));
    await page.reload({ waitUntil: "load" });
    assert.equal(await row.getByRole("link", { name: "hello" }).getAttribute("href"), "/t/acme/mcp/meta/hello");
    await row.getByRole("button", { name: "Update greet" }).click();
    await review.getByText("breaking", { exact: true }).first().waitFor();
    await review.getByText(/Its bundle: .* kB now, .* kB then/).waitFor();
    await screenshot(page, "packages-review");
    assert.deepEqual(await violationsOf(page), []);
    await review.getByRole("button", { name: "Save it anyway…" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Save it anyway" }).click();
    await page.getByText("It is in effect now.").waitFor();
    assert.equal(await hello({ name: "Ada", loud: true }), "1.1.0 greets Ada");

    const history = page.locator("#packages-history");
    await history.getByRole("button", { name: "Restore" }).first().click();
    // Callers that give the new argument would break.
    await review.getByRole("button", { name: "Save it anyway…" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Save it anyway" }).click();
    await page.getByText("It is in effect now.").waitFor();
    await row.getByText("1.0.0").waitFor();
    assert.equal(await hello({ name: "Ada" }), "1.0.0 greets Ada");
    await browser.leave(page);
    const others = browser.problems.filter((problem) => !/422|409/.test(problem));
    assert.deepEqual(others, []);
  });
});
