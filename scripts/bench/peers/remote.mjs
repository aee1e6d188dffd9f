import { createServer } from "node:http";
import { port, serverInfo } from "./tools.mjs";

/** The fastest server that a call over HTTP can reach: one tool, which returns its message. */
const tool = { name: "echo", inputSchema: { type: "object", properties: { message: { type: "string" } } } };
const results = {
  initialize: ({ protocolVersion }) => ({ protocolVersion, capabilities: { tools: {} }, serverInfo }),
  "tools/list": () => ({ tools: [tool] }),
  "tools/call": ({ arguments: { message } }) => ({ content: [{ type: "text", text: message }] }),
  ping: () => ({}),
};
const server = createServer((request, response) => {
  if (request.method !== "POST") return response.writeHead(405).end();
  let body = "";
  request.on("data", (piece) => (body += piece));
  request.on("end", () => {
    const { id, method, params } = JSON.parse(body);
    if (id === undefined) return response.writeHead(202).end();
    const result = results[method]?.(params);
    const end = result ? { result } : { error: { code: -32601, message: "Method not found" } };
    const answer = JSON.stringify({ jsonrpc: "2.0", id, ...end });
    const headers = { "Content-Type": "application/json", "Content-Length": Buffer.byteLength(answer) };
    response.writeHead(200, headers).end(answer);
  });
});
server.keepAliveTimeout = 0;
server.listen(port, "127.0.0.1");
