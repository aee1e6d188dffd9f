import { mkdtempSync } from "node:fs";
import { Agent, request as httpRequest } from "node:http";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { serve } from "./berth.mjs";
import { modernCall } from "./requests.mjs";
import { percentile } from "./rounds.mjs";
import { startServer } from "./server-process.mjs";

/**
 * Saves of one definition while another server is called: how soon a save is what callers get, and how long calls of
 * others wait meanwhile. Each save begins with a compiler that has to be started. The server has all cores of this
 * machine, as where it is deployed: what compiles a save is a process of its own, and whatever sends the calls here
 * takes its part of the machine, too.
 *
 * @typedef {{ servers: number, saves: number, effectMs: number, pauseMs: number, quietMs: number }} EditsFigures
 * `effectMs` is the longest; `pauseMs` and `quietMs` the 99th percentile of what calls took during saves and before.
 */

const ANYWHERE = { alone: false };
/** Calls of another server are sent this often. */
const CALL_EVERY_MS = 2;
/** After this the compiler has ended. */
const COLD_MS = 2_000;

/**
 * @param {string} folder
 * @param {{ image: string, names: string[] }} image
 * @param {number} saves
 * @param {(line: string) => void} say
 * @returns {Promise<EditsFigures>}
 */
export async function measureEdits(folder, { image, names }, saves, say) {
  const server = await startServer(serve(folder, image, { data: mkdtempSync(join(folder, "data-")) }), ANYWHERE);
  const agent = new Agent({ keepAlive: true });
  const send = (method, path, headers, body) => exchange(agent, server.port, method, path, headers, body);
  try {
    const edited = names.at(-1);
    const others = modernCall("/mcp/echo");
    await send("POST", others.path, others.headers, others.body);
    const during = [];
    const quiet = [];
    const effects = [];
    for (let save = 0; save < saves; save++) {
      quiet.push(...(await callUntil(send, others, sleep(COLD_MS))));
      const saved = saveAndCall(send, edited, save);
      during.push(...(await callUntil(send, others, saved)));
      effects.push(await saved);
      say(`save ${save + 1}/${saves}: in effect after ${Math.round(effects.at(-1))} ms`);
    }
    const figures = {
      effectMs: Math.max(...effects),
      pauseMs: percentile(during, 0.99),
      quietMs: percentile(quiet, 0.99),
    };
    return { servers: names.length, saves, ...figures };
  } finally {
    agent.destroy();
    await server.stop();
  }
}

/** From the request until a call of the new code has answered. @returns {Promise<number>} */
async function saveAndCall(send, name, save) {
  const text = `/** Says which save it was. */\nexport function saved(): string {\n  return "save ${save}";\n}\n`;
  const startedAt = performance.now();
  const headers = { "Content-Type": "text/plain", "If-Match": "*", "Berth-Allow-Breaking": "true" };
  const answer = await send("PUT", `/api/definitions/${name}`, headers, text);
  if (answer.status !== 200) throw new Error(`a save was refused: ${answer.text}`);
  const { path, headers: own, body } = modernCall(`/mcp/${name}`);
  const call = JSON.parse(body);
  call.params.name = "saved";
  call.params.arguments = {};
  const result = await send("POST", path, { ...own, "Mcp-Name": "saved" }, JSON.stringify(call));
  if (!result.text.includes(`save ${save}`)) throw new Error(`the save is not in effect: ${result.text}`);
  return performance.now() - startedAt;
}

/** What each call took, sent whether or not the ones before it have come back. @param {Promise<unknown>} end */
async function callUntil(send, { path, headers, body }, end) {
  const taken = [];
  const calls = [];
  const timer = setInterval(() => {
    const sentAt = performance.now();
    calls.push(send("POST", path, headers, body).then(() => taken.push(performance.now() - sentAt)));
  }, CALL_EVERY_MS);
  try {
    await end;
  } finally {
    clearInterval(timer);
  }
  await Promise.all(calls);
  return taken;
}

/** @returns {Promise<{ status: number, text: string }>} */
function exchange(agent, port, method, path, headers, body) {
  return new Promise((resolve, reject) => {
    const outgoing = httpRequest({ agent, host: "127.0.0.1", port, path, headers, method }, (response) => {
      let text = "";
      response.setEncoding("utf8").on("data", (chunk) => (text += chunk));
      response.on("end", () => resolve({ status: response.statusCode, text })).on("error", reject);
    });
    outgoing.on("error", reject).end(body);
  });
}
