import assert from "node:assert/strict";
import { after, describe, test } from "node:test";
import { openTemplate } from "../support/reference.ts";
import { rows } from "../support/rows.ts";

const inputSchema = { type: "object", properties: { message: { type: "string" } }, required: ["message"] };
const servers = [
  {
    name: "echo",
    description: "Says it back",
    state: "ready",
    url: "/mcp/echo",
    tools: [{ name: "echo", description: "Says back what it is told.", inputSchema }],
  },
  { name: "it's", description: "", state: "ready", url: "/mcp/it's", tools: [] },
  { name: "worn", description: "Old", state: "refused", problem: "no definition", url: "/mcp/worn", tools: [] },
  {
    name: "zones",
    description: "Time",
    state: "ready",
    url: "/mcp/zones",
    tools: [{ name: "convert", description: "Between zones", inputSchema }],
  },
];

await describe("the server mcp", async () => {
  let value: string | null = JSON.stringify(servers);
  const template = await openTemplate({ after: (end) => after(end as () => void) }, "mcp.ts", {
    async request(op, { name }) {
      assert.deepEqual([op, name], ["variable", "berth:servers"]);
      return value;
    },
  });
  const mcp: typeof template.call = (...args) => template.call(...args);

  await test("lists what is hosted, with the reason for what is not", async () => {
    const list = (await mcp("list_servers")) as { name: string }[];
    assert.deepEqual(rows(list, "name"), ["echo", "it's", "worn", "zones"]);
    assert.deepEqual(list[0], { ...servers[0], tools: ["echo"] });
    assert.deepEqual(list[2], servers[2]);
  });

  await test("describes one server with the schemas of its tools", async () => {
    assert.deepEqual(await mcp("describe_server", "echo"), servers[0]);
    await assert.rejects(mcp("describe_server", "ecko"), {
      message: 'There is no server "ecko". There are: echo, it\'s, worn, zones.',
    });
  });

  await test("finds tools by every word asked for", async () => {
    const found = [{ server: "zones", tool: "convert", description: "Between zones", url: "/mcp/zones" }];
    assert.deepEqual(await mcp("find_tools", "TIME  convert"), found);
    assert.deepEqual(await mcp("find_tools", "time echo"), []);
    assert.equal(((await mcp("find_tools", "")) as unknown[]).length, 2);
  });

  await test("says how to connect, in words that a shell and a JSON reader take", async () => {
    const connect = async (...args: unknown[]) =>
      (await mcp("how_to_connect", ...args)) as { url: string; snippet: string; where: string };

    const json = await connect("echo", "json", undefined);
    assert.equal(json.url, "http://127.0.0.1:7420/mcp/echo");
    assert.deepEqual(JSON.parse(json.snippet), { mcpServers: { echo: { type: "http", url: json.url } } });
    const vscode = await connect("echo", "vscode", "https://berth.example");
    assert.deepEqual(JSON.parse(vscode.snippet), {
      servers: { echo: { type: "http", url: "https://berth.example/mcp/echo" } },
    });

    const claude = await connect("it's", "claude", undefined);
    assert.equal(claude.snippet, `claude mcp add --transport http it-s 'http://127.0.0.1:7420/mcp/it'\\''s'`);
    for (const client of ["inspector", "curl"])
      assert.match((await connect("echo", client, undefined)).snippet, /127\.0\.0\.1:7420\/mcp\/echo/);
    await assert.rejects(connect("worn", "json", undefined), { message: '"worn" is refused: no definition' });
  });

  await test("says so where the host does not tell", async () => {
    value = null;
    await assert.rejects(mcp("list_servers"), { message: /does not tell/ });
  });
});
