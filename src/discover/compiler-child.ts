import { Socket } from "node:net";
import type { Cid } from "../lib/cid.ts";
import { BundlerEnded, enableBuildCache } from "./bundle/bundle.ts";
import { compileDefinition, type CompileTask } from "./compile.ts";
import { BUNDLER_ENDED, frame, CompilerFrameReader } from "./compiler-frames.ts";
import type { DefinitionSource, DescribeSchemas } from "./discovery.ts";
import type { PackageFiles } from "./packages/package-files.ts";
import type { TarballLimits } from "./packages/tarball.ts";

/** The compiler's process: takes one definition at a time from fd 3, answers on fd 4, and exits when fd 3 ends. */
interface Job extends TarballLimits {
  readonly id: number;
  readonly task: CompileTask;
  readonly source: DefinitionSource;
  readonly bundleBytes: number;
}

/** The bytes of a package that a job needs; without payload if they are missing. */
interface Tarball {
  readonly tarball: Cid;
  readonly payload?: Buffer;
}

const jobs = new Socket({ fd: 3, readable: true, writable: false });
const answers = new Socket({ fd: 4, readable: false, writable: true });
const reader = new CompilerFrameReader(Number.MAX_SAFE_INTEGER, { takesBytes: true });
let working: Promise<void> = Promise.resolve();
const pendingTarballs = new Map<Cid, (bytes: Buffer | undefined) => void>();
let onDescribed: ((answer: Awaited<ReturnType<DescribeSchemas>>) => void) | undefined;

jobs.on("data", (chunk) => {
  for (const frame of reader.push(chunk)) {
    if (isDescribed(frame)) onDescribed?.(frame.described);
    else if (isTarball(frame)) pendingTarballs.get(frame.tarball)?.(frame.payload);
    else working = working.then(() => runJob(frame as Job));
  }
});
jobs.on("end", () => process.exit(0));
for (const socket of [jobs, answers]) socket.on("error", () => process.exit(1));
enableBuildCache();
answers.write(frame({ id: 0 }));

async function runJob(job: Job): Promise<void> {
  const { id, task, source, bundleBytes } = job;
  try {
    const packages = await readPackages(job);
    const describe: DescribeSchemas = (bundle, request) => {
      answers.write(frame({ id, describe: { bundle, request } }));
      return new Promise((resolve) => (onDescribed = resolve));
    };
    const result = await compileDefinition(task, source, bundleBytes, packages, describe);
    answers.write(frame({ id, result }));
  } catch (error) {
    // The compiler cannot continue without its bundler, whose last output on stderr says why.
    if (error instanceof BundlerEnded) process.exit(BUNDLER_ENDED);
    answers.write(frame({ id, failure: error instanceof Error ? error.message : String(error) }));
  }
}

function isDescribed(frame: unknown): frame is { readonly described: Awaited<ReturnType<DescribeSchemas>> } {
  return typeof (frame as { described?: unknown }).described === "object";
}

function isTarball(frame: unknown): frame is Tarball {
  return typeof (frame as Partial<Tarball>).tarball === "string";
}

/** Reads the packages that a definition reaches from the pipe, or returns why they cannot be used. */
async function readPackages({ id, source, ...limits }: Job): Promise<PackageFiles | string | undefined> {
  if (!source.packages) return undefined;
  const [{ PackageFiles, tarballsToSend }, { TarballRefused }] = await Promise.all([
    import("./packages/package-files.ts"),
    import("./packages/tarball.ts"),
  ]);
  const wants = tarballsToSend(source.packages);
  const sent = wants.map(
    (cid) =>
      new Promise<[Cid, Buffer | undefined]>((resolve) => pendingTarballs.set(cid, (bytes) => resolve([cid, bytes]))),
  );
  if (wants.length > 0) answers.write(frame({ id, wants }));
  const tarballs = new Map(await Promise.all(sent));
  pendingTarballs.clear();
  try {
    return await PackageFiles.read(source.packages, (cid) => tarballs.get(cid), limits);
  } catch (error) {
    if (error instanceof TarballRefused) return error.message;
    throw error;
  }
}
