import { mkdirSync, mkdtempSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { makeImage, serve, writeImageSources } from "./berth.mjs";
import { startBeside } from "./beside.mjs";
import { echoModule } from "./definitions.mjs";
import { machine } from "./machine.mjs";
import { modernCall } from "./requests.mjs";
import { median, percentile } from "./rounds.mjs";
import { startServer } from "./server-process.mjs";

/**
 * Sockets of guests. Throughput: a guest receives a number of bytes through Berth's relay, without its limit for tenants,
 * and a plain process receives them through the simplest relay of two sockets, and with none; in turns.
 *
 * Floods: calls of another server at a moderate rate, in many windows: without anything else, while two peers send a
 * guest as much as it takes, while they send it one byte after the other, and while two plain processes receive such
 * floods through the simplest relays, which is what the machine itself gives. As in the fairness part, Berth and all its
 * processes share one core, and so do the plain ones; peers and the caller stand for other machines: they are on the
 * other core, where the caller comes first.
 *
 * @typedef {{ berthMbPerSecond: number, relayMbPerSecond: number, bareMbPerSecond: number, quietP99Ms: number,
 *   floodedP99Ms: number, drippedP99Ms: number, besideRelayP99Ms: number, floodMbPerSecond: number,
 *   relayFloodMbPerSecond: number }} SocketsFigures
 */

const DEFINITION = `import net from "node:net";
/** Receives bytes from a peer; tells how many milliseconds that took. */
export async function receive(port: number, bytes: number): Promise<number> {
  const startedAt = performance.now();
  let received = 0;
  await new Promise((resolve, reject) => {
    const socket = net.connect(port, "127.0.0.1", () => socket.write(bytes + "\\n"));
    socket.on("data", (chunk) => (received += chunk.length)).on("error", reject).on("end", resolve);
  });
  if (received !== bytes) throw new Error("received " + received + " bytes");
  return performance.now() - startedAt;
}
/** Receives whatever peers send, over so many connections to each; tells how many bytes came. */
export async function receiveFor(ms: number, ports: number[], connections: number): Promise<number> {
  let received = 0;
  const sockets = ports.flatMap((port) => Array.from({ length: connections }, () => net.connect(port, "127.0.0.1")));
  for (const socket of sockets) {
    socket.on("data", (chunk) => (received += chunk.length)).on("error", () => {});
    socket.write("${Number.MAX_SAFE_INTEGER}\\n");
  }
  await new Promise((resolve) => setTimeout(resolve, ms));
  for (const socket of sockets) socket.destroy();
  return received;
}
`;
const MEGABYTE = 1024 * 1024;
const WARM_UP_BYTES = 64 * MEGABYTE;
const RELAY_FLOOD_BYTES = 64 * MEGABYTE;
const CALLS_PER_SECOND = 250;
const PEERS = 2;
const DRIPPING_CONNECTIONS = 16;
/** The time until a flood is in full swing, and until nothing of it is left. */
const ONSET_MS = 500;
const SETTLE_MS = 500;

/**
 * @param {string} folder
 * @param {{ megabytes: number, rounds: number, seconds: number }} size
 * @param {(line: string) => void} say
 * @returns {Promise<SocketsFigures>}
 */
export async function measureSockets(folder, size, say) {
  return { ...(await measureThroughput(folder, size, say)), ...(await measureFloods(folder, size, say)) };
}

async function measureThroughput(folder, { megabytes, rounds }, say) {
  const beside = [];
  const start = async (...args) => {
    beside.push(await startBeside("socket-peer.mjs", args, { pinned: false }));
    return beside.at(-1);
  };
  const peer = await start("flood");
  const { port } = await peer.ask("port");
  const path = join(folder, "relay");
  await start("relay", path, String(port));
  const receiver = await start("receive");
  const unlimited = { BERTH_SOCKET_BYTES_PER_SECOND_PER_TENANT: "0" };
  const server = await startServer(await serving(folder, [port], unlimited), { alone: false });
  try {
    const ways = {
      berth: (bytes) => called(server.port, "/mcp/sockets", "receive", { port, bytes }),
      relay: async (bytes) => (await receiver.ask({ path, bytes })).ms,
      bare: async (bytes) => (await receiver.ask({ port, bytes })).ms,
    };
    const speeds = Object.fromEntries(Object.keys(ways).map((way) => [way, []]));
    for (let round = -1; round < rounds; round++) {
      for (const [way, run] of Object.entries(ways)) {
        const bytes = round < 0 ? WARM_UP_BYTES : megabytes * MEGABYTE;
        const ms = await run(bytes);
        if (round >= 0) speeds[way].push(bytes / MEGABYTE / (ms / 1000));
      }
    }
    const [berthMbPerSecond, relayMbPerSecond, bareMbPerSecond] = Object.values(speeds).map(median);
    say(
      `sockets: ${Math.round(berthMbPerSecond)} MB/s through Berth, ${Math.round(relayMbPerSecond)} through a relay of ` +
        `two sockets, ${Math.round(bareMbPerSecond)} without one`,
    );
    return { berthMbPerSecond, relayMbPerSecond, bareMbPerSecond };
  } finally {
    for (const each of beside) each.end();
    await server.stop();
  }
}

async function measureFloods(folder, { rounds, seconds }, say) {
  const beside = [];
  const start = async (options, file, ...args) => {
    beside.push(await startBeside(file, args, options));
    return beside.at(-1);
  };
  const portsOf = async (kind) => {
    const ports = [];
    for (let n = 0; n < PEERS; n++) {
      const peer = await start({ yields: true }, "socket-peer.mjs", kind);
      ports.push((await peer.ask("port")).port);
    }
    return ports;
  };
  const [floodPorts, dripPorts] = [await portsOf("flood"), await portsOf("drip")];
  const besideBerth = { core: machine.serverCore };
  const receivers = [];
  for (const port of floodPorts) {
    const path = join(folder, `relay-${port}`);
    await start(besideBerth, "socket-peer.mjs", "relay", path, String(port));
    receivers.push({ path, receiver: await start(besideBerth, "socket-peer.mjs", "receive") });
  }
  const server = await startServer(await serving(folder, [...floodPorts, ...dripPorts]));
  try {
    const calm = await start({}, "steady-caller.mjs", String(server.port), "/mcp/calm");
    await calm.ask({ ms: 3_000, perSecond: 2_000 });
    const taken = { quiet: [], flooded: [], dripped: [], besideRelay: [] };
    const bytes = { flooded: 0, dripped: 0, besideRelay: 0 };
    const windowMs = seconds * 1000;
    const measure = async (kind) =>
      taken[kind].push(...(await calm.ask({ ms: windowMs, perSecond: CALLS_PER_SECOND })).taken);
    const receiveFor = (ports, connections) =>
      called(server.port, "/mcp/sockets", "receiveFor", { ms: ONSET_MS + windowMs, ports, connections });
    const floods = {
      flooded: () => receiveFor(floodPorts, 1),
      dripped: () => receiveFor(dripPorts, DRIPPING_CONNECTIONS),
      besideRelay: async () => {
        const endAt = performance.now() + ONSET_MS + windowMs;
        const each = receivers.map(async ({ path, receiver }) => {
          let received = 0;
          while (performance.now() < endAt)
            received += (await receiver.ask({ path, bytes: RELAY_FLOOD_BYTES })).received;
          return received;
        });
        return (await Promise.all(each)).reduce((sum, received) => sum + received);
      },
    };
    for (let round = 0; round < rounds; round++) {
      for (const [kind, flood] of Object.entries(floods)) {
        await measure("quiet");
        const flooding = flood();
        await sleep(ONSET_MS);
        await measure(kind);
        bytes[kind] += await flooding;
        await sleep(SETTLE_MS);
      }
    }
    const [quietP99Ms, floodedP99Ms, drippedP99Ms, besideRelayP99Ms] = Object.values(taken).map((all) =>
      percentile(all, 0.99),
    );
    const perSecond = (count) => count / MEGABYTE / (rounds * (seconds + ONSET_MS / 1000));
    say(
      `sockets: calls of others take ${quietP99Ms.toFixed(2)} ms at p99, ${floodedP99Ms.toFixed(2)} ms while two peers ` +
        `flood a guest, ${drippedP99Ms.toFixed(2)} ms while they do byte by byte, ${besideRelayP99Ms.toFixed(2)} ms ` +
        `beside plain relays`,
    );
    const [floodMbPerSecond, relayFloodMbPerSecond] = [bytes.flooded, bytes.besideRelay].map(perSecond);
    return { quietP99Ms, floodedP99Ms, drippedP99Ms, besideRelayP99Ms, floodMbPerSecond, relayFloodMbPerSecond };
  } finally {
    for (const each of beside) each.end();
    await server.stop();
  }
}

async function serving(folder, ports, env = {}) {
  const [sources, image] = ["sources", "image"].map((name) => mkdtempSync(join(folder, `sockets-${name}-`)));
  mkdirSync(join(sources, "servers"));
  writeFileSync(join(sources, "servers", "sockets.ts"), DEFINITION);
  writeFileSync(join(sources, "servers", "calm.ts"), echoModule(1));
  writeImageSources(sources, {
    sockets: { definition: "servers/sockets.ts", network: ports.map((port) => `127.0.0.1:${port}`) },
    calm: { definition: "servers/calm.ts" },
  });
  await makeImage(sources, image);
  const launch = serve(folder, image);
  return (port) => {
    const { env: usual, ...rest } = launch(port);
    return { ...rest, env: { ...usual, ...env } };
  };
}

/** The number that a tool returns. */
async function called(port, path, tool, args) {
  const { headers, body } = modernCall(path);
  const call = JSON.parse(body);
  call.params.name = tool;
  call.params.arguments = args;
  const response = await fetch(`http://127.0.0.1:${port}${path}`, {
    method: "POST",
    headers: { ...headers, "Mcp-Name": tool },
    body: JSON.stringify(call),
  });
  const text = await response.text();
  const { result } = JSON.parse(text.startsWith("{") ? text : text.slice(text.indexOf("{")));
  if (!result || result.isError) throw new Error(`a call of ${tool} failed: ${text}`);
  return Number(result.structuredContent?.result ?? result.content[0].text);
}
