import type { JsonObject } from "../lib/json.ts";
import type { TenantSnapshot, TenantStaging } from "./tenant-copies.ts";

/**
 * The registry of tenants: who may own names in a store. It knows nothing of what a tenant owns but that all of it goes
 * when the tenant is deleted. The tenant `default` is always there, served, and cannot be deleted.
 */
export interface Tenants {
  find(name: string): Promise<Tenant | undefined>;

  /** Sorted by name. */
  list(): Promise<Tenant[]>;

  /** The tenant that each mapped host name stands for. */
  hosts(): Promise<ReadonlyMap<string, string>>;

  /** Rejects with `tenant_exists`, or `tenant_invalid` for a name or a host name that is none, or is taken. */
  create(name: string, settings: TenantSettings): Promise<Tenant>;

  /** Changes what `settings` has. Rejects with `tenant_not_found` or `tenant_invalid`. */
  change(name: string, settings: TenantSettings): Promise<Tenant>;

  /**
   * Removes the tenant with all that it has: names and their history, secrets, tokens, records, and the content that no
   * other tenant holds. Rejects with `tenant_not_found`, and with `tenant_invalid` for `default`.
   */
  delete(name: string, by: string): Promise<TenantRemains>;

  /** All that a tenant owns, to be read and closed. Rejects with `tenant_not_found`. */
  snapshot(name: string): Promise<TenantSnapshot>;

  /** To put a tenant together as it was elsewhere. Removes what processes have left that were ended over this. */
  stage(): Promise<TenantStaging>;

  /** Whether a tenant has names or content, which would be gone if it was put together anew. */
  hasAnything(name: string): Promise<boolean>;

  /** Calls `listener` when a tenant has come, changed or gone: at once after a change here, and soon after another's. */
  onChange(listener: (name: string) => void): () => void;
}

export interface Tenant {
  readonly name: string;
  /** Milliseconds since the epoch. */
  readonly createdAt: number;
  /** When an import has replaced all that it had, which is later each time; null for never. */
  readonly replacedAt: number | null;
  /** Since when nothing of it is served; null while it is. */
  readonly suspendedAt: number | null;
  /** Host names that select it, sorted, without a port. */
  readonly hosts: readonly string[];
  /** Limits of its own, by their names; what is not said here is as for every tenant. */
  readonly limits: JsonObject;
  /** The authorization server whose access tokens it takes, as it was set; null for none. */
  readonly oauth: JsonObject | null;
  /** Which of the two went bad on the disk, and is as if nothing had been said. */
  readonly damaged?: "limits" | "oauth";
}

/** What a deleted tenant had. */
export interface TenantRemains {
  readonly names: number;
  /** Contents that are gone, because nobody else held them. */
  readonly contents: number;
}

export interface TenantSettings {
  /** Who or what changes it, for its history. */
  readonly by: string;
  readonly suspended?: boolean;
  /** All of them: what is left out is mapped no more. */
  readonly hosts?: readonly string[];
  readonly limits?: JsonObject;
  readonly oauth?: JsonObject | null;
}
