import assert from "node:assert/strict";
import { mkdir, readFile, symlink, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { before, describe, it } from "node:test";
import { Client } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { copiedTexts } from "../../support/clients/copied-texts.ts";
import { clientsFolder } from "../../support/clients/real-client.ts";
import { clientFile, outputOf, runAtHome, withHome } from "../../support/clients/run-client.ts";
import { berthInSuite } from "../../support/suite.ts";
import { bearer, makeToken } from "../../support/tokens.ts";

const MCPORTER = clientFile("mcporter/dist/cli.js");
const INSPECTOR = clientFile("@modelcontextprotocol/inspector/clients/launcher/build/index.js");

/**
 * The files that a server's page offers for copying, read by clients that know these formats: mcporter imports the
 * configuration of other clients. Clients that are too large for a test are covered by `npm run snippets`.
 */
for (const access of ["open", "required"]) {
  describe(`the files that a page offers for other clients, where access is ${access}`, { concurrency: 4 }, () => {
    const berth = berthInSuite({ files: ["reference_templates/echo.ts"], env: { BERTH_ACCESS: access } });
    let token: string;
    let page: string;
    before(async () => {
      ({ token } = await makeToken(berth, { can: ["call", "read"] }));
      const headers = { Accept: "text/html", ...bearer(token) };
      page = await (await fetch(`${berth.url}/mcp/meta/echo?tab=connect`, { headers })).text();
    });

    /** Puts the page's texts into the files that it names. The clients here fill none of the others' placeholders. */
    async function place(home: string, client: string): Promise<void> {
      for (const { file, text } of copiedTexts(page).get(client)!) {
        if (file === undefined) continue;
        const path = join(home, file.replace(/^~\//, ""));
        await mkdir(dirname(path), { recursive: true });
        await writeFile(path, text.replace(/<token>|\$\{(?:input:echo-token|env:BERTH_TOKEN|BERTH_TOKEN)\}/, token));
      }
    }

    async function callByMcporter(home: string): Promise<unknown> {
      const config = join(home, "mcporter.json");
      await writeFile(config, '{ "mcpServers": {} }');
      const args = ["--config", config, "call", "echo.echo", "message=hello", "--output", "json"];
      return JSON.parse(outputOf(await runAtHome([MCPORTER, ...args], home), [0]));
    }

    // mcporter does not know how Codex gets a token; `npm run snippets` tests Codex itself.
    for (const client of access === "open" ? ["codex"] : ["cursor", "vs-code"]) {
      it(`that of ${client} connects, and a tool is called (C6)`, () =>
        withHome(async (home) => {
          await place(home, client);
          assert.deepEqual(await callByMcporter(home), { result: "hello" });
        }));
    }

    if (access === "open") return;
    it("that of claude-desktop starts the bridge mcp-remote, and a tool is called through it (C6)", () =>
      withHome(async (home) => {
        await place(home, "claude-desktop");
        await symlink(join(clientsFolder, "node_modules"), join(home, "node_modules"));
        const { mcpServers } = JSON.parse(await readFile(join(home, "claude_desktop_config.json"), "utf8")) as {
          mcpServers: { echo: { command: string; args: string[]; env?: Record<string, string> } };
        };
        // Packages outside node_modules are not downloaded.
        const env = { PATH: process.env["PATH"]!, HOME: home, npm_config_offline: "true", ...mcpServers.echo.env };
        const client = new Client({ name: "desktop", version: "1.0.0" });
        await client.connect(new StdioClientTransport({ ...mcpServers.echo, env, cwd: home, stderr: "ignore" }));
        const { content } = await client.callTool({ name: "echo", arguments: { message: "hello" } });
        await client.close();
        assert.deepEqual(content, [{ type: "text", text: "hello" }]);
      }));

    it("the .mcp.json of claude-code is one that the inspector connects by (C6)", () =>
      withHome(async (home) => {
        await place(home, "claude-code");
        const args = ["--cli", "--config", join(home, ".mcp.json"), "--server", "echo", "--method", "tools/list"];
        const { tools } = JSON.parse(outputOf(await runAtHome([INSPECTOR, ...args], home), [0])) as {
          tools: { name: string }[];
        };
        assert.deepEqual(tools.map(({ name }) => name).sort(), ["dictate", "echo", "repeat"]);
      }));
  });
}
