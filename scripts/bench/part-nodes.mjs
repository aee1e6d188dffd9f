import { mkdirSync, mkdtempSync } from "node:fs";
import { Agent, request as httpRequest } from "node:http";
import { join } from "node:path";
import { startHaproxy } from "../haproxy.mjs";
import { keysOfNodes, startOwnPostgres } from "../postgres.mjs";
import { makeImage, serve, writeSources, writeImageSources } from "./berth.mjs";
import { startBeside } from "./beside.mjs";
import { checkAnswer, load } from "./load.mjs";
import { modernCall, modernList } from "./requests.mjs";
import { median, percentile } from "./rounds.mjs";
import { startServer } from "./server-process.mjs";
import { rawCaller } from "./upstream-callers.mjs";
import { everything } from "./upstream-server.mjs";

/**
 * Several processes on one data folder. Throughput of calls and lists: one process, two workers, one process behind
 * haproxy, and two behind haproxy, in turns, with all cores of the machine, of which the load generator takes one. Calls
 * of a hosted upstream by the node that has its process, and by another one. Saves of as many writers as there are
 * workers: what they and the calls of others take meanwhile, since SQLite has one of them write at a time. And one node on
 * Postgres beside one on SQLite.
 *
 * @typedef {{ call: Record<string, number>, list: Record<string, number>, stores: { sqlite: number, postgres: number,
 *   ratio: number }, localMs: number, forwardedMs: number,
 *   saves: { workers: number, perSecond: number, saveP50Ms: number, saveP99Ms: number, saveMaxMs: number, quietP99Ms: number,
 *     callP99Ms: number, callMaxMs: number }[] }} NodesFigures
 * Requests a second by contestant. `stores`: of calls, and the median of the ratios of all pairs.
 */

const ANYWHERE = { alone: false };
const TOOLS = 50;
const CONTESTANTS = ["one", "workers", "proxied", "nodes"];
const WORKERS = [1, 2, 4];
const CALLS_PER_SECOND = 200;
/** Calls of an upstream in one turn. */
const TURN = 100;

/**
 * @param {string} folder
 * @param {{ rounds: number, seconds: number, calls: number }} size
 * @param {(line: string) => void} say
 * @returns {Promise<NodesFigures>}
 */
export async function measureNodes(folder, { rounds, seconds, calls }, say) {
  const [sources, image] = [join(folder, "nodes-sources"), join(folder, "nodes-image")];
  mkdirSync(sources);
  writeSources(sources, { servers: 1, tools: TOOLS });
  const uri = `mcp+node://${everything}?command=stdio`;
  writeImageSources(sources, { echo: { definition: "servers/echo.ts" }, every: { upstream: uri } });
  await makeImage(sources, image);
  const closing = [];
  const started = async (env = {}, data = mkdtempSync(join(folder, "data-"))) => {
    const server = await startServer((port) => withEnv(serve(folder, image, { data })(port), env), ANYWHERE);
    closing.push(server.stop);
    return server;
  };
  const proxied = async (...servers) => {
    const proxy = await startHaproxy(
      mkdtempSync(join(folder, "proxy-")),
      servers.map(({ port }) => port),
    );
    closing.push(proxy.stop);
    return proxy;
  };
  const closeAll = async () => {
    for (const close of closing.splice(0).toReversed()) await close();
  };

  try {
    const data = mkdtempSync(join(folder, "data-"));
    const nodes = [await started({}, data), await started({}, data)];
    const one = await started();
    const ports = {
      one: one.port,
      workers: (await started({ BERTH_WORKERS: "2" })).port,
      proxied: (await proxied(one)).port,
      nodes: (await proxied(...nodes)).port,
    };
    const throughput = await measureThroughput(ports, { rounds, seconds }, say);
    const forwarded = await measureForwarded(nodes, calls, say);
    await closeAll();
    const saves = [];
    for (const workers of WORKERS) {
      const { port } = await started({ BERTH_WORKERS: String(workers), BERTH_SAVES_PER_MINUTE_PER_TENANT: "0" });
      saves.push(await measureSaves(port, workers, seconds * rounds, say));
      await closeAll();
    }
    const stores = await measureStores(folder, image, { rounds: rounds * 2, seconds }, say);
    return { ...throughput, ...forwarded, saves, stores };
  } finally {
    await closeAll();
  }
}

function withEnv(launch, env) {
  return { ...launch, env: { ...launch.env, ...env } };
}

async function measureThroughput(ports, { rounds, seconds }, say) {
  const requests = { call: modernCall("/mcp/echo"), list: modernList("/mcp/echo", TOOLS) };
  const samples = { call: {}, list: {} };
  for (let round = 0; round <= rounds; round++) {
    const contestants = round % 2 === 1 ? CONTESTANTS : CONTESTANTS.toReversed();
    for (const [kind, request] of Object.entries(requests)) {
      for (const contestant of contestants) {
        const answerBytes = await checkAnswer(ports[contestant], request);
        const { requestsPerSecond } = await load(ports[contestant], request, seconds, answerBytes);
        // The first round warms up.
        if (round > 0) (samples[kind][contestant] ??= []).push(requestsPerSecond);
      }
    }
    say(`nodes: round ${round} of ${rounds}`);
  }
  const mediansOf = (all) => Object.fromEntries(Object.entries(all).map(([name, list]) => [name, median(list)]));
  return { call: mediansOf(samples.call), list: mediansOf(samples.list) };
}

/**
 * Each node is started anew for its turn, with a core of its own: of two that are up, the one that was started first answers
 * more.
 */
async function measureStores(folder, image, { rounds, seconds }, say) {
  const postgres = await startOwnPostgres();
  try {
    const environments = { sqlite: {}, postgres: { ...keysOfNodes(), BERTH_DATABASE: await postgres.database() } };
    const request = modernCall("/mcp/echo");
    const all = { sqlite: [], postgres: [] };
    for (let round = 1; round <= rounds; round++) {
      const stores = Object.keys(environments);
      for (const store of round % 2 === 1 ? stores : stores.toReversed()) {
        const server = await startServer((port) => withEnv(serve(folder, image)(port), environments[store]));
        try {
          const answerBytes = await checkAnswer(server.port, request);
          await load(server.port, request, seconds, answerBytes);
          all[store].push((await load(server.port, request, seconds, answerBytes)).requestsPerSecond);
        } finally {
          await server.stop();
        }
      }
      say(`nodes: one on each store, round ${round} of ${rounds}`);
    }
    const ratio = median(all.sqlite.map((perSecond, index) => all.postgres[index] / perSecond));
    return { sqlite: median(all.sqlite), postgres: median(all.postgres), ratio };
  } finally {
    await postgres.close();
  }
}

/** The first node that is asked has the upstream's process; the other one reaches it through that. */
async function measureForwarded(nodes, calls, say) {
  const request = modernCall("/mcp/every");
  const { message } = JSON.parse(request.body).params.arguments;
  const callers = nodes.map(({ port }) => rawCaller(port, request, message));
  const taken = callers.map(() => []);
  for (let done = -TURN; done < calls; done += TURN) {
    for (const [index, { call }] of callers.entries()) {
      for (let count = 0; count < TURN; count++) {
        const startedAt = performance.now();
        await call();
        if (done >= 0) taken[index].push(performance.now() - startedAt);
      }
    }
  }
  for (const { close } of callers) close();
  const [localMs, forwardedMs] = taken.map((times) => median(times));
  say(`nodes: a call of an upstream ${localMs.toFixed(2)} ms, forwarded ${forwardedMs.toFixed(2)} ms`);
  return { localMs, forwardedMs };
}

/** As many writers as workers, each over a connection of its own, and so each at another worker. */
async function measureSaves(port, workers, seconds, say) {
  const others = await startBeside("steady-caller.mjs", [String(port), "/mcp/echo"], { pinned: false });
  try {
    await others.ask({ ms: 3_000, perSecond: 1_000 });
    const window = { ms: seconds * 1_000, perSecond: CALLS_PER_SECOND };
    const quiet = (await others.ask(window)).taken;
    const saving = new AbortController();
    const taken = [];
    const writers = Array.from({ length: workers }, (_, writer) => writeAgain(port, writer, saving.signal, taken));
    const refused = Promise.all(writers).then(() => ({ taken: [] }));
    const { taken: during } = await Promise.race([others.ask(window), refused]);
    saving.abort();
    await Promise.all(writers);
    const figures = {
      workers,
      perSecond: taken.length / seconds,
      saveP50Ms: median(taken),
      saveP99Ms: percentile(taken, 0.99),
      saveMaxMs: Math.max(...taken),
      quietP99Ms: percentile(quiet, 0.99),
      callP99Ms: percentile(during, 0.99),
      callMaxMs: Math.max(...during),
    };
    say(`nodes: ${workers} workers save ${Math.round(figures.perSecond)} times a second`);
    return figures;
  } finally {
    others.end();
  }
}

async function writeAgain(port, writer, signal, taken) {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  for (let number = 0; !signal.aborted; number++) {
    const startedAt = performance.now();
    await put(agent, port, `/api/variables/written-${writer}`, `value ${number}`, number === 0);
    taken.push(performance.now() - startedAt);
  }
  agent.destroy();
}

/** @returns {Promise<void>} Rejects where it is refused. */
function put(agent, port, path, body, isNew) {
  const headers = {
    "Content-Type": "text/plain",
    [isNew ? "If-None-Match" : "If-Match"]: "*",
    "Content-Length": Buffer.byteLength(body),
  };
  return new Promise((resolve, reject) => {
    const outgoing = httpRequest({ agent, host: "127.0.0.1", port, path, method: "PUT", headers }, (response) => {
      let text = "";
      response.setEncoding("utf8").on("data", (chunk) => (text += chunk));
      response.on("end", () => {
        if (response.statusCode < 300) resolve();
        else reject(new Error(`a save was refused: ${response.statusCode} ${text}`));
      });
    });
    outgoing.on("error", reject);
    outgoing.end(body);
  });
}
