import type { Cluster } from "../cluster/cluster.ts";
import { URI_UNITS_MAX } from "../discover/uri-template.ts";
import { unnamedEntry } from "../entry/entry.ts";
import type { HostPort } from "../executor/executor.ts";
import type { Cid } from "../lib/cid.ts";
import { BerthError } from "../lib/errors.ts";
import type { Limits } from "../limits/limits.ts";
import { PACKAGES, type PackageSet } from "../packages/package-set.ts";
import type { NameQuery } from "../store/store.ts";
import { grantsDiffer } from "./calls/granted.ts";
import type { LoadDependencies } from "./catalog/build-catalog.ts";
import { CatalogCache } from "./catalog/catalog-cache.ts";
import { loadPackageSet } from "./catalog/compile-once.ts";
import { type PreparedServer, loadCatalog } from "./catalog/load-catalog.ts";
import { Overviews, createSummarize } from "./catalog/overview.ts";
import { ReleaseRecorder } from "./catalog/release-recorder.ts";
import { createEarlierReleases, readReleases, type EarlierReleases } from "./catalog/releases.ts";
import { type WithdrawnReleases, readWithdrawn, refuseWithdrawn } from "./catalog/withdrawn.ts";
import { contentUsers } from "./directory/content-users.ts";
import { type Directory, type DirectoryEntry, readDirectory, fingerprint, withHidden } from "./directory/directory.ts";
import { changedPackages, serversImporting } from "./directory/package-users.ts";
import { readAhead } from "./directory/read-ahead.ts";
import { createSetVisible } from "./directory/visibility.ts";
import type { ExpectedServers, Host } from "./host.ts";
import { Journal } from "./journal/journal.ts";
import type { Catalog } from "./offers/catalog.ts";
import { withAggregate } from "./serving/aggregate.ts";
import { type GuestRequests, type PortHost, createGuestPort } from "./serving/guest-port.ts";
import { NodeUpdates } from "./serving/node-updates.ts";
import { Watchers } from "./serving/watchers.ts";
import { type BuiltInServer, withBuiltIn } from "./serving/with-built-in.ts";

export interface HostDependencies extends Omit<
  LoadDependencies,
  "findServer" | "currentNetwork" | "journal" | "isTrial" | "claimed"
> {
  readonly journal?: Journal;
  /** The other processes of the service, before they are joined. */
  readonly cluster?: Cluster;
  /** A server that comes with Berth, for one tenant. */
  readonly builtIn?: { readonly tenant: string; readonly server: BuiltInServer };
  /** The requests of guest code that features answer. */
  readonly guestRequests: GuestRequests;
  readonly limits: Limits;
}

/**
 * Opens the host of a store. Guest code reaches only the servers that the tenant's names give; clients also reach the
 * server that comes with Berth, which may start programs, and the one that is composed of all others. `tenants` are
 * loaded before it resolves, others by `reload`.
 */
export async function openHost(tenants: readonly string[], dependencies: HostDependencies): Promise<Host> {
  const { builtIn, log, journal = new Journal() } = dependencies;
  const host = new StoreHost(dependencies, journal);
  for (const tenant of tenants) await host.reload(tenant);
  return withAggregate(builtIn ? withBuiltIn(host, builtIn.tenant, builtIn.server, journal) : host, log);
}

/** The members of `Host` are its own properties, so that other hosts can be made from it by spreading it. */
class StoreHost implements Host, PortHost {
  readonly #dependencies: HostDependencies;
  readonly #directories = new Map<string, Directory>();
  readonly #catalogs: CatalogCache;
  readonly #watchers: Watchers;
  readonly #nodeUpdates: NodeUpdates | undefined;
  readonly #journal: Journal;
  readonly #overviews = new Overviews();
  /** By tenant and server. */
  readonly #withdrawn = new Map<string, ReadonlyMap<string, WithdrawnReleases>>();
  /** The packages that each tenant's servers were compiled with, or will be when they are loaded. */
  readonly #packages = new Map<string, PackageSet | undefined>();
  /** The servers affected by the last change of a tenant's packages, once they are unloaded. */
  readonly #affected = new Map<string, Promise<ReadonlySet<string>>>();
  /** How often each tenant was closed. */
  readonly #closings = new Map<string, number>();
  /** The number of the reading that each tenant is served from. */
  readonly #readings = new Map<string, number>();
  #readingsBegun = 0;
  readonly #loading: LoadDependencies;
  readonly #earlier: EarlierReleases;
  readonly #recorder: ReleaseRecorder;
  readonly #summarize: Summarize;
  readonly #summarizeOneOfAll: Summarize;
  readonly setVisible: PortHost["setVisible"];

  constructor(dependencies: HostDependencies, journal: Journal) {
    this.#dependencies = dependencies;
    this.#journal = journal;
    const { log, limits, cluster, upstreams } = dependencies;
    this.#catalogs = new CatalogCache(limits);
    this.#watchers = new Watchers(
      (error) => log.error({ err: error }, "a listener to a server's changes failed"),
      (tenant, server) =>
        log.warn({ tenant, server }, "too many updated resources are waiting to be announced; some are left out"),
    );
    this.#nodeUpdates = cluster && new NodeUpdates(cluster, this.#watchers, log);
    this.#loading = {
      ...dependencies,
      isTrial: false,
      journal,
      findServer: (tenant, name) => this.server(tenant, name),
      currentNetwork: (tenant, name) => {
        const listed = this.#listed(tenant, name);
        return listed?.enabled && !listed.refused ? listed.entry.network : [];
      },
    };
    this.#earlier = createEarlierReleases((tenant, server) => this.#portOf(tenant, server), this.#loading);
    this.#recorder = new ReleaseRecorder(dependencies, (tenant, server) => this.#catalogs.drop(tenant, server));
    this.#summarize = createSummarize(dependencies, this.#catalogs, (tenant, name) => this.#inspect(tenant, name));
    this.#summarizeOneOfAll = createSummarize(dependencies, this.#catalogs, (tenant, name) =>
      this.#inspect(tenant, name, { recordsLater: true }),
    );
    this.setVisible = createSetVisible({
      ...dependencies,
      server: (tenant, name) => this.server(tenant, name),
      onChange: (tenant, server, hidden) => this.#hide(tenant, server, hidden),
    });
    upstreams?.listen({
      onChange: (tenant, server) => this.#onUpstreamChange(tenant, server),
      // A resource with a longer URI cannot be read.
      onResourceUpdated: (tenant, server, uri) =>
        void (uri.length <= URI_UNITS_MAX && this.resourceUpdated(tenant, server, uri)),
    });
  }

  readonly server = (tenant: string, name: string): Catalog | Promise<Catalog> =>
    this.#catalogs.get(tenant, name) ?? this.#load(tenant, name);

  readonly release = async (tenant: string, name: string, release: Cid): Promise<Catalog | undefined> => {
    this.#checkNotWithdrawn(tenant, name, release);
    return this.#loadEarlier(tenant, name, release, this.#listed(tenant, name) ?? REMOVED);
  };

  readonly overview: Host["overview"] = (tenant, names) => {
    const servers = this.directory(tenant)?.servers;
    return this.#overviews.read(
      names.flatMap((name) => {
        const listed = servers?.get(name);
        return listed ? [{ name, listed }] : [];
      }),
      {
        loaded: (name) => this.#catalogs.peek(tenant, name),
        summarize: (name, listed) => this.#summarize(tenant, name, listed),
      },
    );
  };

  readonly summary: Host["summary"] = async (tenant, name, { oneOfAll = false } = {}) => {
    const listed = this.#listed(tenant, name);
    return listed && (oneOfAll ? this.#summarizeOneOfAll : this.#summarize)(tenant, name, listed);
  };

  readonly has = (tenant: string, name: string): boolean => this.directory(tenant)?.servers.has(name) ?? false;

  readonly names = (tenant: string): readonly string[] => namesIn(this.directory(tenant) ?? NOTHING);

  readonly directory = (tenant: string): Directory | undefined => this.#directories.get(tenant);

  readonly activity: Host["activity"] = (tenant, name) => this.#journal.activities.of(tenant, name);

  readonly releases: Host["releases"] = async (tenant, name) => {
    await this.#recorder.whenWritten(tenant, name);
    return readReleases(this.#dependencies.store, tenant, name);
  };

  readonly content: Host["content"] = (tenant, cid) => this.#dependencies.store.content(tenant, cid);

  readonly contentUsers: Host["contentUsers"] = (tenant, cid) =>
    contentUsers(this.#dependencies.store, tenant, this.directory(tenant)?.servers ?? new Map(), cid);

  readonly problems: Host["problems"] = (tenant) => [
    ...(this.directory(tenant)?.problems ?? []),
    ...Array.from(this.#withdrawn.get(tenant)?.values() ?? []).flatMap(({ problem }) => problem ?? []),
  ];

  readonly reload = async (tenant: string, expected?: ExpectedServers, onRead?: () => void): Promise<void> => {
    const { store } = this.#dependencies;
    const closedBefore = this.#closings.get(tenant);
    const reading = ++this.#readingsBegun;
    const before = expected?.directory ?? this.directory(tenant);
    const source = before ? store : await readAhead(store, tenant, DECISIVE);
    const [directory, withdrawn, packages] = await Promise.all([
      readDirectory(source, tenant, before),
      readWithdrawn(source, tenant, this.#withdrawn.get(tenant)),
      loadPackageSet(source, tenant),
    ]);
    // A reading that began before a tenant was closed does not bring it back.
    if (this.#closings.get(tenant) !== closedBefore) return;
    // Two readings may overlap; the one that began later includes everything that the other read.
    if (reading < (this.#readings.get(tenant) ?? 0)) return;
    this.#readings.set(tenant, reading);
    const known = this.directory(tenant);
    this.#followWithdrawn(tenant, withdrawn);
    if (directory !== known) this.#replace(tenant, known, directory);
    onRead?.();
    const recompiled = await this.#followPackages(tenant, directory, packages);
    if (expected) await this.#adopt(tenant, expected);
    for (const server of this.#watchers.watched(tenant)) {
      const isSame = known?.servers.get(server) === directory.servers.get(server) && !recompiled.has(server);
      if (isSame && this.#watchers.hasContract(tenant, server)) continue;
      const learning = this.#learn(tenant, server);
      // An upstream may take minutes to start; a save does not wait for it.
      if (directory.servers.get(server)?.entry.upstream === undefined) await learning;
    }
  };

  readonly unloadIdle = (tenant: string): boolean => {
    if (this.#watchers.watched(tenant).length > 0 || this.#journal.activities.inFlight(tenant) > 0) return false;
    this.#forgetTenant(tenant);
    this.#dependencies.upstreams?.keepOnly(tenant, NOTHING);
    return true;
  };

  readonly close = async (tenant: string): Promise<void> => {
    this.#closings.set(tenant, (this.#closings.get(tenant) ?? 0) + 1);
    this.#forgetTenant(tenant);
    await this.#dependencies.upstreams?.closeTenant(tenant);
  };

  readonly secretChanged = (tenant: string, name: string): void => {
    const { upstreams, operatorGrants, network } = this.#dependencies;
    upstreams?.secretChanged(tenant, name);
    for (const [server, { entry }] of this.directory(tenant)?.servers ?? []) {
      // The operator's grants are in no entry.
      if (!entry.secrets.includes(name) && !operatorGrants) continue;
      this.#forget(tenant, server);
      network?.retire(tenant, server);
    }
    this.#earlier.forget(tenant);
  };

  readonly watch: Host["watch"] = (tenant, server, listener) => {
    const unwatch = this.#watchers.add(tenant, server, listener);
    if (!this.#watchers.hasContract(tenant, server)) {
      const loaded = this.#catalogs.peek(tenant, server);
      const learning = loaded ? this.#watchers.compare(tenant, server, loaded) : this.#learn(tenant, server);
      learning.catch((error: unknown) => this.#dependencies.log.error({ err: error }, "a watched server failed"));
    }
    return unwatch;
  };

  readonly watchAll: Host["watchAll"] = (tenant, listener) => this.#watchers.addForTenant(tenant, listener);

  readonly subscribeToNodes: Host["subscribeToNodes"] = (tenant) => this.#nodeUpdates?.subscribe(tenant);

  readonly upstream: Host["upstream"] = (tenant, server) => {
    const entry = this.#listed(tenant, server)?.entry;
    return entry?.upstream === undefined ? undefined : this.#dependencies.upstreams?.state(tenant, server, entry);
  };

  readonly upstreamNow: Host["upstreamNow"] = async (tenant, server) => {
    const entry = this.#listed(tenant, server)?.entry;
    return entry?.upstream === undefined ? undefined : this.#dependencies.upstreams?.stateNow(tenant, server, entry);
  };

  readonly approveUpstream: Host["approveUpstream"] = async (tenant, server, approval) => {
    const { store, upstreams, approvals, writable } = this.#dependencies;
    const entry = this.#listed(tenant, server)?.entry;
    // A person may have seen the change through another process.
    if (entry?.upstream !== undefined && !upstreams?.find(tenant, server, entry)) await this.#learn(tenant, server);
    const hosted = entry && upstreams?.find(tenant, server, entry);
    if (!hosted) throw new BerthError("server_not_found", `"${server}" is not a running upstream`);
    if (!writable) throw new BerthError("read_only");
    if (!approvals) throw new BerthError("not_found", 'this Berth does not have the feature "drift"');
    await approvals.approve(store, tenant, server, hosted, approval);
    this.#forget(tenant, server);
    await this.#learn(tenant, server);
  };

  readonly upstreamReviewed = async (tenant: string, server: string): Promise<void> => {
    const { store, upstreams, approvals } = this.#dependencies;
    const entry = this.#listed(tenant, server)?.entry;
    const hosted = entry && upstreams?.find(tenant, server, entry);
    if (!hosted || !(await approvals?.follow(store, tenant, server, hosted))) return;
    this.#forget(tenant, server);
    await this.#learn(tenant, server);
  };

  /** False when too many updates wait to be announced, here or on other nodes. */
  readonly resourceUpdated = (tenant: string, server: string, uri: string): boolean => {
    const isQueued = this.#watchers.resourceUpdated(tenant, server, uri);
    return (this.#nodeUpdates?.updated(tenant, server, uri) ?? true) && isQueued;
  };

  #listed(tenant: string, server: string): DirectoryEntry | undefined {
    return this.#directories.get(tenant)?.servers.get(server);
  }

  #portOf(tenant: string, server: string): HostPort {
    return createGuestPort(tenant, server, this, this.#dependencies.store, this.#dependencies.guestRequests);
  }

  #load(tenant: string, name: string, options?: InspectOptions & { ifRoom: boolean }): Catalog | Promise<Catalog> {
    const listed = this.#listed(tenant, name);
    if (!listed) return this.#pinned(tenant, name);
    if (!listed.enabled) throw new BerthError("server_disabled", `"${name}"`);
    const isCurrent = async (): Promise<boolean> => {
      const { servers } = await readDirectory(this.#dependencies.store, tenant, this.directory(tenant));
      const now = servers.get(name);
      return now !== undefined && fingerprint(now) === fingerprint(listed);
    };
    const record = this.#recorder[options?.recordsLater ? "recordLater" : "record"](isCurrent);
    const build = async (): Promise<Catalog> => {
      const port = this.#portOf(tenant, name);
      const prepared = options?.prepared;
      const { catalog } = await loadCatalog(tenant, name, listed, port, this.#loading, { record, prepared });
      this.#checkNotWithdrawn(tenant, name, catalog.release);
      return catalog;
    };
    return this.#catalogs.load(tenant, name, listed, build, options);
  }

  /** Loads a server to list or watch it, without evicting any that is called. */
  #inspect(tenant: string, name: string, options: InspectOptions = {}): Catalog | Promise<Catalog> {
    return this.#catalogs.peek(tenant, name) ?? this.#load(tenant, name, { ...options, ifRoom: true });
  }

  /** `server@CID` is exactly that release of the server, whatever the server has become since. */
  #pinned(tenant: string, name: string): Promise<Catalog> {
    const at = name.lastIndexOf("@");
    const [server, release] = [name.slice(0, at), name.slice(at + 1)];
    const listed = at > 0 ? this.#listed(tenant, server) : undefined;
    if (!listed) throw new BerthError("server_not_found", `"${name}"`);
    if (!listed.enabled) throw new BerthError("server_disabled", `"${server}"`);
    this.#checkNotWithdrawn(tenant, server, release);
    return this.#loadEarlier(tenant, server, release, listed).then((catalog) => {
      if (catalog) return catalog;
      throw new BerthError("server_not_found", `"${server}" has no such release`);
    });
  }

  async #loadEarlier(
    tenant: string,
    server: string,
    release: Cid,
    listed: DirectoryEntry,
  ): Promise<Catalog | undefined> {
    const loaded = await this.#earlier.load(tenant, server, release, listed);
    if (loaded) return loaded;
    // The release served now may not be recorded yet.
    const current = this.#catalogs.peek(tenant, server);
    if (current?.release === release) return current;
    const recording = this.#recorder.whenWritten(tenant, server);
    if (!recording) return undefined;
    await recording;
    return this.#earlier.load(tenant, server, release, listed);
  }

  #checkNotWithdrawn(tenant: string, server: string, release: Cid): void {
    refuseWithdrawn(server, release, this.#withdrawn.get(tenant)?.get(server));
  }

  #followWithdrawn(tenant: string, now: ReadonlyMap<string, WithdrawnReleases>): void {
    const { log, network } = this.#dependencies;
    const before = this.#withdrawn.get(tenant);
    for (const [server, { cid, problem }] of now) {
      if (before?.get(server)?.cid === cid) continue;
      network?.retire(tenant, server);
      if (problem) log.warn({ tenant, server, problem }, "a record of withdrawn releases is damaged");
    }
    this.#withdrawn.set(tenant, now);
  }

  #replace(tenant: string, known: Directory | undefined, directory: Directory): void {
    const { executor, log, network, upstreams } = this.#dependencies;
    for (const [server, before] of known?.servers ?? []) {
      const now = directory.servers.get(server);
      if (before !== now && grantsDiffer(before, now)) network?.retire(tenant, server);
    }
    for (const problem of directory.problems) log.warn({ tenant, problem }, "the mcps variable has a problem");
    this.#overviews.follow(known?.servers, directory.servers);
    this.#directories.set(tenant, directory);
    this.#catalogs.keepOnly(tenant, directory);
    this.#journal.keepOnly(tenant, directory.servers);
    upstreams?.keepOnly(tenant, directory);
    const given = foldersIn(directory);
    executor.withdrawFolders(tenant, (server, folder) => given.get(server)?.includes(folder) ?? false);
  }

  /** Unloads the servers whose imports resolve to other packages now, and returns them. */
  async #followPackages(
    tenant: string,
    { servers }: Directory,
    now: PackageSet | undefined,
  ): Promise<ReadonlySet<string>> {
    const before = this.#packages.get(tenant);
    const isFirst = !this.#packages.has(tenant);
    this.#packages.set(tenant, now);
    if (isFirst) return new Set();
    const earlier = this.#affected.get(tenant);
    const unload = async (): Promise<ReadonlySet<string>> => {
      // Another reading may have found the change first.
      await earlier?.catch(() => {});
      if (before === now) return new Set();
      const changed = await changedPackages(before, now);
      const affected = await serversImporting(this.#dependencies.store, tenant, servers, changed);
      for (const server of affected) this.#forget(tenant, server);
      return new Set(affected);
    };
    const affected = unload();
    this.#affected.set(tenant, affected);
    return await affected;
  }

  /** Loads servers that are still as expected before the change. */
  async #adopt(tenant: string, { directory, prepared }: ExpectedServers): Promise<void> {
    for (const [server, one] of prepared) {
      if (this.#listed(tenant, server) !== directory.servers.get(server)) continue;
      try {
        await this.#inspect(tenant, server, { prepared: one });
      } catch {
        // Its next use loads it again, and refuses it if that fails too.
      }
    }
  }

  /** Compares a watched server with what its listeners know. One that cannot be served now may come back unchanged. */
  async #learn(tenant: string, server: string): Promise<void> {
    try {
      await this.#watchers.compare(tenant, server, await this.#inspect(tenant, server));
    } catch (error) {
      if (error instanceof BerthError) return;
      this.#dependencies.log.error({ err: error, tenant, server }, "a changed server failed");
    }
  }

  /** Loads a server again on its next use. */
  #forget(tenant: string, server: string): void {
    const listed = this.#listed(tenant, server);
    this.#catalogs.drop(tenant, server);
    if (listed) this.#overviews.forget(listed);
    this.#watchers.mayHaveChanged(tenant, server);
  }

  #forgetTenant(tenant: string): void {
    this.#dependencies.network?.retire(tenant);
    this.#directories.delete(tenant);
    this.#packages.delete(tenant);
    this.#affected.delete(tenant);
    this.#withdrawn.delete(tenant);
    this.#readings.delete(tenant);
    this.#catalogs.keepOnly(tenant, NOTHING);
    this.#journal.forget(tenant);
    this.#earlier.forget(tenant);
  }

  #onUpstreamChange(tenant: string, server: string): void {
    this.#forget(tenant, server);
    this.#learn(tenant, server).catch((error: unknown) =>
      this.#dependencies.log.error({ err: error }, "a changed server failed"),
    );
  }

  async #hide(tenant: string, server: string, hidden: readonly string[]): Promise<void> {
    const directory = this.directory(tenant);
    if (!directory?.servers.has(server)) return;
    this.#directories.set(tenant, withHidden(directory, server, hidden));
    this.#catalogs.drop(tenant, server);
    this.#watchers.mayHaveChanged(tenant, server);
    await this.#learn(tenant, server);
  }
}

type Summarize = ReturnType<typeof createSummarize>;

interface InspectOptions {
  readonly recordsLater?: boolean;
  readonly prepared?: PreparedServer;
}

/** A removed server has no grants, but what was begun in one of its releases may end. */
const REMOVED: DirectoryEntry = {
  definition: undefined,
  entry: { ...unnamedEntry, variables: [] },
  enabled: false,
  hidden: [],
  problems: [],
  refused: false,
};

/** The folders of each server that has any: the executor keeps them for as long as the tenant is served. */
function foldersIn({ servers }: Directory): ReadonlyMap<string, readonly string[]> {
  const given = new Map<string, readonly string[]>();
  for (const [server, { entry, refused }] of servers) {
    if (!refused && entry.folders.length > 0) given.set(server, entry.folders);
  }
  return given;
}

/** The names that decide what a tenant's servers are. */
const DECISIVE: NameQuery = {
  kinds: ["server", "visibility", "withdrawn"],
  names: ["mcps", PACKAGES].map((name) => ({ kind: "variable", name })),
};
const NOTHING: Directory = { servers: new Map(), problems: [] };
const names = new WeakMap<Directory, readonly string[]>();

/** The same list while the directory is the same: it may be very long, and every listing of servers needs it. */
function namesIn(directory: Directory): readonly string[] {
  let known = names.get(directory);
  if (!known) names.set(directory, (known = [...directory.servers.keys()]));
  return known;
}
