import { mkdirSync, mkdtempSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { makeImage, serve, writeImageSources } from "./berth.mjs";
import { memoryKb } from "./proc.mjs";
import { PROTOCOL_VERSION } from "./requests.mjs";
import { median } from "./rounds.mjs";
import { startServer } from "./server-process.mjs";

/**
 * Streams: how soon an event reaches the client, the cost of a very long stream and of very many streams, how soon a
 * change has reached everyone. The service is alone on its core, and the bench itself is the client.
 *
 * @typedef {{ firstEventMs: number, longEvents: number, eventsPerSecond: number, longGrowthMb: number,
 *   listeners: number, listenerKb: number, announceMs: number }} StreamFigures
 */

const DEFINITION = `import type { ToolContext } from "berth";

/** Yields the time at which it does so. */
export async function* moment(): AsyncGenerator<string, string> {
  yield String(performance.timeOrigin + performance.now());
  await new Promise((resolve) => setTimeout(resolve, 50));
  return "later";
}

/** Yields very often. */
export async function* often(count: number): AsyncGenerator<string, string> {
  for (let index = 0; index < count; index++) yield "an event of a stream";
  return "done";
}

/** Comes and goes. */
export function visitor(): string {
  return "here";
}

/** Makes the list of tools another one. */
export async function change(visible: boolean, context: ToolContext): Promise<string> {
  if (visible) await context.show("visitor");
  else await context.hide("visitor");
  return "changed";
}
`;

const FIRST_EVENTS = 101;
const WARM_EVENTS = 100_000;

/**
 * @param {string} folder
 * @param {{ events: number, listeners: number }} size
 * @param {(line: string) => void} say
 * @returns {Promise<StreamFigures>}
 */
export async function measureStreams(folder, { events, listeners }, say) {
  const [sources, image] = [join(folder, "sources-streams"), join(folder, "image-streams")];
  mkdirSync(sources);
  writeFileSync(join(sources, "streams.ts"), DEFINITION);
  writeImageSources(sources, { streams: { definition: "streams.ts" } });
  await makeImage(sources, image);
  const launch = serve(folder, image, { data: mkdtempSync(join(folder, "data-")) });
  const server = await startServer((port) => {
    const { env, ...rest } = launch(port);
    return { ...rest, env: { ...env, BERTH_CALL_MS: "600000" } };
  });
  try {
    const firstEventMs = await measureFirstEvent(server.port);
    say(`first event after ${firstEventMs.toFixed(2)} ms`);
    const long = await measureLongStream(server, events);
    say(`${events} events: ${long.longGrowthMb.toFixed(1)} MB more`);
    const many = await measureListeners(server, listeners);
    say(
      `${listeners} listeners: ${many.listenerKb.toFixed(1)} KB each, all told after ${many.announceMs.toFixed(0)} ms`,
    );
    return { firstEventMs, longEvents: events, ...long, listeners, ...many };
  } finally {
    await server.stop();
  }
}

async function measureFirstEvent(port) {
  const times = [];
  for (let round = 0; round < FIRST_EVENTS; round++) {
    const stream = open(port, toolCall("moment", {}));
    const text = await stream.until(/"message":"([\d.]+)"/);
    times.push(stream.now() - Number(text[1]));
    await stream.until(/later/);
    stream.close();
  }
  return median(times);
}

async function measureLongStream({ pid, port }, events) {
  await drain(port, WARM_EVENTS);
  await sleep(2_000);
  const before = memoryKb(pid);
  let most = before;
  const sampling = setInterval(() => (most = Math.max(most, memoryKb(pid))), 50);
  const start = performance.now();
  await drain(port, events);
  const seconds = (performance.now() - start) / 1000;
  clearInterval(sampling);
  return { eventsPerSecond: events / seconds, longGrowthMb: (Math.max(most, memoryKb(pid)) - before) / 1024 };
}

async function drain(port, count) {
  const stream = open(port, toolCall("often", { count }), { keepsText: false });
  await stream.until(/"text":"done"/);
  if (stream.events() !== count + 1) throw new Error(`${stream.events()} events came of ${count + 1}`);
  stream.close();
}

async function measureListeners({ pid, port }, count) {
  const change = async (visible) => {
    const stream = open(port, toolCall("change", { visible }));
    await stream.until(/"text":"changed"/);
    stream.close();
  };
  const listen = () => open(port, message("subscriptions/listen", { notifications: { toolsListChanged: true } }));
  await change(true);
  // Costs of the first ones are not the streams' own.
  const first = await openAll(20, listen);
  await sleep(2_000);
  const before = memoryKb(pid);
  const streams = await openAll(count, listen);
  await sleep(3_000);
  const listenerKb = (memoryKb(pid) - before) / count;

  const told = Promise.all(streams.map((stream) => stream.until(/list_changed/)));
  const start = performance.now();
  await change(false);
  await told;
  const announceMs = performance.now() - start;
  for (const stream of [...first, ...streams]) stream.close();
  return { listenerKb, announceMs };
}

async function openAll(count, listen) {
  const streams = [];
  while (streams.length < count) {
    const some = Array.from({ length: Math.min(100, count - streams.length) }, listen);
    await Promise.all(some.map((stream) => stream.until(/subscriptions\/acknowledged/)));
    streams.push(...some);
  }
  return streams;
}

function toolCall(name, args) {
  return message("tools/call", { name, arguments: args }, { "Mcp-Name": name });
}

function message(method, params, headers = {}) {
  const _meta = {
    "io.modelcontextprotocol/protocolVersion": PROTOCOL_VERSION,
    "io.modelcontextprotocol/clientInfo": { name: "bench", version: "1.0.0" },
    "io.modelcontextprotocol/clientCapabilities": {},
    progressToken: 1,
  };
  const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method, params: { ...params, _meta } });
  const lines = Object.entries({
    Host: "127.0.0.1",
    "Content-Type": "application/json",
    Accept: "application/json, text/event-stream",
    "MCP-Protocol-Version": PROTOCOL_VERSION,
    "Mcp-Method": method,
    ...headers,
    "Content-Length": String(Buffer.byteLength(body)),
  }).map(([name, value]) => `${name}: ${value}`);
  return `POST /mcp/streams HTTP/1.1\r\n${lines.join("\r\n")}\r\n\r\n${body}`;
}

/** One request on a connection of its own, read as it comes; without `keepsText` only its end is kept. */
function open(port, bytes, { keepsText = true } = {}) {
  const socket = connect(port, "127.0.0.1").setNoDelay(true);
  let [text, events, changedAt] = ["", 0, 0];
  let onChange = () => {};
  let failure;
  socket.setEncoding("latin1").on("data", (chunk) => {
    changedAt = performance.timeOrigin + performance.now();
    for (let at = chunk.indexOf("\ndata: "); at >= 0; at = chunk.indexOf("\ndata: ", at + 1)) events++;
    text = keepsText ? text + chunk : chunk.slice(-2_000);
    onChange();
  });
  socket.on("close", () => {
    failure ??= new Error(`the connection ended: ${text.slice(-500)}`);
    onChange();
  });
  socket.on("error", (error) => (failure = error));
  socket.write(bytes);
  return {
    now: () => changedAt,
    events: () => events,
    close: () => socket.destroy(),
    until: (pattern) =>
      new Promise((resolve, reject) => {
        onChange = () => {
          const found = pattern.exec(text);
          if (found) resolve(found);
          else if (failure) reject(failure);
        };
        onChange();
      }),
  };
}
