import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { cli, makeImage, serve, writeImageSources } from "./berth.mjs";
import { startBeside } from "./beside.mjs";
import { echoModule } from "./definitions.mjs";
import { schedulingOf } from "./proc.mjs";
import { percentile } from "./rounds.mjs";
import { startServer } from "./server-process.mjs";
import { everything } from "./upstream-server.mjs";

/**
 * Two tenants: does one at its limits slow down calls of the other? The calm one is called at a moderate rate, in many
 * short windows: one alone, one while the other repeats the same attack, and so on in turns, so that other load on the
 * machine affects both alike. The attacks are more requests than it may send, code that burns processors and memory,
 * saves, programs and guests that have to be started each time, scripts, streams. The result is the 99th percentile of
 * the calm one's calls in all windows, and its ratio to the one without the attack; the interval beside it covers nine
 * of ten repetitions.
 *
 * The server and all its processes share one core: there the system cannot give the serving thread another core while
 * a guest holds the one, as on a machine whose cores a tenant keeps busy. Both callers are on another core, since they
 * stand for other machines; where both want it, the calm caller gets it at once (SCHED_IDLE), or its wait would count
 * for the server. How long the serving thread was ready and had to wait for its core is reported separately: any time
 * beyond that was its own work.
 *
 * In a container with a quota the server has all cores, and the calm caller, too.
 *
 * @typedef {{ p50Ms: number, p99Ms: number, longestMs: number, calls: number, ran: number, waited: number, callerWaited: number }} Spread
 * `ran` and `waited` are the serving thread's times in one second, in seconds; `callerWaited` is the calm caller's.
 * @typedef {{ name: string, quiet: Spread, attacked: Spread, ratio: number, from: number, to: number, statuses: string }} FairnessCase
 * @typedef {{ cases: FairnessCase[] }} FairnessFigures
 */

const [CALM, NOISY] = ["calm", "noisy"];
/** The limits of the noisy tenant. */
const LIMITS = [
  ..."requests=64 requestsPerSecond=50 requestBurst=50 streams=32 calls=8 guestProcesses=2".split(" "),
  ..."scriptProcesses=2 upstreamProcesses=2 processStartsPerMinute=60 savesPerMinute=60".split(" "),
];
/** By the names that `fairness-attacks.mjs` knows. */
export const attacks = [
  { name: "requests", title: "sends more than it may" },
  { name: "guests", title: "burns processors and memory" },
  { name: "edits", title: "saves all the time" },
  { name: "children", title: "has programs started" },
  { name: "starts", title: "has guests started" },
  { name: "scripts", title: "runs scripts" },
  { name: "streams", title: "opens streams" },
];
const CALLS_PER_SECOND = 250;
/**
 * The time for V8 to compile the code that serves calls and attacks: on the one core that takes milliseconds from calls
 * at a time.
 */
const WARM_UP = { ms: 6_000, perSecond: 2_000 };
const ATTACK_WARM_UP_MS = 3_000;
/** The time until the attack is in full swing. */
const ONSET_MS = 700;
/** The time until nothing of it is left. */
const SETTLE_MS = 1_500;

const definitions = {
  echo: echoModule(1),
  burn: "/** Never ends. */\nexport function burn(): never { for (;;); }\n",
  eat: "/** Takes memory without end. */\nexport function eat(): never { const all: number[][] = []; for (;;) all.push(new Array(1e5).fill(1)); }\n",
  edited: '/** Says which. */\nexport function which(): string { return "first"; }\n',
  spin: "#!/bin/sh\n# Burns.\nwhile :; do :; done\n",
  ...Object.fromEntries([0, 1, 2, 3].map((number) => [`start-${number}`, `${echoModule(1)}// ${number}\n`])),
};

/**
 * @param {string} folder
 * @param {{ rounds: number, seconds: number, only?: readonly string[], container?: import("./container.mjs").Container }} size
 *   windows of each kind, and their length; `container`: there, and not on one core
 * @param {(line: string) => void} say
 * @returns {Promise<FairnessFigures>}
 */
export async function measureFairness(folder, { rounds, seconds, only, container }, say) {
  const isPinned = !container;
  const launch = await prepare(mkdtempSync(join(folder, "fairness-")));
  const server = await startServer(launch, { alone: isPinned, container });
  const parts = [];
  const endParts = () => {
    for (const part of parts) part.end();
  };
  process.prependOnceListener("exit", endParts);
  const start = async (...args) => {
    parts.push(await startBeside(...args));
    return parts.at(-1);
  };
  try {
    await configure(server.port);
    const calm = await start("steady-caller.mjs", [String(server.port), `/t/${CALM}/mcp/echo`], { pinned: isPinned });
    await calm.ask(WARM_UP);
    const measure = async () => {
      const before = schedulingOf(server.pid);
      const { taken, waitedMs } = await calm.ask({ ms: seconds * 1000, perSecond: CALLS_PER_SECOND });
      const after = schedulingOf(server.pid);
      return {
        taken,
        ran: (after.ranMs - before.ranMs) / seconds / 1000,
        waited: (after.waitedMs - before.waitedMs) / seconds / 1000,
        callerWaited: waitedMs / seconds / 1000,
      };
    };
    const cases = [];
    for (const { name } of attacks) {
      if (only && !only.includes(name)) continue;
      const attacker = [`http://127.0.0.1:${server.port}/t/${NOISY}`, name];
      const attack = await start("fairness-attacks.mjs", attacker, { yields: true });
      cases.push({ name, attack, quiet: [], attacked: [], statuses: {} });
      await attack.ask("go");
      await calm.ask({ ms: ATTACK_WARM_UP_MS, perSecond: CALLS_PER_SECOND });
      await attack.ask("pause");
    }
    for (let round = 1; round <= rounds; round++) {
      for (const each of cases) {
        each.quiet.push(await measure());
        await each.attack.ask("go");
        await sleep(ONSET_MS);
        each.attacked.push(await measure());
        const { statuses } = await each.attack.ask("pause");
        for (const [status, count] of Object.entries(statuses)) {
          each.statuses[status] = (each.statuses[status] ?? 0) + count;
        }
        await sleep(SETTLE_MS);
        const [quiet, attacked] = [each.quiet, each.attacked].map((windows) => spreadOf(windows.slice(-1)));
        say(
          `round ${round}/${rounds}  ${each.name.padEnd(8)} p99 ${quiet.p99Ms.toFixed(2)} ms, ` +
            `${attacked.p99Ms.toFixed(2)} ms under attack`,
        );
      }
    }
    return { cases: cases.map(caseOf) };
  } finally {
    process.removeListener("exit", endParts);
    endParts();
    await server.stop();
  }
}

function caseOf({ name, quiet, attacked, statuses }) {
  const ratioOf = (windows) => p99Of(windows.map((at) => attacked[at])) / p99Of(windows.map((at) => quiet[at]));
  const all = quiet.map((_, index) => index);
  const drawn = Array.from({ length: REPETITIONS }, () => ratioOf(all.map(() => all[randomBelow(all.length)])));
  const counts = Object.entries(statuses).map(([status, count]) => `${count} × ${status}`);
  return {
    name,
    quiet: spreadOf(quiet),
    attacked: spreadOf(attacked),
    ratio: ratioOf(all),
    from: percentile(drawn, 0.05),
    to: percentile(drawn, 0.95),
    statuses: counts.join(", "),
  };
}

function spreadOf(windows) {
  const taken = windows.flatMap((window) => window.taken);
  const meanOf = (field) => windows.reduce((sum, window) => sum + window[field], 0) / windows.length;
  return {
    p50Ms: percentile(taken, 0.5),
    p99Ms: percentile(taken, 0.99),
    longestMs: percentile(taken, 1),
    calls: taken.length,
    ran: meanOf("ran"),
    waited: meanOf("waited"),
    callerWaited: meanOf("callerWaited"),
  };
}

function p99Of(windows) {
  return percentile(
    windows.flatMap(({ taken }) => taken),
    0.99,
  );
}

/** The number of times that windows are resampled (bootstrap), to tell what is chance. */
const REPETITIONS = 300;

/** The same seed each time. */
let seed = 1;
function randomBelow(limit) {
  seed = (seed * 48_271) % 2_147_483_647;
  return seed % limit;
}

/** An image of nothing, and a data folder with both tenants. */
async function prepare(folder) {
  const [sources, image, data] = ["sources", "image", "data"].map((name) => join(folder, name));
  mkdirSync(sources);
  writeFileSync(join(sources, "echo.ts"), definitions.echo);
  writeImageSources(sources, { echo: { definition: "echo.ts" } });
  await makeImage(sources, image);
  const create = (name, limits) =>
    execFileSync(process.execPath, [cli, "tenant", "create", name, "--data", data, ...limits], { stdio: "ignore" });
  create(CALM, []);
  create(
    NOISY,
    LIMITS.flatMap((limit) => ["--limit", limit]),
  );
  const launch = serve(folder, image, { data });
  return (port) => {
    const { env, ...rest } = launch(port);
    // An endless guest is ended soon, so that starting the next one is a part of the attack.
    return { ...rest, env: { ...env, BERTH_TENANT_UPSTREAMS: "on", BERTH_CALL_MS: "1000" } };
  };
}

/** Saves the tenants' servers. */
async function configure(port) {
  const put = async (tenant, path, body) => {
    const headers = { "Content-Type": "text/plain", "If-None-Match": "*" };
    for (;;) {
      const response = await fetch(`http://127.0.0.1:${port}/t/${tenant}/api/${path}`, {
        method: "PUT",
        headers,
        body,
      });
      const text = await response.text();
      if (response.ok) return;
      if (response.status !== 429) throw new Error(`${path} of ${tenant} was not saved: ${response.status} ${text}`);
      await sleep(1000 * Number(response.headers.get("retry-after")));
    }
  };
  await put(CALM, "definitions/echo", definitions.echo);
  for (const [name, text] of Object.entries(definitions)) await put(NOISY, `definitions/${name}`, text);
  for (const number of [0, 1, 2]) {
    const upstream = `mcp+node://${everything}?command=stdio&env.NUMBER=${number}`;
    await put(NOISY, `entries/child-${number}`, JSON.stringify({ upstream }));
  }
}
