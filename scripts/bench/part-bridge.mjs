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
 * The costs of hosting: a server behind Berth, and behind a program of a few lines that checks nothing, which is the
 * floor of every host. Over stdio that is server-everything, over HTTP a server that only echoes. With one caller, and
 * with twenty, in alternating turns. The CPU time of the server itself is not counted.
 *
 * @typedef {{ p50Ms: number, p99Ms: number, cpuMicros: number }} CallFigures of one call: medians of all turns
 * @typedef {{ transport: "stdio" | "http", callers: number, hosted: CallFigures, bare: CallFigures, p50: number, p99: number, cpu: number }} BridgeCase
 * The last three are medians of the ratios of neighbouring turns, so that what else the machine does weighs on both.
 * @typedef {{ cases: BridgeCase[] }} BridgeFigures
 */

/** Neither is pinned to a core: both have a server of their own, which works at the same time. */
const ANYWHERE = { alone: false };
const CALLERS = [1, 20];

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
  const closing = [];
  const start = async (launch) => {
    const started = await startServer(launch, ANYWHERE);
    closing.push(started.stop);
    return started;
  };
  const startPeer = (file, env = {}) =>
    start((port) => ({
      args: [fileURLToPath(new URL(`peers/${file}`, import.meta.url)), String(port)],
      env,
      folder: mkdtempSync(join(folder, "bare-")),
    }));
  try {
    const remote = `127.0.0.1:${(await startPeer("remote.mjs")).port}/mcp`;
    const stdio = `mcp+node://${everything}?command=stdio`;
    writeImageSources(sources, { stdio: { upstream: stdio }, http: { upstream: `mcp+http://${remote}` } });
    await makeImage(sources, image);
    const nodeFlags = profiles === undefined ? [] : ["--cpu-prof", `--cpu-prof-dir=${profiles}`];
    const hosted = await start(serve(folder, image, { nodeFlags }));
    const bare = {
      stdio: await startPeer("bridge.mjs", { BENCH_BRIDGED: JSON.stringify(everythingCommand) }),
      http: await startPeer("forward.mjs", { BENCH_FORWARDED: `http://${remote}` }),
    };
    const cases = [];
    for (const transport of ["stdio", "http"]) {
      for (const callers of CALLERS) {
        say(`bridge: ${transport}, ${callers} ${callers === 1 ? "caller" : "callers"}`);
        const request = modernCall(`/mcp/${transport}`);
        cases.push({ transport, ...(await measureCallers([hosted, bare[transport]], request, callers, size)) });
      }
    }
    return { cases };
  } finally {
    for (const close of closing.toReversed()) await close();
  }
}

/** @param {import("./server-process.mjs").ServerProcess[]} servers @returns {Promise<Omit<BridgeCase, "transport">>} */
async function measureCallers(servers, request, callers, { turns, calls, warmUpCalls }) {
  const { message } = JSON.parse(request.body).params.arguments;
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
