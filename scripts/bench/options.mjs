import { resolve } from "node:path";
import { parseArgs } from "node:util";
import { ratios } from "./bounds.mjs";

/**
 * The options of the command line.
 *
 * @typedef {{ parts: Set<string>, rounds: number, seconds: number, warmUpSeconds: number, serverCounts: number[],
 *   startRepeats: number, streams: { events: number, listeners: number }, saves: number, manyCounts: number[], upstreams: { calls: number, seconds: number }, bridge: { turns: number, calls: number, warmUpCalls: number }, fairness: { rounds: number, seconds: number }, quota: { rounds: number, seconds: number }, firstCalls: number, stateCalls: number, frozenSeconds: number, sockets: { megabytes: number, rounds: number, seconds: number }, nodes: { rounds: number, seconds: number, calls: number }, tenants: { tenants: number, starts: number, cold: number }, profile?: string, json: boolean, gate: boolean, help: boolean, keep: boolean }} Options
 */

export const parts = [
  "call",
  "list",
  "servers",
  "image",
  "streams",
  "pages",
  "edits",
  "many",
  "upstreams",
  "bridge",
  "fairness",
  "hostile",
  "quota",
  "packages",
  "dev",
  "state",
  "disk",
  "sockets",
  "nodes",
  "tenants",
];

/** @param {string[]} args @returns {Options} Throws with a sentence for a person. */
export function readOptions(args) {
  const { values } = parseArgs({
    args,
    options: {
      only: { type: "string" },
      rounds: { type: "string" },
      seconds: { type: "string" },
      quick: { type: "boolean", default: false },
      json: { type: "boolean", default: false },
      "no-gate": { type: "boolean", default: false },
      servers: { type: "string" },
      profile: { type: "string" },
      keep: { type: "boolean", default: false },
      help: { type: "boolean", short: "h", default: false },
    },
  });
  const chosen = values.only === undefined ? parts : values.only.split(",").map((part) => part.trim());
  for (const part of chosen) {
    if (!parts.includes(part)) throw new Error(`--only takes ${parts.join(", ")}, not "${part}"`);
  }
  const { quick } = values;
  return {
    parts: new Set(chosen),
    rounds: count("rounds", values.rounds, quick ? 1 : 5),
    seconds: count("seconds", values.seconds, quick ? 1 : 3),
    // The official SDK takes 4 to 5 s of load until its code is compiled; before that it costs two to three times as
    // much.
    warmUpSeconds: quick ? 1 : 5,
    serverCounts: quick ? [1, 10, 100] : [1, 10, 100, 1000],
    startRepeats: quick ? 1 : 3,
    streams: quick ? { events: 100_000, listeners: 500 } : { events: 1_000_000, listeners: 5_000 },
    saves: quick ? 3 : 20,
    manyCounts: values.servers === undefined ? (quick ? [1, 1000] : [1, 100, 1000, 10_000]) : counts(values.servers),
    fairness: quick ? { rounds: 2, seconds: 1 } : { rounds: 10, seconds: 2 },
    quota: quick ? { rounds: 1, seconds: 1 } : { rounds: 5, seconds: 2 },
    upstreams: quick ? { calls: 500, seconds: 1 } : { calls: 5_000, seconds: 5 },
    bridge: quick ? { turns: 4, calls: 500, warmUpCalls: 1_000 } : { turns: 20, calls: 2_000, warmUpCalls: 5_000 },
    firstCalls: quick ? 3 : 25,
    stateCalls: quick ? 500 : 5_000,
    frozenSeconds: quick ? 3 : 12,
    sockets: quick ? { megabytes: 256, rounds: 2, seconds: 1 } : { megabytes: 1024, rounds: 5, seconds: 4 },
    nodes: quick ? { rounds: 1, seconds: 1, calls: 200 } : { rounds: 7, seconds: 3, calls: 3_000 },
    tenants: quick ? { tenants: 1_000, starts: 1, cold: 50 } : { tenants: 100_000, starts: 5, cold: 1_000 },
    json: values.json,
    profile: values.profile === undefined ? undefined : resolve(values.profile),
    gate: !values["no-gate"] && !quick && values.profile === undefined,
    help: values.help,
    keep: values.keep,
  };
}

export function help() {
  const width = Math.max(...ratios.map(({ name }) => name.length));
  const lines = ratios.map(({ name, title, atLeast, atMost }) => {
    const bound = atLeast !== undefined ? `>= ${atLeast}` : atMost !== undefined ? `<= ${atMost}` : "";
    return `  ${name.padEnd(width)}  ${bound.padEnd(8)} ${title}`;
  });
  return `Usage: npm run bench -- [options]

Measures Berth beside a bare node:http server, Express 5, the official SDK and fastmcp: one at a time, in turn, the
same load, the server, with whatever processes it starts, on one core and the load generator (wrk)
on another; edits, many, upstreams, bridge, state, disk, nodes and tenants have all cores, quota a container that may use one. About twenty minutes.

  --only PART[,PART]  ${parts.join(", ")} (all)
  --rounds N          times that each contestant has its turn; medians are reported (5)
  --seconds S         length of each load, in whole seconds, after 5 s to warm up (3)
  --servers N[,N]     how many servers the part many has (1,100,1000,10000)
  --quick             one short round and 100 servers at most: for a look; never fails by a bound
  --json              one object on standard output instead of tables (npm: run with --silent)
  --no-gate           exit code 0 also when a bound is missed
  --profile FOLDER    write a CPU profile of each run of Berth, which slows it; never fails by a bound
  --keep              leave the folder with sources, images and logs
  --help              this text

Ratios, by their names in the JSON, and what each must reach (exit code 1 when one does not; where other programs took
more than a twentieth of a core meanwhile, there is no verdict):

${lines.join("\n")}
`;
}

function counts(text) {
  return text.split(",").map((each) => count("servers", each.trim(), 1));
}

function count(name, text, fallback) {
  if (text === undefined) return fallback;
  if (!/^[1-9][0-9]*$/.test(text)) throw new Error(`--${name} must be a whole number from 1, not "${text}"`);
  return Number(text);
}
