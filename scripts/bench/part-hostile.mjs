import { execFileSync, fork } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { cli, makeImage, serve, writeImageSources } from "./berth.mjs";
import { startBeside } from "./beside.mjs";
import { echoModule } from "./definitions.mjs";
import { WORTH_MS } from "./held.mjs";
import { requests, warmUp } from "./hostile-requests.mjs";
import { RETAINED_MS, secretCases, secretEntries, setSecrets } from "./hostile-secrets.mjs";
import { startServer } from "./server-process.mjs";

/**
 * The worst arguments for a schema, up to the limit of a body, and the worst answers of an upstream, up to the limit of
 * a message. Each is sent several times, one after the other, while another tenant is called.
 *
 * The verdict is about `heldMs`, the longest stretch for which the serving thread kept its event loop (`held.mjs`):
 * nobody gets an answer meanwhile. It requires a quiet machine, on which the garbage collector's threads get a
 * processor when the serving thread waits for them. `longestMs`, the longest call of the other tenant, includes delays
 * of the machine: here all processes of the service share one core, so that a call waits there several times, and the
 * serving thread itself for up to `stoodMs`.
 *
 * @typedef {{ name: string, heldMs: number, stoodMs: number, longestMs: number, answer: string }} HostileCase
 * @typedef {{ cases: HostileCase[], quietMs: number }} HostileFigures
 */

const CALM = "calm";
const REPEATS = 3;
const CALLS_PER_SECOND = 400;
const QUIET_MS = 2_000;
/** An upstream that reports changed lists is asked for them a moment later. */
const LOOK_MS = 3_000;
const heldProgram = new URL("held.mjs", import.meta.url).href;

const source = `
/** @param list @uniqueItems */
export function unique(list: { a?: number }[]): number { return list.length; }
/** @param text @format url */
export function address(text: string): number { return text.length; }
/** @param text @pattern (a?){500}a{500}$ */
export function matched(text: string): number { return text.length; }
export function texts(list: string[]): number { return list.length; }
export function numbers(list: number[]): number { return list.length; }
export function named(name: string): number { return name.length; }
export function said(text: string): string { return text; }
export function listed(count: number): number[] { return Array.from({ length: count }, () => 1); }
type Term = { op: "a"; left?: Term; right?: Term } | { op: "b"; left?: Term; right?: Term } | { op: "c"; left?: Term };
export function term(term: Term): number { return term.op.length; }
`;

const many = (count, of) => Array.from({ length: count }, (_, index) => of(index));
const nested = (levels) => {
  let term = { op: "none" };
  for (let level = 0; level < levels; level++)
    term = { op: "b", left: term, right: term.op === "none" ? term : { op: "b" } };
  return term;
};
/** The schema of the tool `any`, and its argument. */
const schemas = {
  anyOf: [
    { anyOf: many(500, (at) => ({ type: "array", minItems: 3_000_000 + at, items: { type: "number" } })) },
    many(30_000, Number),
  ],
  recursion: [
    {
      $defs: { t: { anyOf: many(4, (at) => ({ items: { $ref: "#/$defs/t" }, minItems: at + 5 })) } },
      $ref: "#/$defs/t",
    },
    JSON.parse(`${"[".repeat(120)}${"]".repeat(120)}`),
  ],
  contains: [{ contains: { contains: { const: 1 } }, minContains: 1_000_000 }, many(1_000, () => many(300, () => 0))],
  unevaluated: [
    { anyOf: many(50, (at) => ({ patternProperties: { [`^k${at}`]: true } })), unevaluatedProperties: false },
    Object.fromEntries(many(20_000, (at) => [`k${at}`, 0])),
  ],
  propertyNames: [
    { propertyNames: { pattern: "^(a|b|c)*x$" } },
    Object.fromEntries(many(20_000, (at) => [`abc${at}`, 0])),
  ],
};

const attacks = {
  unique: ["unique", { list: many(200_000, (a) => ({ a })) }],
  url: ["address", { text: `http://${"a:".repeat(1_900_000)} ` }],
  pattern: ["matched", { text: "a".repeat(1_000_000) }],
  wrongItems: ["texts", { list: many(1_900_000, () => 1) }],
  rightItems: ["numbers", { list: many(1_900_000, () => 1) }],
  properties: ["named", Object.fromEntries(many(300_000, (at) => [`k${at}`, 1]))],
  union: ["term", { term: nested(200) }],
  ...Object.fromEntries(
    Object.entries({ letter: "a", accent: "é", sign: "€", emoji: "😀", quote: '"' }).map(([name, text]) => [
      `${name}Said`,
      ["said", { text: text.repeat(3_900_000 / (text === '"' ? 2 : Buffer.byteLength(text))) }],
    ]),
  ),
  listed: ["listed", { count: 1_900_000 }],
  ...Object.fromEntries(Object.entries(schemas).map(([name, [, value]]) => [name, [name, { value }]])),
};

/** The tools of `hostile-upstream.mjs`, by the way it is reached. */
const answers = ["numbers", "lists", "blocks", "long"];
const lists = ["oneHugeTool", "manyTools", "manyWideTools", "deepTool", "longLog"];
const upstreams = { pipe: [...answers, ...lists], json: answers, events: answers };
/**
 * Calls that are also made in a batch, and in a session's stream, which have ways of their own to write and keep
 * answers.
 */
const inOtherWays = [
  ["hostile", ...attacks.emojiSaid],
  ["pipe", "numbers", {}],
  ["pipe", "long", {}],
];
const upstreamFile = fileURLToPath(new URL("hostile-upstream.mjs", import.meta.url));

/**
 * @param {string} folder @param {(line: string) => void} say @param {RegExp} [only] the names of cases to measure
 * @returns {Promise<HostileFigures>}
 */
export async function measureHostile(folder, say, only = /^/) {
  const remotes = [];
  const own = mkdtempSync(join(folder, "hostile-"));
  const held = join(own, "held");
  writeFileSync(held, "");
  const server = await startServer(await prepare(own, remotes, held));
  const calm = await startBeside("steady-caller.mjs", [String(server.port), `/t/${CALM}/mcp/echo`]);
  const attacker = await startBeside("hostile-caller.mjs", [String(server.port)], { yields: true });
  const attack = async (target, tool, args, times = 1, as) =>
    (await attacker.ask({ server: target, tool, args, times, as })).answer;
  try {
    await save(server.port);
    await calm.ask({ ms: QUIET_MS, perSecond: 2_000 });
    const { taken } = await calm.ask({ ms: QUIET_MS, perSecond: CALLS_PER_SECOND });
    const quietMs = Math.max(...taken);
    const cases = [];
    const measure = async (name, target, tool, args, as, afterMs = lists.includes(tool) ? LOOK_MS : 200) => {
      const calls = calm.ask({ ms: 600_000, perSecond: CALLS_PER_SECOND });
      const from = Date.now();
      await sleep(200);
      const answer = await attack(target, tool, args, REPEATS, as);
      await sleep(afterMs);
      calm.tell("stop");
      const longestMs = Math.max(...(await calls).taken);
      const { heldMs, stoodMs } = longestSince(from, held);
      cases.push({ name, heldMs, stoodMs, longestMs, answer });
      say(
        `${name}: held ${heldMs.toFixed(1)} ms at most, stood still ${stoodMs.toFixed(1)}; others ${longestMs.toFixed(1)}`,
      );
    };
    for (const [name, [tool, args]] of Object.entries(attacks)) {
      if (!only.test(name)) continue;
      // Its schema is compiled, and the client has written its text.
      await attack("hostile", tool, "{}");
      await measure(`hostile arguments, ${name}`, "hostile", tool, JSON.stringify(args));
    }
    for (const [server_, tools] of Object.entries(upstreams)) {
      for (const tool of tools) {
        if (!only.test(`${server_} ${tool}`)) continue;
        await attack(server_, tool, "{}");
        await measure(`hostile answers by ${server_}, ${tool}`, server_, tool, "{}");
      }
    }
    for (const as of ["batch", "stream"]) {
      for (const [target, tool, args] of inOtherWays) {
        if (!only.test(`${as} ${tool}`)) continue;
        await attack(target, tool, "{}");
        await measure(`hostile answers by ${target} in a ${as}, ${tool}`, target, tool, JSON.stringify(args), as);
      }
    }
    await setSecrets(server.port);
    for (const [name, [target, tool, args]] of Object.entries(secretCases)) {
      if (!only.test(name)) continue;
      await attack(target, tool, '{"lines":1}');
      await measure(name, target, tool, JSON.stringify(args), undefined, RETAINED_MS);
    }
    for (const name of ["calm", "attacked"]) await save(server.port, `/api/definitions/${name}`);
    await attacker.ask({ steps: warmUp });
    for (const [name, steps] of Object.entries(requests)) {
      if (!only.test(name)) continue;
      const calls = calm.ask({ ms: 600_000, perSecond: CALLS_PER_SECOND });
      const from = Date.now();
      let answer = "";
      for (let time = 0; time < 2; time++) answer = (await attacker.ask({ steps })).answer;
      calm.tell("stop");
      const longestMs = Math.max(...(await calls).taken);
      const { heldMs, stoodMs } = longestSince(from, held);
      cases.push({ name, heldMs, stoodMs, longestMs, answer });
      say(`${name}: held ${heldMs.toFixed(1)} ms at most, stood still ${stoodMs.toFixed(1)}; ${answer}`);
    }
    return { cases, quietMs };
  } finally {
    calm.end();
    attacker.end();
    await server.stop();
    for (const each of remotes) each.kill("SIGKILL");
  }
}

/** The longest stretch of each kind since then, among those that the serving thread wrote down. */
function longestSince(from, file) {
  let [heldMs, stoodMs] = [WORTH_MS, WORTH_MS];
  for (const line of readFileSync(file, "utf8").split("\n")) {
    const [at, held, stood] = line ? JSON.parse(line) : [0];
    if (at < from) continue;
    heldMs = Math.max(heldMs, held);
    stoodMs = Math.max(stoodMs, stood);
  }
  return { heldMs, stoodMs };
}

/** Starts the upstream so that it is reached over HTTP; returns its address. */
async function startRemote(remotes, manner) {
  const child = fork(upstreamFile, ["http", manner]);
  remotes.push(child);
  const [port] = await once(child, "message");
  return `mcp+http://127.0.0.1:${port}/mcp`;
}

async function prepare(folder, remotes, held) {
  const [sources, image, data] = ["sources", "image", "data"].map((name) => join(folder, name));
  mkdirSync(sources);
  writeFileSync(join(sources, "hostile.ts"), source + Object.keys(schemas).map(anyModule).join(""));
  const tools = Object.fromEntries(
    Object.entries(schemas).map(([name, [schema]]) => [
      name,
      { inputSchema: { type: "object", $defs: schema.$defs ?? {}, properties: { value: schema } } },
    ]),
  );
  writeImageSources(sources, {
    hostile: { definition: "hostile.ts", tools, auto_discover: true },
    pipe: { upstream: `mcp+node://${upstreamFile}` },
    json: { upstream: await startRemote(remotes, "json") },
    events: { upstream: await startRemote(remotes, "events") },
    ...secretEntries(sources),
  });
  await makeImage(sources, image);
  execFileSync(process.execPath, [cli, "tenant", "create", CALM, "--data", data], { stdio: "ignore" });
  const launch = serve(folder, image, { data, nodeFlags: ["--import", heldProgram] });
  return (port) => {
    const { env, ...rest } = launch(port);
    return { ...rest, env: { ...env, BENCH_HELD: held, BERTH_REGISTRY: "http://127.0.0.1:9/" } };
  };
}

const anyModule = (name) => `export function ${name}(value: unknown): string { return typeof value; }\n`;

async function save(port, path = `/t/${CALM}/api/definitions/echo`) {
  const response = await fetch(`http://127.0.0.1:${port}${path}`, {
    method: "PUT",
    headers: { "Content-Type": "text/plain", "If-None-Match": "*" },
    body: echoModule(1),
  });
  if (!response.ok) throw new Error(`the definition was not saved: ${response.status} ${await response.text()}`);
}
