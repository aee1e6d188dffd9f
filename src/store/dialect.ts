import type { AuditEntry, AuditHead, AuditLink } from "../audit/audit-entry.ts";
import type { Cid } from "../lib/cid.ts";
import type { ForeignChange } from "./rules.ts";
import type { Steps } from "./steps.ts";
import type { NewRetainedCall, ServerValue } from "./store.ts";

/** The SQL differences between the stores. Both define the function `berth_now()`, the clock of the store. */
export interface Dialect {
  /** A condition that the column has one of the values of an array parameter. */
  oneOf(column: string, parameter: string): string;

  /** A table expression with the texts of an array parameter in the column `value`. */
  textTable(parameter: string): string;

  /** Conditions on `content`: it is known to refer to no other content, and it is the tarball of a package. */
  readonly isLeaf: string;
  readonly isPackage: string;

  /** A table with a single row: `latest`, the number of the latest change of a name. */
  readonly changeCounter: string;

  /** True if other processes read their progress from the row of the latest change, so that it must remain. */
  readonly keepsLatestChange: boolean;

  /** Appended to a SELECT: locks its rows and skips those that are locked. Empty in a store with a single writer. */
  readonly skipLocked: string;

  /**
   * Selects the ids of the first rows of a query for `id` and `bytes` that one transaction may remove; at least one.
   */
  selectRemovable(query: string): string;

  /** The total size of contents that one transaction may remove, but at least one content. */
  readonly removedBytesMax: number;

  /** Inserts or replaces values and updates the sums of their servers. */
  putValues(tenant: string, values: readonly WrittenValue[]): Steps<void>;

  /** Adds retained calls and updates the sums of their servers. */
  addCalls(tenant: string, calls: readonly NewRetainedCall[]): Steps<void>;

  /**
   * Removes the rows whose ids a query selects, and subtracts them from the sums of their servers. Returns their
   * number. `size` is an SQL expression for the counted size of a row.
   */
  removeRows(
    table: "server_value" | "retained_call",
    size: string,
    ids: string,
    values: readonly unknown[],
  ): Steps<number>;

  /** Moves the claims on content, and those about to be removed, from tenant `$1` to `$2`, which has none. */
  readonly moveContentClaims: readonly string[];

  /**
   * Removes a tenant's names, records, secrets unless `keepsSecrets`, and matching changes. Returns the number of
   * names.
   */
  removeTenantRows(tenant: string, changes: string, keepsSecrets?: boolean): Steps<number>;

  /** A statement that requests to overwrite the remains of deleted tenants, if the store does that. */
  readonly requestErasure?: string;

  /** Marks the contents with the CIDs `$1` as leaves. */
  readonly addLeaves: string;

  /** Applies the decisions about noted contents, given their ids. */
  settleNoted(tenant: string, noted: SettledIds): Steps<void>;

  /** Casts a column of the audit log to this type, in case damage has changed the type of a stored value. */
  readonly typed: (column: string, type: "BLOB" | "TEXT" | "INTEGER") => string;

  /** Locks and returns the ends of chains, for a transaction that appends to them. Creates missing chains. */
  lockChainEnds(tenants: readonly string[]): Steps<ChainEnd[]>;

  /** Adds links in order, and stores the new ends of their chains and the bytes by which they have grown. */
  addLinks(links: readonly AddedLink[], ends: readonly ChainEnd[]): Steps<void>;

  /** Prevents other processes from appending, and waits until their appended links are committed. */
  readonly lockChains?: string;
  /** Prevents other processes from removing links. */
  readonly lockRetention?: string;
}

/** A value, and by how much it increases the sums of its server. */
export interface WrittenValue extends ServerValue {
  readonly growth: { readonly items: number; readonly bytes: number };
}

export interface SettledIds {
  /** Referenced by the tenant again. */
  readonly reclaimed: readonly number[];
  /** Their notes are removed. */
  readonly removed: readonly number[];
  /** Their claims are removed. */
  readonly unclaimed: readonly number[];
  /** Their grace period starts again, without a claim. */
  readonly restarted: readonly number[];
}

export type AddedLink = Omit<AuditLink, "chain" | "arrival" | "body"> & Pick<AuditEntry, "body">;

/** The end of a chain, and the bytes by which it grows. */
export interface ChainEnd extends AuditHead {
  readonly tenant: string;
  readonly at: number;
  readonly now: number;
  callBytes: number;
  otherBytes: number;
}

export interface NameChangeRow {
  readonly id: number;
  readonly kind: string;
  readonly name: string;
  readonly cid: Cid | null;
  readonly changedAt: number;
}

/** A change of a name, not yet numbered. */
export interface NewChange {
  readonly tenant: string;
  readonly kind: ForeignChange["kind"];
  readonly name: string;
  readonly cid: string | null;
  readonly changedAt: number;
  readonly by: string;
}

/** Adds changes to the history of names, as the last writes of a transaction. Returns their numbers. */
export type RecordChanges = (changes: readonly NewChange[]) => Steps<number[]>;
