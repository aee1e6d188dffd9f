import type { Access } from "../access/access.ts";
import { Admission } from "../admission/admission.ts";
import { workerTenantLimits } from "../admission/tenant-limits.ts";
import { type Audit, openAudit } from "../audit/audit.ts";
import { Cluster } from "../cluster/cluster.ts";
import { NodeCalls } from "../cluster/node-calls.ts";
import { NodeRequests } from "../cluster/node-requests.ts";
import { Shares } from "../cluster/shares.ts";
import { type Config, mayStartPrograms, packageVersion } from "../config.ts";
import type { Executor } from "../executor/executor.ts";
import { openExecutor, tryGuests } from "../executor/open-executor.ts";
import type { OperatorGrants } from "../host/calls/operator-grants.ts";
import { CodeCache } from "../host/catalog/cached-code.ts";
import type { Checks } from "../host/checks/checks.ts";
import type { Directory } from "../host/directory/directory.ts";
import type { Host } from "../host/host.ts";
import { Journal } from "../host/journal/journal.ts";
import { openHost } from "../host/open-host.ts";
import { ServedTenants, type Tenancy, followChanges, openTenancy } from "../host/serving/tenancy.ts";
import type { Log } from "../lib/log.ts";
import { processIdentity } from "../lib/process-identity.ts";
import { createSealer } from "../lib/seal.ts";
import type { SharedLimits } from "../lib/shared-limits.ts";
import { DEFAULT_TENANT } from "../lib/tenant-name.ts";
import type { TenantLimits } from "../limits/limits.ts";
import { Endpoint, type EndpointStats } from "../mcp/endpoint.ts";
import { withLongValues } from "../mcp/records-in-parts.ts";
import type { Spawner } from "../processes/spawn/spawn.ts";
import { WorkFolders } from "../processes/work-folders.ts";
import { type GivenSecrets, Grants } from "../secrets/grants.ts";
import { openKeys } from "../secrets/keys.ts";
import { openStore } from "../store/open-store.ts";
import type { Store, StorageUsage } from "../store/store.ts";
import { accessOf } from "./open-access.ts";
import { openChecks, openCompilers } from "./open-compiler.ts";
import { type Editing, openEdits } from "./open-edits.ts";
import { type OpenedFeatures, openFeatures } from "./open-features.ts";
import { openNetwork, openOwnFolders } from "./open-reach.ts";
import { openUpstreams } from "./open-upstreams.ts";

/** Brings a store's names to what will be served, before anything is. */
export type Fill = (store: Store, tenant: string) => Promise<void>;

/** All that whoever runs Berth for their own files grants by it. */
export type OwnGrants = OperatorGrants & GivenSecrets;

export interface Core extends Editing {
  readonly host: Host;
  readonly tenancy: Tenancy;
  readonly cluster: Cluster;
  readonly errands: NodeRequests;
  readonly admission: Admission;
  readonly sharedLimits: SharedLimits;
  readonly access: Access;
  readonly audit: Audit;
  readonly features: OpenedFeatures["features"];
  readonly checks: Checks;
  readonly endpoint: Endpoint;
  readonly executor: Executor;
  readonly journal: Journal;
  readonly metrics: OpenedFeatures["metrics"];
  readonly store: Store;
  /** The bytes that a tenant stores, by kind, and the most that it may. */
  storedUse(tenant: string): Promise<{ readonly use: StorageUsage; readonly storedBytes: number }>;
  readonly sealKeys: readonly Uint8Array[];
  /** Leaves to other nodes what one alone does, as soon as nothing of it is under way here. */
  leave(): Promise<void>;
  close(): Promise<void>;
}

/**
 * Everything that does not depend on how requests arrive: HTTP and stdio serve the same core. Rejects, with nothing
 * left open, when a part cannot be opened. `fill` brings the store's names to what will be served; `starting` is told
 * each step. The core owns `spawner` from now on. `ownPort` is where it will be reached by HTTP, if it will.
 */
export async function openCore(
  config: Config,
  log: Log,
  fill: Fill,
  starting: (step: string) => void,
  spawner: Spawner,
  ownPort?: number,
  ownGrants?: OwnGrants,
): Promise<Core> {
  const closers: (() => Promise<void>)[] = [];
  const close = async (): Promise<void> => {
    for (const closeOne of closers.splice(0).toReversed()) await closeOne();
  };
  const opened = <T extends { close(): Promise<void> }>(part: T): T => {
    closers.push(() => part.close());
    return part;
  };

  const { start } = opened(spawner);
  const { guests: mode, limits } = config;
  const tried = tryGuests({ mode, limits, log });
  try {
    const given = await openOwnFolders(config);
    const { dataDir, database } = config;
    // Keys in the folder come after the store, which tells what is wrong about a folder.
    const outerKeys = database === undefined ? undefined : await openKeys(config);
    const store = opened(await openStore({ dataDir, database, log, keyProofs: outerKeys?.proofs }));
    const keys = outerKeys ?? (await openKeys(config));
    // SQLite's processes share one machine; on other databases a clone of the machine would have the same identity.
    const identity = database === undefined ? processIdentity() : undefined;
    const cluster = opened(new Cluster({ nodes: store.nodes, process: identity, limits, log }));
    const sharedLimits = new Shares(cluster);
    closers.push(async () => sharedLimits.close());
    const audit = opened(await auditOf(config, store, cluster, log));
    starting("the image is applied");
    await fill(store, DEFAULT_TENANT);

    starting("guest code is tried");
    const served = new ServedTenants();
    const limitsOf = (tenant: string): TenantLimits =>
      workerTenantLimits(limits, served.limits(tenant), config.workers);
    const folders = opened(new WorkFolders());
    const { make: makeFolder } = folders;
    const calls = opened(
      new NodeCalls({
        cluster,
        keys: keys.seal,
        now: () => store.now(),
        makeFolder,
        address: config.nodeAddress,
        log,
      }),
    );
    await calls.open();
    const journal = opened(new Journal({ log }));
    const { relay, network } = opened(openNetwork(config, { start, makeFolder, ownPort, journal, log }));
    const executor = opened(
      await openExecutor({ mode, tried, limits, limitsOf, start, makeFolder, network: relay, log }),
    );
    starting("servers are read");
    const compilers = opened(openCompilers(config, start, log, ownGrants !== undefined));
    const checks = opened(openChecks(config, start, log));
    const { upstreams, openUpstream } = opened(
      openUpstreams(config, { nodes: { cluster, calls }, start, makeFolder, checks, limitsOf, log }),
    );
    const writable = config.image !== "readonly";
    const directory = (tenant: string): Directory | undefined => host.directory(tenant);
    // The endpoint is opened later.
    const activity = { stats: (): EndpointStats => endpoint.stats() };
    const measured = { audit, journal, executor, relay, upstreams, endpoint: activity, store, log };
    const { features, guestRequests, metrics, consents, approvals, secrets, retention, callNatively, builtIn } = opened(
      await openFeatures({
        config,
        store,
        limits,
        limitsOf,
        writable,
        isChosenFor: async (job) => (await cluster.lease(job)).node === cluster.id,
        directory,
        servedRelease: async (tenant, server) => (await host.server(tenant, server)).release,
        sealer: createSealer(keys.seal, () => store.now()),
        secrets: {
          store,
          keys: keys.secrets,
          given: ownGrants,
          changed: (tenant, name) => host.secretChanged(tenant, name),
        },
        audit,
        openUpstream,
        log,
        measured,
      }),
    );
    const sandboxHelp = features.find((each) => each.sandboxHelp)?.sandboxHelp;
    const { reason, lacks } = executor;
    if (executor.isolation === "trusted")
      log.warn({ reason, help: sandboxHelp }, "guest code runs trusted, not sandboxed");
    else if (lacks !== undefined)
      log.warn({ lacks, help: sandboxHelp }, "guest code runs in the reduced profile of the sandbox");
    journal.retention = retention;
    const grants = new Grants(secrets, log);
    const hosting = {
      store,
      cluster,
      checks,
      consents,
      approvals,
      executor,
      ...compilers.compiling(executor, features),
      codeCache: new CodeCache(),
      log,
      journal,
      grants,
      folders: given,
      network,
      operatorGrants: ownGrants,
      upstreams,
      mayStartPrograms: (tenant: string) => mayStartPrograms(config, tenant),
      writable,
      sharedLimits,
      storedBytesOf: (tenant: string) => limitsOf(tenant).storedBytes,
      guestRequests,
      errorLocations: config.errorLocations,
      limits: config.limits,
    };
    const host = await openHost([], {
      ...hosting,
      ...(builtIn && { builtIn: { tenant: DEFAULT_TENANT, server: builtIn } }),
    });
    const editing = opened(openEdits(config, { host, hosting, limitsOf, start, makeFolder, log }));
    const access = opened(
      accessOf(config, { store, oauthOf: (tenant) => served.oauth(tenant), limitsOf, sharedLimits, log }),
    );
    const errands = opened(new NodeRequests({ cluster, records: withLongValues(store), log }));
    const endpoint = new Endpoint({
      callNatively,
      cluster,
      errands,
      host,
      berthVersion: packageVersion(),
      log,
      records: store,
      checks,
      accessRequired: access.required,
      sealKeys: keys.seal,
      limits,
    });
    closers.push(() => endpoint.settled());
    const tenancy = opened(
      await openTenancy({ served, tenants: store.tenants, ...serving({ host, endpoint, executor }), log }),
    );
    closers.push(followChanges(store, host, tenancy, log));
    await tenancy.admit(DEFAULT_TENANT);
    const admission = new Admission(limitsOf, sharedLimits);
    tenancy.onChange((tenant) => {
      admission.follow(tenant);
      access.oauthChanged(tenant);
    });
    tenancy.onEnd((tenant) => {
      for (const part of [admission, grants, relay, ...features]) part.forget?.(tenant);
    });
    for (const { onCall } of features) if (onCall) journal.addObserver(onCall);
    if (audit.observer) journal.addObserver(audit.observer);
    upstreams.answerNodes((tenant) => tenancy.admit(tenant));
    await cluster.join();
    if (builtIn && cluster.others.size > 0)
      log.warn(
        `other processes serve from this data folder: what ${builtIn.name} connects to is known to this process alone`,
      );
    return {
      host,
      tenancy,
      cluster,
      errands,
      admission,
      sharedLimits,
      access,
      audit,
      ...editing,
      features,
      checks,
      endpoint,
      executor,
      journal,
      metrics,
      store,
      storedUse: async (tenant) => ({ use: await store.use(tenant), storedBytes: limitsOf(tenant).storedBytes }),
      sealKeys: keys.seal,
      leave: () => upstreams.leave(),
      close,
    };
  } catch (error) {
    await close();
    throw error;
  }
}

function auditOf({ audit, limits }: Config, store: Store, cluster: Cluster, log: Log): Promise<Audit> {
  return openAudit({
    links: store.audit,
    calls: audit === "all",
    version: packageVersion(),
    madeAt: async (tenant) => (await store.tenants.find(tenant))?.createdAt ?? Infinity,
    mayRetain: async () => (await cluster.lease("audit retention")).node === cluster.id,
    limits,
    log,
  });
}

/** Starts and stops serving a tenant. */
function serving({ host, endpoint, executor }: Pick<Core, "host" | "endpoint" | "executor">) {
  return {
    open(tenant: string): Promise<void> {
      executor.resume(tenant);
      return host.reload(tenant);
    },
    unloadIdle: (tenant: string) => host.unloadIdle(tenant),
    async close(tenant: string): Promise<void> {
      endpoint.endTenant(tenant);
      await Promise.all([executor.suspend(tenant), host.close(tenant)]);
    },
  };
}
