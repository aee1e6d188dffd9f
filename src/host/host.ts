import type { Principal } from "../access/principal.ts";
import type { Cid } from "../lib/cid.ts";
import type { Problem } from "../lib/problem.ts";
import type { PreparedServer } from "./catalog/load-catalog.ts";
import type { Overview, ServerSummary } from "./catalog/overview.ts";
import type { ReleaseVersion } from "./catalog/releases.ts";
import type { ContentUser } from "./directory/content-users.ts";
import type { Directory } from "./directory/directory.ts";
import type { Activity } from "./journal/activity.ts";
import type { Catalog, ServerChange } from "./offers/catalog.ts";
import type { UpstreamState } from "./upstreams/hosting.ts";

/** A tenant's servers as they will be after a change. */
export interface ExpectedServers {
  readonly directory: Directory;
  /** Some servers of the directory, by name. */
  readonly prepared: ReadonlyMap<string, PreparedServer>;
}

/**
 * Maps names to catalogs, and carries out calls. It knows no MCP revision, no HTTP, no SQL and no compiler: it is
 * handed a store, an executor and a way to compile.
 */
export interface Host {
  /**
   * The catalog of a server; returned at once if already loaded. Throws or rejects with `server_not_found`,
   * `server_disabled` or `server_refused` (data: its problems).
   */
  server(tenant: string, name: string): Catalog | Promise<Catalog>;
  /**
   * Starts the upstreams that the server of all servers cannot list yet, as far as the principal may use them. Resolves
   * when they have started or failed, or after a few seconds. Never rejects.
   */
  startUnlisted?(tenant: string, principal: Principal | undefined): Promise<void>;
  /** Short overviews of those of these servers that exist; they are kept without the catalogs. */
  overview(tenant: string, names: readonly string[]): Promise<readonly Overview[]>;
  /**
   * One server with its state, loaded if necessary; undefined when none has that name. `oneOfAll`: for a caller that
   * goes through all servers and does not wait until each is recorded.
   */
  summary(tenant: string, name: string, options?: { readonly oneOfAll?: boolean }): Promise<ServerSummary | undefined>;
  /** Tells at once if there is a server of that name, served or not. */
  has(tenant: string, name: string): boolean;
  /** The names of all servers, sorted, without loading any. */
  names(tenant: string): readonly string[];
  /** All servers as known before any is loaded; with it, changes are read faster. */
  directory(tenant: string): Directory | undefined;
  /** A server's calls in progress, and its latest calls and lines. */
  activity(tenant: string, name: string): Activity;
  /** The releases of a server, newest first. */
  releases(tenant: string, name: string): Promise<readonly ReleaseVersion[]>;
  /** The bytes of `cid`, where the tenant has them. */
  content(tenant: string, cid: Cid): Promise<Uint8Array | undefined>;
  /** The variables, servers and releases that use a content; no more than the first ones. */
  contentUsers(tenant: string, cid: Cid): Promise<readonly ContentUser[]>;
  /** The state of a hosted upstream, and what of it awaits approval. Undefined for any other server. */
  upstream(tenant: string, name: string): UpstreamState | undefined;
  /** The same from the node that runs it, if that is another one, which is asked. */
  upstreamNow(tenant: string, name: string): Promise<UpstreamState | undefined>;
  /**
   * Approves what an upstream offers now: exactly the contract that was reviewed. Rejects with `name_conflict` when it has
   * changed since, and with `read_only`.
   */
  approveUpstream(tenant: string, name: string, approval: { contract: Cid; by: string }): Promise<void>;
  /** Another process has judged an upstream, or a person has approved it there. */
  upstreamReviewed(tenant: string, name: string): Promise<void>;
  /** Problems of the tenant's configuration as a whole. */
  problems(tenant: string): readonly Problem[];
  /**
   * Reads the tenant's names again after a change. Servers whose definition and entry are unchanged stay loaded. What
   * is as in `expected`, by default the current directory, is neither read nor made again. `onRead` is called when what
   * was read counts, and what it took from servers is taken; listeners are told after that, which may take long.
   */
  reload(tenant: string, expected?: ExpectedServers, onRead?: () => void): Promise<void>;
  /**
   * Unloads a tenant that nobody uses, until it is loaded again. Does nothing, and returns false, while it is in use.
   */
  unloadIdle(tenant: string): boolean;
  /** Unloads a tenant, and ends everything that runs for it. */
  close(tenant: string): Promise<void>;
  /** A secret has changed or is gone: servers that were given it start anew with the current value. */
  secretChanged(tenant: string, name: string): void;
  /**
   * Calls `listener` when a list of the server's contract changes, and when one of its functions reports a changed
   * resource. Returns the function that stops it. A server can be watched before it exists.
   */
  watch(tenant: string, server: string, listener: ChangeListener): () => void;
  /**
   * Calls `listener` when one of a tenant's servers may have changed although its definition and entry did not, and
   * when one reports a changed resource. Returns the function that stops it.
   */
  watchAll(tenant: string, listener: AnyChangeListener): () => void;
  /**
   * Undefined, or resolves when other nodes tell this one of the tenant's changed resources: who watches from then on
   * misses none.
   */
  subscribeToNodes(tenant: string): Promise<void> | undefined;
  /** The catalog of an earlier release of a server; undefined when the server never had it, or it is gone. */
  release(tenant: string, name: string, release: Cid): Promise<Catalog | undefined>;
}

/** Is notified of changes to a server. */
export type ChangeListener = (change: ServerChange) => void;

/** Is notified of updated resources of any server of a tenant and, without a change, of servers that may have changed. */
export type AnyChangeListener = (server: string, change?: ServerChange) => void;
