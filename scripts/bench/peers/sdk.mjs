import { createMcpExpressApp } from "@modelcontextprotocol/express";
import { toNodeHandler } from "@modelcontextprotocol/node";
import { createMcpHandler, McpServer } from "@modelcontextprotocol/server";
import { z } from "zod";
import { port, serverInfo, toolCount, toolNames } from "./tools.mjs";

/** The official SDK as its documentation wires it into Express. Schemas are made once, in its favour. */
const tools = toolNames(toolCount).map((name) => ({
  name,
  description: `Gives back the text that it was given (${name}).`,
  inputSchema: z.object({ message: z.string().describe("What to give back") }),
}));

const handler = createMcpHandler(() => {
  const server = new McpServer(serverInfo);
  for (const { name, description, inputSchema } of tools) {
    server.registerTool(name, { description, inputSchema }, ({ message }) => ({
      content: [{ type: "text", text: message }],
    }));
  }
  return server;
});

const handle = toNodeHandler(handler);
const app = createMcpExpressApp();
app.all("/mcp", (request, response) => void handle(request, response, request.body));
app.listen(port, "127.0.0.1");
