import type { AuditLinks } from "../audit/entry.ts";
import type { Block, Cid } from "../lib/cid.ts";
import type { Tenants } from "./tenants.ts";
import type { TokenRecords } from "./tokens.ts";

/**
 * The contract of every store: content by CID, names per tenant with their history, and derived results.
 * It owns durability and integrity. It knows nothing of servers, of MCP or of HTTP.
 *
 * Bytes are verified against their CID before they are written and after they are read
 * (`content_corrupt` if they do not match). A tenant reads only the content that it put or was given.
 */
export interface Store {
  /** Who may own names here. */
  readonly tenants: Tenants;

  /** Who may use what here. */
  readonly tokens: TokenRecords;

  /** What happened here. Every change below that moves a name is recorded with it, or does not happen. */
  readonly audit: AuditLinks;

  /** The bytes of `cid`, or undefined where this tenant does not have it. Rejects with `content_corrupt`. */
  content(tenant: string, cid: Cid): Promise<Uint8Array | undefined>;

  /** What a name means now, or undefined. */
  name(tenant: string, kind: NameKind, name: string): Promise<NameRecord | undefined>;

  /** All names of one kind, sorted by name (code-unit order). */
  names(tenant: string, kind: NameKind): Promise<NameRecord[]>;

  /**
   * The number of the latest change of names, of all tenants, and which names of these kinds the tenant changed after
   * the one numbered `since`, each once. Undefined where that cannot be told: everything may be another.
   */
  changesAfter(tenant: string, kinds: readonly NameKind[], since: number): Promise<NameChanges | undefined>;

  /** The number of the latest change of names, of all tenants. */
  latestChange(): Promise<number>;

  /** Every meaning that a name has had, or the newest `max`, newest first, deletions included (`cid: null`). */
  history(tenant: string, kind: NameKind, name: string, max?: number): Promise<NameChange[]>;

  /** True where a name means, or once meant, `cid`. */
  had(tenant: string, kind: NameKind, name: string, cid: Cid): Promise<boolean>;

  /**
   * One transaction: all of it is durable when the promise resolves, or nothing of it happened.
   * Rejects with `name_moved` when an `expected` CID is not what stands, and with `content_missing` when a name
   * is set to a CID that the tenant neither has nor puts in this change.
   */
  change(tenant: string, change: Change): Promise<void>;

  /**
   * Calls `listener` within a second after another process has changed names, with those names; what this store
   * changed itself is not told. Gives the function that ends it.
   */
  onChange(listener: (changed: readonly ChangedName[]) => void): () => void;

  /**
   * Calls `listener` within a second after another process has put another store in the place of this one: nothing that
   * was read of it before needs to be true any more. Gives the function that ends it.
   */
  onReplaced(listener: () => void): () => void;

  /**
   * Results that are a pure function of their key (discovery, bundles): shared by all tenants, never changed. Whoever puts
   * one holds it, and it stays as long as any tenant does.
   */
  derived(key: string): Promise<Uint8Array | undefined>;
  putDerived(tenant: string, entries: readonly DerivedEntry[]): Promise<void>;

  /** Has a tenant hold results that are there; false, and it holds none of them, when one is not. */
  holdDerived(tenant: string, keys: readonly string[]): Promise<boolean>;

  /** What changes often and expires by itself; undefined when it is not there, or not any more. */
  record(tenant: string, kind: RecordKind, key: string): Promise<StoredRecord | undefined>;

  /**
   * Writes a record that still has the revision `expected` (0: that is not there), and gives its new revision;
   * undefined, and nothing written, when someone else was first.
   */
  putRecord(tenant: string, kind: RecordKind, key: string, put: RecordPut): Promise<number | undefined>;

  /**
   * As `putRecord` for several at once: the new revision of each, undefined for each where someone else was first.
   * Soon to be durable: what is written outlives this process from then on, and a power cut a little later.
   */
  putRecords(
    tenant: string,
    kind: RecordKind,
    puts: readonly KeyedRecordPut[],
  ): Promise<readonly (number | undefined)[]>;

  /** Saves something as a change is saved, and keeps nothing of it. Rejects when a change could not be saved and kept. */
  check(): Promise<void>;

  /** Bytes on the disk. */
  size(): Promise<number>;

  close(): Promise<void>;
}

/** Secrets, sealed by whoever has the key: the store has none. What is replaced or removed is not kept. */
export interface SecretStore {
  /** What is sealed under a name, or undefined. */
  secret(tenant: string, name: string): Promise<SealedSecret | undefined>;

  /** All of a tenant, sorted by name (code-unit order). */
  secrets(tenant: string): Promise<SealedSecret[]>;

  /** The key that all secrets of all tenants are sealed with; undefined while there is no secret. */
  secretKeyId(): Promise<string | undefined>;

  /**
   * False, and nothing is written, when what is there is sealed with another key, the secret itself included: its key may
   * have been changed since it was asked for. Other processes hear of the name.
   */
  putSecret(tenant: string, put: SecretPut): Promise<boolean>;

  /** False when there is none. */
  removeSecret(tenant: string, name: string, by: string): Promise<boolean>;

  /**
   * Writes what `reseal` makes of the secrets of all tenants, in one transaction with which no other process's change
   * interleaves. What it throws undoes everything. When and by whom a secret was changed stays as it is. With a `note`
   * it is recorded that the key was changed.
   */
  resealSecrets(
    reseal: (secrets: readonly SealedSecret[]) => readonly SealedSecret[],
    note?: { readonly by: string },
  ): Promise<void>;
}

export interface SealedSecret {
  readonly tenant: string;
  readonly name: string;
  readonly keyId: string;
  readonly sealed: Uint8Array;
  /** Milliseconds since the epoch. */
  readonly changedAt: number;
  readonly by: string;
}

export interface SecretPut extends Pick<SealedSecret, "name" | "keyId" | "sealed" | "by"> {
  /** Asked in the same step where it is the first secret of all: a change of keys meanwhile may have dropped the key. */
  readonly isKeyHeld?: () => boolean;
}

export type RecordKind = "task" | "session" | "stream";

export interface StoredRecord {
  readonly value: string;
  readonly revision: number;
}

export interface RecordPut {
  readonly value: string;
  readonly expected: number;
  /** Milliseconds since the epoch. What lies in the past removes the record. */
  readonly expiresAt: number;
}

export interface KeyedRecordPut extends RecordPut {
  readonly key: string;
}

/**
 * `visibility`: which tools and prompts a server hides; `upstream`: what is approved of one of others;
 * `withdrawn`: which of its releases nobody is given any more. By its name.
 * `secret` has a history of changes and no meaning: see `SecretStore`.
 */
export type NameKind = "variable" | "server" | "secret" | "release" | "image" | "visibility" | "upstream" | "withdrawn";

export interface NameRecord {
  readonly kind: NameKind;
  readonly name: string;
  readonly cid: Cid;
  /** Milliseconds since the epoch. */
  readonly changedAt: number;
}

export interface ChangedName {
  readonly tenant: string;
  readonly kind: NameKind;
  readonly name: string;
}

export interface NameChanges {
  readonly latest: number;
  readonly changed: readonly { readonly kind: NameKind; readonly name: string }[];
}

export interface NameChange {
  readonly cid: Cid | null;
  readonly changedAt: number;
  /** Who or what changed it: `image`, `page`, `api`, … */
  readonly by: string;
}

export interface DerivedEntry {
  readonly key: string;
  readonly block: Block;
}

export interface Change {
  readonly by: string;
  /** What a person meant to change, which may stand behind names of other kinds. For the audit log alone. */
  readonly subject?: ChangeSubject;
  readonly put?: readonly Block[];
  readonly set?: readonly NameMove[];
  /** Results that belong to it, as `putDerived` would put them. */
  readonly derived?: readonly DerivedEntry[];
  /** Refused with `storage_full` when the tenant would have a claim on more bytes of content and results than this. */
  readonly storedBytesMax?: number;
}

export interface ChangeSubject {
  /** `contract`: what is approved of a server of others. */
  readonly kind: "variable" | "definition" | "entry" | "release" | "contract" | "withdrawal";
  readonly name: string;
  /** That callers of it break was known, and allowed. */
  readonly breaking?: boolean;
}

export interface NameMove {
  readonly kind: NameKind;
  readonly name: string;
  /** The new meaning; null deletes the name and keeps its history. */
  readonly cid: Cid | null;
  /** When given, the change is refused unless the name means this now (null: does not exist). */
  readonly expected?: Cid | null;
}
