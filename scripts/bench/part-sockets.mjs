import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { makeImage, serve, writeImageSources } from "./berth.mjs";
import { startBeside } from "./beside.mjs";
import { echoModule } from "./definitions.mjs";
import { modernCall } from "./requests.mjs";
import { median, percentile } from "./rounds.mjs";
import { startServer } from "./server-process.mjs";

/**
 * Sockets of guests. Throughput: a guest receives a number of bytes through Berth's relay, and a plain process receives
 * them through the simplest relay of two sockets, and with none; in turns. Floods: calls of another server at a moderate
 * rate, in windows without anything else and in windows in which two peers send a guest as much as it takes.
 *
 * @typedef {{ berthMbPerSecond: number, relayMbPerSecond: number, bareMbPerSecond: number, quietP99Ms: number,
 *   floodedP99Ms: number, floodMbPerSecond: number }} SocketsFigures
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
`;
const MEGABYTE = 1024 * 1024;
const WARM_UP_BYTES = 64 * MEGABYTE;
/** One flood is over in a second or so; another one follows. */
const FLOOD_BYTES = 256 * MEGABYTE;
const CALLS_PER_SECOND = 250;
const PEERS = 2;

/**
 * @param {string} folder
 * @param {{ megabytes: number, rounds: number, seconds: number }} size
 * @param {(line: string) => void} say
 * @returns {Promise<SocketsFigures>}
 */
export async function measureSockets(folder, { megabytes, rounds, seconds }, say) {
  const peer = await startBeside("socket-peer.mjs", ["flood"], { pinned: false });
  const { port } = await peer.ask("port");
  const flooders = [];
  for (let n = 0; n < PEERS; n++)
    flooders.push(await startBeside("socket-peer.mjs", ["flood", "yields"], { pinned: false }));
  const floodPorts = [];
  for (const flooder of flooders) floodPorts.push((await flooder.ask("port")).port);
  const path = join(folder, "relay");
  const relay = await startBeside("socket-peer.mjs", ["relay", path, String(port)], { pinned: false });
  const receiver = await startBeside("socket-peer.mjs", ["receive"], { pinned: false });
  const server = await startServer(await serving(folder, [port, ...floodPorts]), { alone: false });
  const calm = await startBeside("steady-caller.mjs", [String(server.port), "/mcp/calm"], { yields: true });
  try {
    const receive = (from, bytes) => called(server.port, "/mcp/sockets", "receive", { port: from, bytes });
    const ways = {
      berth: (bytes) => receive(port, bytes),
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

    const taken = { quiet: [], flooded: [] };
    let flooded = 0;
    const window = { ms: seconds * 1000, perSecond: CALLS_PER_SECOND };
    await calm.ask({ ms: 3_000, perSecond: 2_000 });
    for (let round = 0; round < rounds; round++) {
      taken.quiet.push(...(await calm.ask(window)).taken);
      const windows = new AbortController();
      const floods = floodPorts.map(async (from) => {
        while (!windows.signal.aborted) {
          await receive(from, FLOOD_BYTES);
          flooded += FLOOD_BYTES;
        }
      });
      taken.flooded.push(...(await calm.ask(window)).taken);
      windows.abort();
      await Promise.all(floods);
    }
    const [quietP99Ms, floodedP99Ms] = [taken.quiet, taken.flooded].map((all) => percentile(all, 0.99));
    const floodMbPerSecond = flooded / MEGABYTE / (rounds * seconds);
    say(
      `sockets: calls of others take ${quietP99Ms.toFixed(2)} ms at p99, and ${floodedP99Ms.toFixed(2)} ms while two ` +
        `peers flood a guest`,
    );
    return { berthMbPerSecond, relayMbPerSecond, bareMbPerSecond, quietP99Ms, floodedP99Ms, floodMbPerSecond };
  } finally {
    for (const each of [calm, receiver, relay, peer, ...flooders]) each.end();
    await server.stop();
  }
}

async function serving(folder, ports) {
  const [sources, image] = [join(folder, "sockets-sources"), join(folder, "sockets-image")];
  mkdirSync(join(sources, "servers"), { recursive: true });
  writeFileSync(join(sources, "servers", "sockets.ts"), DEFINITION);
  writeFileSync(join(sources, "servers", "calm.ts"), echoModule(1));
  writeImageSources(sources, {
    sockets: { definition: "servers/sockets.ts", network: ports.map((port) => `127.0.0.1:${port}`) },
    calm: { definition: "servers/calm.ts" },
  });
  await makeImage(sources, image);
  return serve(folder, image);
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
