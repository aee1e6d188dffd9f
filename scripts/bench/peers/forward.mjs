import { Agent, createServer, request as send } from "node:http";
import { port } from "./tools.mjs";

/** The floor of a host in front of a remote server: `node:http` on both sides. No protocol, no checks. */
const agent = new Agent({ keepAlive: true });
const headers = { "Content-Type": "application/json", Accept: "application/json, text/event-stream" };
const server = createServer((request, response) => {
  request.on("data", (body) => {
    const { id, method, params } = JSON.parse(body.toString());
    const message = JSON.stringify({ jsonrpc: "2.0", id, method, params });
    const sent = send(process.env.BENCH_FORWARDED, { method: "POST", agent, headers }, (from) => {
      let text = "";
      from.on("data", (piece) => (text += piece));
      from.on("end", () => {
        const answer = JSON.stringify(JSON.parse(text));
        response.writeHead(200, { "Content-Type": "application/json", "Content-Length": Buffer.byteLength(answer) });
        response.end(answer);
      });
    });
    sent.end(message);
  });
});
server.keepAliveTimeout = 0;
server.listen(port, "127.0.0.1");
