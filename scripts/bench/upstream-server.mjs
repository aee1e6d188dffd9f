import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

/** The measured upstream: server-everything over stdio. */

/** @param {string} path within the packages of the peers @returns {string} */
export const peer = (path) => fileURLToPath(new URL(`./peers/node_modules/${path}`, import.meta.url));

export const everything = peer("@modelcontextprotocol/server-everything/dist/index.js");

/** Its program and arguments. */
export const everythingCommand = [process.execPath, everything, "stdio"];

/** The least that a client can do with it: start, hello, one call, end. @param {string} message */
export async function startAndCall(message) {
  const [file, ...args] = everythingCommand;
  const child = spawn(file, args, { stdio: ["pipe", "pipe", "ignore"] });
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
