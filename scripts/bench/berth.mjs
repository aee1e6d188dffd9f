import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { echoModule, usualModule } from "./definitions.mjs";

/**
 * Berth as a contestant: sources written, an image generated from them, `serve` started on it. Everything by the
 * built command line, as a person would; nothing of the product is imported.
 */

export const cli = fileURLToPath(new URL("../../dist/bin/berth.cjs", import.meta.url));

/**
 * Writes sources of `servers` servers: `echo`, with `tools` tools, and as many others as are missing.
 *
 * @param {string} folder
 * @param {{ servers: number, tools?: number }} size
 * @returns {string[]} the servers' names
 */
export function writeSources(folder, { servers, tools = 1 }) {
  mkdirSync(join(folder, "servers"), { recursive: true });
  const modules = { echo: echoModule(tools) };
  for (let index = 0; index < servers - 1; index++) modules[`server-${index}`] = usualModule(index);
  const names = Object.keys(modules);
  for (const name of names) writeFileSync(join(folder, "servers", `${name}.ts`), modules[name]);

  const entries = names.map((name) => [name, { definition: `servers/${name}.ts` }]);
  writeImageSources(folder, Object.fromEntries(entries));
  return names;
}

/** The files that name definitions which stand in `folder` already. @param {string} folder @param {object} mcps */
export function writeImageSources(folder, mcps) {
  writeJson(join(folder, "mcps.source.json"), mcps);
  const image = { servers: [], variables: [{ name: "mcps", definition: "GENERATED:mcps.json", enabled: true }] };
  writeJson(join(folder, "default.boot.source.json"), image);
  writeJson(join(folder, "readonly.boot.source.json"), image);
}

/** Generates or confirms the image. @param {string} sources @param {string} image @returns {Promise<number>} wall ms */
export function makeImage(sources, image) {
  return berth(["boot", "--from", sources, "--out", image], sources);
}

/** Discovers one file from nothing. @param {string} file @param {string} folder @returns {Promise<number>} wall ms */
export function discover(file, folder) {
  return berth(["discover", file, "--json"], folder);
}

/**
 * A start of `serve` on an image. Without `data`, with a new, empty data folder each time.
 *
 * @param {string} folder
 * @param {string} image
 * @param {{ data?: string, nodeFlags?: string[] }} [options]
 * @returns {(port: number) => import("./server-process.mjs").Launch}
 */
export function serve(folder, image, { data, nodeFlags = [] } = {}) {
  return (port) => ({
    args: [...nodeFlags, cli, "serve"],
    env: {
      BERTH_PORT: String(port),
      BERTH_DATA: data ?? mkdtempSync(join(folder, "data-")),
      BERTH_IMAGE_DIR: image,
      // Connections are kept between two measurements.
      BERTH_IDLE_CONNECTION_MS: "600000",
    },
    folder,
    readyPath: "/readyz",
  });
}

async function berth(args, folder) {
  const startedAt = performance.now();
  const child = spawn(process.execPath, [cli, ...args], {
    env: { ...process.env, BERTH_DATA: join(folder, "data"), XDG_CACHE_HOME: join(folder, "cache") },
    stdio: ["ignore", "pipe", "pipe"],
  });
  let output = "";
  child.stdout.on("data", (chunk) => (output += chunk));
  child.stderr.on("data", (chunk) => (output += chunk));
  const [code] = await once(child, "close");
  if (code !== 0) throw new Error(`berth ${args.join(" ")} ended with ${code}:\n${output.slice(-4000)}`);
  return performance.now() - startedAt;
}

function writeJson(file, value) {
  writeFileSync(file, `${JSON.stringify(value, null, 2)}\n`);
}
