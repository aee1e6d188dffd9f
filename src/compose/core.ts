import { tmpdir } from "node:os";
import { type Access, openAccess } from "../access/access.ts";
import { oauthOfConfig } from "../access/oauth/settings.ts";
import { oauthOfTenant } from "../access/oauth/tenant-settings.ts";
import { Admission } from "../admission/admission.ts";
import { tenantLimitsOfWorker } from "../admission/tenant-limits.ts";
import { type Audit, openAudit } from "../audit/audit.ts";
import { Cluster } from "../cluster/cluster.ts";
import { Errands } from "../cluster/errands.ts";
import { NodeCalls } from "../cluster/node-calls.ts";
import { Shares } from "../cluster/shares.ts";
import { type Config, mayHavePackages, mayStartPrograms, packageRoot, packageVersion } from "../config.ts";
import { type Compiler, openCompiler } from "../discover/compiler.ts";
import { compileKey, compilerCid } from "../discover/key.ts";
import { createEdits } from "../edits/create-edits.ts";
import type { Edits } from "../edits/edits.ts";
import { loadProblems } from "../edits/examine.ts";
import { type PackageEdits, createPackageEdits } from "../edits/package-edits.ts";
import { PackageSupply } from "../edits/package-supply.ts";
import { type SecretEdits, createSecretEdits } from "../edits/secret-edits.ts";
import { describingSchemas } from "../executor/describe-schemas.ts";
import type { Executor } from "../executor/executor.ts";
import { openExecutor, tryGuests } from "../executor/open-executor.ts";
import type { FeatureParts } from "../features/feature.ts";
import { type OwnPlaces, openFolders } from "../folders/folders.ts";
import { openExplore } from "../host/builtin/explore-server.ts";
import { Consents } from "../host/calls/consents.ts";
import type { OperatorGrants } from "../host/calls/operator-grants.ts";
import { KeptCode } from "../host/catalog/cached-code.ts";
import { QUICK_COMPILE_MS, compilingInTurn } from "../host/catalog/compile-queue.ts";
import { Checks } from "../host/checks/checks.ts";
import type { Directory } from "../host/directory/directory.ts";
import type { Host } from "../host/host.ts";
import { Journal } from "../host/journal/journal.ts";
import { RetainedCalls } from "../host/journal/retained-calls.ts";
import { openHost } from "../host/open-host.ts";
import type { GuestRequests } from "../host/serving/guest-port.ts";
import { ServedTenants, type Tenancy, followChanges, openTenancy } from "../host/serving/tenancy.ts";
import { Hosting } from "../host/upstreams/hosting.ts";
import { BerthError } from "../lib/errors.ts";
import type { JsonObject } from "../lib/json.ts";
import type { Log } from "../lib/log.ts";
import { MessageRooms, programBacklog, unfinishedUpstream } from "../lib/message-room.ts";
import type { Problem } from "../lib/problem.ts";
import { processIdentity } from "../lib/process-identity.ts";
import { createSealer } from "../lib/seal.ts";
import type { SharedLimits } from "../lib/shared-limits.ts";
import { DEFAULT_TENANT } from "../lib/tenant-name.ts";
import { limitedPerMinute } from "../lib/token-buckets.ts";
import type { Limits, TenantLimits } from "../limits/limits.ts";
import { type Endpoint, createEndpoint } from "../mcp/endpoint.ts";
import { inParts } from "../mcp/records-in-parts.ts";
import { showParts, timeCompiling } from "../metrics/figures.ts";
import { type Metrics, createMetrics } from "../metrics/metrics.ts";
import { type AllowedHost, parseAddresses } from "../network/allow-list.ts";
import { type PrivateHost, parsePrivateHosts } from "../network/private-hosts.ts";
import { openPublicFetch } from "../network/public-fetch.ts";
import { SocketRelay } from "../network/socket-relay.ts";
import { openNpm } from "../packages/npm.ts";
import { confinementBy } from "../processes/own-program.ts";
import type { Spawn, Spawner } from "../processes/spawn/spawn.ts";
import { WorkFolders } from "../processes/work-folders.ts";
import { Grants } from "../secrets/grants.ts";
import { type GivenSecrets, openSecrets, withGiven } from "../secrets/secrets.ts";
import { openStore } from "../store/open-store.ts";
import type { Store, StoredUse } from "../store/store.ts";
import type { ChildRooms } from "../upstream/transport/child.ts";
import { collectRegularly } from "./collecting.ts";
import { features } from "./features.ts";
import { openKeys } from "./keys.ts";
import { exploring, hostedOpener } from "./open-upstreams.ts";

/** Most definitions are compiled in less, and on a machine that is always busy nobody waits much longer for this. */
const COMPILER_GIVES_WAY_MS = 2_000;

/** Brings a store's names to what will be served, before anything is. */
export type Fill = (store: Store, tenant: string) => Promise<void>;

/** All that whoever runs Berth for their own files grants by it. */
export type OwnGrants = OperatorGrants & GivenSecrets;

export interface Core {
  readonly host: Host;
  readonly tenancy: Tenancy;
  readonly cluster: Cluster;
  readonly errands: Errands;
  readonly admission: Admission;
  readonly sharedLimits: SharedLimits;
  readonly access: Access;
  readonly audit: Audit;
  readonly edits: Edits;
  readonly packages: PackageEdits;
  readonly secrets: SecretEdits;
  readonly features: readonly FeatureParts[];
  readonly retainedCalls: RetainedCalls;
  readonly checks: Checks;
  readonly endpoint: Endpoint;
  readonly executor: Executor;
  readonly journal: Journal;
  readonly metrics: Metrics;
  readonly store: Store;
  /** The bytes that a tenant stores, by kind, and the most that it may. */
  storedUse(tenant: string): Promise<{ readonly use: StoredUse; readonly storedBytes: number }>;
  readonly sealKeys: readonly Uint8Array[];
  /** The problems that keep a served server's definition from loading, which is tried. */
  loadProblems(tenant: string, server: string): Promise<readonly Problem[]>;
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
    const given = await openFolders(config.folders, ownPlaces(config));
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
      tenantLimitsOfWorker(limits, served.limitsOf(tenant), config.workers);
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
    const retainedCalls = opened(
      new RetainedCalls({
        store: store.retainedCalls,
        now: () => store.now(),
        storedBytesOf: (tenant) => limitsOf(tenant).storedBytes,
        mayRemove: async () => (await cluster.lease("retained calls")).node === cluster.id,
        limits,
        log,
      }),
    );
    const journal = new Journal({ log, retainedCalls });
    const relay = opened(new SocketRelay({ start, makeFolder, limits, ownPort, log, events: journal }));
    const network = { privateHostsOf: privateHostsOf(config), ownPort, retire: relay.retire };
    const executor = opened(
      await openExecutor({ mode, tried, limits, limitsOf, start, makeFolder, network: relay, log }),
    );
    if (executor.isolation === "trusted")
      log.warn({ reason: executor.reason }, "guest code runs trusted, not sandboxed");
    starting("servers are read");
    const [quickCompiler, patientCompiler] = compilersOf(config, start, log, ownGrants ? 0 : COMPILER_GIVES_WAY_MS).map(
      opened,
    ) as [Compiler, Compiler];

    const stored = openSecrets(store, keys.secrets);
    const secrets = ownGrants ? withGiven(stored, ownGrants) : stored;
    const checks = opened(
      new Checks(config.limits, {
        start,
        mode: confinementBy(config.guests),
        onTrusted: (reason) => log.warn({ reason }, "long values are read outside of the sandbox"),
      }),
    );
    checks.warm();
    const reaching = { start, makeFolder, checks, roomsOf: childRoomsOf(limits) };
    const upstreams = opened(
      new Hosting({
        nodes: { cluster, calls },
        open: hostedOpener(limits, reaching),
        limitsOf,
        limits: config.limits,
        log,
      }),
    );
    const consents = new Consents({
      sealer: createSealer(keys.seal, () => store.now()),
      records: store,
      audit,
      servedRelease: async (tenant, server) => (await host.server(tenant, server)).release,
    });
    const metrics = createMetrics(packageVersion(), config.limits);
    const timed = timeCompiling(metrics);
    const grants = new Grants(secrets, log);
    const writable = config.image !== "readonly";
    const directory = (tenant: string): Directory | undefined => host.directory(tenant);
    const parts = await Promise.all(
      features.map((feature) => feature.open({ store, limits, limitsOf, writable, directory })),
    );
    const hosting = {
      store,
      cluster,
      checks,
      consents,
      executor,
      compile: compilingInTurn(
        timed((source, help) => quickCompiler.compile(source, help)),
        timed((source, help) => patientCompiler.compile(source, help)),
        (tenant) => describingSchemas((program) => executor.load(program), tenant),
      ),
      compileKey,
      compiler: compilerCid(),
      keptCode: new KeptCode(),
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
      guestRequests: Object.assign({}, ...parts.map(({ guestRequests }) => guestRequests)) as GuestRequests,
      errorLocations: config.errorLocations,
      limits: config.limits,
    };
    const explore = config.explore ? opened(openExplore(exploring(config, log, reaching))) : undefined;
    const host = await openHost([], {
      ...hosting,
      ...(explore && { builtIn: { tenant: DEFAULT_TENANT, server: explore } }),
    });
    const npm = opened(
      openNpm({
        mode: "confined",
        registry: config.registry,
        confinement: confinementBy(config.guests),
        start,
        makeFolder,
        limits,
        onTrusted: (reason) => log.warn({ reason }, "npm works outside of the sandbox"),
      }),
    );
    const supply = new PackageSupply(npm, limits);
    const mayHave = (tenant: string): boolean => mayHavePackages(config, tenant);
    const edits = createEdits({
      ...hosting,
      host,
      packageSupply: supply,
      mayHavePackages: mayHave,
      savesPerMinuteOf: (tenant) => limitsOf(tenant).savesPerMinute,
      reviewsPerMinuteOf: (tenant) => limitsOf(tenant).reviewsPerMinute,
    });
    const packages = createPackageEdits({
      store,
      edits,
      supply,
      writable: hosting.writable,
      mayHave,
      directory,
    });
    const secretEdits = createSecretEdits({
      store,
      secrets,
      writable: hosting.writable,
      directory,
      onChange: (tenant, name) => host.secretChanged(tenant, name),
    });
    const access = opened(
      accessOf(
        config,
        log,
        store,
        (tenant) => served.oauthOf(tenant),
        limitedPerMinute("make tokens", "savesPerMinute", (tenant) => limitsOf(tenant).savesPerMinute, sharedLimits),
      ),
    );
    const errands = opened(new Errands({ cluster, records: inParts(store), log }));
    const endpoint = createEndpoint({
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
      for (const part of [admission, metrics.calls, grants, relay]) part.forget(tenant);
    });
    journal.addObserver(metrics.calls.observer);
    if (audit.observer) journal.addObserver(audit.observer);
    upstreams.answerNodes((tenant) => tenancy.admit(tenant));
    await cluster.join();
    if (explore && cluster.others.size > 0)
      log.warn("other processes serve from this data folder: what explore connects to is known to this process alone");
    if (hosting.writable) closers.push(collectRegularly(store, cluster, limits, log));
    showParts(metrics, { audit, journal, executor, relay, upstreams, endpoint, store, log });
    return {
      host,
      tenancy,
      cluster,
      errands,
      admission,
      sharedLimits,
      access,
      audit,
      edits,
      async loadProblems(tenant, server) {
        const { definition, entry } = host.directory(tenant)?.servers.get(server) ?? {};
        return definition === undefined ? [] : loadProblems(tenant, { server, definition, entry }, hosting);
      },
      packages,
      secrets: secretEdits,
      features: parts,
      retainedCalls,
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

/**
 * A compiler for what takes little time, and one for the rest: nobody waits behind a long compilation. With `berth dev` a
 * person waits for nothing else.
 */
function compilersOf({ limits, guests }: Config, start: Spawn, log: Log, givesWayMs: number): Compiler[] {
  let isTold = false;
  const onTrusted = (reason: string): void => {
    if (!isTold) log.warn({ reason }, "definitions are compiled outside of the sandbox");
    isTold = true;
  };
  const parts = { start, givesWayMs, mode: confinementBy(guests), onTrusted };
  return [Math.min(QUICK_COMPILE_MS, limits.compileMs), limits.compileMs].map((compileMs) =>
    openCompiler({ ...limits, compileMs }, parts),
  );
}

/** The memory that messages between Berth and upstream programs may take, by tenant. */
function childRoomsOf(limits: Limits): (tenant: string) => ChildRooms {
  const unfinished = new MessageRooms(unfinishedUpstream, limits);
  const backlog = new MessageRooms(programBacklog, limits);
  return (tenant) => ({ unfinished: unfinished.of(tenant), backlog: backlog.of(tenant) });
}

/** The places that no folder of servers may hold. */
function ownPlaces({ dataDir, databaseFile, imageDir, sealKeys, secretKeys, registry }: Config): OwnPlaces {
  const keyFiles = [databaseFile, sealKeys.file, secretKeys.file, registry.tokenFile].filter(
    (file) => file !== undefined,
  );
  return { dataDir, temporaryDir: tmpdir(), keyFiles, programs: [packageRoot, imageDir, process.execPath] };
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
    rest: (tenant: string) => host.rest(tenant),
    async end(tenant: string): Promise<void> {
      endpoint.endTenant(tenant);
      await Promise.all([executor.suspend(tenant), host.close(tenant)]);
    },
  };
}

/**
 * The access rules of a service from its configuration. `oauthOf` returns a tenant's own settings; the tenant `default`
 * also has those of the configuration. Throws `config_invalid`.
 */
function accessOf(
  config: Config,
  log: Log,
  store: Pick<Store, "tokens" | "tenants" | "now">,
  oauthOf: (tenant: string) => JsonObject | undefined,
  checkTokenPace: (tenant: string) => void,
): Access {
  const { limits, adminToken } = config;
  const configured = oauthOfConfig(config);
  return openAccess({
    now: () => store.now(),
    tokens: store.tokens,
    tenants: store.tenants,
    required: config.access === "required",
    openPrograms: config.upstreamPrograms,
    adminToken,
    oauth: (tenant) => oauthOfTenant(oauthOf(tenant)) ?? (tenant === DEFAULT_TENANT ? configured : undefined),
    checkedFetch: openPublicFetch(privateIssuers(config)),
    limits,
    checkTokenPace,
    log,
  });
}

/** Throws `config_invalid`. */
function privateHostsOf({ privateHosts: text = "" }: Config): (tenant: string) => readonly PrivateHost[] {
  const hosts = parsePrivateHosts(text);
  if (typeof hosts === "string") throw new BerthError("config_invalid", `BERTH_PRIVATE_HOSTS: ${hosts}`);
  return (tenant) => hosts.filter((host) => host.tenant === undefined || host.tenant === tenant);
}

function privateIssuers({ oauth: { privateIssuers: text } }: Config): readonly AllowedHost[] {
  const addresses = text === undefined ? [] : parseAddresses(text);
  if (typeof addresses === "string")
    throw new BerthError("config_invalid", `BERTH_OAUTH_PRIVATE_ISSUERS: ${addresses}`);
  return addresses;
}
