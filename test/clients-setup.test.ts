import assert from "node:assert/strict";
import { mkdir, symlink, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { after, before, describe, it } from "node:test";
import { setupsFor } from "../src/http/pages/parts/setup.ts";
import { startTestBerth, type TestBerth } from "./berth.ts";
import { clientsFolder } from "./clients/real-client.ts";
import { clientFile, outputOf, startOnNode24, withHome } from "./clients/run-client.ts";

const MCPORTER = clientFile("mcporter/dist/cli.js");
const INSPECTOR = clientFile("@modelcontextprotocol/inspector/clients/launcher/build/index.js");

/**
 * The files that a server's page offers for copying, read by clients that know these formats: mcporter takes over what
 * is configured for other clients. docs/clients.md says which clients were tried by hand, being too large for a test.
 */
describe("the files that a page offers for other clients", { concurrency: 4 }, () => {
  let berth: TestBerth;
  before(async () => {
    berth = await startTestBerth({ files: ["reference_templates/echo.ts"] });
  });
  after(() => berth.close());

  /** Puts what the page offers into the files that it names, with the client's id as the name of the server. */
  async function place(home: string, client: string): Promise<void> {
    const setup = setupsFor({ name: client, url: `${berth.url}/mcp/echo`, tool: undefined });
    for (const { file, text } of setup.find(({ id }) => id === client)!.steps) {
      if (file === undefined) continue;
      const path = join(home, file.replace(/^~\//, ""));
      await mkdir(dirname(path), { recursive: true });
      await writeFile(path, text);
    }
  }

  /** `config` is mcporter's own, which it reads beside those of other clients in the same home. */
  async function callByMcporter(home: string, client: string, config: string): Promise<unknown> {
    const args = ["--config", join(home, config), "call", `${client}.echo`, "message=hello", "--output", "json"];
    // What is not in node_modules is not looked for elsewhere.
    const { ended } = startOnNode24([MCPORTER, ...args], home, { npm_config_offline: "true" });
    return JSON.parse(outputOf(await ended, [0]));
  }

  for (const client of ["cursor", "vs-code", "codex"]) {
    it(`C6 that of ${client} connects, and a tool is called`, () =>
      withHome(async (home) => {
        await place(home, client);
        await writeFile(join(home, "mcporter.json"), '{ "mcpServers": {} }');
        assert.deepEqual(await callByMcporter(home, client, "mcporter.json"), { result: "hello" });
      }));
  }

  it("C6 that of claude-desktop starts the bridge mcp-remote, and a tool is called through it", () =>
    withHome(async (home) => {
      await place(home, "claude-desktop");
      await symlink(join(clientsFolder, "node_modules"), join(home, "node_modules"));
      const called = await callByMcporter(home, "claude-desktop", "claude_desktop_config.json");
      assert.deepEqual(called, { result: "hello" });
    }));

  it("C6 the .mcp.json of claude-code is one that the inspector connects by", () =>
    withHome(async (home) => {
      await place(home, "claude-code");
      const args = ["--cli", "--config", join(home, ".mcp.json"), "--server", "claude-code", "--method", "tools/list"];
      const { tools } = JSON.parse(outputOf(await startOnNode24([INSPECTOR, ...args], home).ended, [0])) as {
        tools: { name: string }[];
      };
      assert.equal(tools[0]?.name, "echo");
    }));
});
