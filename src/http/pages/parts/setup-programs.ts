import type { ToolContract } from "../../../contract/contract.ts";
import type { ClientAccess } from "./credentials.ts";
import { sampleArguments } from "./sample.ts";
import { shellWord } from "./text.ts";

type Tool = Pick<ToolContract, "name" | "inputSchema"> | undefined;

/** A command that calls the tool, or lists tools where there is none. */
export function curl(url: string, tool: Tool, access: ClientAccess): string {
  const request = tool
    ? { method: "tools/call", params: { name: tool.name, arguments: sampleArguments(tool.inputSchema) } }
    : { method: "tools/list" };
  return [
    `curl -s ${shellWord(url)} \\`,
    "  -H 'Content-Type: application/json' -H 'Accept: application/json' \\",
    ...(access === "open" ? [] : ['  -H "Authorization: Bearer $BERTH_TOKEN" \\']),
    `  -d ${shellWord(JSON.stringify({ jsonrpc: "2.0", id: 1, ...request }))}`,
  ].join("\n");
}

/** A module for Node.js that connects, lists the tools and calls one. */
export function program(url: string, tool: Tool, access: ClientAccess): string {
  const address = `new URL(${JSON.stringify(url)})`;
  const options = access === "open" ? "" : ", { authProvider }";
  const lines = [
    'import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";',
    "",
    'const client = new Client({ name: "my-client", version: "1.0.0" }, { versionNegotiation: { mode: "auto" } });',
    ...(access === "open" ? [] : ["const authProvider = { token: async () => process.env.BERTH_TOKEN };"]),
    `await client.connect(new StreamableHTTPClientTransport(${address}${options}));`,
    "console.log((await client.listTools()).tools.map((tool) => tool.name));",
  ];
  if (tool) {
    const call = { name: tool.name, arguments: sampleArguments(tool.inputSchema) };
    lines.push(`console.log(await client.callTool(${JSON.stringify(call)}));`);
  }
  return [...lines, "await client.close();"].join("\n");
}
