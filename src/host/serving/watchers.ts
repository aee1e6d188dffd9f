import { jsonBlockYielding, type Cid } from "../../lib/cid.ts";
import { createYielder } from "../../lib/event-loop.ts";
import type { AnyChangeListener, ChangeListener } from "../host.ts";
import type { Catalog, ServerChange } from "../offers/catalog.ts";

type ListKind = "tools" | "resources" | "prompts";

interface Watch {
  readonly listeners: Set<ChangeListener>;
  /** The contract that listeners have; undefined until the server is loaded. */
  contract: ContractCids | undefined;
  /** Serializes comparisons. */
  comparing: Promise<void>;
}

interface ContractCids extends Readonly<Record<ListKind, Cid>> {
  readonly contract: Cid;
}

interface PendingUpdates {
  readonly uris: Set<string>;
  hasOverflowed: boolean;
}

/** Pending resource updates of one server; more are dropped. */
export const UPDATES_MAX = 10_000;

/**
 * Notifies listeners of changed lists and resources of servers. A server may have thousands of listeners, so each change
 * is computed once for all of them.
 */
export class Watchers {
  readonly #tenants = new Map<string, Map<string, Watch>>();
  readonly #tenantListeners = new Map<string, Set<AnyChangeListener>>();
  /** Pending updates by tenant and server. */
  readonly #pending = new Map<string, PendingUpdates>();
  readonly #onError: (error: unknown) => void;
  readonly #onFull: (tenant: string, server: string) => void;
  #onTenant: (tenant: string) => void = () => {};

  /**
   * `onError` gets the errors of listeners. `onFull` is called when updates of a server are dropped, once until the
   * pending ones are delivered.
   */
  constructor(onError: (error: unknown) => void, onFull: (tenant: string, server: string) => void = () => {}) {
    this.#onError = onError;
    this.#onFull = onFull;
  }

  /** Calls `listener` with the tenant whenever a listener is added. */
  onTenant(listener: (tenant: string) => void): void {
    this.#onTenant = listener;
  }

  /** Tenants with listeners. */
  tenants(): string[] {
    return [...new Set([...this.#tenants.keys(), ...this.#tenantListeners.keys()])];
  }

  add(tenant: string, server: string, listener: ChangeListener): () => void {
    const servers = this.#tenants.get(tenant) ?? new Map<string, Watch>();
    this.#tenants.set(tenant, servers);
    this.#onTenant(tenant);
    const watch = servers.get(server) ?? { listeners: new Set(), contract: undefined, comparing: Promise.resolve() };
    servers.set(server, watch);
    // Wrapped, because the same function may be added twice.
    const own: ChangeListener = (change) => listener(change);
    watch.listeners.add(own);
    return () => {
      watch.listeners.delete(own);
      if (watch.listeners.size === 0 && servers.get(server) === watch) servers.delete(server);
      if (servers.size === 0 && this.#tenants.get(tenant) === servers) this.#tenants.delete(tenant);
    };
  }

  /** Watches all servers of a tenant without loading them. */
  addForTenant(tenant: string, listener: AnyChangeListener): () => void {
    const listeners = this.#tenantListeners.get(tenant) ?? new Set();
    this.#tenantListeners.set(tenant, listeners.add(listener));
    this.#onTenant(tenant);
    return () => {
      if (listeners.delete(listener) && listeners.size === 0) this.#tenantListeners.delete(tenant);
    };
  }

  /** Notifies listeners of all servers that one may have changed. */
  mayHaveChanged(tenant: string, server: string): void {
    for (const listener of this.#tenantListeners.get(tenant) ?? []) listener(server);
  }

  /** The watched servers of a tenant. */
  watched(tenant: string): string[] {
    return [...(this.#tenants.get(tenant)?.keys() ?? [])];
  }

  hasContract(tenant: string, server: string): boolean {
    return this.#tenants.get(tenant)?.get(server)?.contract !== undefined;
  }

  /** Notifies listeners of the lists that differ in `catalog`. Resolves when they have been called. */
  compare(tenant: string, server: string, catalog: Catalog): Promise<void> {
    const watch = this.#tenants.get(tenant)?.get(server);
    if (!watch) return Promise.resolve();
    watch.comparing = watch.comparing.then(() => this.#compare(watch, catalog));
    return watch.comparing;
  }

  async #compare(watch: Watch, { contract, contractCid }: Catalog): Promise<void> {
    const before = watch.contract;
    if (before?.contract === contractCid) return;
    const { tools, resources, resourceTemplates, prompts } = contract;
    const now = {
      contract: contractCid,
      tools: (await jsonBlockYielding(tools)).cid,
      resources: (await jsonBlockYielding({ resources, resourceTemplates })).cid,
      prompts: (await jsonBlockYielding(prompts)).cid,
    };
    watch.contract = now;
    if (!before) return;
    for (const kind of ["tools", "resources", "prompts"] as const) {
      if (before[kind] !== now[kind]) this.#notify(watch, { kind });
    }
  }

  /** Notifies listeners asynchronously, yielding to other calls. False when too many updates are pending. */
  resourceUpdated(tenant: string, server: string, uri: string): boolean {
    if (!this.#tenantListeners.has(tenant) && !this.#tenants.get(tenant)?.has(server)) return true;
    const key = JSON.stringify([tenant, server]);
    const pending = this.#pending.get(key);
    if (pending) {
      const fits = pending.uris.size < UPDATES_MAX || pending.uris.has(uri);
      if (fits) pending.uris.add(uri);
      else if (!pending.hasOverflowed) {
        pending.hasOverflowed = true;
        this.#onFull(tenant, server);
      }
      return fits;
    }
    const uris = new Set([uri]);
    this.#pending.set(key, { uris, hasOverflowed: false });
    setImmediate(() => void this.#notifyUpdated(tenant, server, key, uris));
    return true;
  }

  async #notifyUpdated(tenant: string, server: string, key: string, uris: Set<string>): Promise<void> {
    const yieldIfDue = createYielder();
    for (const uri of uris) {
      uris.delete(uri);
      const change: ServerChange = { kind: "resource", uri };
      for (const listener of this.#tenantListeners.get(tenant) ?? [])
        this.#call(() => listener(server, change), change);
      for (const listener of this.#tenants.get(tenant)?.get(server)?.listeners ?? []) {
        const yielding = yieldIfDue();
        if (yielding) await yielding;
        this.#call(listener, change);
      }
      const yielding = yieldIfDue();
      if (yielding) await yielding;
    }
    this.#pending.delete(key);
  }

  #notify(watch: Watch, change: ServerChange): void {
    for (const listener of watch.listeners) this.#call(listener, change);
  }

  #call(listener: ChangeListener, change: ServerChange): void {
    try {
      listener(change);
    } catch (error) {
      this.#onError(error);
    }
  }
}
