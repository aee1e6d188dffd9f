import type { Cluster } from "../cluster/cluster.ts";
import { URI_UNITS_MAX } from "../discover/uri-template.ts";
import { unnamedEntry } from "../entry/entry.ts";
import type { HostPort } from "../executor/executor.ts";
import type { Cid } from "../lib/cid.ts";
import { BerthError } from "../lib/errors.ts";
import type { Limits } from "../limits/limits.ts";
import { PACKAGES, type PackageSet } from "../packages/package-set.ts";
import type { AskedNames } from "../store/store.ts";
import { withBuiltIn, type BuiltInServer } from "./builtin/with-built-in.ts";
import { Activities } from "./calls/activity.ts";
import { givesOther } from "./calls/granted.ts";
import { stateRules } from "./calls/guest-state.ts";
import { Observers } from "./calls/observe.ts";
import { RecentLines } from "./calls/recent-lines.ts";
import { approveUpstream, followRemembered } from "./catalog/approved.ts";
import type { LoadDependencies } from "./catalog/build-catalog.ts";
import { CatalogCache } from "./catalog/catalog-cache.ts";
import { packageSetOf } from "./catalog/compile-once.ts";
import { loadCatalog, type PreparedServer } from "./catalog/load-catalog.ts";
import { Overviews, createSummarize } from "./catalog/overview.ts";
import { ReleaseRecorder } from "./catalog/release-recorder.ts";
import { createEarlierReleases, readReleases } from "./catalog/releases.ts";
import { readWithdrawn, refuseWithdrawn, type WithdrawnReleases } from "./catalog/withdrawn.ts";
import { contentUsers } from "./directory/content-users.ts";
import { readDirectory, saidOf, withHidden, type Directory, type DirectoryEntry } from "./directory/directory.ts";
import { changedPackages, serversImporting } from "./directory/package-users.ts";
import { readAhead } from "./directory/read-ahead.ts";
import { createSetVisible } from "./directory/visibility.ts";
import type { Foreseen, Host } from "./host.ts";
import type { Catalog } from "./offers/catalog.ts";
import { withAllServers } from "./serving/aggregate.ts";
import { guestPort, type PortHost } from "./serving/guest-port.ts";
import { UpdatesElsewhere } from "./serving/node-updates.ts";
import { Watchers } from "./serving/watchers.ts";

export interface HostDependencies extends Omit<
  LoadDependencies,
  "serverOf" | "networkNow" | "activities" | "observers" | "isTrial" | "claimed"
> {
  /** Hears of each tool call. */
  readonly observers?: Observers;
  /** The other processes of the service, before they are joined. */
  readonly cluster?: Cluster;
  /** A server that comes with Berth, for one tenant. */
  readonly builtIn?: { readonly tenant: string; readonly server: BuiltInServer };
  /** A tenant's own limit of the bytes of its servers' state. */
  readonly stateBytesOf?: (tenant: string) => number;
  readonly limits: Limits;
}

/**
 * The host of a store. Guest code reaches only the servers that the tenant's names give; clients reach also the server
 * that comes with Berth, which may start programs, and the one that is composed of all others. `tenants` are loaded before it resolves, others by `reload`.
 */
export async function openHost(tenants: readonly string[], dependencies: HostDependencies): Promise<Host> {
  const { store, log, limits, network } = dependencies;
  const directories = new Map<string, Directory>();
  const catalogs = new CatalogCache(limits);
  const watchers = new Watchers(
    (error) => log.error({ err: error }, "a listener to a server's changes failed"),
    (tenant, server) =>
      log.warn({ tenant, server }, "too many updated resources are waiting to be announced; some are left out"),
  );
  const elsewhere = dependencies.cluster && new UpdatesElsewhere(dependencies.cluster, watchers, log);
  /** False when too many updates wait to be told, here or in other nodes. */
  const resourceUpdated = (tenant: string, server: string, uri: string): boolean => {
    const isTold = watchers.resourceUpdated(tenant, server, uri);
    return (elsewhere?.updated(tenant, server, uri) ?? true) && isTold;
  };
  const activities = new Activities();
  const observers = dependencies.observers ?? new Observers();
  const recentLines = new RecentLines();
  observers.add(recentLines.onCall);
  observers.addLines(recentLines.onLine);
  const overviews = new Overviews();
  /** By tenant and server. */
  const withdrawn = new Map<string, ReadonlyMap<string, WithdrawnReleases>>();
  /** The packages that each tenant's servers were compiled with, or will be when they are loaded. */
  const packages = new Map<string, PackageSet | undefined>();
  /** The servers that the last change of a tenant's packages concerns, once they are forgotten. */
  const following = new Map<string, Promise<ReadonlySet<string>>>();
  /** How often each tenant was closed. */
  const closings = new Map<string, number>();

  /** The number of the reading that each tenant is served from. */
  const readings = new Map<string, number>();
  let readingsBegun = 0;

  const reload = async (tenant: string, foreseen?: Foreseen, onRead?: () => void): Promise<void> => {
    const closedBefore = closings.get(tenant);
    const reading = ++readingsBegun;
    const before = foreseen?.directory ?? directories.get(tenant);
    const source = before ? store : await readAhead(store, tenant, DECISIVE);
    const [directory, withdrawnNow, packagesNow] = await Promise.all([
      readDirectory(source, tenant, before),
      readWithdrawn(source, tenant, withdrawn.get(tenant)),
      packageSetOf(source, tenant),
    ]);
    // A reading that began before a tenant was closed does not bring it back.
    if (closings.get(tenant) !== closedBefore) return;
    // Two readings may overlap; the one that began later knows all that the other does.
    if (reading < (readings.get(tenant) ?? 0)) return;
    readings.set(tenant, reading);
    const known = directories.get(tenant);
    for (const [server, { cid, problem }] of withdrawnNow) {
      const isNew = withdrawn.get(tenant)?.get(server)?.cid !== cid;
      if (isNew) network?.retire(tenant, server);
      if (problem && isNew) log.warn({ tenant, server, problem }, "a record of withdrawn releases is damaged");
    }
    withdrawn.set(tenant, withdrawnNow);
    if (directory !== known) replace(tenant, known, directory);
    onRead?.();
    const recompiled = await followPackages(tenant, directory, packagesNow);
    if (foreseen) await adopt(tenant, foreseen);
    for (const server of watchers.watched(tenant)) {
      const isSame = known?.servers.get(server) === directory.servers.get(server) && !recompiled.has(server);
      if (isSame && watchers.isKnown(tenant, server)) continue;
      const learning = learn(tenant, server);
      // An upstream may take minutes to start; a save does not wait for it.
      if (directory.servers.get(server)?.entry.upstream === undefined) await learning;
    }
  };

  const replace = (tenant: string, known: Directory | undefined, directory: Directory): void => {
    for (const [server, before] of known?.servers ?? []) {
      const now = directory.servers.get(server);
      if (before !== now && givesOther(before, now)) network?.retire(tenant, server);
    }
    for (const problem of directory.problems) log.warn({ tenant, problem }, "the mcps variable has a problem");
    overviews.follow(known?.servers, directory.servers);
    directories.set(tenant, directory);
    catalogs.keepOnly(tenant, directory);
    activities.keepOnly(tenant, directory.servers);
    recentLines.keepOnly(tenant, directory.servers);
    dependencies.retainedCalls?.follow(tenant, directory.servers);
    upstreams?.keepOnly(tenant, directory);
    const given = foldersIn(directory);
    dependencies.executor.withdrawFolders(tenant, (server, folder) => given.get(server)?.includes(folder) ?? false);
  };

  /** Has the servers loaded again whose imports lead to other packages now. */
  const followPackages = async (
    tenant: string,
    { servers }: Directory,
    now: PackageSet | undefined,
  ): Promise<ReadonlySet<string>> => {
    const before = packages.get(tenant);
    const isFirst = !packages.has(tenant);
    packages.set(tenant, now);
    if (isFirst) return new Set();
    const earlier = following.get(tenant);
    const forgotten = async (): Promise<ReadonlySet<string>> => {
      // Another reading may have found the change first.
      await earlier?.catch(() => {});
      if (before === now) return new Set();
      const concerned = await serversImporting(store, tenant, servers, await changedPackages(before, now));
      for (const server of concerned) forget(tenant, server);
      return new Set(concerned);
    };
    const found = forgotten();
    following.set(tenant, found);
    return await found;
  };

  /** Loads servers that are still what they were foreseen to be. */
  const adopt = async (tenant: string, { directory, prepared }: Foreseen): Promise<void> => {
    for (const [server, one] of prepared) {
      if (directories.get(tenant)?.servers.get(server) !== directory.servers.get(server)) continue;
      try {
        await lookOn(tenant, server, { prepared: one });
      } catch {
        // It is loaded anew when it is asked for, and refused then if that fails, too.
      }
    }
  };

  /** Compares a watched server with what its listeners know. One that cannot be served now may come back unchanged. */
  const learn = async (tenant: string, server: string): Promise<void> => {
    try {
      await watchers.learn(tenant, server, await lookOn(tenant, server));
    } catch (error) {
      if (!(error instanceof BerthError)) log.error({ err: error, tenant, server }, "a changed server failed");
    }
  };

  /** Loads a server again on its next use. */
  const forget = (tenant: string, server: string): void => {
    const listed = directories.get(tenant)?.servers.get(server);
    catalogs.drop(tenant, server);
    if (listed) overviews.forget(listed);
    watchers.mayBeAnother(tenant, server);
  };

  const forgetTenant = (tenant: string): void => {
    network?.retire(tenant);
    directories.delete(tenant);
    packages.delete(tenant);
    following.delete(tenant);
    withdrawn.delete(tenant);
    readings.delete(tenant);
    catalogs.keepOnly(tenant, NOTHING);
    activities.keepOnly(tenant, NOTHING.servers);
    recentLines.keepOnly(tenant, NOTHING.servers);
    dependencies.retainedCalls?.forget(tenant);
    earlier.forget(tenant);
  };

  const portOf = (tenant: string, server: string): HostPort =>
    guestPort(tenant, server, own, store, stateRules(dependencies));
  const { upstreams } = dependencies;
  upstreams?.listen({
    onChange(tenant, server) {
      forget(tenant, server);
      learn(tenant, server).catch((error: unknown) => log.error({ err: error }, "a changed server failed"));
    },
    // A resource with a longer URI cannot be read.
    onResourceUpdated: (tenant, server, uri) =>
      void (uri.length <= URI_UNITS_MAX && resourceUpdated(tenant, server, uri)),
  });
  const loading = {
    ...dependencies,
    isTrial: false,
    activities,
    observers,
    serverOf: (tenant: string, name: string) => own.server(tenant, name),
    networkNow: (tenant: string, name: string) => {
      const listed = directories.get(tenant)?.servers.get(name);
      return listed?.enabled && !listed.refused ? listed.entry.network : [];
    },
  };
  const earlier = createEarlierReleases(portOf, loading);

  const checkNotWithdrawn = (tenant: string, server: string, release: Cid): void =>
    refuseWithdrawn(server, release, withdrawn.get(tenant)?.get(server));

  const recorder = new ReleaseRecorder(dependencies, (tenant, server) => catalogs.drop(tenant, server));
  const loadEarlier = async (
    tenant: string,
    server: string,
    release: Cid,
    listed: DirectoryEntry,
  ): Promise<Catalog | undefined> => {
    const loaded = await earlier.load(tenant, server, release, listed);
    if (loaded) return loaded;
    // The release served now may not be recorded yet.
    const current = catalogs.peek(tenant, server);
    if (current?.release === release) return current;
    const recording = recorder.settled(tenant, server);
    if (!recording) return undefined;
    await recording;
    return earlier.load(tenant, server, release, listed);
  };

  /** `server@CID` is exactly that release of the server, whatever the server has become since. */
  const pinned = (tenant: string, name: string): Promise<Catalog> => {
    const at = name.lastIndexOf("@");
    const [server, release] = [name.slice(0, at), name.slice(at + 1)];
    const listed = at > 0 ? directories.get(tenant)?.servers.get(server) : undefined;
    if (!listed) throw new BerthError("server_not_found", `"${name}"`);
    if (!listed.enabled) throw new BerthError("server_disabled", `"${server}"`);
    checkNotWithdrawn(tenant, server, release);
    return loadEarlier(tenant, server, release, listed).then((catalog) => {
      if (catalog) return catalog;
      throw new BerthError("server_not_found", `"${server}" has no such release`);
    });
  };

  const load = (
    tenant: string,
    name: string,
    options?: LookOptions & { ifRoom: boolean },
  ): Catalog | Promise<Catalog> => {
    const listed = directories.get(tenant)?.servers.get(name);
    if (!listed) return pinned(tenant, name);
    if (!listed.enabled) throw new BerthError("server_disabled", `"${name}"`);
    const isOfNow = async (): Promise<boolean> => {
      const { servers } = await readDirectory(store, tenant, directories.get(tenant));
      const now = servers.get(name);
      return now !== undefined && saidOf(now) === saidOf(listed);
    };
    const record = recorder[options?.recordsLater ? "recordLater" : "record"](isOfNow);
    const make = async (): Promise<Catalog> => {
      const { prepared } = options ?? {};
      const { catalog } = await loadCatalog(tenant, name, listed, portOf(tenant, name), loading, { record, prepared });
      checkNotWithdrawn(tenant, name, catalog.release);
      return catalog;
    };
    return catalogs.load(tenant, name, listed, make, options);
  };

  /** Loads a server to list or watch it, without evicting any that is called. */
  const lookOn = (tenant: string, name: string, options: LookOptions = {}): Catalog | Promise<Catalog> =>
    catalogs.peek(tenant, name) ?? load(tenant, name, { ...options, ifRoom: true });

  const summarize = createSummarize(dependencies, catalogs, (tenant, name) => lookOn(tenant, name));
  const summarizeOneOfAll = createSummarize(dependencies, catalogs, (tenant, name) =>
    lookOn(tenant, name, { recordsLater: true }),
  );

  const setVisible = createSetVisible({
    ...dependencies,
    server: (tenant, name) => own.server(tenant, name),
    async onChange(tenant, server, hidden) {
      const directory = directories.get(tenant);
      if (!directory?.servers.has(server)) return;
      directories.set(tenant, withHidden(directory, server, hidden));
      catalogs.drop(tenant, server);
      watchers.mayBeAnother(tenant, server);
      await learn(tenant, server);
    },
  });

  const own: Host & PortHost = {
    server(tenant, name) {
      return catalogs.get(tenant, name) ?? load(tenant, name);
    },

    async release(tenant, name, release) {
      checkNotWithdrawn(tenant, name, release);
      return loadEarlier(tenant, name, release, directories.get(tenant)?.servers.get(name) ?? REMOVED);
    },

    overview(tenant, names) {
      const servers = directories.get(tenant)?.servers;
      return overviews.read(
        names.flatMap((name) => {
          const listed = servers?.get(name);
          return listed ? [{ name, listed }] : [];
        }),
        {
          loaded: (name) => catalogs.peek(tenant, name),
          summarize: (name, listed) => summarize(tenant, name, listed),
        },
      );
    },

    async summary(tenant, name, { oneOfAll = false } = {}) {
      const listed = directories.get(tenant)?.servers.get(name);
      return listed && (oneOfAll ? summarizeOneOfAll : summarize)(tenant, name, listed);
    },

    has: (tenant, name) => directories.get(tenant)?.servers.has(name) ?? false,
    names: (tenant) => namesIn(directories.get(tenant) ?? NOTHING),
    directory: (tenant) => directories.get(tenant),
    activity: (tenant, name) => activities.of(tenant, name),
    recentLines: (tenant, name) => recentLines.of(tenant, name),
    async releases(tenant, name) {
      await recorder.settled(tenant, name);
      return readReleases(store, tenant, name);
    },
    content: (tenant, cid) => store.content(tenant, cid),
    contentUsers: (tenant, cid) => contentUsers(store, tenant, directories.get(tenant)?.servers ?? new Map(), cid),

    problems: (tenant) => [
      ...(directories.get(tenant)?.problems ?? []),
      ...Array.from(withdrawn.get(tenant)?.values() ?? []).flatMap(({ problem }) => problem ?? []),
    ],
    reload,

    rest(tenant) {
      if (watchers.watched(tenant).length > 0 || activities.inFlight(tenant) > 0) return false;
      forgetTenant(tenant);
      upstreams?.keepOnly(tenant, NOTHING);
      return true;
    },

    async close(tenant) {
      closings.set(tenant, (closings.get(tenant) ?? 0) + 1);
      forgetTenant(tenant);
      await upstreams?.closeTenant(tenant);
    },

    secretChanged(tenant, name) {
      upstreams?.secretChanged(tenant, name);
      for (const [server, { entry }] of directories.get(tenant)?.servers ?? []) {
        // The operator's grants are in no entry.
        if (!entry.secrets.includes(name) && !dependencies.operatorGrants) continue;
        forget(tenant, server);
        network?.retire(tenant, server);
      }
      earlier.forget(tenant);
    },

    watch(tenant, server, listener) {
      const unwatch = watchers.add(tenant, server, listener);
      if (!watchers.isKnown(tenant, server)) {
        const loaded = catalogs.peek(tenant, server);
        const learning = loaded ? watchers.learn(tenant, server, loaded) : learn(tenant, server);
        learning.catch((error: unknown) => log.error({ err: error }, "a watched server failed"));
      }
      return unwatch;
    },

    watchAll: (tenant, listener) => watchers.addToAll(tenant, listener),

    toldOf: (tenant) => elsewhere?.toldOf(tenant),

    upstream(tenant, server) {
      const entry = directories.get(tenant)?.servers.get(server)?.entry;
      return entry?.upstream === undefined ? undefined : upstreams?.state(tenant, server, entry);
    },

    async upstreamNow(tenant, server) {
      const entry = directories.get(tenant)?.servers.get(server)?.entry;
      return entry?.upstream === undefined ? undefined : upstreams?.stateNow(tenant, server, entry);
    },

    async approveUpstream(tenant, server, approval) {
      const entry = directories.get(tenant)?.servers.get(server)?.entry;
      // A person may have seen the change through another process.
      if (entry?.upstream !== undefined && !upstreams?.find(tenant, server, entry)) await learn(tenant, server);
      const hosted = entry && upstreams?.find(tenant, server, entry);
      if (!hosted) throw new BerthError("server_not_found", `"${server}" is not a running upstream`);
      if (!dependencies.writable) throw new BerthError("read_only");
      await approveUpstream(store, tenant, server, hosted, approval);
      forget(tenant, server);
      await learn(tenant, server);
    },

    async upstreamJudged(tenant, server) {
      const entry = directories.get(tenant)?.servers.get(server)?.entry;
      const hosted = entry && upstreams?.find(tenant, server, entry);
      if (!hosted || !(await followRemembered(store, tenant, server, hosted))) return;
      forget(tenant, server);
      await learn(tenant, server);
    },

    resourceUpdated,

    setVisible,
  };
  for (const tenant of tenants) await reload(tenant);
  const { builtIn } = dependencies;
  return withAllServers(builtIn ? withBuiltIn(own, builtIn.tenant, builtIn.server, observers) : own, log);
}

interface LookOptions {
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
const DECISIVE: AskedNames = {
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
