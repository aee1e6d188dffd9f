import { fixed } from "../../limits/fixed.ts";
import type { Limits } from "../../limits/limits.ts";
import { fingerprint, type Directory, type DirectoryEntry } from "../directory/directory.ts";
import type { Catalog } from "../offers/catalog.ts";

interface Slot {
  readonly listed: DirectoryEntry;
  readonly catalog: Catalog;
  usedSinceLastSweep: boolean;
}

/** Maximum number of cached catalogs. */
export const cacheBounds = fixed({ catalogs: 512 });

/**
 * Loaded catalogs, limited in number and total size, with second-chance eviction, so that a lookup only sets a flag.
 * Concurrent loads of a server share one promise.
 */
export class CatalogCache {
  readonly #bytesMax: number;
  readonly #tenants = new Map<string, Map<string, Slot>>();
  readonly #loading = new Map<string, { listed: DirectoryEntry; promise: Promise<Catalog> }>();
  #size = 0;
  #bytes = 0;

  constructor({ catalogBytes }: Pick<Limits, "catalogBytes">) {
    this.#bytesMax = catalogBytes;
  }

  get(tenant: string, server: string): Catalog | undefined {
    const slot = this.#tenants.get(tenant)?.get(server);
    if (!slot) return undefined;
    slot.usedSinceLastSweep = true;
    return slot.catalog;
  }

  /** Like `get`, but does not count as a use of the catalog. */
  peek(tenant: string, server: string): Catalog | undefined {
    return this.#tenants.get(tenant)?.get(server)?.catalog;
  }

  /** With `ifRoom`, caches the catalog only if no other must be evicted. */
  load(
    tenant: string,
    server: string,
    listed: DirectoryEntry,
    load: () => Promise<Catalog>,
    { ifRoom = false }: { ifRoom?: boolean } = {},
  ): Promise<Catalog> {
    const key = JSON.stringify([tenant, server]);
    const pending = this.#loading.get(key);
    if (pending?.listed === listed) return pending.promise;
    const promise = load()
      .then((catalog) => {
        const isCurrent = this.#loading.get(key)?.promise === promise;
        if (isCurrent && !(ifRoom && this.#exceeds(1, catalogBytes(catalog)))) {
          this.#put(tenant, server, { listed, catalog, usedSinceLastSweep: !ifRoom });
        }
        return catalog;
      })
      .finally(() => {
        if (this.#loading.get(key)?.promise === promise) this.#loading.delete(key);
      });
    this.#loading.set(key, { listed, promise });
    return promise;
  }

  /** Removes a server, also while it is being loaded. */
  drop(tenant: string, server: string): void {
    const slots = this.#tenants.get(tenant);
    if (slots) this.#remove(slots, server);
    this.#loading.delete(JSON.stringify([tenant, server]));
  }

  /** Drops catalogs of servers whose directory entry has changed. */
  keepOnly(tenant: string, directory: Directory): void {
    const slots = this.#tenants.get(tenant) ?? new Map<string, Slot>();
    for (const [server, slot] of slots) {
      const listed = directory.servers.get(server);
      if (listed === slot.listed || (listed?.enabled && fingerprint(listed) === fingerprint(slot.listed))) continue;
      this.#remove(slots, server);
    }
    if (slots.size === 0) this.#tenants.delete(tenant);
    for (const key of this.#loading.keys()) {
      if ((JSON.parse(key) as string[])[0] === tenant) this.#loading.delete(key);
    }
  }

  #put(tenant: string, server: string, slot: Slot): void {
    const slots = this.#tenants.get(tenant) ?? new Map<string, Slot>();
    this.#tenants.set(tenant, slots);
    this.#remove(slots, server);
    slots.set(server, slot);
    this.#size += 1;
    this.#bytes += catalogBytes(slot.catalog);
    while (this.#exceeds(0, 0) && this.#size > 1) this.#evictOne();
  }

  #exceeds(moreCatalogs: number, moreBytes: number): boolean {
    return this.#size + moreCatalogs > cacheBounds.catalogs || this.#bytes + moreBytes > this.#bytesMax;
  }

  #remove(slots: Map<string, Slot>, server: string): void {
    const slot = slots.get(server);
    if (!slot) return;
    slots.delete(server);
    this.#size -= 1;
    this.#bytes -= catalogBytes(slot.catalog);
  }

  #evictOne(): void {
    for (const slots of this.#tenants.values()) {
      for (const [server, slot] of slots) {
        if (!slot.usedSinceLastSweep) return this.#remove(slots, server);
        slot.usedSinceLastSweep = false;
        slots.delete(server);
        slots.set(server, slot);
      }
    }
  }
}

function catalogBytes({ heldBytes = 0 }: Catalog): number {
  return heldBytes;
}
