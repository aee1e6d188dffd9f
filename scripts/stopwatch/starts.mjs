import { once } from "node:events";
import { rmSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { run, start } from "./processes.mjs";

const ASK_AGAIN_MS = 5;

/** Seconds from `berth serve DIR` to its first page, `/mcp`: of a new folder, and of one that was served before. */
export async function firstPage({ bin, folder, times }) {
  return firstAndLater({ bin, folder, times }, async (own) => {
    const port = await freePort();
    const from = performance.now();
    const serving = start([bin, "serve", own, "--port", String(port)], { cwd: folder });
    const ended = serving.until(/(?!)/);
    await Promise.race([ended, untilAnswered(`http://127.0.0.1:${port}/mcp`)]);
    const seconds = (performance.now() - from) / 1_000;
    ended.catch(() => {});
    await serving.stop();
    return seconds;
  });
}

/** Seconds from `berth dev DIR` to the answer of a call, once it has said where it serves. Likewise twice. */
export async function devReady({ bin, folder, times }) {
  return firstAndLater({ bin, folder, times }, async (own) => {
    const from = performance.now();
    const serving = start([bin, "dev", own, "--port", "0"], { cwd: folder });
    const [, address] = await serving.until(/(http:\/\/\S+?\/mcp\/hello) [^]*Stop with Ctrl-C/);
    await greet(address);
    const seconds = (performance.now() - from) / 1_000;
    await serving.stop();
    return seconds;
  });
}

async function firstAndLater({ bin, folder, times }, measure) {
  const own = join(folder, "measured");
  const [first, later] = [[], []];
  for (let time = 0; time < times; time += 1) {
    await run([bin, "init", own], { cwd: folder });
    first.push(await measure(own));
    later.push(await measure(own));
    rmSync(own, { recursive: true });
  }
  return { first: median(first), later: median(later) };
}

async function untilAnswered(url) {
  for (;;) {
    const response = await fetch(url, { headers: { Accept: "text/html" } }).catch(() => undefined);
    await response?.arrayBuffer();
    if (response?.status === 200) return;
    await sleep(ASK_AGAIN_MS);
  }
}

async function greet(address) {
  const params = { name: "greet", arguments: { name: "Ada" } };
  const response = await fetch(address, {
    method: "POST",
    headers: { "Content-Type": "application/json", Accept: "application/json" },
    body: JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/call", params }),
  });
  const text = await response.text();
  if (!text.includes("Hello, Ada!")) throw new Error(`greet answers ${response.status}: ${text}`);
}

async function freePort() {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address();
  server.close();
  await once(server, "close");
  return port;
}

function median(numbers) {
  return numbers.toSorted((one, other) => one - other)[Math.floor(numbers.length / 2)];
}
