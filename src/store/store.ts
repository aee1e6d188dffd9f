import type { AuditKind, AuditLinks } from "../audit/audit-entry.ts";
import type { Block, Cid } from "../lib/cid.ts";
import type { JsonObject } from "../lib/json.ts";
import type { NodeStore } from "../lib/node-store.ts";
import type { Records } from "../lib/records.ts";

/**
 * The contract of every store: content by CID, names per tenant with their history, derived results, and records that
 * expire. It owns durability and integrity, and knows nothing of servers, MCP or HTTP.
 *
 * Bytes are verified against their CID before they are written and after they are read (`content_corrupt` if they do
 * not match). A tenant can read only content that it has put or received.
 */
export interface Store extends Records {
  /** The registry of tenants, which own the names. */
  readonly tenants: Tenants;

  readonly tokens: TokenRecords;

  readonly values: ValueStore;

  readonly retainedCalls: RetainedCallStore;

  /** The coordination of the processes that serve from this store. */
  readonly nodes: NodeStore;

  /** The audit log. Each change below that moves a name is recorded in the same transaction. */
  readonly audit: AuditLinks;

  /** The bytes of `cid`; undefined if the tenant does not have it. Rejects with `content_corrupt`. */
  content(tenant: string, cid: Cid): Promise<Uint8Array | undefined>;

  /** The same for many CIDs. Leaves out contents that are missing or damaged. */
  contents(tenant: string, cids: readonly Cid[]): Promise<ReadonlyMap<Cid, Uint8Array>>;

  /** The current meaning of a name; undefined if it has none. */
  name(tenant: string, kind: NameKind, name: string): Promise<NameRecord | undefined>;

  /** All names of one kind, sorted by name (code-unit order). */
  names(tenant: string, kind: NameKind): Promise<NameRecord[]>;

  /**
   * All names of some kinds, sorted, and some individual names, at one moment; with the number of the latest change, of
   * any tenant, that they include.
   */
  meanings(tenant: string, asked: NameQuery): Promise<NameSnapshot>;

  /**
   * The number of the latest change of names, of all tenants, and the names of these kinds that the tenant changed
   * after change `since`, without duplicates. Undefined if that is unknown: everything may have changed.
   */
  changesAfter(tenant: string, kinds: readonly NameKind[], since: number): Promise<NameChanges | undefined>;

  /** The number of the latest change of names, of all tenants. */
  latestChange(): Promise<number>;

  /** The meanings that a name has had, newest first, or the newest `max` of them. Deletions have the CID null. */
  history(tenant: string, kind: NameKind, name: string, max?: number): Promise<NameChange[]>;

  /** True if a name means, or ever meant, `cid`. */
  had(tenant: string, kind: NameKind, name: string, cid: Cid): Promise<boolean>;

  /**
   * A single transaction, which is durable when the promise resolves. Rejects with `name_conflict` if an `expected` CID
   * is not the current one, and with `content_missing` if a name is set to a CID that the tenant neither has nor puts
   * in this change. Resolves with the numbers of the changes of names, in order and consecutive: if the first one
   * directly follows the latest change that a reader knows, the reader has missed no change in between. A name that
   * already has the meaning gets no number.
   */
  change(tenant: string, change: Change): Promise<readonly number[]>;

  /**
   * Calls `listener` with the names that another process has changed, within a second after the change. Does not report
   * changes of this process, or changes that reads after this call already see. Returns a function that stops it.
   */
  onChange(listener: (changed: readonly ChangedName[]) => void): () => void;

  /**
   * Calls `listener` within a second after another process has replaced this store: anything read before may be
   * outdated. Returns a function that stops it.
   */
  onReplaced(listener: () => void): () => void;

  /**
   * Results that are a pure function of their key (discovery, bundles), shared by all tenants and immutable. A tenant
   * that puts one claims it, and it remains as long as any tenant claims it.
   */
  derived(key: string): Promise<Uint8Array | undefined>;
  putDerived(tenant: string, entries: readonly DerivedEntry[]): Promise<void>;

  /** Makes a tenant claim existing results. Resolves with false, and claims none of them, if one is missing. */
  holdDerived(tenant: string, keys: readonly string[]): Promise<boolean>;

  /** The time in milliseconds for which changes of other processes may have been missed; 0 if that is impossible. */
  unheardMs(): number;

  /** Writes and rolls back a trial change. Rejects if changes could not be stored. */
  check(): Promise<void>;

  size(): Promise<number>;

  /** The bytes that a tenant stores, by kind. */
  use(tenant: string): Promise<StorageUsage>;

  /**
   * Removes what nothing refers to, in short steps. Never removes the current meaning of a name, a meaning within the
   * retained history, or anything that such content refers to. Unreferenced content first waits for a grace period, in
   * which a change may refer to it again; then its tenant can no longer read it; after a second grace period it is
   * removed. An interrupted collection leaves the rest to the next one. Audit records are not affected.
   */
  collect(order: CollectionOptions): Promise<CollectionResult>;

  close(): Promise<void>;
}

/** The kinds of values, each of one feature. They also name audit records, sums, and lines of a tenant's file. */
export const valueKinds = ["state"] as const satisfies readonly AuditKind[];

export type ValueKind = (typeof valueKinds)[number];

/**
 * The values that servers store, by tenant, kind, server name and key. They change often, so they have no history and
 * are never cached. Every write is on disk when its promise resolves. Callers check keys and values.
 */
export interface ValueStore {
  /** Undefined if there is none or it has expired. */
  get(tenant: string, kind: ValueKind, server: string, key: string): Promise<ValueEntry | undefined>;

  /**
   * The keys that begin with `prefix`, sorted by code point. A page may be short or empty and still have a next one.
   */
  list(tenant: string, kind: ValueKind, server: string, part: ValuePart): Promise<ValuePage>;

  /**
   * Returns the new version, which is greater than any that a key of the server ever had. Undefined, without writing
   * anything, if the key's version is not `expected`. Rejects with the code of the exceeded limit.
   */
  set(tenant: string, kind: ValueKind, server: string, key: string, put: ValuePut): Promise<number | undefined>;

  /** False if there is none. Undefined, without deleting anything, if its version is not `expected`. */
  delete(
    tenant: string,
    kind: ValueKind,
    server: string,
    key: string,
    removal?: ValueRemoval,
  ): Promise<boolean | undefined>;

  /** Deletes all values of a server. Returns the number of keys, including expired ones. */
  clear(tenant: string, kind: ValueKind, server: string, by: string): Promise<number>;

  /**
   * The size of each server's values, sorted by name (code-unit order). Includes expired ones that are not yet removed.
   */
  sizes(tenant: string, kind: ValueKind): Promise<ValueSize[]>;
}

export interface ValueFacts {
  readonly version: number;
  /** Milliseconds since the epoch. */
  readonly changedAt: number;
  /** Null for a value without expiry. */
  readonly expiresAt: number | null;
  /** True for JSON, encoded as UTF-8; false for bytes. */
  readonly isJson: boolean;
}

export interface ValueEntry extends ValueFacts {
  readonly value: Uint8Array;
}

/** A value of one of a tenant's servers. */
export interface ServerValue extends ValueEntry {
  readonly kind: ValueKind;
  readonly server: string;
  readonly key: string;
}

export interface ValuePart {
  readonly prefix: string;
  /** The last key of the previous page. */
  readonly after?: string | undefined;
  readonly max: number;
  /** Returns values up to this total size, but at least one. */
  readonly valueBytesMax?: number | undefined;
}

export interface ValuePage {
  readonly items: readonly ValueItem[];
  /** Where the next page begins; undefined on the last page. */
  readonly next: string | undefined;
}

export interface ValueItem extends ValueFacts {
  readonly key: string;
  readonly bytes: number;
  /** Only if values were requested. */
  readonly value?: Uint8Array;
}

export interface ValuePut extends ValueRemoval, Pick<ValueEntry, "value" | "isJson" | "expiresAt"> {
  readonly room: ValueQuota;
}

export interface ValueRemoval {
  /** The version that the key must have; 0 if it must not exist. */
  readonly expected?: number | undefined;
  /** The person who makes the change, for the audit log. A server's own writes are not recorded. */
  readonly by?: string | undefined;
}

/** The limits of a kind for a server and a tenant. Bytes are those of keys and values. */
export interface ValueQuota {
  readonly keysPerServer: number;
  readonly bytesPerServer: number;
  readonly bytesPerTenant: number;
  /** The limit on everything that the tenant stores, of all kinds. */
  readonly storedBytesMax?: number | undefined;
  /** The error code when a limit is exceeded, and the names of the settings for its message. */
  readonly code: StorageFullCode;
  readonly settings: { readonly server: string; readonly tenant: string };
}

export interface ValueSize {
  readonly server: string;
  readonly keys: number;
  readonly bytes: number;
}

/**
 * The retained calls, by tenant and server, until they expire. Writes survive the end of this process immediately, and
 * a power cut after a short time. The store does not interpret their bodies.
 */
export interface RetainedCallStore {
  /**
   * Adds calls of one tenant, and removes the oldest ones above the limits. Rejects with `storage_full`, without adding
   * any, if the tenant would store too much.
   */
  add(tenant: string, calls: readonly NewRetainedCall[], room: RetainedCallQuota): Promise<void>;

  /** Newest first, without bodies and without expired calls. */
  list(tenant: string, server: string, part: RetainedCallPart): Promise<RetainedCallPage>;

  /** Undefined if there is none or it has expired. */
  get(tenant: string, server: string, id: number): Promise<RetainedCall | undefined>;

  /** The servers of all tenants that have retained calls. */
  servers(): Promise<readonly RetainingServer[]>;

  /** Removes the calls of a server that began before a time, or all of them, in short steps. Returns their number. */
  remove(tenant: string, server: string, before?: number): Promise<number>;

  /** Removes the expired calls of all tenants, in short steps. Returns their number. */
  removeExpired(): Promise<number>;
}

export interface RetainedCallFacts {
  /** Never reused, even after the call is removed. */
  readonly id: number;
  /** When it began, in milliseconds since the epoch. */
  readonly at: number;
  readonly tool: string;
  readonly outcome: string;
  readonly micros: number;
  /** Null if no token was required. */
  readonly principal: string | null;
}

export interface RetainedCall extends RetainedCallFacts {
  readonly body: string;
}

export interface NewRetainedCall extends Omit<RetainedCall, "id"> {
  readonly server: string;
  /** Milliseconds since the epoch. */
  readonly expiresAt: number;
}

/** The limits for a server and a tenant. Bytes are those of bodies. */
export interface RetainedCallQuota {
  readonly callsPerServer: number;
  readonly bytesPerTenant: number;
  /** The limit on everything that the tenant stores, of all kinds. */
  readonly storedBytesMax?: number | undefined;
}

export interface RetainedCallPart {
  readonly max: number;
  /** The last call of the previous page. */
  readonly after?: Pick<RetainedCallFacts, "at" | "id"> | undefined;
  readonly tool?: string | undefined;
  readonly outcomes?: readonly string[] | undefined;
  /** Bounds on when calls began, in milliseconds since the epoch: `since` is inclusive, `before` exclusive. */
  readonly since?: number | undefined;
  readonly before?: number | undefined;
}

export interface RetainedCallPage {
  readonly calls: readonly RetainedCallFacts[];
  /** True if there are more calls after this page. */
  readonly isMore: boolean;
}

export interface RetainingServer {
  readonly tenant: string;
  readonly server: string;
}

/** Encrypted secrets. The store does not have the key. It does not retain replaced and removed values. */
export interface SecretStore {
  /** The encrypted value of a name, or undefined. */
  secret(tenant: string, name: string): Promise<SealedSecret | undefined>;

  /** All secrets of a tenant, sorted by name (code-unit order). */
  secrets(tenant: string): Promise<SealedSecret[]>;

  /** The id of the key that all secrets of all tenants are encrypted with; undefined if there is no secret. */
  secretKeyId(): Promise<string | undefined>;

  /**
   * Resolves with false, without writing anything, if existing secrets, including this one, are encrypted with another
   * key: the key may have been replaced after encryption. Notifies other processes of the name.
   */
  putSecret(tenant: string, put: SecretPut): Promise<boolean>;

  /** Resolves with false if there is none. */
  removeSecret(tenant: string, name: string, by: string): Promise<boolean>;

  /**
   * Replaces the secrets of all tenants by the result of `reseal`, in one transaction that excludes changes of other
   * processes. An exception rolls it back. The time and author of each secret's last change remain. With a `note`, the
   * change of the key is recorded.
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
  /** Called in the same step for the very first secret, as a concurrent change of keys may have dropped the key. */
  readonly isKeyHeld?: () => boolean;
}

/**
 * `visibility`: the tools and prompts that a server hides; `upstream`: the approved contract of an upstream;
 * `withdrawn`: the releases of a server that are no longer served. All by the server's name. `secret` has a history of
 * changes but no meaning: see `SecretStore`.
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

export interface NameQuery {
  readonly kinds: readonly NameKind[];
  /** Individual names of other kinds. */
  readonly names: readonly Pick<NameRecord, "kind" | "name">[];
}

export interface NameSnapshot {
  readonly latest: number;
  readonly names: readonly NameRecord[];
}

export interface NameChanges {
  readonly latest: number;
  readonly changed: readonly { readonly kind: NameKind; readonly name: string }[];
}

export interface NameChange {
  readonly cid: Cid | null;
  readonly changedAt: number;
  /** The person or component that changed it: `image`, `page`, `api`, … */
  readonly by: string;
}

export interface DerivedEntry {
  readonly key: string;
  readonly block: Block;
  /** The content from which it was derived. A tenant that refers to no such content any more loses its claim. */
  readonly madeOf?: Cid;
}

export interface Change {
  readonly by: string;
  /** The edit that a person made, which may be stored under names of other kinds. Only for the audit log. */
  readonly subject?: ChangeSubject;
  readonly put?: readonly Block[];
  readonly set?: readonly NameMove[];
  /** Derived results that belong to the change, put as by `putDerived`. */
  readonly derived?: readonly DerivedEntry[];
  /** Rejects with `storage_full` if the tenant would store more, except for a change that only deletes names. */
  readonly storedBytesMax?: number;
}

/** The error codes when storage limits are exceeded. */
export type StorageFullCode = "storage_full" | `${ValueKind}_full`;

export type StoredKind = (typeof storedKinds)[number];

/**
 * `packages`: tarballs; `compiled`: content derived from other content; values of servers by their kind; `calls`:
 * retained calls; `records`: sessions, tasks, streams; `history`: changes of names.
 */
export const storedKinds = [
  "packages",
  "content",
  "compiled",
  ...valueKinds,
  "calls",
  "records",
  "secrets",
  "history",
] as const;

export type StorageUsage = Readonly<Record<StoredKind, number>>;

export interface CollectionOptions {
  readonly tenants: readonly TenantCollection[];
  /** How long unreferenced content stays readable, and for how long after that it can be recovered. */
  readonly graceMs: number;
  /** Reports what would be removed, and removes nothing. */
  readonly isTrial?: boolean;
}

export interface TenantCollection {
  readonly tenant: string;
  /** How long the previous meaning of a name is retained after it was replaced or deleted; 0 for no expiry. */
  readonly historyMs: number;
}

export interface CollectionResult {
  /** Removed from the store, or in a trial, due for removal. */
  readonly freed: CollectedAmounts;
  /** Unreferenced, but not yet removed. */
  readonly waiting: CollectedAmounts;
  /** The number of previous meanings of names that were dropped. */
  readonly lapsed: number;
  /** Free space in the store's file that is used before the file grows. */
  readonly reusableBytes: number;
}

export type CollectedAmounts = Readonly<Record<"packages" | "content" | "compiled", CollectedAmount>>;

export interface CollectedAmount {
  readonly count: number;
  readonly bytes: number;
}

export interface ChangeSubject {
  /** `contract`: the approved contract of an upstream. */
  readonly kind: "variable" | "definition" | "entry" | "release" | "contract" | "withdrawal";
  readonly name: string;
  /** The change was known to break callers and was confirmed. */
  readonly breaking?: boolean;
  /** The items that the policy of an upstream's entry approves without a person. */
  readonly autoApproved?: readonly { readonly subject: string; readonly name: string }[];
}

export interface NameMove {
  readonly kind: NameKind;
  readonly name: string;
  /** The new meaning. Null deletes the name and retains its history. */
  readonly cid: Cid | null;
  /** If set, the change is rejected unless this is the current meaning of the name (null: it does not exist). */
  readonly expected?: Cid | null;
}

/**
 * The registry of tenants, which own the names in a store. It knows nothing of what a tenant owns, except that all of
 * it is removed with the tenant. The tenant `default` always exists, is always served, and cannot be deleted.
 */
export interface Tenants {
  find(name: string): Promise<Tenant | undefined>;

  /** Sorted by name. */
  list(): Promise<Tenant[]>;

  /** The tenants by their mapped host names. */
  hosts(): Promise<ReadonlyMap<string, string>>;

  /**
   * Rejects with `tenant_exists`, or with `tenant_invalid` for an invalid name, or an invalid or assigned host name.
   */
  create(name: string, settings: TenantSettings): Promise<Tenant>;

  /** Changes the supplied settings. Rejects with `tenant_not_found` or `tenant_invalid`. */
  change(name: string, settings: TenantSettings): Promise<Tenant>;

  /**
   * Removes the tenant with everything it has: names and their history, secrets, tokens, records, state, retained
   * calls, and content that no other tenant claims. Rejects with `tenant_not_found`, and with `tenant_invalid` for
   * `default`.
   */
  delete(name: string, by: string): Promise<TenantDeletion>;

  /** Everything that a tenant owns, for reading. Close it afterwards. Rejects with `tenant_not_found`. */
  snapshot(name: string): Promise<TenantSnapshot>;

  /**
   * Begins to assemble a tenant from a copy. First removes the leftovers of processes that ended while they did this.
   */
  stage(): Promise<TenantStaging>;

  /** True if a tenant has names or content, which would be lost if it was replaced. */
  hasAnything(name: string): Promise<boolean>;

  /**
   * Calls `listener` when a tenant was added, changed or removed: immediately for changes of this process, with a short
   * delay for those of other processes.
   */
  onChange(listener: (name: string) => void): () => void;
}

export interface Tenant {
  readonly name: string;
  /** Milliseconds since the epoch. */
  readonly createdAt: number;
  /** When an import last replaced everything it had; increases with each import. Null if none did. */
  readonly replacedAt: number | null;
  /** Since when the tenant is not served; null while it is. */
  readonly suspendedAt: number | null;
  /** Host names that select the tenant, sorted, without ports. */
  readonly hosts: readonly string[];
  /** The tenant's own limits by name. All others have the service's defaults. */
  readonly limits: JsonObject;
  /** The authorization server whose access tokens the tenant accepts, as configured; null for none. */
  readonly oauth: JsonObject | null;
  /** A field that is damaged on disk, and treated as unset. */
  readonly damaged?: "limits" | "oauth";
}

interface TenantDeletion {
  readonly names: number;
  /** The number of contents that were removed because no other tenant claimed them. */
  readonly contents: number;
  /**
   * False if remains may exist in unused parts of the store's files. For SQLite, a collection overwrites them; Postgres
   * overwrites its own in time.
   */
  readonly isErased: boolean;
}

export interface TenantSettings {
  readonly by: string;
  readonly suspended?: boolean;
  /** The complete list: host names not in it are no longer mapped. */
  readonly hosts?: readonly string[];
  readonly limits?: JsonObject;
  readonly oauth?: JsonObject | null;
}

/** A change of a name, with its time and author. */
export interface NamedChange extends NameChange {
  readonly kind: Exclude<NameKind, "secret">;
  readonly name: string;
}

/**
 * Everything that a tenant owned at one moment, regardless of how long reading takes. Contains only the names of
 * secrets, and neither tokens, host names, retained calls nor expiring records.
 */
export interface TenantSnapshot {
  readonly limits: JsonObject;
  /** When one of its names was last changed, in milliseconds since the epoch; null if never. */
  readonly changedAt: number | null;
  /** Sorted by CID. Rejects with `content_corrupt`. */
  contents(): AsyncIterable<Block>;
  /** Sorted by kind and name. The changes of one name are in order. */
  changes(): AsyncIterable<NamedChange>;
  secrets(): Promise<readonly string[]>;
  /** Sorted by kind, server and key, by code point, without expired ones. */
  values(): AsyncIterable<ServerValue>;
  close(): Promise<void>;
}

/** A tenant that is being assembled and is not yet visible. Closing it removes everything that was not published. */
export interface TenantStaging {
  /** Rejects with `content_corrupt` for bytes that do not match the CID. */
  put(block: Block): Promise<void>;
  /** Reads only content that was put here. */
  content(cid: Cid): Promise<Uint8Array | undefined>;
  /** Call it in chronological order: the last change of a name is its meaning. */
  add(change: NamedChange): Promise<void>;
  /** Call it once per key. */
  addValue(value: ServerValue): Promise<void>;
  /**
   * Publishes the data as a tenant in one transaction. Replaces the tenant's previous data of these kinds; its secrets,
   * tokens and host names remain. Rejects with `tenant_exists` if the tenant has data and `replace` is not set, with
   * `tenant_invalid` for an invalid name, and with `content_missing` for a name whose content is missing.
   */
  publish(name: string, settings: PublishSettings): Promise<void>;
  close(): Promise<void>;
}

export interface PublishSettings {
  readonly by: string;
  readonly limits: JsonObject;
  readonly replace: boolean;
}

/**
 * The access tokens of all tenants: neither the tokens themselves nor the meaning of their grants. Revoked tokens are
 * retained for later inspection while the limit allows.
 */
export interface TokenRecords {
  /** Also finds revoked and expired ones. */
  byHash(hash: string): Promise<TokenRecord | undefined>;

  /** Newest first: all of them, or a page after the one with an id. */
  list(tenant: string, part?: TokenPart): Promise<TokenRecord[]>;

  /**
   * If the tenant already has `tokensMax` tokens, removes those that ended longest ago. Rejects with
   * `tenant_not_found`, and with `token_invalid` if there are still too many.
   */
  add(token: NewTokenRecord, by: string, tokensMax?: number): Promise<TokenRecord>;

  /** False if the tenant has no such token, or it was already revoked. */
  revoke(tenant: string, id: string, by: string): Promise<boolean>;

  /**
   * Calls `listener` with the id of a token that was revoked, or removed with its tenant, by this or, with a short
   * delay, another process.
   */
  onRevoke(listener: (id: string) => void): () => void;
}

export interface TokenPart {
  /** By default, all of them. */
  readonly limit?: number;
  readonly after?: string | undefined;
}

export interface NewTokenRecord {
  /** Identifies the token. Not a secret. */
  readonly id: string;
  readonly tenant: string;
  readonly hash: string;
  readonly name: string;
  readonly grant: JsonObject;
  /** Milliseconds since the epoch; null for a token without expiry. */
  readonly expiresAt: number | null;
}

export interface TokenRecord extends NewTokenRecord {
  readonly createdAt: number;
  readonly revokedAt: number | null;
}
