import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync } from "node:fs";
import { Agent, request as httpRequest } from "node:http";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { makeImage, serve, writeImageSources } from "./berth.mjs";
import { modernCall } from "./requests.mjs";
import { startServer } from "./server-process.mjs";

/**
 * Servers of others: server-everything hosted by Berth, against the official client that has it for itself and against
 * supergateway, which bridges it for the same number of clients; and what `berth cat` adds to a start of the server.
 *
 * @typedef {{ hostedMs: number, directMs: number, hostedPerSecond: number, bridgedPerSecond: number, clients: number,
 *   catMs: number, ownMs: number, idleServers: number, idleChildren: number }} UpstreamsFigures
 * Times are medians of one call, or of one command from its start to its end.
 */

const peer = (path) => fileURLToPath(new URL(`./peers/node_modules/${path}`, import.meta.url));
const everything = peer("@modelcontextprotocol/server-everything/dist/index.js");
const cli = fileURLToPath(new URL("../../dist/src/cli.js", import.meta.url));

/** The client that has the server for itself is on no core of its own either. */
const ANYWHERE = { alone: false };
const CLIENTS = 20;
const WARM_UP_CALLS = 500;
const STARTS = 7;
const IDLE_SERVERS = 50;
const message = JSON.parse(modernCall("/").body).params.arguments.message;

/**
 * @param {string} folder
 * @param {{ calls: number, seconds: number }} size
 * @param {(line: string) => void} say
 * @returns {Promise<UpstreamsFigures>}
 */
export async function measureUpstreams(folder, { calls, seconds }, say) {
  const sources = join(folder, "upstream-sources");
  const image = join(folder, "upstream-image");
  mkdirSync(sources, { recursive: true });
  const uri = `mcp+node://${everything}?command=stdio`;
  const names = Array.from({ length: IDLE_SERVERS }, (_, index) => `idle-${index}`);
  writeImageSources(sources, Object.fromEntries(["every", ...names].map((name) => [name, { upstream: uri }])));
  await makeImage(sources, image);

  say("servers of others: one client over stdio");
  const directMs = await directCalls(calls);
  const server = await startServer(serve(folder, image), ANYWHERE);
  let hostedMs, hostedPerSecond, idleChildren;
  try {
    idleChildren = childrenOf(server.pid, everything).length;
    say("servers of others: hosted");
    const send = sender(server.port, modernCall("/mcp/every"));
    for (let call = 0; call < WARM_UP_CALLS; call++) await send();
    hostedMs = await medianOf(calls, send);
    hostedPerSecond = await perSecond(CLIENTS, seconds, () => sender(server.port, modernCall("/mcp/every")));
  } finally {
    await server.stop();
  }
  say("servers of others: bridged by supergateway");
  const bridgedPerSecond = await bridged(folder, seconds);
  say("servers of others: berth cat");
  const ownMs = await medianOf(STARTS, startAndCall);
  const catMs = await medianOf(STARTS, cat);
  return {
    hostedMs,
    directMs,
    hostedPerSecond,
    bridgedPerSecond,
    clients: CLIENTS,
    catMs,
    ownMs,
    idleServers: IDLE_SERVERS,
    idleChildren,
  };
}

/** The official client that has the server for itself. @param {number} calls @returns {Promise<number>} ms */
async function directCalls(calls) {
  const { Client } = await import(peer("@modelcontextprotocol/client/dist/index.mjs"));
  const { StdioClientTransport } = await import(peer("@modelcontextprotocol/client/dist/stdio.mjs"));
  const client = new Client({ name: "bench", version: "1.0.0" });
  await client.connect(
    new StdioClientTransport({ command: process.execPath, args: [everything, "stdio"], stderr: "ignore" }),
  );
  const call = () => client.callTool({ name: "echo", arguments: { message } });
  for (let warm = 0; warm < WARM_UP_CALLS; warm++) await call();
  const ms = await medianOf(calls, call);
  await client.close();
  return ms;
}

/** @returns {Promise<number>} calls a second of all clients together */
async function bridged(folder, seconds) {
  const command = `${process.execPath} ${everything} stdio`;
  const flags = ["--outputTransport", "streamableHttp", "--stateful", "--logLevel", "none"];
  const gateway = await startServer(
    (port) => ({
      args: [peer("supergateway/dist/index.js"), "--stdio", command, "--port", String(port), ...flags],
      env: {},
      folder: mkdtempSync(join(folder, "gateway-")),
    }),
    ANYWHERE,
  );
  try {
    return await perSecond(CLIENTS, seconds, () => sessionSender(gateway.port));
  } finally {
    await gateway.stop();
  }
}

/** A sender of calls in a session of its own, as a client of 2025-11-25. @param {number} port */
async function sessionSender(port) {
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
    if (!text.includes(message)) throw new Error(`supergateway answered: ${text.slice(0, 500)}`);
  };
}

/** @param {number} port @param {import("./requests.mjs").LoadRequest} load */
function sender(port, { path, headers, body }) {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  return async () => {
    const { text } = await exchange(agent, port, path, headers, body);
    if (!text.includes(message)) throw new Error(`Berth answered: ${text.slice(0, 500)}`);
  };
}

/** @param {() => (() => Promise<void>) | Promise<() => Promise<void>>} open a client */
async function perSecond(clients, seconds, open) {
  const senders = [];
  for (let client = 0; client < clients; client++) senders.push(await open());
  await Promise.all(senders.map((send) => send()));
  let done = 0;
  const end = performance.now() + seconds * 1000;
  const loop = async (send) => {
    for (; performance.now() < end; done++) await send();
  };
  const startedAt = performance.now();
  await Promise.all(senders.map(loop));
  return (done * 1000) / (performance.now() - startedAt);
}

/** The least that a client can do: start, hello, one call. */
async function startAndCall() {
  const child = spawn(process.execPath, [everything, "stdio"], { stdio: ["pipe", "pipe", "ignore"] });
  const say = (body) => child.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", ...body })}\n`);
  const clientInfo = { name: "bench", version: "1.0.0" };
  say({ id: 0, method: "initialize", params: { protocolVersion: "2025-11-25", capabilities: {}, clientInfo } });
  for await (const line of createInterface({ input: child.stdout })) {
    const { id } = JSON.parse(line);
    if (id === 0) {
      say({ method: "notifications/initialized" });
      say({ id: 1, method: "tools/call", params: { name: "echo", arguments: { message } } });
    }
    if (id === 1) break;
  }
  child.stdin.end();
  if (child.exitCode === null) await once(child, "exit");
}

async function cat() {
  const query = `command=stdio&tool=echo&message=${encodeURIComponent(message)}`;
  const { stdout, status } = await run([cli, "cat", `mcp+node://${everything}?${query}`]);
  if (status !== 0 || !stdout.includes(message)) throw new Error(`berth cat ended with ${status}: ${stdout}`);
}

async function run(args) {
  const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "inherit"] });
  let stdout = "";
  child.stdout.setEncoding("utf8").on("data", (chunk) => (stdout += chunk));
  const [status] = await once(child, "close");
  return { stdout, status };
}

/** @param {number} times @param {() => Promise<unknown>} work @returns {Promise<number>} ms */
async function medianOf(times, work) {
  const taken = [];
  for (let time = 0; time < times; time++) {
    const startedAt = performance.now();
    await work();
    taken.push(performance.now() - startedAt);
  }
  return taken.toSorted((a, b) => a - b)[Math.floor(times / 2)];
}

/** Processes below `pid` whose command line holds `mark`. @param {number} pid @returns {number[]} */
function childrenOf(pid, mark = "") {
  const { stdout } = spawnSync("ps", ["-eo", "pid=,ppid=,args="], { encoding: "utf8" });
  const rows = stdout
    .split("\n")
    .map((row) => /^ *(\d+) +(\d+) (.*)$/.exec(row))
    .filter(Boolean);
  const below = new Set([String(pid)]);
  for (let grown = true; grown;) {
    grown = false;
    for (const [, child, parent] of rows) {
      if (!below.has(parent) || below.has(child)) continue;
      below.add(child);
      grown = true;
    }
  }
  return rows
    .filter(([, child, , args]) => below.has(child) && child !== String(pid) && args.includes(mark))
    .map(([, child]) => Number(child));
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
