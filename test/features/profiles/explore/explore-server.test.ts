import assert from "node:assert/strict";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { Client } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { readConfig } from "../../../../src/config.ts";
import { call, post, request, withStatus } from "../../../support/berth.ts";
import { berth, cliFor } from "../../../support/commands.ts";
import { isAlive, processesWith } from "../../../support/processes.ts";
import { rows } from "../../../support/rows.ts";
import { berthFor, temporaryFolder } from "../../../support/suite.ts";
import { until } from "../../../support/until.ts";
import { everything, hostile } from "../../../support/upstreams.ts";

// oxlint-disable-next-line typescript/no-explicit-any -- tests look into results freely
type Loose = any;

test("berth stdio --explore leads a model from explore to a saved profile, with the official client (J8)", async (t) => {
  const { client, home } = await exploring(t);

  await t.test("reports each mistake as the tool's failure, and saves nothing then", async () => {
    const failing = async (name: string, args: Record<string, unknown>, message: RegExp): Promise<void> => {
      const result = (await client.callTool({ name, arguments: args })) as Loose;
      assert.equal(result.isError, true, name);
      assert.match(result.content[0].text, message);
    };
    await failing("explore", {}, /needs the property "uri"/);
    await failing("explore", { uri: "mcp+pip://x" }, /no launcher "pip"/);
    await failing("explore", { uri: `${everything}&tool=echo` }, /only says how to reach the server/);
    await failing("explore", { uri: "@nobody" }, /"@nobody"/);
    await failing("explore", { uri: hostile("dies at start") }, /exit code 7[^]*The end of its stderr:/);
    await failing("call", { uri: everything, tool: "none" }, /no tool "none"; it has echo/);
    const profile = { uri: everything, tools: { echo: { examples: [{ input: { wrong: 1 } }] } } };
    await failing("save_profile", { name: "../x", profile }, /pattern/);
    await failing("save_profile", { name: "x", profile }, /nothing was saved, examples failed: echo\?wrong=1: /);
    await failing("save_profile", { name: "x", profile: { uri: everything, tools: { none: {} } } }, /no tool "none"/);
    await failing("save_profile", { name: "x", profile: { uri: "@x" } }, /names another profile/);
    await assert.rejects(readdir(home), { code: "ENOENT" });
  });

  await t.test("has a prompt that guides through explore, design and save", async () => {
    const { prompts } = await client.listPrompts();
    assert.deepEqual(rows(prompts, "name"), ["design_profile"]);
    assert.deepEqual(rows(prompts[0]!.arguments!, "name"), ["uri", "name", "purpose"]);
    const { messages } = (await client.getPrompt({
      name: "design_profile",
      arguments: { uri: everything, name: "sums", purpose: "adding numbers" },
    })) as Loose;
    const [{ role, content }] = messages;
    assert.equal(role, "user");
    const parts = [everything, "adding numbers", "explore", "draft_profile", "save_profile", '"@sums/tool', "notes"];
    for (const part of parts) assert.ok(content.text.includes(part), part);
    await assert.rejects(client.getPrompt({ name: "design_profile", arguments: {} }), /uri/);
  });

  await t.test("explores and calls a server, and saves, lists and uses a profile", async () => {
    const { tools } = await client.listTools();
    assert.deepEqual(rows(tools, "name"), ["explore", "call", "draft_profile", "save_profile", "list_profiles"]);
    const hints = tools.map(({ annotations: { readOnlyHint, destructiveHint, openWorldHint } = {} }) =>
      [readOnlyHint, destructiveHint, openWorldHint].map(Number).join(""),
    );
    assert.deepEqual(hints, ["001", "011", "001", "011", "100"]);

    const explored = await use(client, "explore", { uri: everything });
    assert.equal(explored.tools.length, 13);
    assert.equal(explored.serverInfo.name, "mcp-servers/everything");
    assert.equal(explored.resources.length, 7);
    assert.equal(explored.prompts.length, 4);

    const callTool = (uri: string, tool: string, args: object): Promise<Loose> =>
      client.callTool({ name: "call", arguments: { uri, tool, arguments: args } });
    const sum = await callTool(everything, "get-sum", { a: 1, b: 2 });
    assert.deepEqual(sum.content, [{ type: "text", text: "The sum of 1 and 2 is 3." }]);
    const weather = await callTool(everything, "get-structured-content", { location: "New York" });
    assert.equal(typeof weather.structuredContent.temperature, "number");
    assert.equal((await callTool(everything, "get-sum", {})).isError, true);

    const draft = await use(client, "draft_profile", { uri: everything, tools: ["get-sum", "echo"] });
    assert.deepEqual(Object.keys(draft.tools).sort(), ["echo", "get-sum"]);
    assert.deepEqual(draft.tools["get-sum"].examples, [{ input: { a: 1, b: 2 } }], "only what worked is an example");

    Object.assign(draft.tools["get-sum"], { output_format: "text/plain", notes: "Says the sum in a sentence." });
    const saved = await use(client, "save_profile", { name: "sums", profile: draft });
    assert.deepEqual([saved.profile, saved.tested], ["@sums", ["get-sum?a=1&b=2"]]);
    const files = ["_contract.json", "_meta.json", "echo.json", "get-sum.json"];
    assert.deepEqual((await readdir(saved.folder)).sort(), files);
    const written = JSON.parse(await readFile(join(saved.folder, "get-sum.json"), "utf8"));
    assert.deepEqual([written.output_format, written.notes], ["text/plain", "Says the sum in a sentence."]);

    const { profiles } = await use(client, "list_profiles", {});
    assert.deepEqual(rows(profiles, "name", "origin", "tools"), ["@sums user echo,get-sum"]);
    const through = await callTool("@sums", "echo", { message: "hi" });
    assert.deepEqual(through.content, [{ type: "text", text: "Echo: hi" }]);

    const used = await berth(["cat", "@sums/get-sum?a=20&b=22"], { env: { XDG_DATA_HOME: home } });
    assert.deepEqual([used.stderr, used.records[0].text], ["", "The sum of 20 and 22 is 42."]);
    assert.equal((await berth(["profile", "validate", "@sums"], { env: { XDG_DATA_HOME: home } })).code, 0);
  });

  await t.test("sees a server as commands do, so that a saved profile does not drift (J5)", async () => {
    const { schema_hash: hash, contract_cid: cid } = await use(client, "explore", { uri: everything });
    const [told] = (await berth(["mcp", "hash", everything])).records;
    assert.deepEqual([told.schema_hash, told.contract_cid], [hash, cid]);
  });
});

test("explored servers stay connected between calls, make room for others, and end with the connection (J8)", async (t) => {
  const mark = `explored-${process.pid}-${Date.now()}`;
  const { client, close } = await exploring(t, { BERTH_EXPLORED_SERVERS: "2" });
  const uris = ["a", "b", "c"].map((letter) => `${everything}&env.MARK=${mark}-${letter}`);
  for (const uri of uris) await use(client, "explore", { uri });
  const running = (letter: string): number => processesWith(`${mark}-${letter}`).length;
  assert.deepEqual(["a", "b", "c"].map(running), [0, 1, 1], "the one that was used longest ago made room");
  const [before] = processesWith(`${mark}-c`);
  await use(client, "call", { uri: uris[2], tool: "echo", arguments: { message: "hi" } });
  assert.deepEqual(processesWith(`${mark}-c`), [before]);
  await close();
  // The client kills what takes longer than a few seconds to end, and its servers end after it then.
  await until(() => processesWith(mark).length === 0);
});

test("over HTTP explore is off unless BERTH_EXPLORE says so, and then it is a server like any other (J8)", async (t) => {
  const off = await berthFor(t, { files: [] });
  assert.equal((await fetch(`${off.url}/mcp/explore`, { headers: { accept: "text/html" } })).status, 404);

  const on = await berthFor(t, { files: ["reference_templates/echo.ts"], env: { BERTH_EXPLORE: "on" } });
  const meta = await withStatus(200, fetch(`${on.url}/mcp/meta/explore`, { headers: { accept: "text/html" } }));
  const page = await meta.text();
  assert.match(page, /draft_profile/);
  assert.doesNotMatch(page, /tab=(?:code|settings)/, "nobody can edit it");
  const links = new Set(Array.from(page.matchAll(/href="(\/[^"#]+)"/g), ([, href]) => href!));
  for (const href of links) {
    assert.equal((await fetch(`${on.url}${href}`, { headers: { accept: "text/html" } })).status, 200, href);
  }
  assert.match(await (await fetch(`${on.url}/mcp`, { headers: { accept: "text/html" } })).text(), /explore/);
  const { body } = await post(`${on.url}/mcp/explore`, request("tools/list"));
  assert.equal(body.result.tools.length, 5);
  const all = (await post(`${on.url}/mcp`, request("tools/list"))).body.result.tools;
  const names = rows(all, "name");
  assert.ok(names.includes("explore.call") && names.some((name) => name.startsWith("echo.")), names.join());
  const listed = await call(`${on.url}/mcp`, "explore.list_profiles");
  assert.ok(Array.isArray(JSON.parse(listed.content[0].text).profiles));
});

test("explore is refused where others than this machine could call it (J8)", () => {
  const on = { BERTH_EXPLORE: "on" };
  assert.equal(readConfig({}).explore, false);
  assert.equal(readConfig(on).explore, true);
  assert.throws(() => readConfig({ ...on, BERTH_HOST: "0.0.0.0" }), /BERTH_EXPLORE=on lets callers start programs/);
  assert.throws(() => readConfig({ ...on, BERTH_ALLOWED_HOSTS: "berth.example" }), /combined with BERTH_ALLOWED_HOSTS/);
  assert.throws(() => readConfig({ ...on, BERTH_IMAGE: "readonly" }), /a read-only boot does not/);
  assert.throws(() => readConfig({ BERTH_EXPLORE: "yes" }), /BERTH_EXPLORE must be one of off, on/);
});

interface Exploring {
  readonly client: Client;
  /** The folder of saved profiles. */
  readonly home: string;
  readonly close: () => Promise<void>;
}

async function exploring(t: TestContext, env: Record<string, string> = {}): Promise<Exploring> {
  const root = temporaryFolder(t);
  const home = join(root, "home");
  const transport = new StdioClientTransport({
    command: process.execPath,
    args: [cliFor("stdio", env), "stdio", "--explore", "--data", join(root, "data")],
    env: { ...(process.env as Record<string, string>), XDG_DATA_HOME: home, ...env },
    stderr: "ignore",
  });
  const client = new Client({ name: "test", version: "1" }, {});
  await client.connect(transport);
  const { pid } = transport;
  const close = async (): Promise<void> => {
    await client.close();
    if (pid !== null) await until(() => !isAlive(pid));
  };
  t.after(close);
  return { client, home, close };
}

/** The structured result of a successful call. */
async function use(client: Client, name: string, args: Record<string, unknown>): Promise<Loose> {
  const result = (await client.callTool({ name, arguments: args })) as Loose;
  assert.notEqual(result.isError, true, JSON.stringify(result.content));
  return result.structuredContent ?? result;
}
