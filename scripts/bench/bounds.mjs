import { attacks } from "./part-fairness.mjs";

/**
 * The ratios that the bench is for, and what each must reach. `of` gives undefined where its part was not run.
 *
 * @typedef {{ trials: Record<string, Record<string, import("./rounds.mjs").Sample>>,
 *   servers?: import("./part-servers.mjs").ServersFigures[], image?: import("./part-image.mjs").ImageFigures[],
 *   streams?: import("./part-streams.mjs").StreamFigures, pages?: import("./part-pages.mjs").PagesFigures,
 *   fairness?: import("./part-fairness.mjs").FairnessFigures, quota?: import("./part-fairness.mjs").FairnessFigures,
 *   edits?: import("./part-edits.mjs").EditsFigures, upstreams?: import("./part-upstreams.mjs").UpstreamsFigures }} Figures
 * @typedef {{ name: string, title: string, atLeast?: number, atMost?: number,
 *   of: (figures: Figures) => number | undefined }} Ratio
 */

const speed = (figures, kind, contestant) => figures.trials[kind]?.[contestant]?.requestsPerSecond;
const cpu = (figures, kind, contestant) => figures.trials[kind]?.[contestant]?.cpuMicros;
const over = (upper, lower) => (upper === undefined || lower === undefined ? undefined : upper / lower);

/** What calls of a tenant take at the 99th percentile while another one does its worst: the most, of alone. @type {Ratio[]} */
const fairness = attacks.map(({ name, title }) => ({
  name: `fairness${name[0].toUpperCase()}${name.slice(1)}`,
  title: `p99 of one tenant: while another ${title} / alone`,
  atMost: 1.2,
  of: ({ fairness }) => fairness?.cases.find((each) => each.name === name)?.ratio,
}));

/** The same in a container of one processor, in ms: who uses its quota up stands still for most of 100 ms. @type {Ratio[]} */
const quota = attacks.map(({ name, title }) => ({
  name: `quota${name[0].toUpperCase()}${name.slice(1)}Ms`,
  title: `p99 of one tenant in a container: while another ${title}, ms`,
  atMost: 15,
  of: ({ quota }) => quota?.cases.find((each) => each.name === name)?.attacked.p99Ms,
}));

/** @type {Ratio[]} */
export const ratios = [
  {
    name: "callThroughputVsSdk",
    title: "tools/call, throughput: Berth / SDK, 1 tool",
    atLeast: 14,
    of: (figures) => over(speed(figures, "call", "berth"), speed(figures, "call", "sdk")),
  },
  {
    name: "callCpuVsSdk",
    title: "tools/call, CPU a request: SDK / Berth, 1 tool",
    atLeast: 14,
    of: (figures) => over(cpu(figures, "call", "sdk"), cpu(figures, "call", "berth")),
  },
  {
    name: "callThroughputVsBare",
    title: "tools/call, throughput: Berth / bare node:http",
    atLeast: 0.45,
    of: (figures) => over(speed(figures, "call", "berth"), speed(figures, "call", "bare")),
  },
  {
    name: "call50ThroughputVsSdk50",
    title: "tools/call, throughput: Berth / SDK, 50 tools",
    atLeast: 20,
    of: (figures) => over(speed(figures, "call", "berth50"), speed(figures, "call", "sdk50")),
  },
  {
    name: "list50ThroughputVsSdk50",
    title: "tools/list of 50 tools, throughput: Berth / SDK",
    atLeast: 20,
    of: (figures) => over(speed(figures, "list", "berth50"), speed(figures, "list", "sdk50")),
  },
  {
    name: "throughput1000ServersVs1",
    title: "tools/call, throughput: 1,000 servers / 1 server",
    atLeast: 0.9,
    of: (figures) => over(speed(figures, "call", "berthMany"), speed(figures, "call", "berth")),
  },
  {
    name: "memoryPerIdleServerKb",
    title: "memory a server that is not running, KB, at start",
    atMost: 60,
    of: (figures) => perServerKb(figures, "memoryMb"),
  },
  {
    name: "memoryPerListedServerKb",
    title: "memory a server that is not running, KB, all listed",
    atMost: 60,
    of: (figures) => perServerKb(figures, "listedMemoryMb"),
  },
  {
    name: "listeningMs1000Servers",
    title: "time to listening with 1,000 servers, ms, first start",
    atMost: 2000,
    of: (figures) => figures.servers?.at(-1)?.firstListeningMs,
  },
  {
    name: "listeningAgainMs1000Servers",
    title: "time to listening with 1,000 servers, ms, later start",
    atMost: 2000,
    of: (figures) => figures.servers?.at(-1)?.listeningMs,
  },
  {
    name: "imageUnchangedVsGenerated",
    title: "image of 1,000 definitions: confirm / generate",
    atMost: 0.1,
    of: (figures) => over(figures.image?.at(-1)?.unchangedMs, figures.image?.at(-1)?.generateMs),
  },
  {
    name: "firstEventMs",
    title: "first event of a stream at the client after its yield, ms, median",
    atMost: 5,
    of: ({ streams }) => streams?.firstEventMs,
  },
  {
    name: "longStreamGrowthMb",
    title: "memory that 1,000,000 events through one call add, MB",
    atMost: 20,
    of: ({ streams }) => streams?.longGrowthMb,
  },
  {
    name: "memoryPerListenerKb",
    title: "memory an open subscriptions/listen stream, KB, 5,000 open",
    atMost: 20,
    of: ({ streams }) => streams?.listenerKb,
  },
  {
    name: "announceMs5000Listeners",
    title: "time until a change has reached 5,000 listeners, ms",
    atMost: 1000,
    of: ({ streams }) => streams?.announceMs,
  },
  {
    name: "metaPageMs",
    title: "page of a server with 100 tools, never rendered before, ms",
    atMost: 15,
    of: ({ pages }) => pages?.metaMs,
  },
  {
    name: "metaPageKb",
    title: "that page with all that it loads, compressed, KB",
    atMost: 150,
    of: ({ pages }) => pages?.metaKb,
  },
  {
    name: "listPageMs1000Servers",
    title: "page of 1,000 servers, ms",
    atMost: 250,
    of: ({ pages }) => pages?.listMs,
  },
  {
    name: "saveInEffectMs",
    title: "time until a save is what callers get, ms, longest",
    atMost: 1500,
    of: ({ edits }) => edits?.effectMs,
  },
  {
    name: "pauseDuringSavesMs",
    title: "what calls of others take during saves, ms, p99",
    atMost: 5,
    of: ({ edits }) => edits?.pauseMs,
  },
  {
    name: "hostedCallVsDirect",
    title: "call of a hosted server of others / the same over stdio",
    atMost: 1.3,
    of: ({ upstreams }) => over(upstreams?.hostedMs, upstreams?.directMs),
  },
  {
    name: "hostedCallVsBareBridge",
    title: "call of a hosted server of others / by a bare bridge",
    of: ({ upstreams }) => over(upstreams?.hostedMs, upstreams?.bareMs),
  },
  {
    name: "hostedCpuVsDirect",
    title: "CPU of a hosted call / of the same over stdio",
    of: ({ upstreams }) => over(upstreams?.hostedCpuMicros, upstreams?.directCpuMicros),
  },
  {
    name: "hostedManyCpuVsDirect",
    title: "CPU of a hosted call / over stdio, 20 calls at a time",
    of: ({ upstreams }) => over(upstreams?.hostedManyCpuMicros, upstreams?.directManyCpuMicros),
  },
  {
    name: "hostedThroughputVsSupergateway",
    title: "calls of a hosted server, 20 clients: Berth / supergateway",
    atLeast: 3,
    of: ({ upstreams }) => over(upstreams?.hostedPerSecond, upstreams?.bridgedPerSecond),
  },
  {
    name: "catMsOverStart",
    title: "what berth cat adds to the start of the server, ms",
    atMost: 60,
    of: ({ upstreams }) => upstreams && upstreams.catMs - upstreams.ownMs,
  },
  {
    name: "idleUpstreamChildren",
    title: "children of 50 hosted servers that nobody uses",
    atMost: 0,
    of: ({ upstreams }) => upstreams?.idleChildren,
  },
  ...fairness,
  ...quota,
  {
    name: "callThroughputVsExpress",
    title: "tools/call, throughput: Berth / bare Express 5",
    of: (figures) => over(speed(figures, "call", "berth"), speed(figures, "call", "express")),
  },
  {
    name: "callThroughputVsFastmcp",
    title: "tools/call, throughput: Berth / fastmcp",
    of: (figures) => over(speed(figures, "call", "berth"), speed(figures, "call", "fastmcp")),
  },
];

/**
 * @param {Figures} figures
 * @returns {{ name: string, title: string, value: number, bound: string | null, pass: boolean | null }[]}
 */
export function judge(figures) {
  return ratios.flatMap(({ name, title, atLeast, atMost, of }) => {
    const value = of(figures);
    if (value === undefined) return [];
    if (atLeast !== undefined) return [{ name, title, value, bound: `>= ${atLeast}`, pass: value >= atLeast }];
    if (atMost !== undefined) return [{ name, title, value, bound: `<= ${atMost}`, pass: value <= atMost }];
    return [{ name, title, value, bound: null, pass: null }];
  });
}

/** @param {Figures} figures @param {"memoryMb" | "listedMemoryMb"} field */
function perServerKb({ servers }, field) {
  if (!servers || servers.length < 2) return undefined;
  const [least, most] = [servers[0], servers.at(-1)];
  return ((most[field] - least[field]) * 1024) / (most.servers - least.servers);
}
