import { spawn } from "node:child_process";
import { createServer } from "node:http";
import { createInterface } from "node:readline";
import { port, serverInfo } from "./tools.mjs";

/** The floor of a bridge to a server over stdio: `node:http` in front, lines behind. No protocol, no checks. */
const [file, ...args] = JSON.parse(process.env.BENCH_BRIDGED);
const child = spawn(file, args, { stdio: ["pipe", "pipe", "ignore"] });
const say = (message) => child.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
const waiting = new Map();
createInterface({ input: child.stdout }).on("line", (line) => {
  const { id, result } = JSON.parse(line);
  waiting.get(id)?.(result);
  waiting.delete(id);
});
let lastId = 0;
const ask = (method, params) =>
  new Promise((resolve) => {
    waiting.set(++lastId, resolve);
    say({ id: lastId, method, params });
  });

await ask("initialize", { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: serverInfo });
say({ method: "notifications/initialized" });
const server = createServer((request, response) => {
  request.on("data", (body) => void pass(JSON.parse(body.toString()), response));
});
// The bench comes back to a connection after all others have had their turns.
server.keepAliveTimeout = 0;
server.listen(port, "127.0.0.1");

async function pass({ id, method, params }, response) {
  const result = await ask(method, { name: params.name, arguments: params.arguments });
  const answer = JSON.stringify({ jsonrpc: "2.0", id, result });
  response.writeHead(200, { "Content-Type": "application/json", "Content-Length": Buffer.byteLength(answer) });
  response.end(answer);
}
