import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { packageRoot } from "../src/config.ts";
import { setupsFor, type SetupFor } from "../src/http/pages/parts/setup.ts";
import { request, startTestBerth, post, type TestBerth } from "./berth.ts";

/** The texts that a page offers for copying, by client. */
function textsFor(setup: SetupFor): Map<string, string[]> {
  return new Map(setupsFor(setup).map(({ client, steps }) => [client, steps.map(({ text }) => text)]));
}

/** Runs a program to its end; gives what it wrote on stdout. */
function run(command: string, args: string[], cwd: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, { cwd, stdio: ["ignore", "pipe", "pipe"] });
    let [out, err] = ["", ""];
    child.stdout.setEncoding("utf8").on("data", (chunk: string) => (out += chunk));
    child.stderr.setEncoding("utf8").on("data", (chunk: string) => (err += chunk));
    child.once("error", reject);
    child.once("close", (code) => (code === 0 ? resolve(out) : reject(new Error(`${command}: ${code}: ${err}`))));
  });
}

describe("what a server's page offers for copying", () => {
  let berth: TestBerth;
  let folder: string;
  let setup: SetupFor;
  before(async () => {
    berth = await startTestBerth({ files: ["test/fixtures/servers/everyday.ts"] });
    folder = await mkdtemp(join(tmpdir(), "berth-setup-"));
    await symlink(join(packageRoot, "node_modules"), join(folder, "node_modules"));
    const url = `${berth.url}/mcp/everyday`;
    const { body } = await post(url, request("tools/list"), { "MCP-Protocol-Version": "2025-06-18" });
    setup = { name: "everyday", url, tool: body.result.tools[0] };
  });
  after(async () => {
    await berth.close();
    await rm(folder, { recursive: true });
  });

  it("C6 the curl command calls a tool", async () => {
    const [command] = textsFor(setup).get("curl")!;
    const answer = JSON.parse(await run("sh", ["-c", command!], folder)) as { result: { isError?: boolean } };
    assert.ok(answer.result);
    assert.notEqual(answer.result.isError, true);
  });

  it("C6 the program runs with the official client, lists the tools and calls one", async () => {
    const [, program] = textsFor(setup).get("TypeScript")!;
    await writeFile(join(folder, "client.mjs"), program!);
    const output = await run(process.execPath, ["client.mjs"], folder);
    assert.match(output, /'echo',/);
    assert.match(output, /content: \[ \{ type: 'text'/);
  });

  it("C6 each client's own format names this server's address", () => {
    const { url } = setup;
    const texts = textsFor(setup);
    const jsonOf = (client: string, step: number): unknown => JSON.parse(texts.get(client)![step]!);
    assert.equal(texts.get("Claude Code")![0], `claude mcp add --transport http everyday ${url}`);
    assert.deepEqual(jsonOf("Claude Code", 1), { mcpServers: { everyday: { type: "http", url } } });
    assert.deepEqual(jsonOf("Claude Desktop", 0), {
      mcpServers: { everyday: { command: "npx", args: ["-y", "mcp-remote", url] } },
    });
    assert.deepEqual(jsonOf("Cursor", 0), { mcpServers: { everyday: { url } } });
    assert.deepEqual(jsonOf("VS Code", 0), { servers: { everyday: { type: "http", url } } });
    assert.equal(texts.get("VS Code")![1], `code --add-mcp '{"name":"everyday","type":"http","url":"${url}"}'`);
    assert.equal(texts.get("Codex")![0], `codex mcp add everyday --url ${url}`);
    assert.equal(texts.get("Codex")![1], `[mcp_servers.everyday]\nurl = "${url}"`);
    assert.equal(texts.get("Gemini CLI")![0], `gemini mcp add --scope user --transport http everyday ${url}`);
    assert.deepEqual(jsonOf("Gemini CLI", 1), { mcpServers: { everyday: { url, type: "http" } } });
  });

  it("T14.2 nothing in a name or an address gets out of its word in a shell", async () => {
    const url = "http://127.0.0.1:1/mcp/a'$(touch${IFS}bad)`touch bad`;touch bad";
    const tool = { name: "x'; touch bad; '", inputSchema: { type: "object" } };
    for (const [client, texts] of textsFor({ name: "a'; touch bad; $(touch bad)", url, tool })) {
      for (const text of texts.filter((each) => /^(?:claude|code|codex|gemini|curl) /.test(each))) {
        await run("sh", ["-c", `${text.split(" ")[0]}() { :; }\n${text}`], folder);
        await assert.rejects(run("ls", ["bad"], folder), client);
      }
    }
  });

  it("the bridge of Claude Desktop is told of addresses that are neither https nor local", () => {
    const bridge = (url: string): unknown =>
      JSON.parse(textsFor({ name: "a", url, tool: undefined }).get("Claude Desktop")![0]!);
    const entry = (...args: string[]) => ({
      mcpServers: { a: { command: "npx", args: ["-y", "mcp-remote", ...args] } },
    });
    assert.deepEqual(bridge("http://berth.lan/mcp/a"), entry("http://berth.lan/mcp/a", "--allow-http"));
    assert.deepEqual(bridge("https://berth.example/mcp/a"), entry("https://berth.example/mcp/a"));
  });
});
