import { jsonBlockYielding, type Cid } from "../../lib/cid.ts";
import { createYielder } from "../../lib/event-loop.ts";
import type { AnyChangeListener, ChangeListener } from "../host.ts";
import type { Catalog, ServerChange } from "../offers/catalog.ts";

type Part = "tools" | "resources" | "prompts";

interface Watch {
  readonly listeners: Set<ChangeListener>;
  /** The contract that listeners have; undefined until the server is loaded. */
  known: Known | undefined;
  /** Serializes comparisons. */
  learning: Promise<void>;
}

interface Known extends Readonly<Record<Part, Cid>> {
  readonly contract: Cid;
}

interface Updates {
  readonly uris: Set<string>;
  areLeftOut: boolean;
}

/** Pending resource updates of one server; more are dropped. */
export const UPDATES_MAX = 10_000;

/**
 * Notifies listeners of changed lists and resources of servers. A server may have thousands of listeners, so each change
 * is computed once for all of them.
 */
export class Watchers {
  readonly #tenants = new Map<string, Map<string, Watch>>();
  readonly #ofAll = new Map<string, Set<AnyChangeListener>>();
  /** Pending updates by tenant and server. */
  readonly #updated = new Map<string, Updates>();
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
    return [...new Set([...this.#tenants.keys(), ...this.#ofAll.keys()])];
  }

  add(tenant: string, server: string, listener: ChangeListener): () => void {
    const servers = this.#tenants.get(tenant) ?? new Map<string, Watch>();
    this.#tenants.set(tenant, servers);
    this.#onTenant(tenant);
    const watch = servers.get(server) ?? { listeners: new Set(), known: undefined, learning: Promise.resolve() };
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
  addToAll(tenant: string, listener: AnyChangeListener): () => void {
    const listeners = this.#ofAll.get(tenant) ?? new Set();
    this.#ofAll.set(tenant, listeners.add(listener));
    this.#onTenant(tenant);
    return () => {
      if (listeners.delete(listener) && listeners.size === 0) this.#ofAll.delete(tenant);
    };
  }

  /** Notifies listeners of all servers that one may have changed. */
  mayBeAnother(tenant: string, server: string): void {
    for (const listener of this.#ofAll.get(tenant) ?? []) listener(server);
  }

  /** The watched servers of a tenant. */
  watched(tenant: string): string[] {
    return [...(this.#tenants.get(tenant)?.keys() ?? [])];
  }

  isKnown(tenant: string, server: string): boolean {
    return this.#tenants.get(tenant)?.get(server)?.known !== undefined;
  }

  /** Notifies listeners of the lists that differ in `catalog`. Resolves when they have been called. */
  learn(tenant: string, server: string, catalog: Catalog): Promise<void> {
    const watch = this.#tenants.get(tenant)?.get(server);
    if (!watch) return Promise.resolve();
    watch.learning = watch.learning.then(() => this.#learn(watch, catalog));
    return watch.learning;
  }

  async #learn(watch: Watch, { contract, contractCid }: Catalog): Promise<void> {
    const before = watch.known;
    if (before?.contract === contractCid) return;
    const { tools, resources, resourceTemplates, prompts } = contract;
    const now = {
      contract: contractCid,
      tools: (await jsonBlockYielding(tools)).cid,
      resources: (await jsonBlockYielding({ resources, resourceTemplates })).cid,
      prompts: (await jsonBlockYielding(prompts)).cid,
    };
    watch.known = now;
    if (!before) return;
    for (const kind of ["tools", "resources", "prompts"] as const) {
      if (before[kind] !== now[kind]) this.#tell(watch, { kind });
    }
  }

  /** Notifies listeners asynchronously, yielding to other calls. False when too many updates are pending. */
  resourceUpdated(tenant: string, server: string, uri: string): boolean {
    if (!this.#ofAll.has(tenant) && !this.#tenants.get(tenant)?.has(server)) return true;
    const key = JSON.stringify([tenant, server]);
    const waiting = this.#updated.get(key);
    if (waiting) {
      const hasRoom = waiting.uris.size < UPDATES_MAX || waiting.uris.has(uri);
      if (hasRoom) waiting.uris.add(uri);
      else if (!waiting.areLeftOut) {
        waiting.areLeftOut = true;
        this.#onFull(tenant, server);
      }
      return hasRoom;
    }
    const uris = new Set([uri]);
    this.#updated.set(key, { uris, areLeftOut: false });
    setImmediate(() => void this.#tellUpdated(tenant, server, key, uris));
    return true;
  }

  async #tellUpdated(tenant: string, server: string, key: string, uris: Set<string>): Promise<void> {
    const takeTurns = createYielder();
    for (const uri of uris) {
      uris.delete(uri);
      const change: ServerChange = { kind: "resource", uri };
      for (const listener of this.#ofAll.get(tenant) ?? []) this.#hear(() => listener(server, change), change);
      for (const listener of this.#tenants.get(tenant)?.get(server)?.listeners ?? []) {
        const turn = takeTurns();
        if (turn) await turn;
        this.#hear(listener, change);
      }
      const turn = takeTurns();
      if (turn) await turn;
    }
    this.#updated.delete(key);
  }

  #tell(watch: Watch, change: ServerChange): void {
    for (const listener of watch.listeners) this.#hear(listener, change);
  }

  #hear(listener: ChangeListener, change: ServerChange): void {
    try {
      listener(change);
    } catch (error) {
      this.#onError(error);
    }
  }
}
