import { setTimeout as sleep } from "node:timers/promises";
import { BerthError } from "../../lib/errors.ts";
import { createYielder } from "../../lib/event-loop.ts";
import type { JsonObject } from "../../lib/json.ts";
import type { Log } from "../../lib/log.ts";
import { DEFAULT_TENANT } from "../../lib/tenant-name.ts";
import { fixed } from "../../limits/fixed.ts";
import type { NameKind, Store, Tenant, Tenants } from "../../store/store.ts";
import type { Host } from "../host.ts";

/**
 * The tenants that this process serves. A tenant is opened on its first request, so that thousands cost nothing at
 * startup, unloaded when idle, and closed when any process suspends or deletes it.
 */
export interface Tenancy {
  /**
   * Undefined when the tenant is open; otherwise resolves when it is, or rejects with `tenant_not_found` or
   * `tenant_suspended`.
   */
  admit(tenant: string): Promise<void> | undefined;
  /** Resolves when a requested tenant is open; undefined if it was not requested. */
  opening(tenant: string): Promise<void> | undefined;
  /** True when no host name is mapped to a tenant. */
  readonly unmapped: boolean;
  /** The tenant that a host name (lower case, without port) is mapped to. */
  findByHost(hostname: string): string | undefined;
  /** Calls `listener` when the settings of a served tenant change. */
  onChange(listener: (tenant: string) => void): void;
  /** Calls `listener` when a served tenant is closed. */
  onEnd(listener: (tenant: string) => void): void;
  /** Stops following changes; resolves when those already received are processed. */
  close(): Promise<void>;
}

/** The served tenants and their settings, for components that are created before the tenancy is opened. */
export class ServedTenants {
  /** By name; includes tenants that are being opened. Only the tenancy writes it. */
  readonly entries = new Map<string, Served>();

  /** The tenant's own limits. */
  limits(tenant: string): JsonObject {
    return this.entries.get(tenant)?.tenant?.limits ?? {};
  }

  /** The tenant's own authorization server: the same object until it changes. */
  oauth(tenant: string): JsonObject | undefined {
    return this.entries.get(tenant)?.tenant?.oauth ?? undefined;
  }
}

export interface TenancyOptions {
  /** Updated by the tenancy. */
  readonly served: ServedTenants;
  readonly tenants: Tenants;
  readonly open: (tenant: string) => Promise<void>;
  /** Unloads a tenant. While it is in use, does nothing and returns false. */
  readonly unloadIdle: (tenant: string) => boolean;
  /** Stops everything that runs for the tenant, and unloads it. */
  readonly close: (tenant: string) => Promise<void>;
  readonly log: Log;
}

interface Served {
  readonly opening: Promise<void>;
  /** Undefined until the tenant is open. */
  tenant: Tenant | undefined;
  /** Milliseconds of `performance.now()`. */
  usedAt: number;
}

const bounds = fixed({
  /** Idle time after which a tenant is unloaded until its next request. */
  tenantIdleMs: 3_600_000,
});
const IDLE_CHECK_MAX_MS = 60_000;

export async function openTenancy(options: TenancyOptions): Promise<Tenancy> {
  const { tenants, open, unloadIdle, close, log } = options;
  const served = options.served.entries;
  const ending = new Map<string, Promise<void>>();
  const listeners: ((tenant: string) => void)[] = [];
  const changeListeners: ((tenant: string) => void)[] = [];
  const hosts = new HostNames(tenants);
  const changes = new TenantQueues((error) => log.error({ err: error }, "a change of a tenant could not be applied"));

  const openTenant = async (name: string): Promise<Tenant> => {
    // A tenant that is closing must be closed before it can be opened again.
    await ending.get(name)?.catch(() => {});
    const tenant = await tenants.find(name);
    if (!tenant) throw new BerthError("tenant_not_found", `"${name}"`);
    if (tenant.suspendedAt !== null) {
      throw new BerthError("tenant_suspended", `"${name}"; ask whoever runs this service to resume it`);
    }
    if (tenant.damaged !== undefined) {
      const what = `the stored ${tenant.damaged} of the tenant "${name}" are damaged`;
      log.error({ tenant: name }, `${what}: set them again, or restore a backup`);
      // The service needs its default tenant: it opens with the service's defaults until the data is repaired.
      if (name !== DEFAULT_TENANT)
        throw new BerthError("store_failed", `${what}; whoever runs this service can set them again`);
    }
    await open(name);
    return tenant;
  };

  const admit = (name: string): Promise<void> => {
    const existing = served.get(name);
    if (existing) return existing.opening;
    const opening = openTenant(name).then((tenant) => void (entry.tenant = tenant));
    const entry: Served = { opening, tenant: undefined, usedAt: performance.now() };
    served.set(name, entry);
    opening.catch(() => served.get(name) === entry && served.delete(name));
    return opening;
  };

  const follow = async (name: string): Promise<void> => {
    await hosts.follow(name);
    const entry = served.get(name);
    if (!entry) return;
    await entry.opening.catch(() => {});
    const [before, now] = [entry.tenant, await tenants.find(name)];
    if (before && isSame(before, now) && now.suspendedAt === null) {
      entry.tenant = now;
      for (const listener of changeListeners) listener(name);
      return;
    }
    served.delete(name);
    for (const listener of listeners) listener(name);
    const ended = close(name).finally(() => ending.delete(name));
    ending.set(name, ended);
    await ended;
    const isReplaced = now && now.suspendedAt === null;
    // Requests without a tenant do not admit the default tenant.
    if (isReplaced && name === DEFAULT_TENANT) await admit(name);
    log.info({ tenant: name }, isReplaced ? "a tenant was replaced" : `a tenant was ${now ? "suspended" : "deleted"}`);
  };

  const stop = tenants.onChange((name) => changes.enqueue(name, () => follow(name)));
  await hosts.read().catch((error: unknown) => {
    stop();
    throw error;
  });

  const sweep = setInterval(
    () => {
      const since = performance.now() - bounds.tenantIdleMs;
      for (const [name, { tenant, usedAt }] of served) {
        if (tenant && usedAt < since && name !== DEFAULT_TENANT && unloadIdle(name)) served.delete(name);
      }
    },
    Math.min(bounds.tenantIdleMs / 4, IDLE_CHECK_MAX_MS),
  ).unref();

  return {
    admit(name) {
      const entry = served.get(name);
      if (!entry?.tenant) return admit(name);
      entry.usedAt = performance.now();
      return undefined;
    },
    opening: (name) => served.get(name)?.opening,
    get unmapped() {
      return hosts.isEmpty;
    },
    findByHost: (hostname) => hosts.find(hostname),
    onChange: (listener) => void changeListeners.push(listener),
    onEnd: (listener) => void listeners.push(listener),
    close() {
      clearInterval(sweep);
      stop();
      return changes.drain();
    },
  };
}

/** Maps host names to tenants. Reads all of them once, then only those of changed tenants. */
class HostNames {
  readonly #tenants: Tenants;
  #tenantByHost = new Map<string, string>();
  #hostsByTenant = new Map<string, readonly string[]>();
  /** Reads are serialized. */
  #last: Promise<void> = Promise.resolve();
  #isStale = true;

  constructor(tenants: Tenants) {
    this.#tenants = tenants;
  }

  get isEmpty(): boolean {
    return this.#tenantByHost.size === 0;
  }

  find(hostname: string): string | undefined {
    return this.#tenantByHost.get(hostname);
  }

  read(): Promise<void> {
    return this.#serialize(async () => {
      this.#tenantByHost = new Map(await this.#tenants.hosts());
      const hostsByTenant = new Map<string, string[]>();
      const yieldIfDue = createYielder();
      for (const [host, tenant] of this.#tenantByHost) {
        await yieldIfDue();
        const hosts = hostsByTenant.get(tenant);
        if (hosts) hosts.push(host);
        else hostsByTenant.set(tenant, [host]);
      }
      this.#hostsByTenant = hostsByTenant;
    });
  }

  follow(tenant: string): Promise<void> {
    if (this.#isStale) return this.read();
    return this.#serialize(async () => {
      const hosts = (await this.#tenants.find(tenant))?.hosts ?? [];
      for (const host of this.#hostsByTenant.get(tenant) ?? []) {
        // Another tenant may have taken over the host name.
        if (this.#tenantByHost.get(host) === tenant) this.#tenantByHost.delete(host);
      }
      for (const host of hosts) this.#tenantByHost.set(host, tenant);
      if (hosts.length > 0) this.#hostsByTenant.set(tenant, hosts);
      else this.#hostsByTenant.delete(tenant);
    });
  }

  /** After a failure, the next read is a full one. */
  #serialize(read: () => Promise<void>): Promise<void> {
    const own = this.#last.then(read).then(
      () => void (this.#isStale = false),
      (error: unknown) => {
        this.#isStale = true;
        throw error;
      },
    );
    this.#last = own.catch(() => {});
    return own;
  }
}

/** True when the tenant was neither recreated nor replaced. */
function isSame(before: Tenant, now: Tenant | undefined): now is Tenant {
  return now?.createdAt === before.createdAt && now.replacedAt === before.replacedAt;
}

/**
 * One queue of tasks per tenant, so that a slow tenant delays no other. Retries a task while the store is unreachable,
 * because a change is reported only once.
 */
class TenantQueues {
  readonly #last = new Map<string, Promise<void>>();
  #isClosed = false;
  readonly #onError: (error: unknown, tenant: string) => void;

  constructor(onError: (error: unknown, tenant: string) => void) {
    this.#onError = onError;
  }

  enqueue(tenant: string, task: () => Promise<void>): void {
    const previous = this.#last.get(tenant) ?? Promise.resolve();
    const own = previous.then(() => this.#runWithRetries(task)).catch((error: unknown) => this.#onError(error, tenant));
    this.#last.set(tenant, own);
    void own.then(() => this.#last.get(tenant) === own && this.#last.delete(tenant));
  }

  async #runWithRetries(task: () => Promise<void>): Promise<void> {
    for (let attempt = 1; ; attempt++) {
      try {
        return await task();
      } catch (error) {
        const isOutage = error instanceof BerthError && error.code === "store_failed";
        if (!isOutage || this.#isClosed || attempt === ATTEMPTS_MAX) throw error;
      }
      await sleep(RETRY_DELAY_MS, undefined, { ref: false });
    }
  }

  async drain(): Promise<void> {
    this.#isClosed = true;
    await Promise.all(this.#last.values());
  }
}

const RETRY_DELAY_MS = 500;
/** 30 minutes: a node without its store stops serving earlier. */
const ATTEMPTS_MAX = 3_600;

/** Applies changes by other processes on the same store to the host. Returns a function that stops it. */
export function followChanges(store: Store, host: Host, tenancy: Tenancy, log: Log): () => Promise<void> {
  const onError = (error: unknown, tenant: string): void =>
    log.error({ err: error, tenant }, "a change by another process could not be applied");
  const [reloads, reviews] = [new TenantQueues(onError), new TenantQueues(onError)];
  const notifying = new Set<Promise<void>>();
  const reload = async (tenant: string): Promise<void> => {
    await tenancy.opening(tenant)?.catch(() => {});
    if (!tenancy.opening(tenant)) return;
    // Do not wait for the notification of listeners, which loads servers, before processing the next change.
    await new Promise<void>((resolve) => {
      const notified = host
        .reload(tenant, undefined, resolve)
        .catch((error: unknown) => onError(error, tenant))
        .finally(() => notifying.delete(notified))
        .finally(resolve);
      notifying.add(notified);
    });
  };
  const stop = store.onChange((changed) => {
    for (const { tenant, kind, name } of changed) if (kind === "secret") host.secretChanged(tenant, name);
    for (const { tenant, kind, name } of changed) {
      if (kind === "upstream") reviews.enqueue(tenant, () => host.upstreamReviewed(tenant, name));
    }
    const tenants = new Set(changed.flatMap(({ tenant, kind }) => (RELOADING_KINDS.has(kind) ? [tenant] : [])));
    for (const tenant of tenants) reloads.enqueue(tenant, () => reload(tenant));
  });
  return async () => {
    stop();
    await Promise.all([reloads.drain(), reviews.drain()]);
    await Promise.all(notifying);
  };
}

/** Kinds of names that determine the servers and their offers. */
const RELOADING_KINDS: ReadonlySet<NameKind> = new Set(["variable", "server", "visibility", "withdrawn"]);
