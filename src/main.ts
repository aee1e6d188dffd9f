import type { Server } from "node:http";
import type { AddressInfo } from "node:net";
import type { Readable, Writable } from "node:stream";
import { openAccess, type Access } from "./access/access.ts";
import { oauthOfConfig } from "./access/oauth/settings.ts";
import { Admission } from "./admission/admission.ts";
import { tenantLimits, type TenantLimits } from "./admission/tenant-limits.ts";
import { packageVersion, type Config } from "./config.ts";
import { openCompiler } from "./discover/compiler.ts";
import type { DefinitionSource } from "./discover/discovery.ts";
import { compileKey, compilerCid } from "./discover/key.ts";
import { BerthError } from "./errors.ts";
import type { Executor } from "./executor/executor.ts";
import { openExecutor } from "./executor/open.ts";
import { ALL_SERVERS, withAllServers } from "./host/aggregate.ts";
import { openExplore } from "./host/builtin/explore-server.ts";
import { withBuiltIn } from "./host/builtin/with-built-in.ts";
import { createEdits } from "./host/edits/create-edits.ts";
import type { Edits } from "./host/edits/edits.ts";
import { Hosting } from "./host/upstream/hosting.ts";
import { logCalls } from "./host/log-calls.ts";
import { Observers } from "./host/observe.ts";
import { openHost, type Host, type ServerSummary } from "./host/host.ts";
import { openTenancy, type Tenancy } from "./host/tenancy.ts";
import { createSecretEdits, type SecretEdits } from "./host/secret-edits.ts";
import { applyImage } from "./image/apply.ts";
import { readImage } from "./image/read.ts";
import { ServiceReadiness } from "./readiness.ts";
import type { Log } from "./log.ts";
import { showParts, timeCompiling } from "./metrics/figures.ts";
import { createMetrics, type Metrics } from "./metrics/metrics.ts";
import { createEndpoint, type Endpoint } from "./mcp/endpoint.ts";
import { openStdio } from "./mcp/stdio.ts";
import { exploring, hostedOpener } from "./open-upstreams.ts";
import { readSealKey } from "./seal-key.ts";
import { Grants } from "./secrets/grants.ts";
import { openKeyRing } from "./secrets/key-ring.ts";
import { openSecrets } from "./secrets/secrets.ts";
import { openSqliteStore } from "./store/sqlite.ts";
import type { NameKind, Store } from "./store/store.ts";
import { DEFAULT_TENANT } from "./tenant-name.ts";

/** For answers to be written that the end of guest code has just made. */
const LAST_WORDS_MS = 1_000;

export interface Berth {
  /** Where it listens, with the port that was chosen. */
  readonly url: string;
  /** Every server, with what it offers and what is wrong with it. */
  servers(): Promise<ServerSummary[]>;
  /** Serves what the names in the store mean now. */
  reload(): Promise<void>;
  /** Resolves when the store was restored by another process: this Berth is to be closed, and another one started. */
  readonly replaced: Promise<void>;
  /** Ends calls and streams with their results, then every process. */
  close(): Promise<void>;
}

/** Brings a store's names to what is to be served, before anything is. */
export type Fill = (store: Store, tenant: string) => Promise<void>;

/**
 * The composition root: the only place that knows all parts. Serves the boot image, or what `fill` gives. Rejects when
 * something that it needs cannot be opened.
 */
export async function startBerth(config: Config, log: Log, fill: Fill = fromImage(config, log)): Promise<Berth> {
  // Who serves on stdio waits for none of it.
  const { createHttpServer, drainHttpServer } = await import("./http/server.ts");
  const readiness = new ServiceReadiness(log);
  const http = createHttpServer(config.limits, readiness, log);
  const { server } = http;
  await listen(server, config);
  const core = await openCore(config, log, fill, (step) => readiness.starting(step)).catch((error: unknown) => {
    server.close();
    server.closeAllConnections();
    throw error;
  });
  const { host, endpoint, executor, store } = core;
  const writable = config.image !== "readonly";
  const { isolation } = executor;
  http.serve({ ...config, ...core, allServers: ALL_SERVERS, isolation, writable, log });
  readiness.ready(store);
  return {
    url: urlOf(server, config.host),
    servers: () => host.list(DEFAULT_TENANT),
    reload: () => host.reload(DEFAULT_TENANT),
    replaced: replacedOf(store),
    async close() {
      readiness.stopping();
      await within(config.limits.drainMs, new Promise(() => {}));
      endpoint.close();
      const drained = drainHttpServer(server);
      await within(config.limits.shutdownMs, drained);
      // What still runs now gets its end as a result, which is written before connections are cut.
      await executor.close();
      await within(LAST_WORDS_MS, drained);
      server.closeAllConnections();
      await core.close();
    },
  };
}

export interface BerthOnStdio {
  /** Resolves when the client has ended the connection, or does not read any more, and when the store was restored. */
  readonly ended: Promise<void>;
  /** Ends calls with their results, at once when `hurry` resolves, then every process. */
  close(hurry: Promise<unknown>): Promise<void>;
}

/** One connection of newline-delimited messages to one server, or to all of them without a name. */
export async function startStdio(
  config: Config,
  log: Log,
  options: { server: string | undefined; nativeOnly?: boolean; input: Readable; output: Writable },
): Promise<BerthOnStdio> {
  const core = await openCore(config, log, fromImage(config, log), () => {});
  const { server = ALL_SERVERS, nativeOnly = false, input, output } = options;
  await orClose(core, async () => core.host.server(DEFAULT_TENANT, server));
  const { endpoint, executor, store } = core;
  const { limits } = config;
  const connection = openStdio({ endpoint, tenant: DEFAULT_TENANT, server, nativeOnly, input, output, limits, log });
  return {
    ended: Promise.race([connection.ended, replacedOf(store)]),
    async close(hurry) {
      endpoint.close();
      const drained = connection.close();
      await within(config.limits.shutdownMs, Promise.race([drained, hurry]));
      await executor.close();
      await within(LAST_WORDS_MS, drained);
      await core.close();
    },
  };
}

function replacedOf(store: Store): Promise<void> {
  return new Promise((resolve) => store.onReplaced(resolve));
}

/** What was opened does not stay when what comes after it fails. */
async function orClose<T>(core: Core, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    await core.close();
    throw error;
  }
}

function fromImage({ imageDir, image }: Config, log: Log): Fill {
  return async (store, tenant) => {
    const report = await applyImage(store, tenant, await readImage(imageDir, image));
    for (const kept of report.kept) log.warn({ kept }, "a name keeps a person's edit, not what the image says");
  };
}

interface Core {
  readonly host: Host;
  readonly tenancy: Tenancy;
  readonly admission: Admission;
  readonly access: Access;
  readonly edits: Edits;
  readonly secrets: SecretEdits;
  readonly endpoint: Endpoint;
  readonly executor: Executor;
  readonly metrics: Metrics;
  readonly store: Store;
  close(): Promise<void>;
}

/** All that does not depend on how requests arrive. */
async function openCore(config: Config, log: Log, fill: Fill, starting: (step: string) => void): Promise<Core> {
  const closers: (() => Promise<void>)[] = [];
  const close = async (): Promise<void> => {
    for (const closeOne of closers.splice(0).toReversed()) await closeOne();
  };
  const opened = <T extends { close(): Promise<void> }>(part: T): T => {
    closers.push(() => part.close());
    return part;
  };

  try {
    const store = opened(await openSqliteStore({ dataDir: config.dataDir }));
    starting("the image is applied");
    await fill(store, DEFAULT_TENANT);

    starting("guest code is tried");
    let tenancy: Tenancy | undefined;
    const limitsOf = (tenant: string): TenantLimits => tenantLimits(config.limits, tenancy?.limitsOf(tenant));
    const executor = opened(await openExecutor({ mode: config.guests, limits: config.limits, limitsOf, log }));
    if (executor.isolation === "trusted")
      log.warn({ reason: executor.reason }, "guest code runs trusted, not sandboxed");
    starting("servers are read");
    const compiler = opened(openCompiler(config.limits));

    const secrets = openSecrets(store, openKeyRing(config.dataDir, config.secretKeys), config.limits);
    const upstreams = opened(new Hosting({ open: hostedOpener(config.limits), limits: config.limits, log }));
    const metrics = createMetrics(packageVersion(), config.limits);
    const observers = new Observers((error) => log.error({ err: error }, "an observer of calls failed"));
    const hosting = {
      store,
      executor,
      compile: timeCompiling(metrics, (source: DefinitionSource) => compiler.compile(source)),
      compileKey,
      compiler: compilerCid(),
      log,
      observers,
      grants: new Grants(secrets, log),
      upstreams,
      mayStartPrograms: (tenant: string) => config.tenantUpstreams === "all" || config.tenantUpstreams.includes(tenant),
      writable: config.image !== "readonly",
      limits: config.limits,
    };
    const explore = config.explore ? opened(openExplore(exploring(config, log))) : undefined;
    const own = await openHost([], hosting);
    const host = withAllServers(
      explore ? withBuiltIn(own, DEFAULT_TENANT, explore, { ...config.limits, observers }) : own,
    );
    const edits = createEdits({ ...hosting, host, storedBytesOf: (tenant) => limitsOf(tenant).storedBytes });
    const secretEdits = createSecretEdits({
      store,
      secrets,
      writable: hosting.writable,
      onChange: (tenant, name) => host.secretChanged(tenant, name),
    });
    const { limits, adminToken } = config;
    const oauth = oauthOfConfig(config);
    const required = config.access === "required";
    const access = opened(
      openAccess({
        tokens: store.tokens,
        tenants: store.tenants,
        required,
        adminToken,
        oauth: (tenant) => (tenant === DEFAULT_TENANT ? oauth : undefined),
        limits,
      }),
    );
    const sealKey = await readSealKey(config.dataDir);
    const endpoint = createEndpoint({
      host,
      berthVersion: packageVersion(),
      log,
      records: store,
      accessRequired: required,
      sealKey,
      limits,
    });
    closers.push(() => endpoint.settled());
    tenancy = opened(
      await openTenancy({ tenants: store.tenants, ...serving({ host, endpoint, executor }), limits, log }),
    );
    closers.push(reloadOnChange(store, host, tenancy, log));
    await tenancy.admit(DEFAULT_TENANT);
    const admission = new Admission(limitsOf);
    tenancy.onChange((tenant) => admission.forget(tenant));
    tenancy.onEnd((tenant) => admission.forget(tenant));
    observers.add(metrics.observer);
    if (log.isLevelEnabled("debug")) observers.add(logCalls(log));
    showParts(metrics, { observers, executor, upstreams, endpoint, store });
    return { host, tenancy, admission, access, edits, secrets: secretEdits, endpoint, executor, metrics, store, close };
  } catch (error) {
    await close();
    throw error;
  }
}

/** What it takes to serve a tenant, and to serve it no more. */
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

/** What decides which servers there are, and what each offers. */
const OFFERED: ReadonlySet<NameKind> = new Set(["variable", "server", "visibility"]);

/** Has the host hear of what other processes on the same store have changed. Gives what ends it. */
function reloadOnChange(store: Store, host: Host, tenancy: Tenancy, log: Log): () => Promise<void> {
  let reloading: Promise<void> = Promise.resolve();
  const reload = async (tenant: string): Promise<void> => {
    await tenancy.opening(tenant)?.catch(() => {});
    if (tenancy.opening(tenant)) await host.reload(tenant);
  };
  const stop = store.onChange((changed) => {
    for (const { tenant, kind, name } of changed) if (kind === "secret") host.secretChanged(tenant, name);
    const tenants = new Set(changed.flatMap(({ tenant, kind }) => (OFFERED.has(kind) ? [tenant] : [])));
    for (const tenant of tenants) {
      reloading = reloading
        .then(() => reload(tenant))
        .catch((error: unknown) => log.error({ err: error, tenant }, "a change of another process could not be read"));
    }
  });
  return () => {
    stop();
    return reloading;
  };
}

/** Resolves with `work`, or after `ms` without it. */
async function within(ms: number, work: Promise<unknown>): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  await Promise.race([work, new Promise<void>((resolve) => (timer = setTimeout(resolve, ms)))]);
  clearTimeout(timer);
}

function urlOf(server: Server, host: string): string {
  const { port } = server.address() as AddressInfo;
  return `http://${host.includes(":") ? `[${host}]` : host}:${port}`;
}

function listen(server: Server, { host, port }: Config): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once("error", (error: NodeJS.ErrnoException) => {
      const taken =
        error.code === "EADDRINUSE" ? `port ${port} is taken; choose another with BERTH_PORT` : error.message;
      reject(new BerthError("config_invalid", taken, { cause: error }));
    });
    server.listen(port, host, resolve);
  });
}
