import { mkdirSync, writeFileSync } from "node:fs";
import { Agent, request as httpRequest } from "node:http";
import { join } from "node:path";
import { makeImage, serve, writeImageSources } from "./berth.mjs";
import { modernCall } from "./requests.mjs";
import { median } from "./rounds.mjs";
import { startServer } from "./server-process.mjs";

/**
 * Calls of one definition over HTTP, one after the other: of a function that does nothing, and of functions that read and
 * write one key of state. The kinds take turns, so that whatever else happens on the machine happens to all of them.
 *
 * @typedef {{ plainMs: number, readMs: number, writeMs: number }} StateFigures medians
 */

const DEFINITION = `import type { ToolContext } from "berth";
/** Does nothing. */
export async function plain({ server }: ToolContext): Promise<string> {
  return server;
}
/** Reads a note. */
export async function read({ state }: ToolContext): Promise<string> {
  return (await state.get<string>("note")) ?? "nothing";
}
/** Writes a note. */
export async function write({ state }: ToolContext): Promise<number> {
  return state.set("note", "${"x".repeat(500)}");
}
`;
const KINDS = ["plain", "read", "write"];
const WARM_UP = 500;

/**
 * @param {string} folder
 * @param {number} calls of each kind
 * @param {(line: string) => void} say
 * @returns {Promise<StateFigures>}
 */
export async function measureState(folder, calls, say) {
  const [sources, image] = [join(folder, "state-sources"), join(folder, "state-image")];
  mkdirSync(join(sources, "servers"), { recursive: true });
  writeFileSync(join(sources, "servers", "keeper.ts"), DEFINITION);
  writeImageSources(sources, { keeper: { definition: "servers/keeper.ts" } });
  await makeImage(sources, image);
  const server = await startServer(serve(folder, image), { alone: false });
  const agent = new Agent({ keepAlive: true });
  const samples = Object.fromEntries(KINDS.map((kind) => [kind, []]));
  try {
    await called(agent, server.port, "write");
    for (let call = -WARM_UP; call < calls; call++) {
      for (const kind of KINDS) {
        const startedAt = performance.now();
        await called(agent, server.port, kind);
        if (call >= 0) samples[kind].push(performance.now() - startedAt);
      }
    }
  } finally {
    agent.destroy();
    await server.stop();
  }
  const [plainMs, readMs, writeMs] = KINDS.map((kind) => median(samples[kind]));
  say(
    `state: a call ${plainMs.toFixed(3)} ms, with a read ${readMs.toFixed(3)} ms, with a write ${writeMs.toFixed(3)} ms`,
  );
  return { plainMs, readMs, writeMs };
}

/** @returns {Promise<void>} Rejects when the call failed. */
function called(agent, port, tool) {
  const { path, headers, body } = modernCall("/mcp/keeper");
  const call = JSON.parse(body);
  call.params.name = tool;
  call.params.arguments = {};
  return new Promise((resolve, reject) => {
    const options = { agent, host: "127.0.0.1", port, path, method: "POST", headers: { ...headers, "Mcp-Name": tool } };
    const outgoing = httpRequest(options, (response) => {
      let text = "";
      response.setEncoding("utf8").on("data", (chunk) => (text += chunk));
      response.on("end", () => {
        if (response.statusCode === 200 && !text.includes('"isError":true')) resolve();
        else reject(new Error(`a call of ${tool} failed: ${response.statusCode} ${text}`));
      });
    });
    outgoing.on("error", reject);
    outgoing.end(JSON.stringify(call));
  });
}
