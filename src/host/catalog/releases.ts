import { sanitizeContract } from "../../contract/sanitize.ts";
import { readCheckedEntry } from "../../entry/mcps.ts";
import type { HostPort } from "../../executor/executor.ts";
import { findAnyClaim } from "../../image/claimed.ts";
import { decodeRecord, decodeJsonYielding, isCid, isStructure, type Cid } from "../../lib/cid.ts";
import { BerthError } from "../../lib/errors.ts";
import { createYielder } from "../../lib/event-loop.ts";
import { isObject, type Json, type JsonSchema } from "../../lib/json.ts";
import { asPackageSet, type PackageSet } from "../../packages/package-set.ts";
import type { Store } from "../../store/store.ts";
import { unlessDamaged } from "../../store/unless-damaged.ts";
import { reduceGrants } from "../calls/granted.ts";
import type { DirectoryEntry } from "../directory/directory.ts";
import { withdrawnFrom } from "../directory/tenant-rules.ts";
import type { Catalog } from "../offers/catalog.ts";
import { buildCatalog, type LoadDependencies } from "./build-catalog.ts";
import { refused } from "./compile-once.ts";
import { releaseCompilerKey } from "./release-recorder.ts";
import type { ReleaseParts } from "./release.ts";
import { readWithdrawnReleases } from "./withdrawn.ts";

/** Limit of changes to search, because a history can be long. */
const CHANGES_MAX = 1_000;

/** One release in the history of a server. */
export interface ReleaseVersion {
  readonly release: Cid;
  readonly contract: Cid;
  readonly changedAt: number;
  readonly by: string;
  readonly current: boolean;
  /** Not served until it is reinstated. */
  readonly withdrawn: boolean;
}

/** The latest releases of a server whose content exists, newest first. */
export async function readReleases(store: Store, tenant: string, server: string): Promise<ReleaseVersion[]> {
  const history = await store.history(tenant, "release", server, CHANGES_MAX);
  const current = history[0]?.cid;
  const withdrawn = await readWithdrawnReleases(store, tenant, server);
  const listed = new Set<Cid>();
  const releases: ReleaseVersion[] = [];
  const yieldIfDue = createYielder();
  for (const { cid, changedAt, by } of history) {
    await yieldIfDue();
    if (cid === null || listed.has(cid)) continue;
    listed.add(cid);
    const bytes = await unlessDamaged(store.content(tenant, cid));
    const parts = bytes && decodeRecord(bytes);
    if (!isObject(parts) || typeof parts["contract"] !== "string") continue;
    releases.push({
      release: cid,
      contract: parts["contract"],
      changedAt,
      by,
      current: cid === current,
      withdrawn: withdrawn?.releases.has(cid) ?? false,
    });
  }
  return releases;
}

/** Maximum number of loaded earlier releases. */
const RELEASES_MAX = 64;

export interface EarlierReleases {
  /** `now` is the server's current entry, which limits the grants of its releases. May reject with `server_refused`. */
  load(tenant: string, server: string, release: Cid, now: DirectoryEntry): Promise<Catalog | undefined>;
  /** Unloads all releases of a tenant. */
  forget(tenant: string): void;
}

/**
 * Loads earlier releases of a server by CID. Each is rebuilt from its parts, and served only if the result has the same
 * CID. Its code gets the grants that both its own entry and the current one have.
 */
export function createEarlierReleases(
  createPort: (tenant: string, server: string) => HostPort,
  dependencies: LoadDependencies,
): EarlierReleases {
  const loaded = new Map<string, { now: DirectoryEntry; loading: Promise<Catalog | undefined> }>();
  return {
    load(tenant, server, release, now) {
      const key = JSON.stringify([tenant, server, release]);
      const cached = loaded.get(key);
      const pending = cached?.now === now ? cached.loading : undefined;
      const loading =
        pending ?? loadRelease({ tenant, server, release, now }, createPort(tenant, server), dependencies);
      loaded.delete(key);
      loaded.set(key, { now, loading });
      // Do not cache failures.
      const forget = (): boolean => loaded.get(key)?.loading === loading && loaded.delete(key);
      if (!pending) loading.then((catalog) => catalog ?? forget(), forget);
      for (const oldest of loaded.keys()) {
        if (loaded.size <= RELEASES_MAX) break;
        loaded.delete(oldest);
      }
      return loading;
    },
    forget(tenant) {
      for (const key of loaded.keys()) if ((JSON.parse(key) as string[])[0] === tenant) loaded.delete(key);
    },
  };
}

async function loadRelease(
  { tenant, server, release, now }: { tenant: string; server: string; release: Cid; now: DirectoryEntry },
  port: HostPort,
  dependencies: LoadDependencies,
): Promise<Catalog | undefined> {
  const { store } = dependencies;
  const structure = async (cid: Cid): Promise<unknown> => {
    const bytes = await store.content(tenant, cid);
    return bytes && decodeRecord(bytes);
  };
  if (!isCid(release) || !isStructure(release)) return undefined;
  const parts = (await structure(release)) as ReleaseParts | undefined;
  // Search the history, which may be long, only for content that the tenant has.
  if (!parts || !(await store.had(tenant, "release", server, release))) return undefined;
  const config = await structure(parts.config);
  const packages = parts.packages === undefined ? NO_PACKAGES : asPackageSet(await structure(parts.packages));
  const listed = await store.content(tenant, parts.contract);
  const contract = listed && (await sanitizeContract(await decodeJsonYielding(listed)));
  if (config === undefined || !contract || !packages) return undefined;

  const faultOf = (schema: JsonSchema) => dependencies.checks.faultOf(tenant, schema);
  const { entry: releasedEntry } = await readCheckedEntry(server, config as Json, faultOf, { isEarlier: true });
  const entry = reduceGrants(releasedEntry, now);
  const withdrawn = withdrawnFrom({ tenant, server, was: releasedEntry, given: entry }, now);
  if (withdrawn.length > 0) throw refused(server, withdrawn);
  const offered = {
    tool: new Set(contract.tools.map(({ name }) => name)),
    prompt: new Set(contract.prompts.map(({ name }) => name)),
  };
  const built = await buildCatalog(
    tenant,
    server,
    {
      definition: parts.definition ?? undefined,
      entry,
      isHidden: ({ kind, name }) => !offered[kind].has(name),
      isEarlier: true,
    },
    port,
    { ...(await withReleaseCompiler(release, dependencies)), claimed: findAnyClaim, packageSet: packages },
  ).catch(undefinedIfMissing);
  return built?.catalog.release === release ? { ...built.catalog, pinned: true } : undefined;
}

/** Prevents the default, which is the tenant's current packages. */
const NO_PACKAGES: PackageSet = { dependencies: {}, packages: {} };

/** Uses the stored code of the release's compiler. Without it, the release cannot be rebuilt. */
async function withReleaseCompiler(release: Cid, dependencies: LoadDependencies): Promise<LoadDependencies> {
  const { store, compileKey } = dependencies;
  const bytes = await store.derived(releaseCompilerKey(release));
  const compiler = bytes ? new TextDecoder().decode(bytes) : dependencies.compiler;
  if (compiler === dependencies.compiler) return dependencies;
  return {
    ...dependencies,
    compiler,
    compileKey: (definition, source) => compileKey(definition, source, compiler),
    compile: () => Promise.reject(new BerthError("content_missing", "the code of an earlier release")),
  };
}

function undefinedIfMissing(error: unknown): undefined {
  if (!(error instanceof BerthError) || error.code !== "content_missing") throw error;
}
