import { Agent, request as httpRequest } from "node:http";
import { connect } from "node:net";
import { exactCpuMicros } from "./proc.mjs";
import { peer } from "./upstream-server.mjs";

/**
 * Callers of one tool, each a connection of its own and one call at a time. Each call ends with an error unless the
 * answer holds `expected`.
 *
 * @typedef {import("./requests.mjs").LoadRequest} LoadRequest
 * @typedef {() => Promise<void>} Call
 */

/**
 * The official client that has the server for itself.
 *
 * @param {readonly string[]} server its program and arguments
 * @param {string} message
 */
export async function directCaller([command, ...args], message) {
  const { Client } = await import(peer("@modelcontextprotocol/client/dist/index.mjs"));
  const { StdioClientTransport } = await import(peer("@modelcontextprotocol/client/dist/stdio.mjs"));
  const client = new Client({ name: "bench", version: "1.0.0" });
  const transport = new StdioClientTransport({ command, args, stderr: "ignore" });
  await client.connect(transport);
  return {
    /** @type {Call} */
    call: async () => {
      const { content } = await client.callTool({ name: "echo", arguments: { message } });
      if (!content[0].text.includes(message)) throw new Error(`the server answered: ${JSON.stringify(content)}`);
    },
    /** The time of the client, which is this process, and of the server. */
    cpuMicros: () => exactCpuMicros(process.pid) + exactCpuMicros(transport.pid),
    close: () => client.close(),
  };
}

/**
 * A caller that costs next to nothing: a ready-made request on a persistent connection, and the answer read to its end.
 * Node's own HTTP client takes longer than everything that is measured.
 *
 * @param {number} port
 * @param {LoadRequest} load
 * @param {string} expected
 */
export function rawCaller(port, { path, headers, body }, expected) {
  const lines = Object.entries({ Host: `127.0.0.1:${port}`, ...headers, "Content-Length": Buffer.byteLength(body) });
  const request = `POST ${path} HTTP/1.1\r\n${lines.map(([name, value]) => `${name}: ${value}\r\n`).join("")}\r\n${body}`;
  const socket = connect(port, "127.0.0.1").setNoDelay(true).setEncoding("latin1");
  let text = "";
  let settle = { resolve: () => {}, reject: (_error) => {} };
  socket.on("error", (error) => settle.reject(error));
  socket.on("close", () => settle.reject(new Error(`the connection was closed after: ${text.slice(0, 500)}`)));
  socket.on("data", (chunk) => {
    text += chunk;
    const head = text.indexOf("\r\n\r\n");
    if (head === -1) return;
    const length = /\r\ncontent-length: (\d+)/i.exec(text.slice(0, head));
    if (!length) return settle.reject(new Error(`an answer without a length: ${text.slice(0, 500)}`));
    if (text.length < head + 4 + Number(length[1])) return;
    const answer = text;
    text = "";
    if (answer.startsWith("HTTP/1.1 200 ") && answer.includes(expected)) settle.resolve();
    else settle.reject(new Error(`the answer is not the right one: ${answer.slice(0, 500)}`));
  });
  return {
    /** @type {Call} */
    call: () =>
      new Promise((resolve, reject) => {
        settle = { resolve, reject };
        if (socket.destroyed) reject(new Error("the connection was closed before the call"));
        else socket.write(request);
      }),
    close: () => void socket.destroy(),
  };
}

/** @param {number} port @param {LoadRequest} load @param {string} expected @returns {Call} */
export function httpCaller(port, { path, headers, body }, expected) {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  return async () => {
    const { text } = await exchange(agent, port, path, headers, body);
    if (!text.includes(expected)) throw new Error(`the answer is not the right one: ${text.slice(0, 500)}`);
  };
}

/** Calls in a session of its own, as a client of 2025-11-25. @param {number} port @param {string} message @returns {Promise<Call>} */
export async function sessionCaller(port, message) {
  const version = "2025-11-25";
  const common = { "Content-Type": "application/json", Accept: "application/json, text/event-stream" };
  const clientInfo = { name: "bench", version: "1.0.0" };
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  const post = (body, headers) => exchange(agent, port, "/mcp", { ...common, ...headers }, JSON.stringify(body));
  const params = { protocolVersion: version, capabilities: {}, clientInfo };
  const initialized = await post({ jsonrpc: "2.0", id: 0, method: "initialize", params }, {});
  const session = { "Mcp-Session-Id": initialized.session, "MCP-Protocol-Version": version };
  await post({ jsonrpc: "2.0", method: "notifications/initialized" }, session);
  let id = 0;
  return async () => {
    const call = { jsonrpc: "2.0", id: ++id, method: "tools/call", params: { name: "echo", arguments: { message } } };
    const { text } = await post(call, session);
    if (!text.includes(message)) throw new Error(`the answer is not the right one: ${text.slice(0, 500)}`);
  };
}

/** @returns {Promise<{ text: string, session: string | undefined }>} */
function exchange(agent, port, path, headers, body) {
  return new Promise((resolve, reject) => {
    const outgoing = httpRequest({ agent, host: "127.0.0.1", port, path, headers, method: "POST" }, (response) => {
      let text = "";
      response.setEncoding("utf8").on("data", (chunk) => (text += chunk));
      response.on("end", () => resolve({ text, session: response.headers["mcp-session-id"] })).on("error", reject);
    });
    outgoing.on("error", reject).end(body);
  });
}
