import { readFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { join } from "node:path";
import type { ReadTarball } from "../discover/compiler.ts";
import { isServiceFault } from "../discover/discovery.ts";
import { readEntry } from "../entry/entry.ts";
import { requestProblems, ungranted, type RequestedGrant } from "../entry/grant-requests.ts";
import { matches, type Block, type Cid } from "../lib/cid.ts";
import { BerthError } from "../lib/errors.ts";
import { isObject, type JsonObject } from "../lib/json.ts";
import { withoutSetVariables, type Problem } from "../lib/problem.ts";
import { packCompiled, readCompiled } from "./compiled.ts";
import type { ImageCompiler, Compiling } from "./compiling.ts";
import { originalPath, type GatheredDefinition } from "./definitions.ts";
import { CONTENT_FOLDER } from "./image.ts";
import type { Lock } from "./lock.ts";
import type { Reference } from "./mcps-source.ts";

/** A unit of compilation: a definition or transform, for the server that names it. */
export interface Job {
  readonly reference: Reference;
  readonly definition: GatheredDefinition;
}

/** A job's result, as an image stores it. */
export interface CompileResult {
  readonly key: string;
  readonly result: Block;
  readonly bundle: Block | undefined;
  /** The definition is not at fault: a retry may give another result. */
  readonly isTransient?: boolean;
  /** It was compiled now, and does not load. */
  readonly isUnloadable?: boolean;
}

export interface CompileProgress {
  readonly done: number;
  readonly total: number;
  /** The last item that was processed. */
  readonly name: string;
}

/** A compiler is a process of its own, which takes longer to start than a few definitions take to compile. */
const JOBS_PER_COMPILER = 25;
const COMPILERS_MAX = 4;

/** The results of all jobs, compiled or taken from the last image. A definition that cannot serve is an error. */
export async function compileAll(
  jobs: readonly Job[],
  { compiling, earlier, problems, onProgress, load, tarballs, toolErrors = false }: CompileOptions,
): Promise<{ results: Map<Job, CompileResult>; compiled: number }> {
  const byKey = new Map<string, Job[]>();
  for (const job of jobs) {
    const source = await job.definition.source(job.reference.server);
    const key = compiling.key(job.definition.cid, source);
    byKey.set(key, [...(byKey.get(key) ?? []), job]);
  }

  const resultsByKey = new Map<string, CompileResult>();
  const missing: string[] = [];
  for (const key of byKey.keys()) {
    const result = earlier(key);
    if (result) resultsByKey.set(key, result);
    else missing.push(key);
  }

  const unloadable = new Map<string, Problem>();
  const tryToLoad = async (key: string, bundle: Block | undefined): Promise<void> => {
    const { entry, language } = await byKey.get(key)![0]!.definition.source(byKey.get(key)![0]!.reference.server);
    if (!load || !bundle || language !== "typescript") return;
    // Servers with the same definition are tried together.
    const entries = byKey.get(key)!.map(({ reference }) => reference.entry?.value ?? {});
    const problem = await load(entry, bundle.bytes, entries);
    if (problem?.severity !== "error") return;
    unloadable.set(key, problem);
    resultsByKey.set(key, { ...resultsByKey.get(key)!, isUnloadable: true });
  };

  let done = 0;
  const reportProgress = (key: string): void => {
    onProgress?.({ done, total: missing.length, name: byKey.get(key)![0]!.definition.entry });
  };
  if (missing.length > 0) reportProgress(missing[0]!);
  const pending = missing.toReversed();
  const compilePending = async (): Promise<void> => {
    const compiler = await compiling.open();
    try {
      for (let key = pending.pop(); key !== undefined; key = pending.pop()) {
        const result = await compileOne(
          key,
          byKey.get(key)![0]!,
          compiler,
          async (cid) => tarballs?.find((tarball) => tarball.cid === cid)?.bytes,
        );
        resultsByKey.set(key, result);
        await tryToLoad(key, result.bundle);
        done++;
        reportProgress(key);
      }
    } finally {
      await compiler.close();
    }
  };
  const compilers = Math.min(Math.ceil(missing.length / JOBS_PER_COMPILER), COMPILERS_MAX, availableParallelism());
  await Promise.all(Array.from({ length: compilers }, compilePending));

  const results = new Map<Job, CompileResult>();
  for (const [key, jobsOfKey] of byKey) {
    const result = resultsByKey.get(key)!;
    for (const job of jobsOfKey) {
      results.set(job, result);
      problems.push(...listProblems(job, result, toolErrors));
      const problem = unloadable.get(key);
      if (problem) problems.push(locateInSources(problem, job.definition));
    }
  }
  return { results, compiled: missing.length };
}

interface CompileOptions {
  readonly compiling: Compiling;
  readonly earlier: (key: string) => CompileResult | undefined;
  readonly problems: Problem[];
  readonly onProgress?: ((progress: CompileProgress) => void) | undefined;
  readonly load?: Load | undefined;
  /** The tarballs of the packages that definitions reach. */
  readonly tarballs?: readonly Block[] | undefined;
  /** A fault that prevents a tool from being offered is an error, even if other tools of its definition serve. */
  readonly toolErrors?: boolean | undefined;
}

/**
 * Resolves with the problem that prevents a bundle from loading; undefined if there is none, or if it cannot be
 * determined. `entries` are those of the servers that have it, as written, without the fields that name files.
 */
export type Load = (entry: string, bundle: Uint8Array, entries: readonly JsonObject[]) => Promise<Problem | undefined>;

async function compileOne(
  key: string,
  { reference, definition }: Job,
  compiler: ImageCompiler,
  tarballs: ReadTarball,
): Promise<CompileResult> {
  const source = await definition.source(reference.server);
  const compiled = await compiler.compile(source, { tarballs });
  const isPassing = compiled.problems.some(isServiceFault);
  return { key, ...packCompiled(compiled, source.files), ...(isPassing && { isTransient: isPassing }) };
}

/** The results of the last image, if they are intact. */
export function openEarlierResults(out: string, lock: Lock | undefined): CompileOptions["earlier"] {
  const read = (cid: Cid): Block => {
    const bytes = readFileSync(join(out, CONTENT_FOLDER, cid));
    if (!matches(cid, bytes)) throw new BerthError("content_corrupt", cid);
    return { cid, bytes };
  };
  return (key) => {
    if (!lock || !Object.hasOwn(lock.results, key)) return undefined;
    try {
      const result = read(lock.results[key]!);
      const { bundle } = readCompiled(result.bytes);
      return { key, result, bundle: bundle === null ? undefined : read(bundle) };
    } catch {
      // Missing, damaged or not a result: it is compiled again.
      return undefined;
    }
  };
}

/** With a bundle, its valid tools serve and every problem is a warning, unless `toolErrors`. */
function listProblems(
  { reference, definition }: Job,
  { result, bundle }: CompileResult,
  toolErrors: boolean,
): Problem[] {
  const isReported = (problem: Problem): boolean =>
    // The exports of a transform are called by the host and not offered as tools.
    !(bundle && reference.kind === "transform" && problem.tool !== undefined);
  const { problems, requested = [] } = readCompiled(result.bytes);
  const grants = reference.entry?.value ?? {};
  const ungrantedRequests = findUngranted(reference, requested);
  const { env } = grants;
  const unset = withoutSetVariables(problems.filter(isReported), isObject(env) ? env : {});
  const isServed = !toolErrors && bundle !== undefined;
  const all = [...unset, ...requestProblems(reference.server, grants, ungrantedRequests)].map((problem) =>
    locateInSources(isServed ? { ...problem, severity: "warning" as const } : problem, definition),
  );
  if (bundle || all.some(({ severity }) => severity === "error")) return all;
  const message = `"${definition.entry}" has nothing to run`;
  return [...all, { code: "nothing-to-run", message, severity: "error", file: definition.entry }];
}

/** The grants that a definition requests and its entry does not give, with their positions in the sources. */
export function listUngranted({ reference, definition }: Job, { result }: CompileResult): RequestedGrant[] {
  const { requested = [] } = readCompiled(result.bytes);
  return findUngranted(reference, requested).map((request) => locateInSources(request, definition));
}

function findUngranted({ entry }: Job["reference"], requested: readonly RequestedGrant[]): RequestedGrant[] {
  return entry ? ungranted(requested, readEntry("", entry.value).entry) : [];
}

function locateInSources<Placed extends Pick<Problem, "file">>(placed: Placed, definition: GatheredDefinition): Placed {
  const file = originalPath(definition, placed.file);
  return Object.assign({}, placed, file === undefined ? {} : { file });
}
