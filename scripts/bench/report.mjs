/** Figures as tables for a terminal. */
import { OTHERS_BUSY_MAX } from "./bounds.mjs";

const colour = process.stdout.isTTY && !process.env["NO_COLOR"];
const paint = (code, text) => (colour ? `\u001b[${code}m${text}\u001b[0m` : text);

/** @param {{ machine: object, options: { serverCounts: number[] }, figures: import("./bounds.mjs").Figures, titles: Record<string, string>, discoveryMs?: number,
 *   verdicts: ReturnType<typeof import("./bounds.mjs").judge> }} result */
export function printReport({ machine, options, figures, titles, discoveryMs, verdicts }) {
  const { cpu, cores, memoryGb, node, loadAverage } = machine;
  print(`${cpu}, ${cores} cores, ${memoryGb} GB, Node ${node}, load average ${loadAverage} at the start`);

  for (const [kind, contestants] of Object.entries(figures.trials)) {
    if (Object.keys(contestants).length === 0) continue;
    const rows = Object.entries(contestants).map(([contestant, sample]) => [
      titles[contestant],
      whole(sample.requestsPerSecond),
      fixed(sample.p50Ms, 2),
      fixed(sample.p99Ms, 2),
      fixed(sample.cpuMicros, 1),
      sample.guestCpuMicros > 0 ? fixed(sample.guestCpuMicros, 1) : "–",
      whole(sample.memoryPeakMb),
      sample.guestMemoryPeakMb > 0 ? whole(sample.guestMemoryPeakMb) : "–",
      whole(sample.listeningMs),
      percent(sample.serverBusy),
      percent(sample.generatorBusy),
    ]);
    const head = [
      "requests/s",
      "p50 ms",
      "p99 ms",
      "CPU µs",
      "guests' µs",
      "peak MB",
      "guests' MB",
      "listens ms",
      "server busy",
      "wrk busy",
    ];
    table(kind === "call" ? "tools/call of echo" : "tools/list of 50 tools", head, rows);
  }

  if (figures.servers) {
    const rows = figures.servers.map((row) => [
      whole(row.servers),
      whole(row.firstListeningMs),
      whole(row.listeningMs),
      fixed(row.firstCallMs, 1),
      fixed(row.memoryMb, 1),
      fixed(row.listedMemoryMb, 1),
    ]);
    table(
      "Starts of Berth",
      ["first start, ms", "later, ms", "first call, ms", "MB", "MB, all listed"],
      rows,
      "servers",
    );
  }

  if (figures.image) {
    const rows = figures.image.map((row) => [
      whole(row.servers),
      whole(row.generateMs),
      fixed(row.perDefinitionMs, 1),
      whole(row.unchangedMs),
    ]);
    table("Image generation", ["from nothing, ms", "ms a definition", "unchanged, ms"], rows, "definitions");
    if (discoveryMs !== undefined) print(`One file with berth discover: ${whole(discoveryMs)} ms, its start included`);
  }

  if (figures.streams) {
    const { longEvents, eventsPerSecond, listeners } = figures.streams;
    print(
      `\nStreams: ${whole(longEvents)} events in one call, ${whole(eventsPerSecond)} a second; ${whole(listeners)} listeners`,
    );
  }

  if (figures.hostile) {
    const { cases, quietMs } = figures.hostile;
    print(
      "\nHostile arguments and answers: the longest that the serving thread was held, that it stood still besides for want\n" +
        `of a processor, and that a call of others took, which takes ${fixed(quietMs, 1)} ms without any; ms`,
    );
    for (const { name, heldMs, stoodMs, longestMs } of cases) {
      const [held, stood, longest] = [heldMs, stoodMs, longestMs].map((ms) => fixed(ms, 1).padStart(8));
      print(`  ${name.padEnd(40)}${held}${stood}${longest}`);
    }
  }

  if (figures.pages) {
    const { tools, metaMs, metaAgainMs, metaKb, servers, listMs, listKb } = figures.pages;
    print(
      `\nPages: ${tools} tools ${fixed(metaMs, 1)} ms, again ${fixed(metaAgainMs, 1)} ms, ${fixed(metaKb, 1)} KB; ` +
        `${whole(servers)} servers ${fixed(listMs, 1)} ms, ${fixed(listKb, 1)} KB`,
    );
  }

  if (figures.packages) {
    const { bundleKb, coldMs, coldPlainMs, spareMs, sparePlainMs, bareMs } = figures.packages;
    print(
      `\nPackages: first call with zod (${whole(bundleKb)} KB) ${fixed(coldMs, 1)} ms, without ${fixed(coldPlainMs, 1)} ms; ` +
        `with a spare process ${fixed(spareMs, 1)} and ${fixed(sparePlainMs, 1)} ms; bare Node loads it in ${fixed(bareMs, 1)} ms`,
    );
  }

  for (const { name, savedMs, p95Ms, tscMs } of figures.dev ?? []) {
    print(
      `\nberth dev ${name}: served ${fixed(savedMs, 0)} ms after a save, p95 ${fixed(p95Ms, 0)} ms; tsc takes ${fixed(tscMs, 0)} ms`,
    );
  }

  if (figures.state) {
    const { plainMs, readMs, writeMs } = figures.state;
    print(
      `\nState: a call ${fixed(plainMs, 3)} ms, with a read ${fixed(readMs, 3)} ms, with a write ${fixed(writeMs, 3)} ms`,
    );
  }

  if (figures.sockets) {
    const { berthMbPerSecond, relayMbPerSecond, bareMbPerSecond } = figures.sockets;
    const { quietP99Ms, floodedP99Ms, drippedP99Ms, besideRelayP99Ms } = figures.sockets;
    const { floodMbPerSecond, relayFloodMbPerSecond } = figures.sockets;
    print(
      `\nSockets: ${whole(berthMbPerSecond)} MB/s through Berth, ${whole(relayMbPerSecond)} through a relay of two sockets, ` +
        `${whole(bareMbPerSecond)} without; calls of others take ${fixed(quietP99Ms, 2)} ms at p99, ` +
        `${fixed(floodedP99Ms, 2)} ms beside a flood of ${whole(floodMbPerSecond)} MB/s, ${fixed(drippedP99Ms, 2)} ms ` +
        `beside one of single bytes, and ${fixed(besideRelayP99Ms, 2)} ms beside one of ` +
        `${whole(relayFloodMbPerSecond)} MB/s through plain relays`,
    );
  }

  if (figures.nodes) {
    const names = {
      one: "one process",
      workers: "two workers",
      proxied: "one process behind haproxy",
      nodes: "two processes behind haproxy",
    };
    const { call, list, localMs, forwardedMs, saves, stores } = figures.nodes;
    table(
      "Several processes, requests a second",
      ["tools/call", "tools/list of 50 tools"],
      Object.entries(names).map(([name, title]) => [title, whole(call[name]), whole(list[name])]),
    );
    print(
      `\nA call of an upstream that this node has ${fixed(localMs, 2)} ms, that another one has ${fixed(forwardedMs, 2)} ms`,
    );
    print(`Calls a second of one node on SQLite ${whole(stores.sqlite)}, on Postgres ${whole(stores.postgres)}`);
    table(
      "As many writers as workers, each of which saves again and again",
      ["saves/s", "p50 / p99 / max of a save, ms", "p99 of calls before, ms", "meanwhile", "max"],
      saves.map((row) => [
        whole(row.workers),
        whole(row.perSecond),
        `${fixed(row.saveP50Ms, 1)} / ${fixed(row.saveP99Ms, 1)} / ${fixed(row.saveMaxMs, 1)}`,
        fixed(row.quietP99Ms, 1),
        fixed(row.callP99Ms, 1),
        fixed(row.callMaxMs, 1),
      ]),
      "workers",
    );
  }

  if (figures.tenants) {
    const { tenants, names, startMs, startedMb, coldP50Ms, coldP99Ms, mbPer1000 } = figures.tenants;
    print(
      `\nA Postgres with ${whole(tenants)} tenants and ${whole(names)} names: a node starts in ${whole(startMs.many)} ms with ` +
        `${whole(startedMb.many)} MB (without tenants ${whole(startMs.none)} ms, ${whole(startedMb.none)} MB); the first list of a ` +
        `tenant takes ${fixed(coldP50Ms, 1)} ms, ${fixed(coldP99Ms, 1)} at p99, and 1,000 open tenants ${fixed(mbPer1000, 1)} MB`,
    );
  }

  if (figures.edits) {
    const { saves, servers, quietMs } = figures.edits;
    print(
      `\nEdits: ${whole(saves)} saves among ${whole(servers)} servers; calls of others take ${fixed(quietMs, 2)} ms at p99 before them`,
    );
  }

  for (const { title, field } of figures.many ? MANY : []) {
    const sizes = figures.many.map(({ servers }) => servers);
    const rows = figures.many[0].steps.map(({ name }, step) => {
      const values = figures.many.map(({ steps }) => steps[step][field]);
      return [name, ...values.map((value) => fixed(value, 1)), exponent(sizes, values)];
    });
    table(title, [...sizes.map((size) => `${whole(size)} servers`), "exponent"], rows, "step");
  }
  if (figures.many) {
    const memory = figures.many.map(({ servers, startedMb, usedMb }) => {
      return `${whole(servers)} servers ${whole(startedMb)} and ${whole(usedMb)} MB`;
    });
    print(`\nMemory at first and after all of it: ${memory.join("; ")}`);
  }

  if (figures.upstreams) {
    const { hostedMs, directMs, hostedCpuMicros, directCpuMicros, ...others } = figures.upstreams;
    const { hostedManyCpuMicros, directManyCpuMicros, hostedPerSecond, bridgedPerSecond, clients } = others;
    const { catMs, ownMs, nodeMs } = others;
    print(
      `\nUpstreams: a call ${fixed(hostedMs, 3)} ms, direct ${fixed(directMs, 3)} ms; ` +
        `CPU ${whole(hostedCpuMicros)} µs, direct ${whole(directCpuMicros)} µs; ${whole(clients)} calls at a time ` +
        `${whole(hostedManyCpuMicros)} µs, direct ${whole(directManyCpuMicros)} µs; ${whole(clients)} clients ` +
        `${whole(hostedPerSecond)} calls/s, bridged ${whole(bridgedPerSecond)}; berth cat ${whole(catMs)} ms, ` +
        `start alone ${whole(ownMs)} ms, a start of node ${whole(nodeMs)} ms`,
    );
  }

  if (figures.bridge) {
    const shown = ({ p50Ms, p99Ms, cpuMicros }) =>
      `${fixed(p50Ms, 3)} / ${fixed(p99Ms, 3)} ms, CPU ${whole(cpuMicros)} µs`;
    for (const { transport, callers, hosted, bare } of figures.bridge.cases) {
      print(
        `\nA call over ${transport}, ${whole(callers)} at a time: p50 / p99 ${shown(hosted)} without the server; ` +
          `by a bare program ${shown(bare)}`,
      );
    }
  }

  const fair = {
    "while another does its worst": figures.fairness,
    "while another does its worst, in a container of one processor": figures.quota,
  };
  for (const [title, part] of Object.entries(fair)) {
    if (!part) continue;
    const rows = part.cases.map(fairnessRow);
    table(
      `Calls of one tenant ${title}`,
      [
        "p50 / p99 alone, ms",
        "ran + waited",
        "meanwhile, ms",
        "ran + waited",
        "9 of 10 ratios",
        "what the other was answered",
      ],
      rows,
      "attack",
    );
  }

  warnOfOthers(figures);
  print(paint(1, "\nRatios"));
  const most = options.serverCounts.at(-1);
  if (most !== 1000)
    print(`  With ${most} servers and definitions where 1,000 are named: for a look, not for a verdict.`);
  const width = Math.max(...verdicts.map(({ title }) => title.length));
  for (const { title, value, bound, pass, othersBusy } of verdicts) {
    const none = othersBusy === undefined ? "" : paint(33, `no verdict: others took ${percent(othersBusy)} of a core`);
    const mark = pass === null ? none : pass ? paint(32, "pass") : paint(31, "FAIL");
    print(`  ${title.padEnd(width)} ${fixed(value, 2).padStart(9)}  ${(bound ?? "").padEnd(8)} ${mark}`.trimEnd());
  }
}

function fairnessRow({ name, quiet, attacked, from, to, statuses }) {
  const spread = ({ p50Ms, p99Ms, waited, ran }) => [
    `${fixed(p50Ms, 2)} / ${fixed(p99Ms, 2)}`,
    `${percent(ran)} + ${percent(waited)}`,
  ];
  return [name, ...spread(quiet), ...spread(attacked), `${fixed(from, 2)}–${fixed(to, 2)}`, statuses];
}

function warnOfOthers({ othersBusy }) {
  const disturbed = Object.entries(othersBusy).filter(([, share]) => share > OTHERS_BUSY_MAX);
  if (disturbed.length === 0) return;
  const shares = disturbed.map(([part, share]) => `${part} ${percent(share)}`).join(", ");
  print(paint(33, `\nOther programs took part of a core, and what suffers from it gets no verdict: ${shares}`));
}

function table(title, head, rows, first = "") {
  const all = [[first, ...head], ...rows];
  const widths = all[0].map((_, column) => Math.max(...all.map((row) => row[column].length)));
  print(paint(1, `\n${title}`));
  for (const [index, row] of all.entries()) {
    const cells = row.map((cell, column) => (column === 0 ? cell.padEnd(widths[0]) : cell.padStart(widths[column])));
    const line = `  ${cells.join("  ")}`;
    print(index === 0 ? paint(2, line) : line);
  }
}

function print(line) {
  process.stdout.write(`${line}\n`);
}

const MANY = [
  { title: "Very many servers: longest wait of others, ms", field: "pauseMs" },
  { title: "Very many servers: until it is answered, ms", field: "ms" },
  { title: "Very many servers: processor time, ms", field: "cpuMs" },
];

/** The exponent with which values grow with the number of servers: 0 is flat, 1 is proportional. */
function exponent(sizes, values) {
  const points = sizes.map((size, index) => [Math.log(size), Math.log(Math.max(values[index], 0.1))]);
  const mean = (axis) => points.reduce((sum, point) => sum + point[axis], 0) / points.length;
  const [x, y] = [mean(0), mean(1)];
  const spread = points.reduce((sum, point) => sum + (point[0] - x) ** 2, 0);
  if (spread === 0) return "–";
  return fixed(points.reduce((sum, point) => sum + (point[0] - x) * (point[1] - y), 0) / spread, 2);
}

const percent = (share) => `${Math.round(share * 100)} %`;
const whole = (value) => Math.round(value).toLocaleString("en");
const fixed = (value, digits) =>
  value.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });
