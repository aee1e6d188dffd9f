import assert from "node:assert/strict";
import { realpathSync } from "node:fs";
import { mkdir, readFile, stat, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { after, before, beforeEach, describe, it } from "node:test";
import { clientFiles, type ClientFiles } from "../../../src/config-files/client-files.ts";
import { apiOf } from "../../support/api.ts";
import { startBrowser, type TestBrowser } from "../../support/browser.ts";
import { exits, type Ran } from "../../support/commands.ts";
import { berthInProcess } from "../../support/in-process.ts";
import { testFolders } from "../../support/store.ts";
import { berthInSuite } from "../../support/suite.ts";

const TOKEN = "ghp_0123456789abcdefghijABCDEFGHIJ";
const FILE = {
  mcpServers: {
    docs: { type: "http", url: "https://docs.example/mcp", headers: { Authorization: `Bearer ${TOKEN}` } },
    files: { command: "npx", args: ["-y", "pkg@1.0.0"], alwaysAllow: ["read"] },
  },
};
const DOCS = {
  upstream: "mcp+https://docs.example/mcp?header.Authorization=Bearer%20${DOCS_TOKEN}",
  secrets: ["DOCS_TOKEN"],
};

describe("berth import", () => {
  const berth = berthInSuite({ files: ["reference_templates/echo.ts"] });
  const newHome = testFolders("import");
  let home: string;
  let folder: string;
  beforeEach(async () => {
    home = realpathSync(newHome());
    folder = join(home, "project");
    await mkdir(folder);
    await writeFile(join(folder, "mcps.json"), '{\n  "old": { "upstream": "mcp+npx://old" }\n}\n');
  });

  const run = (args: readonly string[]): Promise<Ran> =>
    berthInProcess(["import", ...args], {
      cwd: folder,
      env: { HOME: home, XDG_CONFIG_HOME: undefined, CODEX_HOME: undefined, BERTH_URL: berth.url },
    });
  const place = async (path: string, text: string | object): Promise<void> => {
    await mkdir(dirname(join(home, path)), { recursive: true });
    await writeFile(join(home, path), typeof text === "string" ? text : JSON.stringify(text));
  };
  const read = (file: string): Promise<string> => readFile(join(folder, file), "utf8");

  it("shows the change of mcps.json without secrets, and writes nothing unless a person agrees", async () => {
    await place("project/.mcp.json", FILE);
    const { stderr } = await exits(1, run([".mcp.json"]));
    assert.match(stderr, /^\+ {4}"upstream": "mcp\+https:\/\/docs\.example\/mcp\?header/m);
    assert.match(stderr, /^\+DOCS_TOKEN=…$/m);
    assert.match(stderr, /no terminal to confirm the change of mcps\.json; use --yes/);
    assert.doesNotMatch(stderr, new RegExp(TOKEN));
    assert.doesNotMatch(await read("mcps.json"), /docs/);
    await assert.rejects(read(".env"), { code: "ENOENT" });
  });

  it("writes entries to mcps.json and secrets to .env, which only its user can read", async () => {
    await place("project/.mcp.json", FILE);
    await place("project/.env", "MINE=1");
    const { stderr, stdout } = await exits(0, run([".mcp.json", "--yes"]));
    const written = JSON.parse(await read("mcps.json")) as Record<string, object>;
    assert.deepEqual(written, {
      old: { upstream: "mcp+npx://old" },
      docs: DOCS,
      files: { upstream: "mcp+npx://pkg@1.0.0" },
    });
    assert.equal(await read(".env"), `MINE=1\nDOCS_TOKEN='${TOKEN}'\n`);
    assert.match(stderr, /"files": without alwaysAllow\./);
    assert.match(stderr, /berth connect --client CLIENT/);
    assert.doesNotMatch(stderr + stdout, new RegExp(TOKEN));
    const again = await exits(1, run([".mcp.json", "--yes"]));
    assert.match(again.stderr, /there is a server "docs" already; .*--rename "docs=docs-2"/);
    await exits(1, run([".mcp.json", "--yes", "--rename", "docs=more"]));
    const more = JSON.parse(JSON.stringify(DOCS).replaceAll("DOCS", "MORE")) as object;
    const renamed = JSON.parse(await read("mcps.json")) as Record<string, object>;
    assert.deepEqual([Object.keys(renamed), renamed["more"]], [["old", "docs", "files", "more"], more]);
  });

  it("creates .env for its user alone", async () => {
    await place("project/.mcp.json", FILE);
    await exits(0, run([".mcp.json", "--yes"]));
    assert.equal((await stat(join(folder, ".env"))).mode & 0o777, 0o600);
  });

  it("finds the file of each client", async () => {
    const kinds: readonly (readonly [string, ClientFiles])[] = Object.entries(clientFiles);
    for (const [client, { userFile }] of kinds) {
      const path = userFile({ HOME: home });
      const name = `of-${client}`;
      const json = JSON.stringify({ mcpServers: { [name]: { url: "https://a.example/mcp" } } });
      const toml = `[mcp_servers.${name}]\nurl = "https://a.example/mcp"\n`;
      await place(path.slice(home.length), path.endsWith(".toml") ? toml : json);
      const { stderr } = await exits(0, run(["--from", client, "--yes"]));
      assert.match(stderr, new RegExp(`\\+  "${name}"`));
    }
    await place("project/.cursor/mcp.json", { mcpServers: { local: { command: "./run" } } });
    await exits(0, run(["--from", "cursor", "--project", "--yes"]));
    const { local } = JSON.parse(await read("mcps.json")) as Record<string, object>;
    assert.deepEqual(local, { command: join(folder, "run"), cwd: folder });
    const unknown = await run(["--from", "emacs"]);
    assert.match(unknown.stderr, /"emacs" is not a client; use one of claude-code/);
  });

  it("imports into a running Berth, secrets first", async () => {
    const disabled = { mcpServers: { remote: { ...FILE.mcpServers.docs, disabled: true } } };
    await place("project/.mcp.json", disabled);
    const { stderr } = await exits(0, run([".mcp.json", "--url", berth.url, "--yes"]));
    assert.match(stderr, /^\+ {2}"enabled": false/m);
    assert.doesNotMatch(stderr, new RegExp(TOKEN));
    const { body } = await apiOf(berth).send("GET", "/entries/remote");
    assert.match(body.files.remote, /\$\{REMOTE_TOKEN\}/);
    const { secrets } = (await apiOf(berth).send("GET", "/secrets")).body;
    assert.ok(
      secrets.some((secret: { name: string; isSet: boolean }) => secret.name === "REMOTE_TOKEN" && secret.isSet),
    );
    const again = await run([".mcp.json", "--url", berth.url, "--yes"]);
    assert.match(again.stderr, /there is a server "remote" already/);
  });

  it("says of a pasted file in mcps.json that it is to be imported", async () => {
    await place("project/mcps.json", FILE);
    const { stdout, code } = await berthInProcess(["check", folder], { env: {} });
    assert.equal(code, 1);
    assert.match(stdout, /"mcpServers" is the configuration of an MCP client; .*berth import FILE/);
    assert.doesNotMatch(stdout, /has no field/);
  });

  it("previews a text of the API, and returns no secret", async () => {
    const api = apiOf(berth);
    const text = JSON.stringify({ mcpServers: { pasted: { ...FILE.mcpServers.docs, disabled: true } } });
    const preview = await api.send("POST", "/import", { text });
    assert.equal(preview.status, 200);
    assert.deepEqual([preview.body.secrets, preview.body.servers[0].name], [["PASTED_TOKEN"], "pasted"]);
    assert.doesNotMatch(JSON.stringify(preview.body), new RegExp(TOKEN));
    const hostile = await api.send("POST", "/import", { text: '{"__proto__": {}}' });
    assert.deepEqual([hostile.status, hostile.body.error.code], [422, "import_refused"]);
    const forged = await api.send("POST", "/import", { text }, { Origin: "https://evil.example" });
    assert.equal(forged.status, 403);
    const saved = await api.send("PUT", "/import", { text, servers: ["pasted"] });
    assert.deepEqual(saved.body, { saved: [{ name: "pasted" }] });
  });

  describe("on the page of a new server", () => {
    let browser: TestBrowser;
    before(async () => {
      browser = await startBrowser();
    });
    after(() => browser.close());

    it("shows what a pasted configuration adds, and adds what is chosen", async () => {
      const page = await browser.open(`${berth.url}/servers/new`);
      const server = { ...FILE.mcpServers.docs, disabled: true };
      const text = JSON.stringify({ mcpServers: { first: server, second: server, third: { settings: {} } } });
      await page.getByLabel("Configuration").fill(text);
      await page.getByRole("button", { name: "Show what would be added" }).click();
      const review = page.locator("#import-review");
      await review.getByText("third cannot be imported: an extension of the client starts it.").waitFor();
      assert.doesNotMatch((await review.textContent())!, new RegExp(TOKEN));
      await review.getByLabel("second").uncheck();
      await review.getByRole("button", { name: "Add the chosen servers" }).click();
      await page.getByText("first was added.").waitFor();
      const { body } = await apiOf(berth).send("GET", "/entries");
      const names = new Set((body.entries as { name: string }[]).map(({ name }) => name));
      assert.deepEqual([names.has("first"), names.has("second")], [true, false]);
      assert.deepEqual(browser.problems, []);
    });
  });
});
