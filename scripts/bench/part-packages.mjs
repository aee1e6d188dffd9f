import { execFileSync } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as after } from "node:timers/promises";
import { pathToFileURL } from "node:url";
import { openCompiler } from "../../dist/src/discover/compiler.js";
import { openExecutor } from "../../dist/src/executor/open-executor.js";
import { rawBlock } from "../../dist/src/lib/cid.js";
import { defaultLimits } from "../../dist/src/limits/limits.js";
import { definitionOf } from "../packages/attempt.mjs";
import { openSet } from "../packages/set.mjs";
import { median } from "./rounds.mjs";

/**
 * The first call of a definition that imports `zod`, and of one that imports nothing: with a process that was started
 * before, and without; and what bare Node takes to load the same bundle. Each call has a process of its own, in turns.
 *
 * @typedef {{ bundleKb: number, coldMs: number, coldPlainMs: number, spareMs: number, sparePlainMs: number,
 *   bareMs: number }} PackagesFigures
 */

/** A spare is started some time after another was taken, and gives way to all else while it starts. */
const SPARE_READY_MS = 500;

/** @param {string} folder @param {number} repeats @param {(line: string) => void} say @returns {Promise<PackagesFigures>} */
export async function measurePackages(folder, repeats, say) {
  const { set, tarball } = await openSet(["zod"]);
  const compiler = openCompiler(defaultLimits);
  const plain = `/** Reads a person. */\nexport function person(): { name: string } {\n  return { name: "Ada" };\n}\n`;
  const sources = {
    zod: definitionOf("zod", set),
    plain: { language: "typescript", server: "plain", entry: "plain.ts", files: { "plain.ts": plain } },
  };
  const programs = {};
  for (const [name, source] of Object.entries(sources)) {
    const { bundle, tools, problems } = await compiler.compile(source, { tarballs: tarball });
    if (bundle === undefined) throw new Error(problems.map(({ message }) => message).join("\n"));
    programs[name] = { bundle, shape: tools[0].call, cid: rawBlock(Buffer.from(bundle)).cid };
  }
  await compiler.close();

  const bundleKb = Buffer.byteLength(programs.zod.bundle) / 1024;
  say(`packages: a bundle of ${Math.round(bundleKb)} KB`);
  const cold = await firstCalls(programs, repeats, 0);
  const spare = await firstCalls(programs, repeats, 1);
  return {
    bundleKb,
    coldMs: cold.zod,
    coldPlainMs: cold.plain,
    spareMs: spare.zod,
    sparePlainMs: spare.plain,
    bareMs: bareLoad(folder, programs.zod.bundle, repeats),
  };
}

/** Medians, in ms. */
async function firstCalls(programs, repeats, guestSpareProcesses) {
  const executor = await openExecutor({ mode: "auto", limits: { ...defaultLimits, guestSpareProcesses } });
  const samples = Object.fromEntries(Object.keys(programs).map((name) => [name, []]));
  try {
    // The first round warms the host's own code.
    for (let round = 0; round <= repeats; round++) {
      for (const [name, { bundle, shape, cid }] of Object.entries(programs)) {
        if (guestSpareProcesses > 0) await after(SPARE_READY_MS);
        // Another realm has a process of its own.
        const program = { tenant: "default", bundle: cid, code: async () => bundle, realm: String(round) };
        const startedAt = performance.now();
        const outcome = await executor.call(program, { shape, args: {}, deadlineMs: 30_000 });
        const ms = performance.now() - startedAt;
        if (!outcome.ok) throw new Error(outcome.error.message);
        if (round > 0) samples[name].push(ms);
        await executor.suspend("default");
        executor.resume("default");
      }
    }
  } finally {
    await executor.close();
  }
  return Object.fromEntries(Object.entries(samples).map(([name, list]) => [name, median(list)]));
}

/** The time that a fresh Node takes to import the bundle from a file, in ms. */
function bareLoad(folder, bundle, repeats) {
  const place = join(folder, "packages");
  mkdirSync(place);
  writeFileSync(join(place, "bundle.mjs"), bundle);
  const load = `const at = performance.now(); await import(${JSON.stringify(pathToFileURL(join(place, "bundle.mjs")).href)}); console.log(performance.now() - at);`;
  writeFileSync(join(place, "load.mjs"), load);
  const samples = Array.from({ length: repeats }, () =>
    Number(execFileSync(process.execPath, [join(place, "load.mjs")], { encoding: "utf8" })),
  );
  return median(samples);
}
