import type { Cid } from "../lib/cid.ts";
import type { DefinitionSource } from "../discover/discovery.ts";
import type { CompileFor } from "./compile-in-turn.ts";
import type { Executor } from "../executor/executor.ts";
import type { Log } from "../lib/log.ts";
import type { FetchLimits } from "../network/fetches.ts";
import type { Problem } from "../lib/problem.ts";
import type { Grants } from "../secrets/grants.ts";
import type { Store } from "../store/store.ts";
import type { Activity } from "./activity.ts";
import type { Catalog } from "./catalog.ts";
import type { Checks } from "./checks/checks.ts";
import type { McpsLimits } from "./config/mcps.ts";
import type { Directory } from "./directory.ts";
import type { ReleaseVersion } from "./edits/edits.ts";
import type { Observers } from "./observe.ts";
import type { RecentLine } from "./recent-lines.ts";
import type { Overview } from "./overview.ts";
import type { UriLimits } from "./uris/uris.ts";
import type { TransformDependencies } from "./transforms/transforms.ts";
import type { Hosting, UpstreamState } from "./upstream/hosting.ts";
import type { ApprovedLimits } from "./upstream/judge.ts";
import type { AnyChangeListener, ChangeListener } from "./watchers.ts";

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
  /** What of these servers there is, in a few words each, which are kept without the catalogs. */
  overview(tenant: string, names: readonly string[]): Promise<readonly Overview[]>;
  /**
   * One server with its state, loaded for it if need be; undefined when there is none of that name. `oneOfAll`: for who
   * looks at all of them and does not wait until each is recorded.
   */
  summary(tenant: string, name: string, options?: { readonly oneOfAll?: boolean }): Promise<ServerSummary | undefined>;
  /** Tells of a server's name, served or not, in no time: there is one of that name. */
  has(tenant: string, name: string): boolean;
  /** The names of all servers, sorted, without loading any. */
  names(tenant: string): readonly string[];
  /** What is known of all servers before any of them is loaded: what has changed is read the faster for it. */
  directory(tenant: string): Directory | undefined;
  /** What a server is doing, and its last calls. */
  activity(tenant: string, name: string): Activity;
  /** The latest failures of its functions, and the latest lines that they log or print; newest first. For its authors. */
  recentLines(tenant: string, name: string): RecentLine[];
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
  /**
   * Reads the tenant's names again, after a change. Servers whose definition and entry are the same stay loaded. What is
   * found to be as it was `foreseen` is not read again; without that, what is as it was before.
   */
  reload(tenant: string, foreseen?: Directory): Promise<void>;
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
  /**
   * Calls `listener` whenever one of a tenant's servers may have become another one without its definition or its entry
   * being another, and when one says that a resource is. Gives the function that ends it.
   */
  watchAll(tenant: string, listener: AnyChangeListener): () => void;
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
  readonly compile: CompileFor;
  readonly compileKey: (
    definition: Cid,
    source: { language: DefinitionSource["language"]; server: string },
    compiler?: Cid,
  ) => string;
  /** The identity of the compiler that `compile` is; a release remembers it. */
  readonly compiler: Cid;
  readonly log: Log;
  /** Who checks what comes in and goes out. */
  readonly checks: Checks;
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
  /** Callers are told where a function threw; without it they are not. */
  readonly errorPlaces?: boolean;
  /** Bytes of content that a tenant may have a claim on; as many as it likes without it. */
  readonly storedBytesOf?: (tenant: string) => number;
  readonly limits: UriLimits &
    ApprovedLimits &
    FetchLimits &
    McpsLimits &
    TransformDependencies["limits"] & {
      readonly callMs: number;
      readonly retries: number;
      readonly retryMs: number;
      readonly upstreamCallMs: number;
      readonly catalogs: number;
      readonly catalogBytes: number;
      readonly contractBytes: number;
      readonly contractValues: number;
      readonly recentCalls: number;
      readonly recentLines: number;
      readonly recentLinesServers: number;
      readonly visibilityChangesPerMinute: number;
    };
}
