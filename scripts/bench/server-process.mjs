import { spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, openSync, readFileSync } from "node:fs";
import { get } from "node:http";
import { connect, createServer } from "node:net";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { machine, pinned } from "./machine.mjs";

/**
 * One contestant's life: started alone on the server's core, found listening, ended.
 *
 * @typedef {{ args: string[], env: Record<string, string>, folder: string, readyPath?: string }} Launch
 * Arguments for `node`, extra environment, a folder for its log, and a path that answers with 200 once it serves;
 * without one, it serves when it listens.
 * @typedef {{ pid: number, port: number, listeningMs: number, stop: () => Promise<void> }} ServerProcess
 */

const START_MS_MAX = 60_000;

/**
 * @param {(port: number) => Launch} launch
 * @param {{ alone?: boolean, container?: import("./container.mjs").Container }} [options] `alone`: on the server's core, with
 *   whatever it starts
 * @returns {Promise<ServerProcess>}
 */
export async function startServer(launch, { alone = true, container } = {}) {
  const port = await freePort();
  const { args, env, folder, readyPath } = launch(port);
  const logFile = join(folder, `server-${port}.log`);
  const log = openSync(logFile, "w");
  const command = [process.execPath, ...args];
  const placed = alone ? pinned(machine.serverCore, command) : command;
  const [file, ...rest] = container ? container.inside(placed) : placed;
  const startedAt = performance.now();
  const child = spawn(file, rest, {
    env: { ...process.env, NODE_ENV: "production", ...env },
    stdio: ["ignore", log, log],
    cwd: folder,
  });
  closeSync(log);
  const ended = once(child, "exit");
  try {
    while (!(readyPath === undefined ? await accepts(port) : await isReady(port, readyPath))) {
      if (child.exitCode !== null || child.signalCode !== null || performance.now() - startedAt > START_MS_MAX) {
        throw new Error(`${args.join(" ")} did not start to listen:\n${readFileSync(logFile, "utf8").slice(-4000)}`);
      }
      await sleep(2);
    }
  } catch (error) {
    child.kill("SIGKILL");
    throw error;
  }
  const listeningMs = performance.now() - startedAt;
  const killOnExit = () => child.kill("SIGKILL");
  process.prependOnceListener("exit", killOnExit);

  const stop = async () => {
    process.removeListener("exit", killOnExit);
    child.kill("SIGTERM");
    const timer = setTimeout(() => child.kill("SIGKILL"), 5000);
    await ended;
    clearTimeout(timer);
  };
  return { pid: child.pid, port, listeningMs, stop };
}

async function freePort() {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = /** @type {import("node:net").AddressInfo} */ (server.address());
  server.close();
  await once(server, "close");
  return port;
}

/** @returns {Promise<boolean>} */
function accepts(port) {
  return new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1");
    socket.once("connect", () => resolve(true)).once("error", () => resolve(false));
    socket.once("connect", () => socket.destroy());
  });
}

/** @returns {Promise<boolean>} */
function isReady(port, path) {
  return new Promise((resolve) => {
    const outgoing = get({ host: "127.0.0.1", port, path, agent: false }, (response) => {
      response.resume().once("error", () => resolve(false));
      response.once("end", () => resolve(response.statusCode === 200));
    });
    outgoing.once("error", () => resolve(false));
  });
}
