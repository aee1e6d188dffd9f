import type { Cid } from "../cid.ts";
import type { Compiled, DefinitionSource } from "../discover/discovery.ts";
import { BerthError } from "../errors.ts";
import type { Executor, HostPort } from "../executor/executor.ts";
import type { Log } from "../log.ts";
import type { FetchLimits } from "../network/fetches.ts";
import type { Problem } from "../problem.ts";
import type { Grants } from "../secrets/grants.ts";
import type { Store } from "../store/store.ts";
import { Activities, type Activity } from "./activity.ts";
import type { Catalog } from "./catalog.ts";
import { readDirectory, type Directory, type DirectoryEntry } from "./directory.ts";
import { CatalogCache } from "./catalog-cache.ts";
import { createEarlierReleases } from "./earlier-release.ts";
import { guestPort, type PortHost } from "./guest-port.ts";
import { loadCatalog } from "./load-catalog.ts";
import type { ReleaseVersion } from "./edits/edits.ts";
import { Observers } from "./observe.ts";
import { Overviews, type Overview } from "./overview.ts";
import { readReleases } from "./releases.ts";
import type { UriLimits } from "./uris/uris.ts";
import type { TransformDependencies } from "./transforms/transforms.ts";
import type { Hosting, UpstreamState } from "./upstream/hosting.ts";
import { approveUpstream, recall } from "./upstream/approved.ts";
import { allowedLaunch } from "./upstream/load-upstream.ts";
import { changeVisibility } from "./visibility.ts";
import { Watchers, type ChangeListener } from "./watchers.ts";

/**
 * What is offered here, and how a call is carried out. It owns the way from names to catalogs.
 * It knows no MCP revision, no HTTP, no SQL and no compiler: it is handed a store, an executor and a way to compile.
 */
export interface Host {
  /**
   * The catalog of a server; at once when it is loaded already.
   * Throws or rejects with `server_not_found`, `server_disabled` or `server_refused` (data: its problems).
   */
  server(tenant: string, name: string): Catalog | Promise<Catalog>;
  /** Every server, sorted by name, each with its state; loads those that are not loaded. */
  list(tenant: string): Promise<ServerSummary[]>;
  /** The same in a few words each, kept without the catalogs: thousands of servers are told of at once. */
  overview(tenant: string): Promise<readonly Overview[]>;
  /** One of them, listed or not yet loaded; undefined when there is none of that name. */
  summary(tenant: string, name: string): Promise<ServerSummary | undefined>;
  /** The names of all servers, sorted, without loading any. */
  names(tenant: string): readonly string[];
  /** What is known of all servers before any of them is loaded: what has changed is read the faster for it. */
  directory(tenant: string): Directory | undefined;
  /** What a server is doing, and its last calls. */
  activity(tenant: string, name: string): Activity;
  /** The releases of a server, newest first. */
  releases(tenant: string, name: string): Promise<readonly ReleaseVersion[]>;
  /** The bytes of `cid`, where the tenant has them. */
  content(tenant: string, cid: Cid): Promise<Uint8Array | undefined>;
  /** A hosted server of others: how it is, and what of it waits for a person. Undefined for every other server. */
  upstream(tenant: string, name: string): UpstreamState | undefined;
  /**
   * Takes over what a server of others offers now: exactly the contract that was looked at. Rejects with `name_moved`
   * when it is another one by now, and with `read_only`.
   */
  approveUpstream(tenant: string, name: string, approval: { contract: Cid; by: string }): Promise<void>;
  /** What is wrong with the tenant's configuration as a whole. */
  problems(tenant: string): readonly Problem[];
  /** Reads the tenant's names again, after a change. Servers whose definition and entry are the same stay loaded. */
  reload(tenant: string): Promise<void>;
  /** Forgets a tenant that nobody uses, until it is loaded again; false, and nothing, when somebody does. */
  rest(tenant: string): boolean;
  /** Forgets all of a tenant, and ends what runs for it. */
  close(tenant: string): Promise<void>;
  /** A secret has another value, or none any more: what was given it begins anew with what stands now. */
  secretChanged(tenant: string, name: string): void;
  /**
   * Calls `listener` whenever a list of the server's contract is another one, and when one of its functions says that
   * a resource is. Gives the function that ends it. A server that is not there yet can be watched, too.
   */
  watch(tenant: string, server: string, listener: ChangeListener): () => void;
  /** The catalog of an earlier release of a server; undefined when it is none of this server's, or gone. */
  release(tenant: string, name: string, release: Cid): Promise<Catalog | undefined>;
}

export interface ServerSummary {
  readonly name: string;
  /** Comes with Berth: there is no definition and no entry of it to edit. */
  readonly isBuiltIn?: boolean;
  /** `unstarted`, `starting`: a server of others of which nothing is known yet; who asks it for something waits. */
  readonly state: "ready" | "disabled" | "refused" | "unstarted" | "starting";
  readonly description?: string;
  readonly catalog?: Catalog;
  readonly problems: readonly Problem[];
}

export interface HostDependencies {
  readonly store: Store;
  readonly executor: Executor;
  readonly compile: (source: DefinitionSource) => Promise<Compiled>;
  readonly compileKey: (
    definition: Cid,
    source: { language: DefinitionSource["language"]; server: string },
    compiler?: Cid,
  ) => string;
  /** The identity of the compiler that `compile` is; a release remembers it. */
  readonly compiler: Cid;
  readonly log: Log;
  /** Who hears of each call of a tool. */
  readonly observers?: Observers;
  /** Who gives servers their secrets; without it none is given any. */
  readonly grants?: Grants;
  /** Servers of others; without it none is hosted. */
  readonly upstreams?: Hosting;
  /** Tenants other than `default` whose servers may start programs of others; without it none. */
  readonly mayStartPrograms?: (tenant: string) => boolean;
  /** False on a read-only boot: shell definitions are refused and nothing is written. */
  readonly writable: boolean;
  readonly limits: UriLimits &
    FetchLimits &
    TransformDependencies["limits"] & {
      readonly callMs: number;
      readonly retries: number;
      readonly retryMs: number;
      readonly upstreamCallMs: number;
      readonly catalogs: number;
      readonly recentCalls: number;
    };
}

export async function openHost(tenants: readonly string[], dependencies: HostDependencies): Promise<Host> {
  const { store, log, limits } = dependencies;
  const directories = new Map<string, Directory>();
  const catalogs = new CatalogCache(limits.catalogs);
  const watchers = new Watchers((error) => log.error({ err: error }, "a listener to a server's changes failed"));
  const activities = new Activities(limits.recentCalls);
  const overviews = new Overviews();
  const changing = new Map<string, Promise<unknown>>();
  /** How often each tenant was closed. */
  const closings = new Map<string, number>();

  /** When the reading began of what is served, for each tenant. */
  const readings = new Map<string, number>();
  let readingsBegun = 0;

  const reload = async (tenant: string): Promise<void> => {
    const before = closings.get(tenant);
    const reading = ++readingsBegun;
    const directory = await readDirectory(store, tenant, directories.get(tenant));
    // What was read before a tenant was closed does not bring it back.
    if (closings.get(tenant) !== before) return;
    // Two may read at once; whoever began later knows all that the other does.
    if (reading < (readings.get(tenant) ?? 0)) return;
    readings.set(tenant, reading);
    for (const problem of directory.problems) log.warn({ tenant, problem }, "the mcps variable has a problem");
    overviews.follow(directories.get(tenant)?.servers, directory.servers);
    directories.set(tenant, directory);
    catalogs.keepOnly(tenant, directory);
    activities.keepOnly(tenant, directory.servers);
    upstreams?.keepOnly(tenant, directory);
    for (const server of watchers.watched(tenant)) await learn(tenant, server);
  };

  /** Compares a watched server with what its listeners know. One that cannot be served now may come back unchanged. */
  const learn = async (tenant: string, server: string): Promise<void> => {
    try {
      watchers.learn(tenant, server, await lookOn(tenant, server));
    } catch (error) {
      if (!(error instanceof BerthError)) throw error;
    }
  };

  /** What a server of others is, is looked at anew. */
  const forget = (tenant: string, server: string): void => {
    const listed = directories.get(tenant)?.servers.get(server);
    catalogs.drop(tenant, server);
    if (listed) overviews.forget(listed);
  };

  const forgetTenant = (tenant: string): void => {
    directories.delete(tenant);
    readings.delete(tenant);
    catalogs.keepOnly(tenant, NOTHING);
    activities.keepOnly(tenant, NOTHING.servers);
    earlier.forget(tenant);
  };

  const portOf = (tenant: string, server: string): HostPort => guestPort(tenant, server, host, store);
  const { upstreams } = dependencies;
  if (upstreams) {
    upstreams.listener = {
      onChange(tenant, server) {
        forget(tenant, server);
        learn(tenant, server).catch((error: unknown) => log.error({ err: error }, "a changed server failed"));
      },
      onResourceUpdated: (tenant, server, uri) => watchers.resourceUpdated(tenant, server, uri),
    };
  }
  const loading = {
    ...dependencies,
    isTrial: false,
    activities,
    observers: dependencies.observers ?? new Observers(),
    serverOf: (tenant: string, name: string) => host.server(tenant, name),
  };
  const earlier = createEarlierReleases(portOf, loading);

  /** `server@CID` is exactly that release of the server, whatever the server has become since. */
  const pinned = (tenant: string, name: string): Promise<Catalog> => {
    const at = name.lastIndexOf("@");
    const server = name.slice(0, at);
    const listed = at > 0 ? directories.get(tenant)?.servers.get(server) : undefined;
    if (!listed) throw new BerthError("server_not_found", `"${name}"`);
    if (!listed.enabled) throw new BerthError("server_disabled", `"${server}"`);
    return earlier.load(tenant, server, name.slice(at + 1)).then((catalog) => {
      if (catalog) return catalog;
      throw new BerthError("server_not_found", `"${server}" has no such release`);
    });
  };

  const load = (tenant: string, name: string, options?: { ifRoom: boolean }): Catalog | Promise<Catalog> => {
    const listed = directories.get(tenant)?.servers.get(name);
    if (!listed) return pinned(tenant, name);
    if (!listed.enabled) throw new BerthError("server_disabled", `"${name}"`);
    const make = (): Promise<Catalog> => loadCatalog(tenant, name, listed, portOf(tenant, name), loading);
    return catalogs.load(tenant, name, listed, make, options);
  };

  /** Telling of servers, or watching them, puts none of those out of memory that are called. */
  const lookOn = (tenant: string, name: string): Catalog | Promise<Catalog> =>
    catalogs.peek(tenant, name) ?? load(tenant, name, { ifRoom: true });

  /** Nobody who looks at a list waits for servers of others to start, which may take minutes. */
  const unknownUpstream = async (tenant: string, name: string, { entry, refused, enabled }: DirectoryEntry) => {
    const uri = entry.upstream;
    if (uri === undefined || refused || !enabled || !upstreams || catalogs.peek(tenant, name)) return undefined;
    allowedLaunch(tenant, name, { uri, secrets: entry.secrets }, dependencies);
    const isKnown =
      upstreams.find(tenant, name, entry)?.observed ?? (await recall(tenant, name, uri, entry, dependencies));
    if (isKnown) return undefined;
    const { state, failure } = upstreams.state(tenant, name, entry).health;
    if (state !== "failed") {
      return { state: state === "starting" ? ("starting" as const) : ("unstarted" as const), problems: [] };
    }
    const problems = [{ code: "upstream-not-started", message: failure ?? "", severity: "error" as const }];
    return { state: "refused" as const, problems };
  };

  const summarize = async (tenant: string, name: string, listed: DirectoryEntry): Promise<ServerSummary> => {
    const { entry } = listed;
    const description = entry.description === undefined ? {} : { description: entry.description };
    try {
      const unknown = await unknownUpstream(tenant, name, listed);
      if (unknown) return { name, ...description, ...unknown };
      const catalog = await lookOn(tenant, name);
      return { name, state: "ready", ...description, catalog, problems: catalog.problems };
    } catch (error) {
      if (!(error instanceof BerthError)) throw error;
      const state = error.code === "server_disabled" ? "disabled" : "refused";
      return { name, state, ...description, problems: problemsOf(error) };
    }
  };

  const host: PortHost = {
    server(tenant, name) {
      return catalogs.get(tenant, name) ?? load(tenant, name);
    },

    release: (tenant, name, release) => earlier.load(tenant, name, release),

    async list(tenant) {
      const summaries: ServerSummary[] = [];
      for (const [name, listed] of directories.get(tenant)?.servers ?? []) {
        summaries.push(await summarize(tenant, name, listed));
      }
      return summaries;
    },

    overview: (tenant) =>
      overviews.read(directories.get(tenant)?.servers ?? new Map(), {
        loaded: (name) => catalogs.peek(tenant, name),
        summarize: (name, listed) => summarize(tenant, name, listed),
      }),

    async summary(tenant, name) {
      const listed = directories.get(tenant)?.servers.get(name);
      return listed && summarize(tenant, name, listed);
    },

    names: (tenant) => [...(directories.get(tenant)?.servers.keys() ?? [])],
    directory: (tenant) => directories.get(tenant),
    activity: (tenant, name) => activities.of(tenant, name),
    releases: (tenant, name) => readReleases(store, tenant, name),
    content: (tenant, cid) => store.content(tenant, cid),

    problems: (tenant) => directories.get(tenant)?.problems ?? [],
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
        if (entry.secrets.includes(name)) forget(tenant, server);
      }
      earlier.forget(tenant);
    },

    watch(tenant, server, listener) {
      const unwatch = watchers.add(tenant, server, listener);
      if (!watchers.isKnown(tenant, server)) {
        const loaded = catalogs.peek(tenant, server);
        if (loaded) watchers.learn(tenant, server, loaded);
        else learn(tenant, server).catch((error: unknown) => log.error({ err: error }, "a watched server failed"));
      }
      return unwatch;
    },

    upstream(tenant, server) {
      const entry = directories.get(tenant)?.servers.get(server)?.entry;
      return entry?.upstream === undefined ? undefined : upstreams?.state(tenant, server, entry);
    },

    async approveUpstream(tenant, server, approval) {
      const entry = directories.get(tenant)?.servers.get(server)?.entry;
      const hosted = entry && upstreams?.find(tenant, server, entry);
      if (!hosted) throw new BerthError("server_not_found", `"${server}" is no running server of others`);
      if (!dependencies.writable) throw new BerthError("read_only");
      await approveUpstream(store, tenant, server, hosted, approval);
      forget(tenant, server);
      await learn(tenant, server);
    },

    resourceUpdated: (tenant, server, uri) => watchers.resourceUpdated(tenant, server, uri),

    setVisible(tenant, server, name, visible) {
      // One after the other, so that each sees what the one before it did.
      const key = JSON.stringify([tenant, server]);
      const change = (changing.get(key) ?? Promise.resolve()).catch(() => {}).then(() => setVisible());
      changing.set(key, change);
      return change.finally(() => {
        if (changing.get(key) === change) changing.delete(key);
      });

      async function setVisible(): Promise<void> {
        const { contract, hidden } = await host.server(tenant, server);
        const offers = [...contract.tools, ...contract.prompts, ...hidden];
        if (!offers.some((offer) => offer.name === name)) throw new TypeError(`there is no tool or prompt "${name}"`);
        if (hidden.some((offer) => offer.name === name) !== visible) return;
        if (!dependencies.writable) throw new BerthError("read_only");
        const names = await changeVisibility(store, { tenant, server, name, visible });
        const directory = directories.get(tenant);
        const listed = directory?.servers.get(server);
        if (!directory || !listed) return;
        const servers = new Map(directory.servers).set(server, { ...listed, hidden: names });
        directories.set(tenant, { ...directory, servers });
        catalogs.drop(tenant, server);
        await learn(tenant, server);
      }
    },
  };
  for (const tenant of tenants) await reload(tenant);
  return host;
}

const NOTHING: Directory = { servers: new Map(), problems: [] };

function problemsOf(error: BerthError): readonly Problem[] {
  return (error.data?.["problems"] as readonly Problem[] | undefined) ?? [];
}
