import { mkdtempSync } from "node:fs";
import { Agent, request as httpRequest } from "node:http";
import { join } from "node:path";
import { serve } from "./berth.mjs";
import { startBeside } from "./beside.mjs";
import { modernCall } from "./requests.mjs";
import { percentile } from "./rounds.mjs";
import { startServer } from "./server-process.mjs";

/**
 * Saves of one definition while another server is called: how soon callers get a save, and how long other calls wait
 * meanwhile. Each save begins with a compiler that has to be started. The server is warmed up by calls, and has all
 * cores of this machine, as in a deployment: the compiler is a process of its own, and so is the caller, which takes
 * its part of the machine, too.
 *
 * @typedef {{ servers: number, saves: number, effectMs: number, pauseMs: number, quietMs: number }} EditsFigures
 * `effectMs` is the longest; `pauseMs` and `quietMs` the 99th percentile of calls during saves and before.
 */

const ANYWHERE = { alone: false };
const CALLS_PER_SECOND = 500;
const WARM_UP = { ms: 6_000, perSecond: 2_000 };
const SAVE_MS_MAX = 30_000;
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
  let others;
  const endOthers = () => others?.end();
  process.prependOnceListener("exit", endOthers);
  try {
    const edited = names.at(-1);
    others = await startBeside("steady-caller.mjs", [String(server.port), "/mcp/echo"], { pinned: false });
    await others.ask(WARM_UP);
    const during = [];
    const quiet = [];
    const effects = [];
    for (let save = 0; save < saves; save++) {
      quiet.push(...(await others.ask({ ms: COLD_MS, perSecond: CALLS_PER_SECOND })).taken);
      const called = others.ask({ ms: SAVE_MS_MAX, perSecond: CALLS_PER_SECOND });
      effects.push(await saveAndCall(send, edited, save));
      others.tell("stop");
      during.push(...(await called).taken);
      say(`save ${save + 1}/${saves}: in effect after ${Math.round(effects.at(-1))} ms`);
    }
    const figures = {
      effectMs: Math.max(...effects),
      pauseMs: percentile(during, 0.99),
      quietMs: percentile(quiet, 0.99),
    };
    return { servers: names.length, saves, ...figures };
  } finally {
    process.removeListener("exit", endOthers);
    endOthers();
    agent.destroy();
    await server.stop();
  }
}

/** The time from the request until a call of the new code has answered. @returns {Promise<number>} */
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
