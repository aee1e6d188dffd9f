import { FastMCP } from "fastmcp";
import { z } from "zod";
import { port, serverInfo, toolCount, toolNames } from "./tools.mjs";

/** fastmcp without sessions and with plain JSON answers, its fastest way that still needs no handshake. */
const server = new FastMCP(serverInfo);
for (const name of toolNames(toolCount)) {
  server.addTool({
    name,
    description: `Gives back the text that it was given (${name}).`,
    parameters: z.object({ message: z.string().describe("What to give back") }),
    execute: async ({ message }) => message,
  });
}
await server.start({
  transportType: "httpStream",
  httpStream: { host: "127.0.0.1", port, endpoint: "/mcp", stateless: true, enableJsonResponse: true },
});
