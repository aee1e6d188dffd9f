import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { setTimeout as after } from "node:timers/promises";
import { cli } from "./berth.mjs";
import { median, percentile } from "./rounds.mjs";

/**
 * `berth dev`: the time from a save of a definition until its tools are served, and what `tsc --noEmit` takes for the
 * same file, in turns.
 *
 * @typedef {{ name: string, savedMs: number, p95Ms: number, tscMs: number }[]} DevFigures
 */

const POLL_MS = 5;
const SAVE_MS_MAX = 60_000;
const tsc = createRequire(import.meta.url).resolve("typescript/bin/tsc");
const tscOptions = "--noEmit --strict --skipLibCheck --target es2022 --module esnext --moduleResolution bundler";

const cases = [
  { name: "without packages", code: (tool) => `export function ${tool}(name: string): string { return name; }\n` },
  {
    name: "with zod",
    packages: ["zod@4.3.6"],
    code: (tool) => `import { z } from "zod";
const Person = z.object({ name: z.string().min(1).describe("Full name."), age: z.number().int().default(30) });
export function ${tool}(person: z.infer<typeof Person>): string { return person.name; }\n`,
  },
  {
    name: "with the client of S3",
    packages: ["@aws-sdk/client-s3@3.928.0"],
    code: (tool) => `import { ListBucketsCommand, S3Client } from "@aws-sdk/client-s3";
export async function ${tool}(region: string): Promise<string[]> {
  const { Buckets = [] } = await new S3Client({ region }).send(new ListBucketsCommand({}));
  return Buckets.map(({ Name = "" }) => Name);
}\n`,
  },
];

/** @param {string} parent @param {number} saves @param {(line: string) => void} say @returns {Promise<DevFigures>} */
export async function measureDev(parent, saves, say) {
  const figures = [];
  for (const each of cases) {
    figures.push(await measureCase(mkdtempSync(join(parent, "dev-")), each, saves));
    say(`dev ${each.name}: ${Math.round(figures.at(-1).savedMs)} ms`);
  }
  return figures;
}

async function measureCase(folder, { name, code, packages = [] }, saves) {
  const file = join(folder, "s.ts");
  writeFileSync(join(folder, "mcps.json"), JSON.stringify({ s: { definition: "s.ts" } }));
  writeFileSync(file, code("first"));
  if (packages.length > 0)
    execFileSync(process.execPath, [cli, "add", ...packages], { cwd: folder, stdio: ["ignore", "ignore", "inherit"] });
  const dev = spawn(process.execPath, [cli, "dev", "--port", "0", "--json"], {
    cwd: folder,
    stdio: ["ignore", 2, "pipe"],
  });
  try {
    const url = await addressIn(dev.stderr);
    await isServed(url, "first");
    const [saved, checked] = [[], []];
    // The first round warms both.
    for (let round = 0; round <= saves; round++) {
      const tool = `tool_${round}`;
      const savedAt = performance.now();
      writeFileSync(file, code(tool));
      await isServed(url, tool);
      const servedAt = performance.now();
      execFileSync(process.execPath, [tsc, ...tscOptions.split(" "), file], { cwd: folder });
      if (round === 0) continue;
      saved.push(servedAt - savedAt);
      checked.push(performance.now() - servedAt);
    }
    return { name, savedMs: median(saved), p95Ms: percentile(saved, 0.95), tscMs: median(checked) };
  } finally {
    dev.kill();
    await once(dev, "exit");
  }
}

async function addressIn(stream) {
  let text = "";
  for await (const chunk of stream.iterator({ destroyOnReturn: false })) {
    text += chunk;
    const found = /http:\/\/[\w.]+:\d+\/mcp\/s/.exec(text);
    if (found) {
      stream.resume();
      return found[0];
    }
  }
  throw new Error(`berth dev did not start: ${text}`);
}

async function isServed(url, tool) {
  const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/list" });
  const headers = { "Content-Type": "application/json", Accept: "application/json, text/event-stream" };
  for (const endAt = performance.now() + SAVE_MS_MAX; performance.now() < endAt; await after(POLL_MS)) {
    const response = await fetch(url, { method: "POST", headers, body });
    if ((await response.text()).includes(`"${tool}"`)) return;
  }
  throw new Error(`${tool} was not served within ${SAVE_MS_MAX / 1000} s`);
}
