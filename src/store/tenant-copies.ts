import type { Block, Cid } from "../lib/cid.ts";
import type { JsonObject } from "../lib/json.ts";
import type { NameChange, NameKind } from "./store.ts";

/** What a name was changed to, with when and by whom. */
export interface NamedChange extends NameChange {
  readonly kind: Exclude<NameKind, "secret">;
  readonly name: string;
}

/**
 * All that a tenant owns as it stood at one moment, however long the reading takes and whatever is changed meanwhile.
 * Secrets are here by name alone; tokens, host names, and what expires by itself are not.
 */
export interface TenantSnapshot {
  /** Limits of its own. */
  readonly limits: JsonObject;
  /** When one of its names was last changed, in milliseconds since the epoch; null when none ever was. */
  readonly changedAt: number | null;
  /** Sorted by CID. Throws `content_corrupt`. */
  contents(): Iterable<Block>;
  /** Sorted by kind and name; those of one name from its first on. */
  changes(): Iterable<NamedChange>;
  secrets(): readonly string[];
  close(): void;
}

/** A tenant that is put together where nobody sees it. What is not published is gone once it is closed. */
export interface TenantStaging {
  /** Throws `content_corrupt` for bytes that are not what the CID says. */
  put(block: Block): void;
  /** Of what was put here. */
  content(cid: Cid): Uint8Array | undefined;
  /** In the order in which they happened; the last one of a name is what it means. */
  add(change: NamedChange): void;
  /**
   * Makes a tenant what was put here, at one moment. What it had of the same goes; its secrets, tokens and host names
   * stay. Rejects with `tenant_exists` for one that has anything and is not to be replaced, with `tenant_invalid` for a
   * name that is none, and with `content_missing` for a name that stands for what was not put.
   */
  publish(name: string, settings: PublishSettings): Promise<void>;
  close(): Promise<void>;
}

export interface PublishSettings {
  /** Who or what does it, for the tenant's history. */
  readonly by: string;
  readonly limits: JsonObject;
  readonly replace: boolean;
}
