import { spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, openSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { startHaproxy } from "../haproxy.mjs";

const READY_MS_MAX = 60_000;

/**
 * Berth as one process at one address, or as several behind haproxy, any of which may be killed and started again on the
 * same data.
 *
 * @param {(port: number) => import("../bench/server-process.mjs").Launch} launch
 * @param {{ folder: string, nodes: number }} how
 */
export async function startService(launch, { folder, nodes }) {
  const all = [];
  for (let count = 0; count < nodes; count++) all.push(await startNode(launch));
  const proxy =
    nodes === 1
      ? undefined
      : await startHaproxy(
          folder,
          all.map(({ port }) => port),
        );
  const url = proxy ? `http://127.0.0.1:${proxy.port}` : all[0].url;

  return {
    url,
    /** Leads to one process, always the same one. */
    ownUrl: all[0].url,
    /** Those of the processes themselves. */
    urls: all.map((node) => node.url),
    isOne: nodes === 1,
    get pid() {
      return all[0].child.pid;
    },
    get pids() {
      return all.map(({ child }) => child.pid);
    },
    /** @param {() => void} [meanwhile] done while it is not running */
    async killAndRestart(meanwhile = () => {}) {
      const node = all[Math.floor(Math.random() * nodes)];
      const ended = once(node.child, "exit");
      node.child.kill("SIGKILL");
      await ended;
      meanwhile();
      await node.start();
    },
    async stop() {
      for (const { child } of all) {
        const ended = once(child, "exit");
        child.kill("SIGTERM");
        const [code, signal] = await ended;
        if (code !== 0) throw new Error(`Berth ended with ${code ?? signal}`);
      }
      await proxy?.stop();
    },
  };
}

async function startNode(launch) {
  const port = await freePort();
  const { args, env, folder } = launch(port);
  const node = {
    port,
    url: `http://127.0.0.1:${port}`,
    child: undefined,
    async start() {
      const log = openSync(join(folder, "service.log"), "a");
      const given = { ...process.env, BERTH_LOG: "warn", BERTH_GUEST_PROCESSES: "16", ...env };
      node.child = spawn(process.execPath, args, { env: given, stdio: ["ignore", log, log], cwd: folder });
      closeSync(log);
      const end = performance.now() + READY_MS_MAX;
      while (!(await isReady(node.url))) {
        if (node.child.exitCode !== null || performance.now() > end) throw new Error("Berth did not get ready");
        await sleep(50);
      }
    },
  };
  await node.start();
  process.prependListener("exit", () => node.child.kill("SIGKILL"));
  return node;
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
