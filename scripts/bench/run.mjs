import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { installFolder } from "../install-folder.mjs";
import { judge } from "./bounds.mjs";
import { makeContainer } from "./container.mjs";
import { trials } from "./contestants.mjs";
import { describeMachine, requireWrk } from "./machine.mjs";
import { help, readOptions } from "./options.mjs";
import { measureBridge } from "./part-bridge.mjs";
import { measureDev } from "./part-dev.mjs";
import { measureDisk } from "./part-disk.mjs";
import { measureEdits } from "./part-edits.mjs";
import { measureFairness } from "./part-fairness.mjs";
import { measureHostile } from "./part-hostile.mjs";
import { measureDiscovery, measureImage, newImage } from "./part-image.mjs";
import { measureMany } from "./part-many.mjs";
import { measureNodes } from "./part-nodes.mjs";
import { measurePackages } from "./part-packages.mjs";
import { measurePages } from "./part-pages.mjs";
import { measureServers } from "./part-servers.mjs";
import { measureSockets } from "./part-sockets.mjs";
import { measureState } from "./part-state.mjs";
import { measureStreams } from "./part-streams.mjs";
import { measureTenants } from "./part-tenants.mjs";
import { measureUpstreams } from "./part-upstreams.mjs";
import { watchOthers } from "./proc.mjs";
import { printReport } from "./report.mjs";
import { medians, runRounds } from "./rounds.mjs";

/**
 * The bench: `npm run bench`. Prepares images, runs the chosen parts, reports and judges. Figures of one run are
 * compared only with each other.
 */

/** A usual number of processors for a container. */
const CONTAINER_PROCESSORS = 1;

const say = (line) => process.stderr.write(`${line}\n`);

try {
  const options = readOptions(process.argv.slice(2));
  if (options.help) process.stdout.write(help());
  else process.exitCode = await bench(options);
} catch (error) {
  say(`The bench could not be run: ${error.message}`);
  process.exitCode = 2;
}

/** @param {import("./options.mjs").Options} options @returns {Promise<number>} exit code */
async function bench(options) {
  const machine = describeMachine();
  // These make their own calls, one after another.
  if ([...options.parts].some((part) => part !== "bridge" && part !== "dev")) requireWrk(say);
  installFolder(fileURLToPath(new URL("peers", import.meta.url)), say);
  // Where it is set, each Node process reads those certificates first, which takes longer than the rest of its start;
  // nothing here speaks TLS.
  delete process.env.NODE_EXTRA_CA_CERTS;
  const folder = mkdtempSync(join(tmpdir(), "berth-bench-"));
  process.once("exit", () => {
    if (options.keep) say(`Left in ${folder}`);
    else rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
  });
  // An exit of our own ends the contestant and clears the folder.
  for (const [signal, number] of /** @type {const} */ ([
    ["SIGINT", 2],
    ["SIGTERM", 15],
  ])) {
    process.once(signal, () => process.exit(128 + number));
  }

  const result = { machine, options: { ...options, parts: [...options.parts] }, ...(await measure(folder, options)) };
  const verdicts = judge(result.figures);
  const byName = Object.fromEntries(verdicts.map(({ name, value }) => [name, value]));
  const bounds = verdicts.filter(({ bound }) => bound !== null);
  if (options.json) process.stdout.write(`${JSON.stringify({ ...result, ratios: byName, bounds }, null, 2)}\n`);
  else printReport({ ...result, verdicts });
  return options.gate && bounds.some(({ pass }) => pass === false) ? 1 : 0;
}

async function measure(folder, options) {
  const { parts, serverCounts } = options;
  const counts = countsFor(parts, serverCounts);
  const images = [];
  for (const servers of counts) {
    images.push(await newImage(folder, { servers }));
    say(`image of ${servers} definitions: generated in ${Math.round(images.at(-1).generateMs)} ms`);
  }
  const fifty = await newImage(folder, { servers: 1, tools: 50 });

  const served = { one: images[0].image, fifty: fifty.image, many: images.at(-1).image };
  const all = trials(folder, served, counts.at(-1), options.profile);
  const chosen = all.filter((trial) => trial.parts.some((part) => parts.has(part)));
  const samples = await runRounds(chosen, options, say);

  /** @type {import("./bounds.mjs").Figures} */
  const figures = { trials: {}, othersBusy: {} };
  for (const [{ kind, contestant }, list] of samples) {
    const sample = medians(list);
    (figures.trials[kind] ??= {})[contestant] = sample;
    figures.othersBusy[kind] = Math.max(figures.othersBusy[kind] ?? 0, sample.othersBusy);
  }
  const measured = async (part, work) => {
    if (!parts.has(part)) return;
    const others = watchOthers();
    figures[part] = await work();
    figures.othersBusy[part] = others();
  };
  await measured("servers", () => measureServers(folder, images, options.startRepeats, say));
  await measured("streams", () => measureStreams(folder, options.streams, say));
  await measured("hostile", () => measureHostile(folder, say));
  await measured("pages", () => measurePages(folder, images.at(-1), say));
  await measured("edits", () => measureEdits(folder, images.at(-1), options.saves, say));
  await measured("many", () => measureMany(folder, images[0].image, options.manyCounts, say));
  await measured("upstreams", () => measureUpstreams(folder, options.upstreams, say));
  await measured("bridge", () => measureBridge(folder, options.bridge, say, options.profile));
  await measured("fairness", () => measureFairness(folder, options.fairness, say));
  await measured("quota", () => measureInContainer(folder, options.quota));
  await measured("packages", () => measurePackages(folder, options.firstCalls, say));
  await measured("dev", () => measureDev(folder, options.saves, say));
  await measured("state", () => measureState(folder, options.stateCalls, say));
  await measured("disk", () => measureDisk(folder, options.frozenSeconds, say));
  await measured("sockets", () => measureSockets(folder, options.sockets, say));
  await measured("nodes", () => measureNodes(folder, options.nodes, say));
  await measured("tenants", () => measureTenants(folder, images[0].image, options.tenants, say));
  let discoveryMs;
  await measured("image", async () => {
    const all = [];
    for (const made of images) all.push(await measureImage(made));
    discoveryMs = await measureDiscovery(images.at(-1));
    return all;
  });
  const titles = Object.fromEntries(all.map(({ contestant, title }) => [contestant, title]));
  return { figures, titles, discoveryMs };
}

/** Undefined where this machine has no container for it. */
async function measureInContainer(folder, size) {
  let container;
  try {
    container = makeContainer(CONTAINER_PROCESSORS);
  } catch (error) {
    say(`Not measured: fairness within a quota. ${error.message}`);
    return undefined;
  }
  try {
    return await measureFairness(folder, { ...size, container }, say);
  } finally {
    await container.remove();
  }
}

/** How many servers the images have: as many as a part needs. @param {Set<string>} parts @param {number[]} all */
function countsFor(parts, all) {
  if (parts.has("servers") || parts.has("image")) return all;
  return parts.has("edits") || parts.has("pages") ? [1, all.at(-1)] : [1];
}
