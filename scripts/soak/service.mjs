import { spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, openSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

const READY_MS_MAX = 60_000;

/**
 * Berth as one process at one address, which may be killed and started again on the same data.
 *
 * @param {(port: number) => import("../bench/server-process.mjs").Launch} launch
 */
export async function startService(launch) {
  const port = await freePort();
  const { args, env, folder } = launch(port);
  const url = `http://127.0.0.1:${port}`;
  let child;

  const start = async () => {
    const log = openSync(join(folder, "service.log"), "a");
    const given = { ...process.env, BERTH_LOG: "warn", BERTH_GUEST_PROCESSES: "16", ...env };
    child = spawn(process.execPath, args, { env: given, stdio: ["ignore", log, log], cwd: folder });
    closeSync(log);
    const end = performance.now() + READY_MS_MAX;
    while (!(await isReady(url))) {
      if (child.exitCode !== null || performance.now() > end) throw new Error("Berth did not get ready");
      await sleep(50);
    }
  };
  await start();
  process.prependListener("exit", () => child.kill("SIGKILL"));

  return {
    url,
    get pid() {
      return child.pid;
    },
    async killAndRestart() {
      const ended = once(child, "exit");
      child.kill("SIGKILL");
      await ended;
      await start();
    },
    async stop() {
      const ended = once(child, "exit");
      child.kill("SIGTERM");
      const [code, signal] = await ended;
      if (code !== 0) throw new Error(`Berth ended with ${code ?? signal}`);
    },
  };
}

async function isReady(url) {
  try {
    return (await fetch(`${url}/readyz`)).ok;
  } catch {
    return false;
  }
}

async function freePort() {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address();
  server.close();
  await once(server, "close");
  return port;
}
