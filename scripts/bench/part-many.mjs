import { mkdtempSync, rmSync } from "node:fs";
import { Agent, request as httpRequest } from "node:http";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { serve } from "./berth.mjs";
import { startBeside } from "./beside.mjs";
import { fillMany, serverName } from "./fill-many.mjs";
import { cpuMicros, memoryKb } from "./proc.mjs";
import { modernList } from "./requests.mjs";
import { median } from "./rounds.mjs";
import { startServer } from "./server-process.mjs";

/**
 * Pages, lists and saves of a tenant with more and more servers: how long callers of another server wait meanwhile, the
 * cost of each, and the memory that it leaves in use. The server has all cores, as in a deployment.
 *
 * @typedef {{ name: string, ms: number, pauseMs: number, cpuMs: number }} ManyStep
 * `pauseMs`: the longest call of others while the step ran; `cpuMs`: of the serving process with all its threads. The
 * first run, which pays for loading, counts as well: the longest pause is that of all runs, the other figures are
 * medians.
 * @typedef {{ servers: number, quietMs: number, startedMb: number, usedMb: number, steps: ManyStep[] }} ManyFigures
 */

const CALLS_PER_SECOND = 400;
const STEP_MS_MAX = 60_000;
const WARM_UP = { ms: 3_000, perSecond: 1_000 };
const QUIET_MS = 1_000;
const REPEATS = 3;
const DEFINITIONS = 20;
const MODERN = { Accept: "application/json" };
const BROWSER = { Accept: "text/html" };
const ANYTHING = { "If-Match": "*", "Berth-Allow-Breaking": "true" };
const TEXT = { ...ANYTHING, "Content-Type": "text/plain" };

/** Given what the tenant has and how often it was done before, the requests of a step. */
const steps = [
  { name: "page /mcp", of: () => [get("/mcp", BROWSER)] },
  { name: "page /mcp, a search", of: ({ last }) => [get(`/mcp?q=${last}`, BROWSER)] },
  { name: "page /mcp, by state", of: () => [get("/mcp?state=refused", BROWSER)] },
  { name: "page of code", of: ({ last }) => [get(`/mcp/meta/${last}?tab=code`, BROWSER)] },
  { name: "page /variables", of: () => [get("/variables", BROWSER)] },
  { name: "page /variables/mcps", of: () => [get("/variables/mcps", BROWSER)] },
  { name: "page of what is not there", of: () => [{ ...get("/mcp/meta/server-0", BROWSER), status: 404 }] },
  { name: "list /api/servers", of: () => [get("/api/servers", MODERN)] },
  { name: "list /api/variables", of: () => [get("/api/variables", MODERN)] },
  { name: "list /api/definitions", of: () => [get("/api/definitions", MODERN)] },
  { name: "list /api/entries", of: () => [get("/api/entries", MODERN)] },
  { name: "list /api/secrets", of: () => [get("/api/secrets", MODERN)] },
  { name: "tools/list of all servers", of: () => [{ ...modernList("/mcp", 1), method: "POST" }] },
  { name: "save a variable", of: (_, time) => [put("/api/variables/variable-00000", `once more, ${time}\n`)] },
  { name: "save a definition", of: ({ last }, time) => [put(`/api/definitions/${last}`, definitionText(time))] },
  { name: "save an entry", of: ({ last, entry }, time) => [put(`/api/entries/${last}`, entryText(entry, time))] },
  { name: "save mcps whole", of: ({ last, mcps }, time) => [put("/api/variables/mcps", mcpsText(mcps, last, time))] },
  { name: "page of code again", of: ({ last }) => [get(`/mcp/meta/${last}?tab=code`, BROWSER)] },
  { name: "tools/list of all, after saves", of: () => [{ ...modernList("/mcp", 1), method: "POST" }] },
];

/**
 * @param {string} folder
 * @param {string} image
 * @param {number[]} counts
 * @param {(line: string) => void} say
 * @returns {Promise<ManyFigures[]>}
 */
export async function measureMany(folder, image, counts, say) {
  const measured = [];
  for (const servers of counts) {
    const data = mkdtempSync(join(folder, "data-many-"));
    const text = await fillMany(data, { servers, variables: servers, definitions: DEFINITIONS });
    measured.push(await measureOne(folder, image, data, servers, JSON.parse(text), say));
    rmSync(data, { recursive: true });
  }
  return measured;
}

async function measureOne(folder, image, data, servers, mcps, say) {
  const server = await startServer(serve(folder, image, { data }), { alone: false });
  const agent = new Agent({ keepAlive: true });
  let others;
  const endOthers = () => others?.end();
  process.prependOnceListener("exit", endOthers);
  try {
    others = await startBeside("steady-caller.mjs", [String(server.port), "/mcp/echo"], { pinned: false });
    await others.ask(WARM_UP);
    const startedMb = memoryKb(server.pid) / 1024;
    const quiet = (await others.ask({ ms: QUIET_MS, perSecond: CALLS_PER_SECOND })).taken;
    const last = serverName(servers);
    const tenant = { last, mcps, entry: mcps[last] };
    const figures = [];
    for (const { name, of } of steps) {
      const samples = [];
      for (let time = 0; time < REPEATS; time++) {
        samples.push(await measureStep(server, agent, others, of(tenant, time)));
        if (samples.at(-1).ms > STEP_MS_MAX / REPEATS) break;
      }
      const of_ = (field) => samples.map((sample) => sample[field]);
      const step = { name, ms: median(of_("ms")), pauseMs: Math.max(...of_("pauseMs")), cpuMs: median(of_("cpuMs")) };
      figures.push(step);
      say(
        `${servers} servers  ${name.padEnd(32)} others wait ${step.pauseMs.toFixed(1)} ms, first ${samples[0].ms.toFixed(0)} ms, ` +
          `then ${step.ms.toFixed(0)} ms, ${step.cpuMs.toFixed(0)} ms of processor time`,
      );
    }
    await sleep(QUIET_MS);
    const usedMb = memoryKb(server.pid) / 1024;
    say(`${servers} servers  ${startedMb.toFixed(0)} MB at first, ${usedMb.toFixed(0)} MB in the end`);
    return { servers, quietMs: Math.max(...quiet), startedMb, usedMb, steps: figures };
  } finally {
    process.removeListener("exit", endOthers);
    endOthers();
    agent.destroy();
    await server.stop();
  }
}

async function measureStep(server, agent, others, requests) {
  const called = others.ask({ ms: STEP_MS_MAX, perSecond: CALLS_PER_SECOND });
  await sleep(20);
  const before = cpuMicros(server.pid);
  const startedAt = performance.now();
  for (const request of requests) await send(agent, server.port, request);
  const ms = performance.now() - startedAt;
  // Work after the answer counts, too.
  await sleep(50);
  others.tell("stop");
  const { taken } = await called;
  return { ms, pauseMs: Math.max(...taken), cpuMs: (cpuMicros(server.pid) - before) / 1000 };
}

const get = (path, headers) => ({ path, headers, method: "GET", body: "", status: 200 });
const put = (path, body) => ({ path, headers: TEXT, method: "PUT", body, status: 200 });

const definitionText = (time) =>
  `/** Says which save it was. */\nexport function saved(): string {\n  return "save ${time}";\n}\n`;
const entryText = (entry, time) =>
  JSON.stringify({ definition: entry.definition, description: `Saved ${time}` }, null, 2);
const mcpsText = (mcps, last, time) =>
  JSON.stringify({ ...mcps, [last]: { ...mcps[last], description: `Saved whole ${time}` } }, null, 2);

/** @returns {Promise<string>} */
function send(agent, port, { path, headers, method, body, status = 200 }) {
  return new Promise((resolve, reject) => {
    const outgoing = httpRequest({ agent, host: "127.0.0.1", port, path, headers, method }, (response) => {
      let text = "";
      response.setEncoding("utf8").on("data", (chunk) => (text += chunk));
      response.on("error", reject).on("end", () => {
        if (response.statusCode === status) return resolve(text);
        reject(new Error(`${method} ${path} is answered with ${response.statusCode}: ${text.slice(0, 500)}`));
      });
    });
    outgoing.on("error", reject).end(body);
  });
}
