import type { JsonObject } from "../lib/json.ts";
import type { TenantSnapshot, TenantStaging } from "./tenant-copies.ts";

/**
 * The registry of tenants, which own the names in a store. It knows nothing of what a tenant owns, except that all of
 * it goes when the tenant is deleted. The tenant `default` always exists, is served, and cannot be deleted.
 */
export interface Tenants {
  find(name: string): Promise<Tenant | undefined>;

  /** Sorted by name. */
  list(): Promise<Tenant[]>;

  /** The tenant behind each mapped host name. */
  hosts(): Promise<ReadonlyMap<string, string>>;

  /** Rejects with `tenant_exists`, or `tenant_invalid` for an invalid name, or a host name that is invalid or taken. */
  create(name: string, settings: TenantSettings): Promise<Tenant>;

  /** Changes the given settings. Rejects with `tenant_not_found` or `tenant_invalid`. */
  change(name: string, settings: TenantSettings): Promise<Tenant>;

  /**
   * Removes the tenant with everything it has: names and their history, secrets, tokens, records, and the content that
   * no other tenant holds. Rejects with `tenant_not_found`, and with `tenant_invalid` for `default`.
   */
  delete(name: string, by: string): Promise<TenantRemains>;

  /** Everything that a tenant owns, to be read and closed. Rejects with `tenant_not_found`. */
  snapshot(name: string): Promise<TenantSnapshot>;

  /** Begins to assemble a tenant from a copy. Removes the leftovers of processes that ended during this. */
  stage(): Promise<TenantStaging>;

  /** True if a tenant has names or content, which would be lost if it was replaced. */
  hasAnything(name: string): Promise<boolean>;

  /**
   * Calls `listener` when a tenant was added, changed or removed: at once after a change here, soon after one
   * elsewhere.
   */
  onChange(listener: (name: string) => void): () => void;
}

export interface Tenant {
  readonly name: string;
  /** Milliseconds since the epoch. */
  readonly createdAt: number;
  /** When an import last replaced all that it had, later each time; null for never. */
  readonly replacedAt: number | null;
  /** The time from which none of it is served; null while it is. */
  readonly suspendedAt: number | null;
  /** Host names that select it, sorted, without a port. */
  readonly hosts: readonly string[];
  /** The tenant's own limits, by their names; others are as for every tenant. */
  readonly limits: JsonObject;
  /** The authorization server whose access tokens it accepts, as it was set; null for none. */
  readonly oauth: JsonObject | null;
  /** The field that went bad on the disk, which counts as unset. */
  readonly damaged?: "limits" | "oauth";
}

/** The remains of a deleted tenant. */
export interface TenantRemains {
  readonly names: number;
  /** Contents that are gone, because nobody else held them. */
  readonly contents: number;
}

export interface TenantSettings {
  /** The author, for its history. */
  readonly by: string;
  readonly suspended?: boolean;
  /** The complete list: a host name that is left out is no longer mapped. */
  readonly hosts?: readonly string[];
  readonly limits?: JsonObject;
  readonly oauth?: JsonObject | null;
}
