import { mkdtempSync } from "node:fs";
import { Agent, request as httpRequest } from "node:http";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { serve } from "./berth.mjs";
import { checkAnswer } from "./load.mjs";
import { memoryKb } from "./proc.mjs";
import { modernCall, modernList } from "./requests.mjs";
import { medians } from "./rounds.mjs";
import { startServer } from "./server-process.mjs";

/**
 * Starts of Berth with more and more servers: the time until it listens, and the cost of a server that is not running.
 *
 * @typedef {{
 *   servers: number, firstListeningMs: number, listeningMs: number, firstCallMs: number,
 *   memoryMb: number, listedMemoryMb: number,
 * }} ServersFigures
 * `first…`: with an empty data folder; the other start has the data of that one. `memoryMb`: a second after the start;
 * `listedMemoryMb`: after as many tools/list as the largest image has servers, spread over all servers of this one.
 */

const SETTLE_MS = 1000;

/**
 * @param {string} folder
 * @param {{ image: string, names: string[] }[]} images
 * @param {number} repeats
 * @param {(line: string) => void} say
 * @returns {Promise<ServersFigures[]>}
 */
export async function measureServers(folder, images, repeats, say) {
  const listings = Math.max(...images.map(({ names }) => names.length));
  const samples = images.map(() => []);
  for (let repeat = 1; repeat <= repeats; repeat++) {
    for (const [index, { image, names }] of images.entries()) {
      const sample = await measureOnce(folder, image, names, listings);
      samples[index].push(sample);
      say(
        `start ${repeat}/${repeats}  ${names.length} servers: listens after ${Math.round(sample.firstListeningMs)} ms`,
      );
    }
  }
  return samples.map(medians);
}

async function measureOnce(folder, image, names, listings) {
  const launch = serve(folder, image, { data: mkdtempSync(join(folder, "data-")) });
  const first = await startServer(launch);
  await first.stop();
  const server = await startServer(launch);
  try {
    await sleep(SETTLE_MS);
    const idleKb = memoryKb(server.pid);
    await listAll(server.port, names, listings);
    await sleep(SETTLE_MS);
    const listedKb = memoryKb(server.pid);
    const calledAt = performance.now();
    await checkAnswer(server.port, modernCall("/mcp/echo"));
    return {
      servers: names.length,
      firstListeningMs: first.listeningMs,
      listeningMs: server.listeningMs,
      firstCallMs: performance.now() - calledAt,
      memoryMb: idleKb / 1024,
      listedMemoryMb: listedKb / 1024,
    };
  } finally {
    await server.stop();
  }
}

async function listAll(port, names, listings) {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  for (let index = 0; index < listings; index++) {
    const { path, headers, body } = modernList(`/mcp/${names[index % names.length]}`, 1);
    const answer = await post(agent, port, path, headers, body);
    if (!(JSON.parse(answer).result?.tools?.length > 0)) throw new Error(`${path} lists no tools: ${answer}`);
  }
  agent.destroy();
}

/** @returns {Promise<string>} */
function post(agent, port, path, headers, body) {
  return new Promise((resolve, reject) => {
    const outgoing = httpRequest({ agent, host: "127.0.0.1", port, path, headers, method: "POST" }, (response) => {
      let text = "";
      response.setEncoding("utf8").on("data", (chunk) => (text += chunk));
      response.on("end", () => resolve(text)).on("error", reject);
    });
    outgoing.on("error", reject).end(body);
  });
}
