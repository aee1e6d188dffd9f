import { existsSync } from "node:fs";
import { join, relative } from "node:path";
import { packageRoot, readConfig } from "../config.ts";
import { openCompiler } from "../discover/compiler.ts";
import type { DescribeSchemas } from "../discover/discovery.ts";
import { gatherDefinition } from "../discover/gather.ts";
import { compileKey } from "../discover/key.ts";
import { readEntry } from "../entry/entry.ts";
import { findSchemaFault } from "../host/calls/arguments.ts";
import type { CompileProgress } from "../image/compile-all.ts";
import type { Compiling } from "../image/compiling.ts";
import { generateImage, type BundleSize, type GenerateOptions, type Generation } from "../image/generate.ts";
import { imageNames, LOCK_FILE, type ImageName } from "../image/image.ts";
import { isUpToDate, readLock, type Lock, OwnLocks } from "../image/lock.ts";
import { readImage } from "../image/read.ts";
import { compareImage, writeImage, type Difference } from "../image/write.ts";
import { rawBlock, type Cid } from "../lib/cid.ts";
import type { JsonObject } from "../lib/json.ts";
import { withTypeErrors, type Problem } from "../lib/problem.ts";
import { confinementFor } from "../processes/own-program.ts";
import { openLoader } from "./open-loader.ts";
import { ownNpm } from "./own-npm.ts";
import { counted, countProblems, printProblems } from "./print-problems.ts";
import { printJson } from "./print.ts";
import { progressLine } from "./progress.ts";

export interface BootOptions {
  /** The folder of sources. Default: the package's `reference_templates/`. */
  readonly from?: string;
  /** The folder of the image. Default: the package's `boot/`. */
  readonly out?: string;
  /**
   * Writes nothing, and reports the differences between the image and the sources, with every definition compiled
   * again.
   */
  readonly check?: boolean;
  /**
   * Generates only when a quick look finds the image stale, which trusts the image's compiled results; without sources,
   * the image is left alone.
   */
  readonly ifStale?: boolean;
  /** Reuses nothing of the last image: every definition is compiled again. */
  readonly fresh?: boolean;
  readonly json?: boolean;
  /** Type errors of definitions keep the image from being made. */
  readonly strict?: boolean;
  /** Prints nothing but the problems that keep the image from being made. */
  readonly quiet?: boolean;
}

/** The output of `berth boot --json`. */
interface BootResult {
  readonly status: "written" | "unchanged" | "stale" | "no-sources" | "bad-sources";
  readonly images: Partial<Record<ImageName, Cid>>;
  /** Definitions and transforms that were compiled in this run. */
  readonly compiled: number;
  /** The sizes of all bundles, where the image was made now. */
  readonly bundles: readonly BundleSize[];
  readonly differences: readonly Difference[];
  readonly problems: readonly Problem[];
}

/**
 * `berth boot`: exit code 0 when the image is good, 1 when `--check` finds it stale, 2 when sources have problems.
 * `open` provides another process to compile in.
 */
export async function boot(options: BootOptions, open?: Compiling["open"]): Promise<number> {
  const from = options.from ?? join(packageRoot, "reference_templates");
  const out = options.out ?? join(packageRoot, "boot");
  const result = await makeImage(from, out, options, open);
  if (options.json) printJson(result, 2);
  else {
    printProblems(options.quiet ? result.problems.filter(({ severity }) => severity === "error") : result.problems);
    if (!options.quiet) tell(result, from, out);
  }
  return { written: 0, unchanged: 0, "no-sources": 0, stale: 1, "bad-sources": 2 }[result.status];
}

interface ImageOptions extends BootOptions {
  /** An error of a server leaves out that server alone, and the image is made. */
  readonly refusesServers?: boolean;
}

/** Brings the image in `out` to the sources in `from`. */
export async function makeImage(
  from: string,
  out: string,
  options: ImageOptions,
  open?: Compiling["open"],
): Promise<BootResult> {
  const done = { compiled: 0, bundles: [], differences: [], problems: [] };
  if (options.ifStale && !existsSync(from)) return { ...done, status: "no-sources", images: await imageCids(out) };

  const { limits, compiling } = compilingHere(open);
  const own = open ? undefined : new OwnLocks(process.env);
  const isOwn = (cid: Cid): boolean => own?.has(cid) ?? false;
  const isAnew = options.fresh || options.check;
  const lock = isAnew ? undefined : readLock(out, options.ifStale ? undefined : isOwn);
  const { sourceBytes } = limits;
  const deep = !options.ifStale && !options.refusesServers;
  // What was missing may be there now.
  const isWhole = !lock?.warnings.some(({ severity }) => severity === "error");
  if (lock && isWhole && (await isUpToDate(lock, { from, out, deep, sourceBytes }, compiling))) {
    const problems = options.strict ? withTypeErrors(lock.warnings) : lock.warnings;
    if (problems.some(({ severity }) => severity === "error"))
      return { ...done, status: "bad-sources", images: {}, problems };
    return { ...done, status: "unchanged", images: await imageCids(out), problems };
  }

  const generation = await generate(from, out, isAnew ? undefined : readLock(out, isOwn), options, open);
  const { image, problems } = generation;
  if (!image) return { ...done, status: "bad-sources", images: {}, problems };
  const differences = compareImage(out, image);
  const made = { compiled: image.compiled, bundles: image.bundles, differences, problems };
  if (options.check && differences.length > 0) return { ...made, status: "stale", images: {} };
  if (differences.length > 0) writeImage(out, image);
  if (!options.check) own?.add(rawBlock(image.files.get(LOCK_FILE)!).cid);
  return { ...made, status: differences.length > 0 ? "written" : "unchanged", images: await imageCids(out) };
}

/** `earlier`: the lock whose compiled results count. */
export async function generate(
  from: string,
  out: string,
  earlier: Lock | undefined,
  { quiet, ...options }: Pick<BootOptions, "quiet"> & HowToGenerate,
  open?: Compiling["open"],
): Promise<Generation> {
  const { limits, guests } = readConfig(process.env);
  const loader = open ? undefined : openLoader({ mode: guests, limits });
  const { compiling } = compilingHere(open, loader?.describe);
  const npm = ownNpm(from, limits);
  const progress = progressLine();
  const onProgress = ({ done, total, name }: CompileProgress): void => {
    if (quiet) return;
    progress.update(
      done === 0 ? `Compiling ${counted(total, "definition")}` : `Compiled ${done} of ${total} definitions (${name})`,
    );
  };
  const how = {
    ...options,
    from,
    out,
    earlier,
    sourceBytes: limits.sourceBytes,
    ...(loader && { load: loader.load }),
    fetchPackages: npm.fetch,
    registries: npm.registries,
    onProgress,
    checkEntry,
  };
  try {
    return await generateImage(how, compiling);
  } finally {
    progress.end();
    await loader?.close();
    await npm.close();
  }
}

type HowToGenerate = Pick<GenerateOptions, "strict" | "refusesServers" | "toolErrors" | "checkOffer">;

/** The lock of the image in a folder, if Berth itself wrote it for this user. */
export function ownLock(out: string): Lock | undefined {
  const own = new OwnLocks(process.env);
  return readLock(out, (cid) => own.has(cid));
}

function compilingHere(open?: Compiling["open"], describe?: DescribeSchemas) {
  const { limits, guests } = readConfig(process.env);
  const mode = confinementFor(guests);
  const compiling: Compiling = {
    gather: (root, entry) => gatherDefinition(root, entry, limits),
    key: compileKey,
    open: open ?? (async () => openCompiler(limits, { mode, ...(describe && { describe }) })),
  };
  return { limits, compiling };
}

export function checkEntry(server: string, entry: JsonObject): readonly Problem[] {
  return readEntry(server, entry, { faultOf: findSchemaFault }).problems;
}

async function imageCids(out: string): Promise<BootResult["images"]> {
  const cids = await Promise.all(imageNames.map(async (name) => [name, (await readImage(out, name)).cid] as const));
  return Object.fromEntries(cids);
}

const DIFFERENCES_SHOWN = 20;
/** A bundle of this size is told, even one without packages. */
const LARGE_BYTES = 1024 * 1024;
const PACKAGES_SHOWN = 4;

/** `papers.ts 182 kB: zod 4.1.0 140 kB, papaparse 5.5.3 20 kB, and 3 more 5 kB` */
function sizeOf({ entry, bytes, packages = [] }: BundleSize): string {
  const shown = packages.slice(0, packages.length > PACKAGES_SHOWN + 1 ? PACKAGES_SHOWN : PACKAGES_SHOWN + 1);
  const others = packages.slice(shown.length);
  const weighs = shown.map((each) => `${each.name} ${each.version} ${inUnits(each.bytes)}`);
  if (others.length > 0) {
    weighs.push(`and ${others.length} more ${inUnits(others.reduce((sum, each) => sum + each.bytes, 0))}`);
  }
  return `${entry} ${inUnits(bytes)}${weighs.length > 0 ? `: ${weighs.join(", ")}` : ""}`;
}

function inUnits(bytes: number): string {
  if (bytes < 1_000) return `${bytes} B`;
  if (bytes < 999_500) return `${Math.round(bytes / 1_000)} kB`;
  return `${(bytes / 1_000_000).toFixed(1)} MB`;
}

function tell(result: BootResult, from: string, out: string): void {
  const say = (line: string): void => console.error(line);
  const [sources, image] = [shown(from), shown(out)];
  for (const bundle of result.bundles) {
    if (bundle.packages || bundle.bytes >= LARGE_BYTES) say(`  ${sizeOf(bundle)}`);
  }
  switch (result.status) {
    case "written":
      say(`Wrote the image to ${image} (${result.compiled} compiled, ${result.differences.length} files changed).`);
      break;
    case "unchanged":
      say(`The image in ${image} matches ${sources}.`);
      break;
    case "no-sources":
      say(`There are no sources in ${sources}; the image in ${image} is used as it is.`);
      break;
    case "stale":
      for (const { file, is } of result.differences.slice(0, DIFFERENCES_SHOWN)) say(`  ${is}: ${file}`);
      if (result.differences.length > DIFFERENCES_SHOWN) {
        say(`  and ${result.differences.length - DIFFERENCES_SHOWN} more`);
      }
      say(`The image in ${image} is not what ${sources} gives. Run \`berth boot\`.`);
      break;
    case "bad-sources":
      say(`${countProblems(result.problems)} in ${sources}; ${image} is unchanged.`);
      break;
  }
  for (const [name, cid] of Object.entries(result.images)) say(`  ${name} ${cid}`);
}

function shown(folder: string): string {
  const path = relative(process.cwd(), folder);
  return path === "" || path.startsWith("..") ? folder : path;
}
