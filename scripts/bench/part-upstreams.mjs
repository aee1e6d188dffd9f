import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { makeImage, serve, writeImageSources } from "./berth.mjs";
import { descendants, exactCpuMicros } from "./proc.mjs";
import { modernCall } from "./requests.mjs";
import { startServer } from "./server-process.mjs";
import { directCaller, httpCaller, rawCaller, sessionCaller } from "./upstream-callers.mjs";
import { everything, everythingCommand, peer, startAndCall } from "./upstream-server.mjs";

/**
 * Upstreams: server-everything hosted by Berth, against the official client that has it for itself and against
 * supergateway, which bridges it for the same number of clients; and the time that `berth cat` adds to its start.
 *
 * A hosted call is measured through Berth: its one client writes to a bare connection, since Node's HTTP client alone
 * takes longer than the official client, the server and everything between them. Compared figures are
 * measured in turns, and the least disturbed turn of each counts, so that a busy machine is as busy for all. CPU time
 * is that of the server and of its client: of the official client and its server, of Berth and its server; for one call
 * at a time, and for as many calls at a time as there are clients.
 *
 * @typedef {{ hostedMs: number, directMs: number, hostedCpuMicros: number, directCpuMicros: number,
 *   hostedManyCpuMicros: number, directManyCpuMicros: number, hostedPerSecond: number, bridgedPerSecond: number,
 *   clients: number,
 *   catMs: number, ownMs: number, nodeMs: number, idleServers: number, idleChildren: number }} UpstreamsFigures
 * Times are of one call, or of one command from its start to its end. CPU times are of one call.
 */

const berth = fileURLToPath(new URL("../../dist/bin/berth.cjs", import.meta.url));

/** The client that has the server for itself is not pinned to a core either. */
const ANYWHERE = { alone: false };
const CLIENTS = 20;
const WARM_UP_CALLS = 5_000;
const TURNS = 10;
const STARTS = 15;
const IDLE_SERVERS = 50;
const message = JSON.parse(modernCall("/").body).params.arguments.message;
const load = modernCall("/mcp/every");

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

  const server = await startServer(serve(folder, image), ANYWHERE);
  let called, hostedPerSecond, idleChildren;
  try {
    idleChildren = childrenOf(server.pid).length;
    say("upstreams: one client, hosted, and by itself");
    called = await measureCalls(server, calls);
    say("upstreams: hosted");
    hostedPerSecond = await perSecond(CLIENTS, seconds, () => httpCaller(server.port, load, message));
  } finally {
    await server.stop();
  }
  say("upstreams: bridged by supergateway");
  const bridgedPerSecond = await bridged(folder, seconds);
  say("upstreams: berth cat");
  const [own, cats, node] = await inTurns(STARTS, 1, [() => startAndCall(message), cat, () => run(["-e", "0"])]);
  return {
    ...called,
    hostedPerSecond,
    bridgedPerSecond,
    clients: CLIENTS,
    catMs: cats.ms,
    ownMs: own.ms,
    nodeMs: node.ms,
    idleServers: IDLE_SERVERS,
    idleChildren,
  };
}

/** One call at a time, by each way. */
async function measureCalls(berthServer, calls) {
  const closing = [];
  try {
    const direct = await directCaller(everythingCommand, message);
    const hosted = rawCaller(berthServer.port, load, message);
    closing.push(direct.close, hosted.close);
    const ways = [direct.call, hosted.call];
    for (const call of ways) for (let warm = 0; warm < WARM_UP_CALLS; warm++) await call();
    const child = childrenOf(berthServer.pid)[0];
    const cpus = [direct.cpuMicros, () => exactCpuMicros(berthServer.pid) + exactCpuMicros(child)];
    const each = Math.ceil(calls / TURNS);
    const [directCalls, hostedCalls] = await inTurns(TURNS, each, ways, cpus);
    // An idle connection is closed after a while, so these are made only now.
    const many = Array.from({ length: CLIENTS }, () => rawCaller(berthServer.port, load, message));
    closing.push(...many.map(({ close }) => close));
    const clients = [many.map(() => direct.call), many.map(({ call }) => call)];
    const manyWays = clients.map((callers) => () => callTogether(callers, each));
    const [directMany, hostedMany] = await inTurns(TURNS, 1, manyWays, cpus);
    return {
      directMs: directCalls.ms,
      hostedMs: hostedCalls.ms,
      directCpuMicros: directCalls.cpuMicros,
      hostedCpuMicros: hostedCalls.cpuMicros,
      directManyCpuMicros: directMany.cpuMicros / each,
      hostedManyCpuMicros: hostedMany.cpuMicros / each,
    };
  } finally {
    await Promise.all(closing.map((close) => close()));
  }
}

/** Makes `count` calls, of each caller one at a time. @param {import("./upstream-callers.mjs").Call[]} callers */
async function callTogether(callers, count) {
  let left = count;
  const loop = async (call) => {
    while (left-- > 0) await call();
  };
  await Promise.all(callers.map(loop));
}

/** @returns {Promise<number>} calls a second of all clients together */
async function bridged(folder, seconds) {
  const flags = ["--outputTransport", "streamableHttp", "--stateful", "--logLevel", "none"];
  const gateway = await startServer(
    (port) => ({
      args: [
        peer("supergateway/dist/index.js"),
        "--stdio",
        everythingCommand.join(" "),
        "--port",
        String(port),
        ...flags,
      ],
      env: {},
      folder: mkdtempSync(join(folder, "gateway-")),
    }),
    ANYWHERE,
  );
  try {
    return await perSecond(CLIENTS, seconds, () => sessionCaller(gateway.port, message));
  } finally {
    await gateway.stop();
  }
}

/** @param {() => (() => Promise<void>) | Promise<() => Promise<void>>} open a client */
async function perSecond(clients, seconds, open) {
  const callers = [];
  for (let client = 0; client < clients; client++) callers.push(await open());
  await Promise.all(callers.map((call) => call()));
  let done = 0;
  const end = performance.now() + seconds * 1000;
  const loop = async (call) => {
    for (; performance.now() < end; done++) await call();
  };
  const startedAt = performance.now();
  await Promise.all(callers.map(loop));
  return (done * 1000) / (performance.now() - startedAt);
}

/**
 * @param {number} turns
 * @param {number} each how often each way is gone in its turn
 * @param {(() => Promise<unknown>)[]} ways
 * @param {(() => number)[]} [cpus] what each way has used so far
 * @returns {Promise<{ ms: number, cpuMicros: number }[]>} for each way of the turn that was disturbed least: the median
 *   time, and the mean CPU time
 */
async function inTurns(turns, each, ways, cpus = []) {
  const best = ways.map(() => ({ ms: Infinity, cpuMicros: Infinity }));
  for (let turn = 0; turn < turns; turn++) {
    for (const [index, way] of ways.entries()) {
      const before = cpus[index]?.() ?? 0;
      const taken = [];
      for (let time = 0; time < each; time++) {
        const startedAt = performance.now();
        await way();
        taken.push(performance.now() - startedAt);
      }
      const cpuMicros = ((cpus[index]?.() ?? 0) - before) / each;
      const ms = taken.toSorted((a, b) => a - b)[Math.floor(each / 2)];
      best[index] = { ms: Math.min(best[index].ms, ms), cpuMicros: Math.min(best[index].cpuMicros, cpuMicros) };
    }
  }
  return best;
}

async function cat() {
  const query = `command=stdio&tool=echo&message=${encodeURIComponent(message)}`;
  const { stdout, status } = await run([berth, "cat", `mcp+node://${everything}?${query}`]);
  if (status !== 0 || !stdout.includes(message)) throw new Error(`berth cat ended with ${status}: ${stdout}`);
}

async function run(args) {
  const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "inherit"] });
  let stdout = "";
  child.stdout.setEncoding("utf8").on("data", (chunk) => (stdout += chunk));
  const [status] = await once(child, "close");
  return { stdout, status };
}

/** Processes of the measured server below `pid`. @param {number} pid @returns {number[]} */
function childrenOf(pid) {
  return descendants(pid).filter((child) => readFileSync(`/proc/${child}/cmdline`, "utf8").includes(everything));
}
