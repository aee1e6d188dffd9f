import { attacks } from "./part-fairness.mjs";

/**
 * The ratios that the bench exists for, and their bounds. `of` returns undefined where its part was not run. Where
 * `othersBusy` says that other programs used the machine meanwhile, there is no verdict; a ratio without a `part` is
 * independent of other programs. The speed of calls relative to the SDK depends on the machine, from 8 to 17 times for
 * the same commit, since system calls weigh more on one and compiled code on another: so it has no bound, and the share
 * of bare parsing has one.
 *
 * @typedef {{ trials: Record<string, Record<string, import("./rounds.mjs").Sample>>, othersBusy: Record<string, number>,
 *   servers?: import("./part-servers.mjs").ServersFigures[], image?: import("./part-image.mjs").ImageFigures[],
 *   streams?: import("./part-streams.mjs").StreamFigures, pages?: import("./part-pages.mjs").PagesFigures,
 *   hostile?: import("./part-hostile.mjs").HostileFigures,
 *   fairness?: import("./part-fairness.mjs").FairnessFigures, quota?: import("./part-fairness.mjs").FairnessFigures,
 *   many?: import("./part-many.mjs").ManyFigures[],
 *   packages?: import("./part-packages.mjs").PackagesFigures, state?: import("./part-state.mjs").StateFigures,
 *   disk?: import("./part-disk.mjs").DiskFigures,
 *   nodes?: import("./part-nodes.mjs").NodesFigures, tenants?: import("./part-tenants.mjs").TenantsFigures,
 *   sockets?: import("./part-sockets.mjs").SocketsFigures,
 *   bridge?: import("./part-bridge.mjs").BridgeFigures, dev?: import("./part-dev.mjs").DevFigures,
 *   edits?: import("./part-edits.mjs").EditsFigures, upstreams?: import("./part-upstreams.mjs").UpstreamsFigures }} Figures
 * @typedef {{ name: string, title: string, atLeast?: number, atMost?: number, part?: string,
 *   of: (figures: Figures) => number | undefined }} Ratio
 * @typedef {{ name: string, title: string, value: number, bound: string | null, pass: boolean | null,
 *   othersBusy?: number }} Verdict
 * `pass` is null where there is no bound, and where others were busy: `othersBusy`, as a share of one core.
 */

/** Half a tenth of a core, which a quiet machine uses on its own. */
export const OTHERS_BUSY_MAX = 0.05;

const speed = (figures, kind, contestant) => figures.trials[kind]?.[contestant]?.requestsPerSecond;
const cpu = (figures, kind, contestant) => figures.trials[kind]?.[contestant]?.cpuMicros;
const over = (upper, lower) => (upper === undefined || lower === undefined ? undefined : upper / lower);

/**
 * The 99th percentile of a tenant's calls while another one does its worst, in ms. In a container of one processor, a
 * process that uses up its quota stands still for most of 100 ms.
 *
 * @param {"fairness" | "quota"} part @param {string} where @param {number} atMost @returns {Ratio[]}
 */
const attacked = (part, where, atMost) =>
  attacks.map(({ name, title }) => ({
    name: `${part}${name[0].toUpperCase()}${name.slice(1)}Ms`,
    title: `p99 of one tenant${where}: while another ${title}, ms`,
    atMost,
    part,
    of: (figures) => figures[part]?.cases.find((each) => each.name === name)?.attacked.p99Ms,
  }));

/** @param {number} index of the case @param {number} atMost in ms @returns {Ratio[]} */
function saved(index, atMost) {
  const what = ["without packages", "with zod", "with the client of S3"][index];
  const name = `devSave${["Plain", "Zod", "S3"][index]}`;
  const part = "dev";
  return [
    {
      name: `${name}Ms`,
      title: `berth dev: save to served ${what}, ms`,
      atMost,
      part,
      of: ({ dev }) => dev?.[index].savedMs,
    },
    {
      name: `${name}VsTsc`,
      title: `berth dev: save to served ${what} / tsc`,
      atMost: 1.2,
      part,
      of: ({ dev }) => over(dev?.[index].savedMs, dev?.[index].tscMs),
    },
  ];
}

const BRIDGED = {
  stdio: { kind: "hosted", bare: "bridge", p50Max: 1.5, cpuMax: 1.75 },
  http: { kind: "remote", bare: "forwarder", p50Max: undefined, cpuMax: undefined },
};

/**
 * The costs of hosting over a program that checks nothing.
 *
 * @param {"stdio" | "http"} transport @param {number} callers @returns {Ratio[]}
 */
function bridged(transport, callers) {
  const found = ({ bridge }) => bridge?.cases.find((each) => each.transport === transport && each.callers === callers);
  const part = "bridge";
  const { kind, bare, p50Max, cpuMax } = BRIDGED[transport];
  const where = callers === 1 ? "one caller" : `${callers} callers`;
  const named = (figure) => `${kind}${figure}${callers}VsBareBridge`;
  return [
    {
      name: named("Call"),
      title: `call of a ${kind} upstream / by a bare ${bare}, ${where}`,
      atMost: p50Max,
      part,
      of: (figures) => found(figures)?.p50,
    },
    {
      name: named("P99Call"),
      title: `its 99th percentile / by a bare ${bare}, ${where}`,
      part,
      of: (figures) => found(figures)?.p99,
    },
    {
      name: named("Cpu"),
      title: `CPU of a ${kind} call / of a bare ${bare}, without the server, ${where}`,
      atMost: cpuMax,
      part,
      of: (figures) => found(figures)?.cpu,
    },
  ];
}

/** @type {Ratio[]} */
export const ratios = [
  {
    // Leaves out the serving thread's own waits for a processor, and includes its waits for its helpers.
    name: "hostileHeldMs",
    part: "hostile",
    title: "longest that the worst arguments or answers hold the serving thread, ms",
    atMost: 25,
    of: ({ hostile }) => hostile && Math.max(...hostile.cases.map(({ heldMs }) => heldMs)),
  },
  {
    name: "hostileMs",
    part: "hostile",
    title: "longest call of one tenant meanwhile, ms",
    of: ({ hostile }) => hostile && Math.max(...hostile.cases.map(({ longestMs }) => longestMs)),
  },
  {
    name: "callThroughputVsSdk",
    title: "tools/call, throughput: Berth / SDK, 1 tool",
    part: "call",
    of: (figures) => over(speed(figures, "call", "berth"), speed(figures, "call", "sdk")),
  },
  {
    name: "callCpuVsSdk",
    title: "tools/call, CPU a request: SDK / Berth, 1 tool",
    part: "call",
    of: (figures) => over(cpu(figures, "call", "sdk"), cpu(figures, "call", "berth")),
  },
  {
    name: "callThroughputVsBare",
    title: "tools/call, throughput: Berth / bare node:http",
    atLeast: 0.6,
    part: "call",
    of: (figures) => over(speed(figures, "call", "berth"), speed(figures, "call", "bare")),
  },
  {
    name: "call50ThroughputVsSdk50",
    title: "tools/call, throughput: Berth / SDK, 50 tools",
    part: "call",
    of: (figures) => over(speed(figures, "call", "berth50"), speed(figures, "call", "sdk50")),
  },
  {
    name: "list50ThroughputVsSdk50",
    title: "tools/list of 50 tools, throughput: Berth / SDK",
    atLeast: 20,
    part: "list",
    of: (figures) => over(speed(figures, "list", "berth50"), speed(figures, "list", "sdk50")),
  },
  {
    name: "throughput1000ServersVs1",
    title: "tools/call, throughput: 1,000 servers / 1 server",
    atLeast: 0.9,
    part: "call",
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
    part: "servers",
    of: (figures) => figures.servers?.at(-1)?.firstListeningMs,
  },
  {
    name: "listeningAgainMs1000Servers",
    title: "time to listening with 1,000 servers, ms, later start",
    atMost: 2000,
    part: "servers",
    of: (figures) => figures.servers?.at(-1)?.listeningMs,
  },
  {
    name: "imageUnchangedVsGenerated",
    title: "image of 1,000 definitions: confirm / generate",
    atMost: 0.1,
    part: "image",
    of: (figures) => over(figures.image?.at(-1)?.unchangedMs, figures.image?.at(-1)?.generateMs),
  },
  {
    name: "firstEventMs",
    title: "first event of a stream at the client after its yield, ms, median",
    atMost: 5,
    part: "streams",
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
    part: "streams",
    of: ({ streams }) => streams?.announceMs,
  },
  {
    name: "metaPageMs",
    title: "page of a server with 100 tools, never rendered before, ms",
    atMost: 15,
    part: "pages",
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
    part: "pages",
    of: ({ pages }) => pages?.listMs,
  },
  {
    name: "saveInEffectMs",
    title: "time until a save is what callers get, ms, longest",
    atMost: 1500,
    part: "edits",
    of: ({ edits }) => edits?.effectMs,
  },
  {
    name: "pauseDuringSavesMs",
    title: "what calls of others take during saves, ms, p99",
    atMost: 5,
    part: "edits",
    of: ({ edits }) => edits?.pauseMs,
  },
  {
    name: "manyPauseMs",
    title: "longest wait of others for a page, list or save, 10,000 servers, ms",
    atMost: 50,
    of: ({ many }) => manyPause(many, 10_000),
  },
  {
    name: "manyPauseMs1000Servers",
    title: "the same with 1,000 servers, ms",
    atMost: 25,
    of: ({ many }) => manyPause(many, 1_000),
  },
  {
    name: "manyMemoryPerServerKb",
    title: "memory a server after all of that, 10,000 servers, KB",
    atMost: 20,
    of: ({ many }) => manyMemoryKb(many, 10_000),
  },
  {
    name: "hostedCallVsDirect",
    title: "call of a hosted upstream / the same over stdio",
    part: "upstreams",
    of: ({ upstreams }) => over(upstreams?.hostedMs, upstreams?.directMs),
  },
  ...["stdio", "http"].flatMap((transport) => [1, 20].flatMap((callers) => bridged(transport, callers))),
  {
    name: "hostedCpuVsDirect",
    title: "CPU of a hosted call / of the same over stdio",
    part: "upstreams",
    of: ({ upstreams }) => over(upstreams?.hostedCpuMicros, upstreams?.directCpuMicros),
  },
  {
    name: "hostedManyCpuVsDirect",
    title: "CPU of a hosted call / over stdio, 20 calls at a time",
    part: "upstreams",
    of: ({ upstreams }) => over(upstreams?.hostedManyCpuMicros, upstreams?.directManyCpuMicros),
  },
  {
    name: "hostedThroughputVsSupergateway",
    title: "calls of a hosted server, 20 clients: Berth / supergateway",
    atLeast: 3,
    part: "upstreams",
    of: ({ upstreams }) => over(upstreams?.hostedPerSecond, upstreams?.bridgedPerSecond),
  },
  {
    name: "catMsOverStart",
    title: "what berth cat adds to the start of the server, ms",
    atMost: 60,
    part: "upstreams",
    of: ({ upstreams }) => upstreams && upstreams.catMs - upstreams.ownMs,
  },
  {
    name: "idleUpstreamChildren",
    title: "children of 50 hosted servers that nobody uses",
    atMost: 0,
    of: ({ upstreams }) => upstreams?.idleChildren,
  },
  {
    name: "firstCallWithZodVsWithout",
    title: "first call of a definition with zod / without, no spare process",
    part: "packages",
    of: ({ packages }) => over(packages?.coldMs, packages?.coldPlainMs),
  },
  {
    name: "zodLoadVsBareNode",
    title: "what zod adds to a first call in a spare process / its load in bare Node",
    atMost: 1.2,
    part: "packages",
    of: ({ packages }) => packages && (packages.spareMs - packages.sparePlainMs) / packages.bareMs,
  },
  {
    name: "zodColdLoadVsBareNode",
    title: "what zod adds to a first call with no spare process / its load in bare Node",
    atMost: 1.2,
    part: "packages",
    of: ({ packages }) => packages && (packages.coldMs - packages.coldPlainMs) / packages.bareMs,
  },
  ...[100, 250, 500].flatMap((atMost, index) => saved(index, atMost)),
  {
    name: "stateReadVsNone",
    title: "a call that reads state / one that does not",
    atMost: 3,
    part: "state",
    of: ({ state }) => over(state?.readMs, state?.plainMs),
  },
  {
    name: "stateWriteVsNone",
    title: "a call that writes state to the disk / one that does not",
    part: "state",
    of: ({ state }) => over(state?.writeMs, state?.plainMs),
  },
  {
    name: "frozenDiskMs",
    title: "p99 of calls, lists, and /healthz while the data folder's disk is frozen, ms",
    atMost: 50,
    part: "disk",
    of: ({ disk }) => disk && Math.max(...Object.values(disk.alone), ...Object.values(disk.besideSaves)),
  },
  {
    name: "socketsVsRelay",
    title: "what a guest receives through Berth / a plain process through a relay of two sockets",
    atLeast: 0.8,
    part: "sockets",
    of: ({ sockets }) => over(sockets?.berthMbPerSecond, sockets?.relayMbPerSecond),
  },
  {
    name: "callsBesideFloodedSockets",
    title: "p99 of others' calls while two peers flood a guest / without",
    atMost: 1.5,
    part: "sockets",
    of: ({ sockets }) => over(sockets?.floodedP99Ms, sockets?.quietP99Ms),
  },
  {
    name: "callOnPostgresVsSqlite",
    title: "tools/call, throughput of one node: on Postgres / on SQLite, alternating starts",
    atLeast: 0.97,
    part: "nodes",
    of: ({ nodes }) => nodes?.stores.ratio,
  },
  {
    name: "workersCallVsOne",
    title: "tools/call, throughput: two workers / one process",
    part: "nodes",
    of: ({ nodes }) => over(nodes?.call.workers, nodes?.call.one),
  },
  {
    name: "workersListVsOne",
    title: "tools/list of 50 tools, throughput: two workers / one process",
    part: "nodes",
    of: ({ nodes }) => over(nodes?.list.workers, nodes?.list.one),
  },
  {
    name: "nodesCallVsOne",
    title: "tools/call, throughput behind haproxy: two nodes / one",
    part: "nodes",
    of: ({ nodes }) => over(nodes?.call.nodes, nodes?.call.proxied),
  },
  {
    name: "nodesListVsOne",
    title: "tools/list of 50 tools, throughput behind haproxy: two nodes / one",
    part: "nodes",
    of: ({ nodes }) => over(nodes?.list.nodes, nodes?.list.proxied),
  },
  {
    name: "proxiedCallVsOne",
    title: "tools/call, throughput: one process behind haproxy / without",
    part: "nodes",
    of: ({ nodes }) => over(nodes?.call.proxied, nodes?.call.one),
  },
  {
    name: "forwardedCallVsLocal",
    title: "call of an upstream that another node has / that this one has",
    part: "nodes",
    of: ({ nodes }) => over(nodes?.forwardedMs, nodes?.localMs),
  },
  {
    name: "startBesideTenantsMs",
    title: "start of a node on a Postgres of 100,000 tenants with 1,000,000 names, ms",
    atMost: 3_000,
    part: "tenants",
    of: ({ tenants }) => tenants?.startMs.many,
  },
  {
    name: "memoryBesideTenantsMb",
    title: "memory of such a node when it has started, beyond that of one on a Postgres without tenants, MB",
    atMost: 64,
    part: "tenants",
    of: ({ tenants }) => tenants && tenants.startedMb.many - tenants.startedMb.none,
  },
  {
    name: "coldTenantMs",
    title: "first tools/list of a tenant that the node has not opened, median, ms",
    part: "tenants",
    of: ({ tenants }) => tenants?.coldP50Ms,
  },
  {
    name: "callsBesideDrippedSockets",
    title: "p99 of others' calls while two peers send a guest single bytes / without",
    atMost: 1.5,
    part: "sockets",
    of: ({ sockets }) => over(sockets?.drippedP99Ms, sockets?.quietP99Ms),
  },
  {
    name: "callsBesidePlainRelays",
    title: "p99 of others' calls while two peers flood plain processes / without",
    part: "sockets",
    of: ({ sockets }) => over(sockets?.besideRelayP99Ms, sockets?.quietP99Ms),
  },
  ...attacked("fairness", "", 5),
  ...attacked("quota", " in a container", 15),
  {
    name: "callThroughputVsExpress",
    title: "tools/call, throughput: Berth / bare Express 5",
    part: "call",
    of: (figures) => over(speed(figures, "call", "berth"), speed(figures, "call", "express")),
  },
  {
    name: "callThroughputVsFastmcp",
    title: "tools/call, throughput: Berth / fastmcp",
    part: "call",
    of: (figures) => over(speed(figures, "call", "berth"), speed(figures, "call", "fastmcp")),
  },
];

/** @param {Figures} figures @returns {Verdict[]} */
export function judge(figures) {
  return ratios.flatMap(({ name, title, atLeast, atMost, part, of }) => {
    const value = of(figures);
    if (value === undefined) return [];
    if (atLeast === undefined && atMost === undefined) return [{ name, title, value, bound: null, pass: null }];
    const bound = atLeast === undefined ? `<= ${atMost}` : `>= ${atLeast}`;
    const othersBusy = figures.othersBusy[part] ?? 0;
    if (othersBusy > OTHERS_BUSY_MAX) return [{ name, title, value, bound, pass: null, othersBusy }];
    return [{ name, title, value, bound, pass: value >= (atLeast ?? -Infinity) && value <= (atMost ?? Infinity) }];
  });
}

/** @param {Figures["many"]} many @param {number} servers */
function manyPause(many, servers) {
  const steps = many?.find((each) => each.servers === servers)?.steps;
  return steps && Math.max(...steps.map(({ pauseMs }) => pauseMs));
}

/** The memory beyond that of the fewest servers. @param {Figures["many"]} many @param {number} servers */
function manyMemoryKb(many, servers) {
  const most = many?.find((each) => each.servers === servers);
  if (!most || many[0] === most) return undefined;
  return ((most.usedMb - many[0].usedMb) * 1024) / (servers - many[0].servers);
}

/** @param {Figures} figures @param {"memoryMb" | "listedMemoryMb"} field */
function perServerKb({ servers }, field) {
  if (!servers || servers.length < 2) return undefined;
  const [least, most] = [servers[0], servers.at(-1)];
  return ((most[field] - least[field]) * 1024) / (most.servers - least.servers);
}
