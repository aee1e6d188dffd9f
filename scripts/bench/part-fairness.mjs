import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { cli, makeImage, serve, writeImageSources } from "./berth.mjs";
import { echoModule } from "./definitions.mjs";
import { machine, pinned } from "./machine.mjs";
import { median, percentile } from "./rounds.mjs";
import { startServer } from "./server-process.mjs";
import { everything } from "./upstream-server.mjs";

/**
 * Two tenants: whether one that is at its limits changes what calls of the other take. The calm one is called at a
 * steady, moderate rate; in each round first alone, then while the other does the same bad thing over and over: more
 * requests than it may send, code that burns processors and memory, saves, programs and guests that have to be started
 * each time, scripts, streams. What counts is the 99th percentile of the calm one's calls, the median of all rounds, and
 * its ratio to the one without the attack.
 *
 * The server is on its core with all that it starts, both callers are on the other one, each a process of its own; the
 * attacker's has the lowest priority there, because it stands for a machine that is not this one.
 *
 * @typedef {{ name: string, quietMs: number, attackedMs: number, ratio: number, statuses: string }} FairnessCase
 * @typedef {{ cases: FairnessCase[] }} FairnessFigures
 */

const [CALM, NOISY] = ["calm", "noisy"];
/** What the noisy one may have. */
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
const WARM_UP_MS = 2_000;
/** Until the attack is in full swing, and until nothing of it is left. */
const SETTLE_MS = 1_500;

/** Connections are kept between two measurements. */
const PATIENT = { BERTH_IDLE_CONNECTION_MS: "60000" };

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
 * @param {{ rounds: number, seconds: number, only?: readonly string[] }} size
 * @param {(line: string) => void} say
 * @returns {Promise<FairnessFigures>}
 */
export async function measureFairness(folder, { rounds, seconds, only }, say) {
  const server = await startServer(await prepare(folder));
  const calm = startPart("fairness-caller.mjs", [String(server.port), `/t/${CALM}/mcp/echo`]);
  try {
    await configure(server.port);
    await calm.answer();
    await calm.ask(WARM_UP_MS);
    const measure = async () => percentile((await calm.ask(seconds * 1000)).taken, 0.99);
    const chosen = attacks.map(({ name }) => name).filter((name) => only?.includes(name) ?? true);
    const cases = chosen.map((name) => ({ name, quiet: [], attacked: [], statuses: {} }));
    for (let round = 1; round <= rounds; round++) {
      for (const each of cases) {
        each.quiet.push(await measure());
        const attack = startPart("fairness-attacks.mjs", [`http://127.0.0.1:${server.port}/t/${NOISY}`, each.name]);
        try {
          await attack.answer();
          await sleep(SETTLE_MS);
          each.attacked.push(await measure());
          Object.assign(each.statuses, (await attack.ask("stop")).statuses);
        } finally {
          attack.end();
        }
        await sleep(SETTLE_MS);
        const [quiet, attacked] = [each.quiet.at(-1), each.attacked.at(-1)].map((ms) => ms.toFixed(2));
        say(`round ${round}/${rounds}  ${each.name.padEnd(8)} p99 ${quiet} ms, ${attacked} ms under attack`);
      }
    }
    return { cases: cases.map(caseOf) };
  } finally {
    calm.end();
    await server.stop();
  }
}

function caseOf({ name, quiet, attacked, statuses }) {
  const [quietMs, attackedMs] = [median(quiet), median(attacked)];
  const counts = Object.entries(statuses).map(([status, count]) => `${count} × ${status}`);
  return { name, quietMs, attackedMs, ratio: attackedMs / quietMs, statuses: counts.join(", ") };
}

/** An image of nothing, and a data folder with both tenants. */
async function prepare(folder) {
  const [sources, image, data] = ["sources", "image", "data"].map((name) => join(folder, `fairness-${name}`));
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
    // A guest that never ends is ended soon, so that starting the next one is a part of the attack.
    return { ...rest, env: { ...env, BERTH_TENANT_UPSTREAMS: "on", BERTH_CALL_MS: "3000", ...PATIENT } };
  };
}

/** Saves what the tenants serve. */
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

/** A process of the bench beside this one: says that it is ready, and answers each message with one. */
function startPart(file, args) {
  const path = fileURLToPath(new URL(file, import.meta.url));
  const niced = file === "fairness-attacks.mjs" ? ["nice", "-n", "19"] : [];
  const [program, ...rest] = pinned(machine.generatorCore, [...niced, process.execPath, path, ...args]);
  const child = spawn(program, rest, { stdio: ["ignore", "ignore", "inherit", "ipc"] });
  const killOnExit = () => child.kill("SIGKILL");
  process.prependOnceListener("exit", killOnExit);
  const ended = once(child, "exit").then(() => [{ failed: "it ended" }]);
  const answer = async () => {
    const [said] = await Promise.race([once(child, "message"), ended]);
    if (said.failed !== undefined) throw new Error(`${file}: ${said.failed}`);
    return said;
  };
  return {
    answer,
    ask(message) {
      const answered = answer();
      child.send(message);
      return answered;
    },
    end() {
      process.removeListener("exit", killOnExit);
      child.kill("SIGKILL");
    },
  };
}
