import type { AuditEntry, AuditHead, AuditLink } from "../audit/audit-entry.ts";
import type { Cid } from "../lib/cid.ts";
import type { ForeignChange } from "./rules.ts";
import type { Steps } from "./steps.ts";
import type { NewRetainedCall, ServerValue } from "./store.ts";

/** The differences between the SQL of the stores. Both have the function `berth_now()`, the clock of the store. */
export interface Dialect {
  /** A condition: the column has one of the values of an array parameter. */
  oneOf(column: string, parameter: string): string;

  /** A table expression: the texts of an array parameter, in the column `value`. */
  texts(parameter: string): string;

  /** Columns of `content`: it is known to refer to no other content; it is the tarball of a package. */
  readonly isLeaf: string;
  readonly isPackage: string;

  /** A table of one row: `latest`, the number of the latest change of a name. */
  readonly changeCounter: string;

  /**
   * True where other processes learn from the row of the latest change, rather than from a counter, how far they have
   * read, so that it must stay.
   */
  readonly keepsLatestChange: boolean;

  /** Ends a SELECT: locks its rows, without those that another transaction has locked. Empty where one process writes. */
  readonly lockUnlocked: string;

  /** The ids of the first rows of a query for `id` and `bytes`, at least one, that one transaction may remove. */
  removable(query: string): string;

  /** The bytes of content, at least one content, that one transaction may remove. */
  readonly removedBytesMax: number;

  /** Writes values over those that are there, and grows the sums of their servers. */
  putValues(tenant: string, values: readonly WrittenValue[]): Steps<void>;

  /** Adds retained calls, and grows the sums of their servers. */
  addCalls(tenant: string, calls: readonly NewRetainedCall[]): Steps<void>;

  /**
   * Removes the rows whose ids a query selects, and subtracts them from the sums of their servers. Returns their number.
   * `size` is the counted size of a row, in SQL.
   */
  removeRows(
    table: "server_value" | "retained_call",
    size: string,
    ids: string,
    values: readonly unknown[],
  ): Steps<number>;

  /** Moves the claims on content of the tenant `$1`, and those about to be removed, to `$2`, which has none. */
  readonly moveContentClaims: readonly string[];

  /**
   * Removes a tenant's names, records, secrets unless it `keepsSecrets`, and those changes that fulfil a condition; returns
   * the number of names.
   */
  removeTenantRows(tenant: string, changes: string, keepsSecrets?: boolean): Steps<number>;

  /** A statement after which the remains of deleted tenants are overwritten, where the store does so. */
  readonly mustErase?: string;

  /** Marks the contents `$1`, CIDs, as leaves. */
  readonly addLeaves: string;

  /** Settles what becomes of noted contents, given their ids. */
  settleNoted(tenant: string, noted: SettledIds): Steps<void>;

  /** A column of the audit log as a value of this type, also where damage has changed the type of what is stored. */
  readonly stored: (column: string, type: "BLOB" | "TEXT" | "INTEGER") => string;

  /** The ends of chains, with the time, for a transaction that appends to them. New chains begin. */
  lockChainEnds(tenants: readonly string[]): Steps<ChainEnd[]>;

  /** Adds links in their order, and stores the new ends of their chains, with the bytes that they have grown by. */
  addLinks(links: readonly AddedLink[], ends: readonly ChainEnd[]): Steps<void>;

  /** Keeps others from appending, and waits until all that they have added is committed, where several processes write. */
  readonly lockChains?: string;
  /** Keeps others from removing, where several processes write. */
  readonly lockRetention?: string;
}

/** A value, and by how much it grows the sums of its server. */
export interface WrittenValue extends ServerValue {
  readonly grows: { readonly items: number; readonly bytes: number };
}

export interface SettledIds {
  /** The tenant refers to them again. */
  readonly back: readonly number[];
  /** They lose their note. */
  readonly gone: readonly number[];
  /** They lose their claim. */
  readonly hidden: readonly number[];
  /** Their grace period begins again, without a claim. */
  readonly later: readonly number[];
}

/** A link of the audit log, not yet stored. */
export type AddedLink = Omit<AuditLink, "chain" | "arrival" | "body"> & Pick<AuditEntry, "body">;

/** The end of a chain, and the bytes that it grows by. */
export interface ChainEnd extends AuditHead {
  readonly tenant: string;
  readonly at: number;
  readonly now: number;
  callBytes: number;
  otherBytes: number;
}

/** A row of the history of names. */
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

/** Adds changes to the history of names, after all that a transaction writes, and returns their numbers. */
export type RecordChanges = (changes: readonly NewChange[]) => Steps<number[]>;
