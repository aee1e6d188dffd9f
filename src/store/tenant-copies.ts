import type { Block, Cid } from "../lib/cid.ts";
import type { JsonObject } from "../lib/json.ts";
import type { NameChange, NameKind } from "./store.ts";

/** A change of a name, with its time and author. */
export interface NamedChange extends NameChange {
  readonly kind: Exclude<NameKind, "secret">;
  readonly name: string;
}

/**
 * Everything that a tenant owned at one moment, however long reading takes and whatever changes meanwhile. Secrets
 * appear by name alone; tokens, host names and expiring records are left out.
 */
export interface TenantSnapshot {
  /** The tenant's own limits. */
  readonly limits: JsonObject;
  /** When one of its names was last changed, in milliseconds since the epoch; null when none ever was. */
  readonly changedAt: number | null;
  /** Sorted by CID. Throws `content_corrupt`. */
  contents(): Iterable<Block>;
  /** Sorted by kind and name; the changes of one name from the first on. */
  changes(): Iterable<NamedChange>;
  secrets(): readonly string[];
  close(): void;
}

/** A tenant that is being assembled where nobody sees it. Unpublished parts are gone once it is closed. */
export interface TenantStaging {
  /** Throws `content_corrupt` for bytes that do not match the CID. */
  put(block: Block): void;
  /** Reads only content that was put here. */
  content(cid: Cid): Uint8Array | undefined;
  /** Called in the order in which the changes happened; the last one of a name is its meaning. */
  add(change: NamedChange): void;
  /**
   * Makes a tenant what was put here, at one moment. Its previous data of these kinds goes; its secrets, tokens and
   * host names stay. Rejects with `tenant_exists` for a tenant that has anything and may not be replaced, with
   * `tenant_invalid` for an invalid name, and with `content_missing` for a name that stands for missing content.
   */
  publish(name: string, settings: PublishSettings): Promise<void>;
  close(): Promise<void>;
}

export interface PublishSettings {
  /** The author, for the tenant's history. */
  readonly by: string;
  readonly limits: JsonObject;
  readonly replace: boolean;
}
