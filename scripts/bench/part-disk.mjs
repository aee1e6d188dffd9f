import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { makeImage, serve, writeImageSources } from "./berth.mjs";
import { modernCall, modernList } from "./requests.mjs";
import { percentile } from "./rounds.mjs";
import { startServer } from "./server-process.mjs";

/**
 * Requests that store nothing while the file system of the data folder is frozen, without clients that save and with
 * some. It takes root, a loop device, ext4, and fsfreeze(8).
 *
 * @typedef {{ callMs: number, listMs: number, healthMs: number }} FrozenFigures 99th percentiles
 * @typedef {{ alone: FrozenFigures, besideSaves: FrozenFigures }} DiskFigures
 */

const DEFINITION = `import type { ToolContext } from "berth";
/** Says it back. */
export function echo(message: string): string {
  return message;
}
/** Counts. */
export async function save({ state }: ToolContext): Promise<number> {
  return state.update<number>("count", (count = 0) => count + 1);
}
`;
const CALLERS = 2;
const SAVERS = 4;
const PAUSE_MS = 10;

/**
 * @param {string} folder
 * @param {number} seconds of each freeze
 * @param {(line: string) => void} say
 * @returns {Promise<DiskFigures | undefined>} undefined where no disk can be frozen
 */
export async function measureDisk(folder, seconds, say) {
  const [sources, image, disk] = ["disk-sources", "disk-image", "disk"].map((name) => join(folder, name));
  mkdirSync(join(sources, "servers"), { recursive: true });
  writeFileSync(join(sources, "servers", "keeper.ts"), DEFINITION);
  writeImageSources(sources, { keeper: { definition: "servers/keeper.ts" } });
  await makeImage(sources, image);
  try {
    mount(join(folder, "disk-file"), disk);
  } catch (error) {
    say(`Not measured: a frozen disk. ${error.message}`);
    return undefined;
  }
  try {
    const server = await startServer(serve(folder, image, { data: join(disk, "data") }), { alone: false });
    try {
      const figures = {
        alone: await measureFrozen(server.port, disk, seconds, 0),
        besideSaves: await measureFrozen(server.port, disk, seconds, SAVERS),
      };
      for (const [how, { callMs, listMs, healthMs }] of Object.entries(figures)) {
        const all = [callMs, listMs, healthMs].map((ms) => ms.toFixed(1)).join(", ");
        say(`disk: ${how}, call, list, and /healthz while it is frozen, p99: ${all} ms`);
      }
      return figures;
    } finally {
      await server.stop();
    }
  } finally {
    execFileSync("umount", ["-l", disk]);
  }
}

function mount(file, disk) {
  mkdirSync(disk, { mode: 0o700 });
  execFileSync("truncate", ["--size=256M", file]);
  execFileSync("mkfs.ext4", ["-q", file]);
  execFileSync("mount", ["-o", "loop", file, disk]);
}

async function measureFrozen(port, disk, seconds, savers) {
  const url = `http://127.0.0.1:${port}`;
  const { path, headers, body } = modernCall("/mcp/keeper");
  const save = JSON.parse(body);
  Object.assign(save.params, { name: "save", arguments: {} });
  const list = modernList(path, 2);
  const kinds = {
    callMs: () => answered(url + path, { method: "POST", headers, body }),
    listMs: () => answered(url + path, { method: "POST", headers: list.headers, body: list.body }),
    healthMs: () => answered(`${url}/healthz`),
  };
  const saved = () =>
    answered(url + path, { method: "POST", headers: { ...headers, "Mcp-Name": "save" }, body: JSON.stringify(save) });
  for (const request of [saved, ...Object.values(kinds)]) await request();
  const ending = new AbortController();
  const repeat = async (request) => {
    for (; !ending.signal.aborted; await sleep(PAUSE_MS)) await request();
  };
  const saving = Array.from({ length: savers }, () => repeat(saved));
  await sleep(1_000);
  const samples = { callMs: [], listMs: [], healthMs: [] };
  const thaw = await freeze(disk);
  const calling = Object.entries(kinds).flatMap(([kind, request]) =>
    Array.from({ length: CALLERS }, () =>
      repeat(async () => {
        const began = performance.now();
        await request();
        samples[kind].push(performance.now() - began);
      }),
    ),
  );
  await sleep(seconds * 1_000);
  ending.abort();
  // Those that wait for the disk count with all of their time.
  await thaw();
  await Promise.all([...saving, ...calling]);
  return Object.fromEntries(Object.entries(samples).map(([kind, ms]) => [kind, percentile(ms, 0.99)]));
}

async function answered(url, init) {
  const response = await fetch(url, init);
  const text = await response.text();
  if (!response.ok || text.includes('"isError":true')) throw new Error(`${url} answered ${response.status}: ${text}`);
}

/** Resolves with what thaws it again; the end of this process does so, too. */
async function freeze(disk) {
  const script = 'fsfreeze --freeze "$0" && echo frozen; cat; fsfreeze --unfreeze "$0"';
  const guard = spawn("sh", ["-c", script, disk], { detached: true, stdio: ["pipe", "pipe", "inherit"] });
  const thawed = once(guard, "exit");
  await once(guard.stdout, "data");
  return async () => {
    guard.stdin.end();
    await thawed;
  };
}
