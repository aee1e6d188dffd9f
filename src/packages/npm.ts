import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { BerthError } from "../lib/errors.ts";
import { createYielder } from "../lib/event-loop.ts";
import { FairSemaphore } from "../lib/fair-semaphore.ts";
import type { Problem } from "../lib/problem.ts";
import type { Limits } from "../limits/limits.ts";
import { openAgentToAnywhere } from "../network/agent.ts";
import { ConfinedNpm, type ConfinedOptions, type TakeTarball, fetchBounds, timeIsUp } from "./confined-npm.ts";
import { fetchSet, asBerthError, refused, type FetchedSet, type HaveTarball } from "./fetch-set.ts";
import { findNpm, type FoundNpm } from "./find-npm.ts";
import { needProblem } from "./lock.ts";
import { cachePathOf, npmConfigOf, NpmFailed, packAll, resolveSet, type NpmPlace, type Wish } from "./npm-runs.ts";
import { isPackageName } from "./package-name.ts";
import { asPackageSet, type LockedPackage, type PackageSet } from "./package-set.ts";

/**
 * npm, which makes sets of ranges and brings their tarballs. For an image it is the author's own, with the author's
 * configuration and cache; for tenants it runs confined, and reaches the operator's registry alone.
 */
export interface Npm {
  /** npm's version. Throws where there is no npm. */
  version(): string;
  /**
   * The set that fulfils `dependencies`; an empty range stands for the newest version, and the set has the range that
   * npm writes for it. What `previous` has locked stays locked, except for what `update` names (`true`: all of it).
   * `warn` hears of what is allowed and yet worth knowing: install scripts, names like famous ones.
   */
  resolve(
    dependencies: Readonly<Record<string, string>>,
    previous?: PackageSet,
    update?: true | readonly string[],
    warn?: (problem: Problem) => void,
  ): Promise<PackageSet>;
  /** The set with the CIDs of its tarballs, and those; all or nothing. */
  fetch(set: PackageSet, have: HaveTarball): Promise<FetchedSet>;
  /** Ends what is under way. */
  close(): Promise<void>;
}

export type NpmLimits = Pick<Limits, "packageFetches" | "packageSetBytes">;

/** Sets that wait to be resolved or fetched; further ones are refused. */
const QUEUED_FETCHES_MAX = 32;

export type NpmConfig =
  | {
      readonly mode: "own";
      /** The author's folder: its `.npmrc` counts. */
      readonly folder: string;
      readonly env: NodeJS.ProcessEnv;
      readonly limits: NpmLimits;
    }
  | (Omit<ConfinedOptions, "dispatcher" | "limits"> & { readonly mode: "confined"; readonly limits: NpmLimits });

/** How npm carries a wish out, and brings tarballs. */
export interface NpmWays {
  resolve(npm: FoundNpm, wish: Wish): Promise<{ set?: unknown; problems: readonly Problem[] }>;
  bring(npm: FoundNpm, packages: readonly LockedPackage[], take: TakeTarball): Promise<void>;
  have(npm: FoundNpm): HaveTarball;
  close(): Promise<void>;
}

/** Finds npm only when it is needed. */
export function openNpm(config: NpmConfig): Npm {
  const { limits } = config;
  const ways =
    config.mode === "own" ? ownWays(config) : new ConfinedNpm({ ...config, dispatcher: openAgentToAnywhere() });
  const turns = new FairSemaphore(limits.packageFetches, QUEUED_FETCHES_MAX, () => limits.packageFetches);
  let found: FoundNpm | undefined;
  const npm = (): FoundNpm => (found ??= findNpm(config.mode === "own" ? config.env : process.env));

  const inTurn = async <Made>(work: () => Promise<Made>): Promise<Made> => {
    const turn = turns.enter("", () => {});
    if (!turn) {
      throw new BerthError("too_many_requests", `${QUEUED_FETCHES_MAX} sets of packages are waiting; try again`, {
        data: { retryAfterSeconds: RETRY_AFTER_S },
      });
    }
    await turn;
    try {
      return await work();
    } catch (error) {
      throw error instanceof NpmFailed ? asBerthError(error) : error;
    } finally {
      turns.leave("");
    }
  };

  return {
    version: () => npm().version,
    resolve: (dependencies, previous, update, warn) =>
      inTurn(async () => {
        await checkWish({ dependencies, update });
        const wish = { dependencies, ...(previous && { previous }), ...(update !== undefined && { update }) };
        const { set, problems } = await ways.resolve(npm(), wish);
        const wrong = problems.filter(({ severity }) => severity === "error");
        if (wrong.length > 0) {
          const [first] = wrong as [Problem];
          const more = wrong.length > 1 ? ` (and ${wrong.length - 1} more)` : "";
          throw new BerthError("packages_refused", `${first.message}${more}`, { data: { problems: wrong } });
        }
        const sound = asPackageSet(set);
        if (!sound) throw refused("npm wrote a lock that is none");
        for (const problem of problems) warn?.(problem);
        return sound;
      }),
    fetch: (set, have) =>
      inTurn(async () => {
        if (!asPackageSet(set)) throw refused("this is no set of packages");
        const tarballs = Object.values(set.packages).length;
        const own = tarballs > 0 ? ways.have(npm()) : () => undefined;
        return fetchSet(
          set,
          async (integrity) => (await have(integrity)) ?? own(integrity),
          (packages, take) => ways.bring(npm(), packages, take),
          limits,
        );
      }),
    close: () => ways.close(),
  };
}

const RETRY_AFTER_S = 10;

async function checkWish({ dependencies, update }: Pick<Wish, "dependencies" | "update">): Promise<void> {
  const takeTurns = createYielder();
  for (const [name, range] of Object.entries(dependencies)) {
    await takeTurns();
    const problem = needProblem(name, range);
    if (problem !== undefined) throw refused(problem);
  }
  for (const name of update === true ? [] : (update ?? []))
    if (!isPackageName(name)) throw refused(`${JSON.stringify(name)} is no name of a package`);
}

/** npm as its user has it: their configuration, their cache, their network. */
function ownWays({ folder, env }: Extract<NpmConfig, { mode: "own" }>): NpmWays {
  const abort = new AbortController();
  const configs = new Map<string, ReturnType<typeof npmConfigOf>>();
  const configOf = ({ cli }: FoundNpm): ReturnType<typeof npmConfigOf> => {
    const known = configs.get(cli) ?? npmConfigOf({ cli, env, cwd: folder });
    configs.set(cli, known);
    return known;
  };
  const inScratch = async <Made>(npm: FoundNpm, work: (place: NpmPlace) => Promise<Made>): Promise<Made> => {
    const scratch = await mkdtemp(join(tmpdir(), "berth-npm-"));
    try {
      return await work({
        ...npm,
        node: process.execPath,
        nodeOptions: [],
        options: [],
        env,
        scratch,
        cwd: folder,
        ownCache: false,
        signal: AbortSignal.any([abort.signal, AbortSignal.timeout(fetchBounds.packageFetchMs)]),
      });
    } catch (error) {
      throw (error as Error).name === "AbortError" && !abort.signal.aborted ? timeIsUp() : error;
    } finally {
      await rm(scratch, { recursive: true, force: true });
    }
  };
  return {
    resolve: (npm, wish) =>
      inScratch(npm, async (place) => {
        const { registries } = await configOf(npm);
        return resolveSet({ ...place, settings: join(folder, ".npmrc") }, wish, { registries });
      }),
    bring: (npm, packages, take) => inScratch(npm, (place) => packAll(place, packages, take)),
    have: (npm) => async (integrity) => {
      const { cache } = await configOf(npm);
      const path = cachePathOf(integrity);
      if (cache === undefined || path === undefined) return undefined;
      return readFile(join(cache, path)).catch(() => undefined);
    },
    close: async () => abort.abort(),
  };
}
