import { mkdirSync, mkdtempSync, writeFileSync } from "node:fs";
import { Agent, request as httpRequest } from "node:http";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";
import { makeImage, serve, writeImageSources } from "./berth.mjs";
import { invoiceModule } from "./definitions.mjs";
import { modernList } from "./requests.mjs";
import { median } from "./rounds.mjs";
import { startServer } from "./server-process.mjs";

/**
 * Pages as a browser loads them, over one persistent connection: the waiting time, and the bytes sent.
 *
 * @typedef {{ tools: number, metaMs: number, metaAgainMs: number, metaKb: number,
 *   servers: number, listMs: number, listKb: number }} PagesFigures
 * `metaMs`: a page that was never rendered before, of a server that has answered a client; `metaAgainMs`: one that was.
 * `metaKb`: with everything that the page loads, compressed. `list…`: the page of all servers, all of them loaded.
 */

const TOOLS = 100;
/** The first ones pay for compiling templates and code. */
const WARM_UP = 5;
const PAGES = 20;
const REPEATS = 20;

/**
 * @param {string} folder
 * @param {{ image: string, names: string[] }} largest
 * @param {(line: string) => void} say
 * @returns {Promise<PagesFigures>}
 */
export async function measurePages(folder, largest, say) {
  const [sources, image] = [join(folder, "sources-pages"), join(folder, "image-pages")];
  mkdirSync(sources);
  const names = Array.from({ length: WARM_UP + PAGES }, (_, index) => `books-${index}`);
  for (const [index, name] of names.entries()) {
    writeFileSync(join(sources, `${name}.ts`), invoiceModule(TOOLS, index));
  }
  writeImageSources(sources, Object.fromEntries(names.map((name) => [name, { definition: `${name}.ts` }])));
  await makeImage(sources, image);

  const meta = await withServer(folder, image, (get) => measureMeta(get, names));
  say(`page of a server with ${TOOLS} tools: ${meta.metaMs.toFixed(1)} ms, ${meta.metaKb.toFixed(1)} KB`);
  const list = await withServer(folder, largest.image, measureList);
  say(`page of ${largest.names.length} servers: ${list.listMs.toFixed(1)} ms, ${list.listKb.toFixed(1)} KB`);
  return { tools: TOOLS, ...meta, servers: largest.names.length, ...list };
}

async function measureMeta(get, names) {
  const [first, again] = [[], []];
  // Every server has answered a client, and no page is rendered.
  for (const name of names) await get(`/mcp/${name}`, modernList(`/mcp/${name}`, TOOLS));
  let page;
  for (const name of names) {
    page = await get(`/mcp/meta/${name}`);
    first.push(page.ms);
    again.push((await get(`/mcp/meta/${name}`)).ms);
  }
  const assets = [...new Set([...page.text.matchAll(/"(\/assets\/[^"]+)"/g)].map(([, path]) => path))];
  if (assets.length === 0) throw new Error("the page names no assets");
  let bytes = page.bytes;
  for (const path of assets) bytes += (await get(path)).bytes;
  return {
    metaMs: median(first.slice(WARM_UP)),
    metaAgainMs: median(again.slice(WARM_UP)),
    metaKb: bytes / 1024,
  };
}

async function measureList(get) {
  const times = [];
  let page = await get("/mcp");
  for (let repeat = 0; repeat < REPEATS; repeat++) {
    page = await get("/mcp");
    times.push(page.ms);
  }
  return { listMs: median(times), listKb: page.bytes / 1024 };
}

async function withServer(folder, image, measure) {
  const server = await startServer(serve(folder, image, { data: mkdtempSync(join(folder, "data-")) }));
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  try {
    return await measure((path, request) => load(agent, server.port, path, request));
  } finally {
    agent.destroy();
    await server.stop();
  }
}

/** @returns {Promise<{ ms: number, bytes: number, text: string }>} `bytes` as they were sent */
function load(agent, port, path, request) {
  const { headers, body } = request ?? { headers: { Accept: "text/html", "Accept-Encoding": "gzip" } };
  const method = request ? "POST" : "GET";
  const startedAt = performance.now();
  return new Promise((resolve, reject) => {
    const outgoing = httpRequest({ agent, host: "127.0.0.1", port, path, method, headers }, (response) => {
      const chunks = [];
      response.on("data", (chunk) => chunks.push(chunk)).on("error", reject);
      response.on("end", () => {
        const ms = performance.now() - startedAt;
        const page = Buffer.concat(chunks);
        if (response.statusCode !== 200) return reject(new Error(`${path} is answered with ${response.statusCode}`));
        const isCompressed = response.headers["content-encoding"] === "gzip";
        resolve({ ms, bytes: page.length, text: (isCompressed ? gunzipSync(page) : page).toString() });
      });
    });
    outgoing.on("error", reject).end(body);
  });
}
