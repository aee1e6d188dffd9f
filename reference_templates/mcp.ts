import type { ToolContext } from "berth";

/**
 * Berth about itself: which servers are hosted here, what their tools do and how to reach them, so that a model can
 * find its way from this one server to all the others.
 */

/** What the host tells about a server. */
interface HostedServer {
  name: string;
  description: string;
  /** Only a server that is `ready` can be called. */
  state: "ready" | "disabled" | "refused";
  /** Why it cannot be called, or what is wrong with a part of it. */
  problem?: string;
  /** Its address, relative to the address of this Berth. */
  url: string;
  tools: { name: string; description: string; inputSchema: Record<string, unknown> }[];
}

interface ServerSummary {
  name: string;
  description: string;
  state: HostedServer["state"];
  url: string;
  tools: string[];
  problem?: string;
}

interface FoundTool {
  server: string;
  tool: string;
  description: string;
  url: string;
}

interface Connection {
  /** The MCP endpoint, for Streamable HTTP. */
  url: string;
  /** What to put into the client's configuration, or to run. */
  snippet: string;
  /** Where the snippet belongs. */
  where: string;
}

/**
 * Lists the servers that are hosted here, each with the names of its tools. Begin here.
 *
 * @readOnly
 * @idempotent
 */
export async function list_servers(context: ToolContext): Promise<ServerSummary[]> {
  return (await readServers(context)).map(({ tools, ...server }) => ({
    ...server,
    tools: tools.map((tool) => tool.name),
  }));
}

/**
 * Describes one server: every tool with its description and the JSON Schema of its arguments.
 *
 * @param server - Its name, as `list_servers` gives it.
 * @readOnly
 * @idempotent
 */
export async function describe_server(server: string, context: ToolContext): Promise<HostedServer> {
  return findServer(server, context);
}

/**
 * Finds tools on all servers whose name, server or description has every word that is asked for.
 *
 * @param words - What the tool should do, such as `time zone`; upper and lower case do not matter.
 * @readOnly
 * @idempotent
 */
export async function find_tools(words: string, context: ToolContext): Promise<FoundTool[]> {
  const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
  const found = (await readServers(context)).flatMap((server) =>
    server.tools.map((tool) => ({
      server: server.name,
      tool: tool.name,
      description: tool.description,
      url: server.url,
      text: [server.name, server.description, tool.name, tool.description].join(" ").toLowerCase(),
    })),
  );
  return found.filter(({ text }) => wanted.every((word) => text.includes(word))).map(({ text: _, ...tool }) => tool);
}

/**
 * Says how to connect a client to one server.
 *
 * @param server - Its name, as `list_servers` gives it.
 * @param client - What connects: `json` is the `mcpServers` object that many clients read.
 * @param address - Where this Berth is reached from.
 * @readOnly
 * @idempotent
 */
export async function how_to_connect(
  server: string,
  client: "json" | "claude" | "vscode" | "inspector" | "curl" = "json",
  address = "http://127.0.0.1:7420",
  context: ToolContext,
): Promise<Connection> {
  const { name, url: path, state, problem } = await findServer(server, context);
  if (state !== "ready") throw new Error(`"${name}" is ${state}${problem ? `: ${problem}` : "."}`);
  const url = new URL(path, address).href;
  const config = { type: "http", url };
  // Some clients take letters, digits and hyphens alone.
  const label = name.replace(/[^A-Za-z0-9-]+/g, "-");
  switch (client) {
    case "json":
      return {
        url,
        snippet: pretty({ mcpServers: { [label]: config } }),
        where: "The client's MCP configuration file.",
      };
    case "vscode":
      return { url, snippet: pretty({ servers: { [label]: config } }), where: ".vscode/mcp.json in the workspace." };
    case "claude":
      return { url, snippet: `claude mcp add --transport http ${label} ${quote(url)}`, where: "A terminal." };
    case "inspector":
      return {
        url,
        snippet: `npx @modelcontextprotocol/inspector --cli ${quote(url)} --transport http --method tools/list`,
        where: "A terminal.",
      };
    case "curl":
      return {
        url,
        snippet:
          `curl ${quote(url)} -H 'Content-Type: application/json' -H 'Accept: application/json, text/event-stream' ` +
          `-d '{"jsonrpc":"2.0","id":1,"method":"tools/list"}'`,
        where: "A terminal.",
      };
  }
}

async function readServers(context: ToolContext): Promise<HostedServer[]> {
  const servers = await context.variable("berth:servers");
  if (typeof servers !== "string") throw new Error("This host does not tell what it hosts.");
  return JSON.parse(servers) as HostedServer[];
}

async function findServer(name: string, context: ToolContext): Promise<HostedServer> {
  const servers = await readServers(context);
  const server = servers.find((candidate) => candidate.name === name);
  if (server) return server;
  const names = servers.map((candidate) => candidate.name).join(", ");
  throw new Error(`There is no server "${name}". There are: ${names || "none"}.`);
}

function pretty(value: unknown): string {
  return JSON.stringify(value, null, 2);
}

/** One word for a POSIX shell, whatever it holds. */
function quote(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}
