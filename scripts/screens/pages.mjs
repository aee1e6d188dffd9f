import { apiOf } from "../../dist/test/support/api.js";
import { EMPTY, LARGE, TENANT } from "./contents.mjs";
import { BROKEN, LIBRARY, ORDERS } from "./definitions.mjs";

/**
 * Every page, each with the state that a person brings it into before the picture.
 *
 * @typedef {import("playwright-core").Page} Page
 * @typedef {{ name: string, url: string, act?: (page: Page) => Promise<unknown> }} Shown
 * @returns {Promise<Shown[]>}
 */
export async function pagesOf({ berth, guarded }) {
  const { url } = berth;
  const api = apiOf(berth);
  const { releases } = (await api.send("GET", "/servers/orders/releases")).body;
  const versions = (await api.send("GET", "/definitions/orders/history")).body.versions;
  const greetings = (await api.send("GET", "/variables/greeting/history")).body.versions;
  const { cid: definition } = versions[0];
  const { release, contract } = releases[0];
  const first = releases.at(-1).release;
  const between = (all) => `from=${all.at(-1).cid}&to=${all[0].cid}`;
  const meta = `${url}/mcp/meta`;
  const acme = `${url}/t/${TENANT}`;
  const servers = [
    page("servers", `${url}/mcp`),
    page("servers-names", `${url}/mcp`, (shown) => shown.locator(".names summary").nth(1).click()),
    page("servers-problem", `${url}/mcp`, (shown) => shown.locator(".told summary").first().click()),
    page("servers-connect", `${url}/mcp#connect`, (shown) => shown.getByText("Connect to all servers").click()),
    page("servers-about", `${url}/mcp`, (shown) => shown.getByText("About this Berth").click()),
    page("servers-found", `${url}/mcp?q=order`),
    page("servers-not-found", `${url}/mcp?q=nothing-has-this`),
    page("servers-many", `${url}/t/${LARGE}/mcp`),
    page("servers-none", `${url}/t/${EMPTY}/mcp`),
  ];
  const server = [
    page("tools", `${meta}/library`),
    page("tools-open", `${meta}/library#tool-search`),
    page("tools-run", `${meta}/library#tool=search`, async (shown) => {
      await untilConnected(shown);
      await shown.getByLabel("query").fill("a");
      await shown.getByRole("button", { name: "Run", exact: true }).click();
      await shown.getByText("search answered", { exact: true }).waitFor();
    }),
    page("tools-failed", `${meta}/orders#tool=cancelOrder`, async (shown) => {
      await untilConnected(shown);
      await shown.getByLabel("id").fill("7");
      await shown.getByLabel("reason").fill("twice");
      await shown.getByRole("button", { name: "Run", exact: true }).click();
      await shown.getByText("cancelOrder reported an error", { exact: true }).waitFor();
    }),
    page("tools-shell", `${meta}/checksum`),
    page("tools-upstream", `${meta}/payments`),
    page("tools-none", `${meta}/currency`),
    page("tools-partly", `${meta}/words`),
    page("tools-disabled", `${meta}/archive`),
    page("tools-unreachable", `${meta}/tickets`),
    page("tools-missing-secret", `${meta}/mail`),
    page("connect", `${meta}/library?tab=connect`),
    page("connect-desktop", `${meta}/library?tab=connect`, (shown) =>
      shown.getByText("Claude Desktop", { exact: true }).click(),
    ),
    page("connect-curl", `${meta}/library?tab=connect`, (shown) => shown.getByText("curl", { exact: true }).click()),
    page("connect-token", `${guarded.url}/sign-in?next=%2Fmcp`),
    page("code", `${meta}/library?tab=code`, untilEdited),
    page("code-shell", `${meta}/checksum?tab=code`, untilEdited),
    page("code-broken", `${meta}/currency?tab=code`, untilEdited),
    page("code-changed", `${meta}/orders?tab=code`, async (shown) => {
      await write(shown, "Source of orders.ts", ORDERS.replace("customer: string): Order[]", "name: string): Order[]"));
      await shown.locator(".editor-effects .badge", { hasText: "breaking" }).first().waitFor();
    }),
    page("code-refused", `${meta}/library?tab=code`, async (shown) => {
      await write(shown, "Source of library.ts", `${LIBRARY}\n${BROKEN}`);
      await shown.locator(".problems .place").first().waitFor();
      await shown.keyboard.press("ControlOrMeta+s");
      await shown.getByText("Not saved: fix the problems below").waitFor();
    }),
    page("code-breaking", `${meta}/orders?tab=code`, async (shown) => {
      await write(shown, "Source of orders.ts", ORDERS.replace("cancelOrder", "dropOrder"));
      await shown.keyboard.press("ControlOrMeta+s");
      await shown.getByRole("dialog").getByText("This breaks callers").waitFor();
    }),
    page("code-packages", `${acme}/mcp/meta/slugs?tab=code`, untilEdited),
    page("settings", `${meta}/orders?tab=settings`, untilForm),
    page("settings-json", `${meta}/orders?tab=settings`, async (shown) => {
      await shown.getByRole("button", { name: "JSON", exact: true }).click();
    }),
    page("settings-upstream", `${meta}/tickets?tab=settings`, untilForm),
    page("settings-requested", `${meta}/weather?tab=settings`, untilForm),
    page("settings-disabled", `${meta}/archive?tab=settings`, untilForm),
    page("upstream-changed", `${meta}/payments?tab=upstream`),
    page("upstream-failed", `${meta}/tickets?tab=upstream`),
    page("releases", `${meta}/orders?tab=releases`),
    page("calls", `${meta}/orders?tab=calls`),
    page("calls-kept", `${meta}/library?tab=calls`),
    page("call-kept", `${meta}/library?tab=calls&failed=true`, async (shown) => {
      await shown.locator("table.kept a").first().click();
      await shown.locator("#call").waitFor();
    }),
    page("call-again", `${meta}/library?tab=calls&failed=true`, async (shown) => {
      await shown.locator("table.kept a").first().click();
      await shown.getByRole("link", { name: "Run again" }).click();
      await untilConnected(shown);
    }),
    page("calls-none", `${meta}/checksum?tab=calls`),
    page("release", `${meta}/orders@${first}`),
    page("release-code", `${meta}/orders@${first}?tab=code`, untilEdited),
    page("comparison", `${url}/servers?server=orders&of=definition&${between(versions)}`),
    page("comparison-variable", `${url}/variables/greeting?${between(greetings)}`),
    page("cid-text", `${url}/cid/${definition}`),
    page("cid-structure", `${url}/cid/${release}`),
    page("cid-contract", `${url}/cid/${contract}`),
  ];
  const begin = [
    page("new-server-import", `${url}/servers/new`, async (shown) => {
      const headers = { Authorization: "Bearer hunter2hunter2" };
      const servers = {
        docs: { url: "https://docs.example.com/mcp", headers },
        files: { command: "npx", args: ["-y", "@example/files", "/srv"], alwaysAllow: ["read"] },
        part: { settings: {} },
      };
      await shown.getByLabel("Configuration").fill(JSON.stringify({ mcpServers: servers }, null, 2));
      await shown.getByRole("button", { name: "Show what would be added" }).click();
      await shown.getByRole("button", { name: "Add the chosen servers" }).waitFor();
    }),
    page("new", `${url}/servers/new`),
    page("new-refused", `${url}/servers/new?name=orders&template=typescript`),
    page("new-empty", `${url}/servers/new?name=greet&template=typescript`, untilOffered),
    page("new-shell", `${url}/servers/new?name=greet&template=shell`, untilOffered),
    page("new-api", `${url}/servers/new?name=github&template=api`, untilOffered),
    page("new-database", `${url}/servers/new?name=shop&template=postgres`, (shown) =>
      shown.getByText("No other problems.").waitFor(),
    ),
    page("new-remote", `${url}/servers/new?template=remote`),
    page("new-remote-found", `${url}/servers/new?template=remote&name=books`, async (shown) => {
      await lookAt(shown, `${url}/mcp/library`);
      await shown.locator("#review .offered").waitFor();
    }),
    page("new-remote-failed", `${url}/servers/new?template=remote&name=books`, async (shown) => {
      await lookAt(shown, "http://127.0.0.1:49151/mcp");
      await shown.getByText("Nothing was added").waitFor();
    }),
    page("new-npm", `${url}/servers/new?template=npm`),
  ];
  const others = [
    page("variables", `${url}/variables`),
    page("variables-none", `${url}/t/${EMPTY}/variables`),
    page("variable", `${url}/variables/greeting`, untilEdited),
    page("variable-new", `${url}/variables?name=motto`, untilEdited),
    page("variable-mcps", `${url}/variables/mcps`, untilEdited),
    page("packages", `${acme}/packages`),
    page("packages-own", `${url}/packages`),
    page("secrets", `${url}/secrets`),
    page("secrets-none", `${acme}/secrets`),
    page("state", `${url}/state`),
    page("state-none", `${acme}/state`),
    page("state-keys", `${url}/state/library`),
    page("state-value", `${url}/state/library?key=${encodeURIComponent("loans/9780141439518")}`),
    page("audit", `${url}/audit`),
    page("audit-details", `${url}/audit?kind=edit`, (shown) => shown.locator("td summary").first().click()),
    page("error-server", `${meta}/librari`),
    page("error-address", `${url}/cid/nothing`),
    page("sign-in", `${guarded.url}/sign-in`),
    page("sign-in-first", `${guarded.url}/mcp`),
  ];
  return [...servers, ...server, ...begin, ...others];
}

const page = (name, url, act) => ({ name, url, act });

const untilConnected = (shown) => shown.getByText("revision 2026").first().waitFor();
const untilEdited = (shown) => shown.locator(".cm-content").first().waitFor();
const untilForm = (shown) => shown.getByRole("button", { name: "Form", exact: true }).waitFor();
const untilOffered = (shown) => shown.locator(".offered").first().waitFor();

/** Replaces the text of an editor. */
async function write(shown, label, text) {
  await shown.getByRole("textbox", { name: label }).click();
  await shown.keyboard.press("ControlOrMeta+a");
  await shown.keyboard.insertText(text);
}

async function lookAt(shown, address) {
  await shown.getByLabel("URL").fill(address);
  await shown.getByRole("button", { name: "Look at what it offers" }).click();
}
