import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { discover, makeImage, writeSources } from "./berth.mjs";
import { median } from "./rounds.mjs";

/**
 * Images of growing size: generated from nothing, then confirmed unchanged. The same images are what the trials and
 * the starts serve.
 *
 * @typedef {{ servers: number, generateMs: number, unchangedMs: number, perDefinitionMs: number }} ImageFigures
 */

const REPEATS = 3;

/**
 * @param {string} folder
 * @param {{ servers: number, tools?: number }} size
 * @returns {Promise<{ sources: string, image: string, names: string[], generateMs: number }>}
 */
export async function newImage(folder, size) {
  const name = `${size.servers}-${size.tools ?? 1}`;
  const [sources, image] = [join(folder, `sources-${name}`), join(folder, `image-${name}`)];
  mkdirSync(sources);
  const names = writeSources(sources, size);
  return { sources, image, names, generateMs: await makeImage(sources, image) };
}

/** @param {Awaited<ReturnType<typeof newImage>>} made @returns {Promise<ImageFigures>} */
export async function measureImage({ sources, image, names, generateMs }) {
  const unchangedMs = await medianOf(() => makeImage(sources, image));
  return { servers: names.length, generateMs, unchangedMs, perDefinitionMs: generateMs / names.length };
}

/** One file, a process of its own each time. @param {Awaited<ReturnType<typeof newImage>>} made */
export function measureDiscovery({ sources, names }) {
  return medianOf(() => discover(join(sources, "servers", `${names.at(-1)}.ts`), sources));
}

async function medianOf(measure) {
  const values = [];
  for (let repeat = 0; repeat < REPEATS; repeat++) values.push(await measure());
  return median(values);
}
