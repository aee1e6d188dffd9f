import { mkdirSync, mkdtempSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { makeImage, serve, writeImageSources } from "./berth.mjs";
import { descendants, exactCpuMicros } from "./proc.mjs";
import { modernCall } from "./requests.mjs";
import { median, percentile } from "./rounds.mjs";
import { startServer } from "./server-process.mjs";
import { rawCaller } from "./upstream-callers.mjs";
import { everything, everythingCommand } from "./upstream-server.mjs";

/**
 * The costs of hosting: server-everything behind Berth, and behind a bridge of a few lines that checks nothing, which is
 * the floor of everything that is reached over HTTP and speaks stdio behind. With one caller, and with twenty, in turns of
 * which each begins with the other. The time of the server itself is left out of the CPU time.
 *
 * @typedef {{ p50Ms: number, p99Ms: number, cpuMicros: number }} CallFigures of one call: medians of all turns
 * @typedef {{ callers: number, hosted: CallFigures, bare: CallFigures, p50: number, p99: number, cpu: number }} BridgeCase
 * The last three are medians of the ratios of neighbouring turns, so that what else the machine does weighs on both.
 * @typedef {{ cases: BridgeCase[] }} BridgeFigures
 */

/** Neither is pinned to a core: both have a server of their own, which works at the same time. */
const ANYWHERE = { alone: false };
const CALLERS = [1, 20];
const request = modernCall("/mcp/every");
const message = JSON.parse(request.body).params.arguments.message;

/**
 * @param {string} folder
 * @param {{ turns: number, calls: number, warmUpCalls: number }} size calls of all callers together, `calls` in each turn
 * @param {(line: string) => void} say
 * @param {string} [profiles] folder for a CPU profile of Berth
 * @returns {Promise<BridgeFigures>}
 */
export async function measureBridge(folder, size, say, profiles) {
  const sources = join(folder, "bridge-sources");
  const image = join(folder, "bridge-image");
  mkdirSync(sources, { recursive: true });
  writeImageSources(sources, { every: { upstream: `mcp+node://${everything}?command=stdio` } });
  await makeImage(sources, image);
  const nodeFlags = profiles === undefined ? [] : ["--cpu-prof", `--cpu-prof-dir=${profiles}`];
  const hosted = await startServer(serve(folder, image, { nodeFlags }), ANYWHERE);
  const closing = [hosted.stop];
  try {
    const bare = await startServer(
      (port) => ({
        args: [fileURLToPath(new URL("peers/bridge.mjs", import.meta.url)), String(port)],
        env: { BENCH_BRIDGED: JSON.stringify(everythingCommand) },
        folder: mkdtempSync(join(folder, "bare-")),
      }),
      ANYWHERE,
    );
    closing.push(bare.stop);
    const cases = [];
    for (const callers of CALLERS) {
      say(`bridge: ${callers} ${callers === 1 ? "caller" : "callers"}`);
      cases.push(await measureCallers([hosted, bare], callers, size));
    }
    return { cases };
  } finally {
    for (const close of closing.toReversed()) await close();
  }
}

/** @param {import("./server-process.mjs").ServerProcess[]} servers @returns {Promise<BridgeCase>} */
async function measureCallers(servers, callers, { turns, calls, warmUpCalls }) {
  const clients = [];
  try {
    // A connection is closed on which no request comes for a minute, so each is made when it is used.
    for (const { port } of servers) {
      clients.push(Array.from({ length: callers }, () => rawCaller(port, request, message)));
      await callAll(clients.at(-1), warmUpCalls);
    }
    const fronts = servers.map(({ pid }) => frontOf(pid));
    const samples = servers.map(() => []);
    for (let turn = 0; turn < turns; turn++) {
      for (const index of turn % 2 === 0 ? [0, 1] : [1, 0]) {
        const before = cpuOf(fronts[index]);
        const taken = await callAll(clients[index], calls);
        const cpuMicros = (cpuOf(fronts[index]) - before) / calls;
        samples[index].push({ p50Ms: percentile(taken, 0.5), p99Ms: percentile(taken, 0.99), cpuMicros });
      }
    }
    const figures = samples.map((list) => ({
      p50Ms: median(list.map(({ p50Ms }) => p50Ms)),
      p99Ms: median(list.map(({ p99Ms }) => p99Ms)),
      cpuMicros: median(list.map(({ cpuMicros }) => cpuMicros)),
    }));
    const ratio = (field) => median(samples[0].map((sample, turn) => sample[field] / samples[1][turn][field]));
    return {
      callers,
      hosted: figures[0],
      bare: figures[1],
      p50: ratio("p50Ms"),
      p99: ratio("p99Ms"),
      cpu: ratio("cpuMicros"),
    };
  } finally {
    for (const own of clients) for (const { close } of own) close();
  }
}

/** Makes `count` calls, of each caller one at a time. @returns {Promise<number[]>} how long each took, in ms */
async function callAll(callers, count) {
  const taken = [];
  let left = count;
  const loop = async ({ call }) => {
    while (left-- > 0) {
      const startedAt = performance.now();
      await call();
      taken.push(performance.now() - startedAt);
    }
  };
  await Promise.all(callers.map(loop));
  return taken;
}

/** The processes of a host without the hosted server. @param {number} pid @returns {number[]} */
function frontOf(pid) {
  const isServer = (child) => readFileSync(`/proc/${child}/cmdline`, "utf8").split("\0")[1] === everything;
  return [pid, ...descendants(pid).filter((child) => !isServer(child))];
}

function cpuOf(pids) {
  return pids.reduce((sum, pid) => sum + exactCpuMicros(pid), 0);
}
