import type { AuditKind, AuditLinks } from "../audit/audit-entry.ts";
import type { Block, Cid } from "../lib/cid.ts";
import type { JsonObject } from "../lib/json.ts";
import type { NodeStore } from "../lib/node-store.ts";
import type { Records } from "../lib/records.ts";

/**
 * The contract of every store: content by CID, names per tenant with their history, derived results, and records that
 * expire.
 * It owns durability and integrity. It knows nothing of servers, of MCP or of HTTP.
 *
 * Bytes are verified against their CID before they are written and after they are read
 * (`content_corrupt` if they do not match). A tenant reads only the content that it put or was given.
 */
export interface Store extends Records {
  /** The tenants, who own names here. */
  readonly tenants: Tenants;

  /** The tokens, which say who may use what. */
  readonly tokens: TokenRecords;

  /** The values that servers keep by key. */
  readonly values: ValueStore;

  /** The calls that servers keep. */
  readonly retainedCalls: RetainedCallStore;

  /** The processes that serve from here, for each other. */
  readonly nodes: NodeStore;

  /** The record of what happened here. Every change below that moves a name is recorded with it, or does not happen. */
  readonly audit: AuditLinks;

  /** The bytes of `cid`, or undefined where this tenant does not have it. Rejects with `content_corrupt`. */
  content(tenant: string, cid: Cid): Promise<Uint8Array | undefined>;

  /** As `content`, for many at once: those that are there and sound. */
  contents(tenant: string, cids: readonly Cid[]): Promise<ReadonlyMap<Cid, Uint8Array>>;

  /** The current meaning of a name, or undefined. */
  name(tenant: string, kind: NameKind, name: string): Promise<NameRecord | undefined>;

  /** All names of one kind, sorted by name (code-unit order). */
  names(tenant: string, kind: NameKind): Promise<NameRecord[]>;

  /**
   * The names of some kinds, each sorted, and some single names, at one moment; with the number of a change of names, of
   * all tenants, up to which they are those of now.
   */
  meanings(tenant: string, asked: AskedNames): Promise<Meanings>;

  /**
   * The number of the latest change of names, of all tenants, and the names of these kinds that the tenant changed
   * after the one numbered `since`, each once. Undefined where that is unknown: everything may have changed.
   */
  changesAfter(tenant: string, kinds: readonly NameKind[], since: number): Promise<NameChanges | undefined>;

  /** The number of the latest change of names, of all tenants. */
  latestChange(): Promise<number>;

  /** Every meaning that a name has had, or the newest `max`, newest first, deletions included (`cid: null`). */
  history(tenant: string, kind: NameKind, name: string, max?: number): Promise<NameChange[]>;

  /** True where a name means, or once meant, `cid`. */
  had(tenant: string, kind: NameKind, name: string, cid: Cid): Promise<boolean>;

  /**
   * One transaction: all of it is durable when the promise resolves, or nothing of it happened. Rejects with
   * `name_conflict` when an `expected` CID is not the current one, and with `content_missing` when a name is set to a CID
   * that the tenant neither has nor puts in this change. Resolves with the numbers of the changes of names, in order
   * and without a gap: if the first one follows that of the latest change that a reader knows, nobody changed a name in
   * between. A name that means the same already has no number.
   */
  change(tenant: string, change: Change): Promise<readonly number[]>;

  /**
   * Calls `listener` with the names that another process has changed, within a second after the change. Does not report
   * changes of this store itself, or changes that reads after this call already see. Returns the function that ends it.
   */
  onChange(listener: (changed: readonly ChangedName[]) => void): () => void;

  /**
   * Calls `listener` within a second after another process has replaced this store by another: anything read before may
   * be outdated. Returns the function that ends it.
   */
  onReplaced(listener: () => void): () => void;

  /**
   * Results that are a pure function of their key (discovery, bundles): shared by all tenants, never changed. A tenant
   * that puts one holds it, and it stays as long as any tenant holds it.
   */
  derived(key: string): Promise<Uint8Array | undefined>;
  putDerived(tenant: string, entries: readonly DerivedEntry[]): Promise<void>;

  /** Makes a tenant hold existing results; false, and it holds none of them, when one is missing. */
  holdDerived(tenant: string, keys: readonly string[]): Promise<boolean>;

  /** For how many milliseconds changes of other processes may have gone unheard: 0 where that cannot be. */
  unheardMs(): number;

  /** Makes a trial save and keeps nothing of it. Rejects when a change could not be saved and kept. */
  check(): Promise<void>;

  /** The size on the disk, in bytes. */
  size(): Promise<number>;

  /** The bytes that a tenant stores, by kind. */
  use(tenant: string): Promise<StoredUse>;

  /**
   * Removes what nothing refers to, in short steps, and never what a name means or meant within its time, nor anything
   * that such content names. What is found unreferenced stays for a while, in which a change may refer to it again;
   * after that its tenant cannot read it, and after as long again it is gone. Whatever a collection has not come to when
   * it is interrupted is left to the next. Audit records are left alone.
   */
  collect(order: CollectionOrder): Promise<CollectionResult>;

  close(): Promise<void>;
}

/** The kinds of values that servers store, each of one feature: they name their audit records, sums, and lines of a tenant's file. */
export const valueKinds = ["state"] as const satisfies readonly AuditKind[];

export type ValueKind = (typeof valueKinds)[number];

/**
 * The values that servers store, by tenant, kind, the server's name and key. Values change often, so they have no history; they are never cached, and every write is on the disk
 * when its promise resolves. Keys and values are checked by callers.
 */
export interface ValueStore {
  /** Undefined where there is none, or it has expired. */
  get(tenant: string, kind: ValueKind, server: string, key: string): Promise<ValueEntry | undefined>;

  /** The keys that begin with `prefix`, sorted by code point. A page may be short, or empty, and have a next one. */
  list(tenant: string, kind: ValueKind, server: string, part: ValuePart): Promise<ValuePage>;

  /**
   * Returns the new version, greater than any that the server's keys had before; undefined, with nothing written, when
   * the key's version is not `expected`. Rejects with the code of `room`.
   */
  set(tenant: string, kind: ValueKind, server: string, key: string, put: ValuePut): Promise<number | undefined>;

  /** False when there is none; undefined, with nothing deleted, when its version is not `expected`. */
  delete(
    tenant: string,
    kind: ValueKind,
    server: string,
    key: string,
    removal?: ValueRemoval,
  ): Promise<boolean | undefined>;

  /** Deletes all values of a server, and returns the number of its keys, expired ones included. */
  clear(tenant: string, kind: ValueKind, server: string, by: string): Promise<number>;

  /** The size of each server's values, sorted by name (code-unit order), expired ones included until they are removed. */
  sizes(tenant: string, kind: ValueKind): Promise<ValueSize[]>;
}

export interface ValueFacts {
  readonly version: number;
  /** Milliseconds since the epoch. */
  readonly changedAt: number;
  /** Null for a value that stays until it is deleted. */
  readonly expiresAt: number | null;
  /** True for JSON, as UTF-8; false for bytes. */
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
  /** The last key of the page before. */
  readonly after?: string | undefined;
  readonly max: number;
  /** Returns values, up to this many bytes of them, but at least one. */
  readonly valueBytesMax?: number | undefined;
}

export interface ValuePage {
  readonly items: readonly ValueItem[];
  /** Where the next page begins; undefined where there is none. */
  readonly next: string | undefined;
}

export interface ValueItem extends ValueFacts {
  readonly key: string;
  /** The size of the value. */
  readonly bytes: number;
  /** Present where it was asked for. */
  readonly value?: Uint8Array;
}

export interface ValuePut extends ValueRemoval, Pick<ValueEntry, "value" | "isJson" | "expiresAt"> {
  readonly room: ValueRoom;
}

export interface ValueRemoval {
  /** The version that the key has to have; 0 for none. */
  readonly expected?: number | undefined;
  /** The person who does it, for the audit log; a server's own writes are not recorded. */
  readonly by?: string | undefined;
}

/** The most that a server and a tenant may store of a kind; bytes are those of keys and values. */
export interface ValueRoom {
  readonly keysPerServer: number;
  readonly bytesPerServer: number;
  readonly bytesPerTenant: number;
  /** All that the tenant stores, of every kind. */
  readonly storedBytesMax?: number | undefined;
  /** The error where there is no room, and the settings that it names. */
  readonly code: FullCode;
  readonly settings: { readonly server: string; readonly tenant: string };
}

export interface ValueSize {
  readonly server: string;
  readonly keys: number;
  readonly bytes: number;
}

/**
 * The calls that servers keep, by tenant and server, until they expire. Writes outlive this process at once, and a power cut
 * a little later. What was said in a call is a text that the store does not read.
 */
export interface RetainedCallStore {
  /**
   * Adds some calls of one tenant; the oldest ones go where there is no room for all. Rejects with `storage_full`, and adds
   * none, where the tenant may not store as much.
   */
  add(tenant: string, calls: readonly NewRetainedCall[], room: RetainedCallRoom): Promise<void>;

  /** The newest first, without what was said; those that have expired are left out. */
  list(tenant: string, server: string, part: RetainedCallPart): Promise<RetainedCallPage>;

  /** Undefined where there is none, or it has expired. */
  get(tenant: string, server: string, id: number): Promise<RetainedCall | undefined>;

  /** The servers that keep any, of all tenants. */
  servers(): Promise<readonly KeepingServer[]>;

  /** Removes those of a server that began before a time, or all of them, in short steps. Returns their number. */
  remove(tenant: string, server: string, before?: number): Promise<number>;

  /** Removes those that have expired, of all tenants, in short steps. Returns their number. */
  removeExpired(): Promise<number>;
}

export interface RetainedCallFacts {
  /** Given once: a removed call's is never given again. */
  readonly id: number;
  /** When it began, in milliseconds since the epoch. */
  readonly at: number;
  readonly tool: string;
  readonly outcome: string;
  readonly micros: number;
  /** Null where no token is required. */
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

/** The most that a server and a tenant may keep; bytes are those of bodies. */
export interface RetainedCallRoom {
  readonly callsPerServer: number;
  readonly bytesPerTenant: number;
  /** All that the tenant stores, of every kind. */
  readonly storedBytesMax?: number | undefined;
}

export interface RetainedCallPart {
  readonly max: number;
  /** The last call of the page before. */
  readonly after?: Pick<RetainedCallFacts, "at" | "id"> | undefined;
  readonly tool?: string | undefined;
  readonly outcomes?: readonly string[] | undefined;
  /** When they began, in milliseconds since the epoch: from `since` on, and before `before`. */
  readonly since?: number | undefined;
  readonly before?: number | undefined;
}

export interface RetainedCallPage {
  readonly calls: readonly RetainedCallFacts[];
  /** True where there are more after it. */
  readonly isMore: boolean;
}

export interface KeepingServer {
  readonly tenant: string;
  readonly server: string;
}

/** Secrets, sealed by the holder of the key: the store has none. Replaced and removed values are not kept. */
export interface SecretStore {
  /** The sealed value under a name, or undefined. */
  secret(tenant: string, name: string): Promise<SealedSecret | undefined>;

  /** All secrets of a tenant, sorted by name (code-unit order). */
  secrets(tenant: string): Promise<SealedSecret[]>;

  /** The key that all secrets of all tenants are sealed with; undefined while there is no secret. */
  secretKeyId(): Promise<string | undefined>;

  /**
   * False, with nothing written, when the existing secrets are sealed with another key, the secret itself included: its
   * key may have been changed since it was requested. Other processes are told the name.
   */
  putSecret(tenant: string, put: SecretPut): Promise<boolean>;

  /** False when there is none. */
  removeSecret(tenant: string, name: string, by: string): Promise<boolean>;

  /**
   * Replaces the secrets of all tenants by the result of `reseal`, in one transaction with which no other process's
   * change interleaves. An exception undoes everything. The time and author of each secret's last change stay. With a
   * `note`, the change of the key is recorded.
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
  /** Called in the same step for the very first secret: a concurrent change of keys may have dropped the key. */
  readonly isKeyHeld?: () => boolean;
}

/**
 * `visibility`: the tools and prompts that a server hides; `upstream`: the approved contract of an upstream;
 * `withdrawn`: the releases of a server that nobody gets any more. By its name. `secret` has a history of changes and
 * no meaning: see `SecretStore`.
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

export interface AskedNames {
  readonly kinds: readonly NameKind[];
  /** Names of other kinds. */
  readonly names: readonly Pick<NameRecord, "kind" | "name">[];
}

export interface Meanings {
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
  /** Who or what changed it: `image`, `page`, `api`, … */
  readonly by: string;
}

export interface DerivedEntry {
  readonly key: string;
  readonly block: Block;
  /** Content that it was made of. A tenant that no longer refers to any such content lets go of the result, too. */
  readonly madeOf?: Cid;
}

export interface Change {
  readonly by: string;
  /** The edit that a person meant, which may be stored under names of other kinds. For the audit log alone. */
  readonly subject?: ChangeSubject;
  readonly put?: readonly Block[];
  readonly set?: readonly NameMove[];
  /** Results that belong to it, put as by `putDerived`. */
  readonly derived?: readonly DerivedEntry[];
  /**
   * Refused with `storage_full` when the tenant would store more bytes than this. A change that only deletes names is
   * not.
   */
  readonly storedBytesMax?: number;
}

/** The errors of changes for which there is no room. */
export type FullCode = "storage_full" | `${ValueKind}_full`;

export type StoredKind = (typeof storedKinds)[number];

/**
 * `packages`: tarballs; `compiled`: what was made of other content; values of servers by their kind; `calls`: retained calls;
 * `records`: sessions, tasks, streams; `history`: changes of names.
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

/** Bytes of each kind. */
export type StoredUse = Readonly<Record<StoredKind, number>>;

export interface CollectionOrder {
  readonly tenants: readonly TenantCollection[];
  /** How long unreferenced content stays readable, and how long it can be taken back after that. */
  readonly graceMs: number;
  /** Tells what would be removed, and removes nothing. */
  readonly isTrial?: boolean;
}

export interface TenantCollection {
  readonly tenant: string;
  /** How long an earlier meaning of a name is kept after it was replaced or deleted; 0 for ever. */
  readonly historyMs: number;
}

export interface CollectionResult {
  /** Gone from the store, or gone with the next collection that is no trial. */
  readonly freed: CollectedAmounts;
  /** Found unreferenced, and still there. */
  readonly waiting: CollectedAmounts;
  /** Earlier meanings of names that were dropped. */
  readonly lapsed: number;
  /** Room in the store's file that is used before the file grows. */
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
  /** The change was known to break callers, and allowed. */
  readonly breaking?: boolean;
  /** The items that the policy of an upstream's entry takes over, where no person has approved it. */
  readonly autoApproved?: readonly { readonly subject: string; readonly name: string }[];
}

export interface NameMove {
  readonly kind: NameKind;
  readonly name: string;
  /** The new meaning; null deletes the name and keeps its history. */
  readonly cid: Cid | null;
  /** When given, the change is refused unless the name means this now (null: does not exist). */
  readonly expected?: Cid | null;
}

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
   * Removes the tenant with everything it has: names and their history, secrets, tokens, records, state, retained calls, and the
   * content that no other tenant holds. Rejects with `tenant_not_found`, and with `tenant_invalid` for `default`.
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
interface TenantRemains {
  readonly names: number;
  /** Contents that are gone, because nobody else held them. */
  readonly contents: number;
  /**
   * False where some of it may still stand in unused parts of the store's files: a collection overwrites those of SQLite,
   * and Postgres its own in its time.
   */
  readonly isErased: boolean;
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

/** A change of a name, with its time and author. */
export interface NamedChange extends NameChange {
  readonly kind: Exclude<NameKind, "secret">;
  readonly name: string;
}

/**
 * Everything that a tenant owned at one moment, however long reading takes and whatever changes meanwhile. Secrets
 * appear by name alone; tokens, host names, retained calls and expiring records are left out.
 */
export interface TenantSnapshot {
  /** The tenant's own limits. */
  readonly limits: JsonObject;
  /** When one of its names was last changed, in milliseconds since the epoch; null when none ever was. */
  readonly changedAt: number | null;
  /** Sorted by CID. Rejects with `content_corrupt`. */
  contents(): AsyncIterable<Block>;
  /** Sorted by kind and name; the changes of one name from the first on. */
  changes(): AsyncIterable<NamedChange>;
  secrets(): Promise<readonly string[]>;
  /** Sorted by kind, server and key, by code point; expired ones are left out. */
  values(): AsyncIterable<ServerValue>;
  close(): Promise<void>;
}

/** A tenant that is being assembled where nobody sees it. Unpublished parts are gone once it is closed. */
export interface TenantStaging {
  /** Rejects with `content_corrupt` for bytes that do not match the CID. */
  put(block: Block): Promise<void>;
  /** Reads only content that was put here. */
  content(cid: Cid): Promise<Uint8Array | undefined>;
  /** Called in the order in which the changes happened; the last one of a name is its meaning. */
  add(change: NamedChange): Promise<void>;
  /** Each key once. */
  addValue(value: ServerValue): Promise<void>;
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

/**
 * The access tokens of all tenants, as far as a store knows them: never a token itself, nor the meaning of its grant.
 * Revoked tokens are kept while there is room, for later questions.
 */
export interface TokenRecords {
  /** Finds revoked and expired ones, too. */
  byHash(hash: string): Promise<TokenRecord | undefined>;

  /** The newest first: all of them, or a number of them after the one with an id. */
  list(tenant: string, part?: TokenPart): Promise<TokenRecord[]>;

  /**
   * Where the tenant already has `tokensMax`, the tokens that ended longest ago are removed. Rejects with
   * `tenant_not_found`, and with `token_invalid` where that makes no room.
   */
  add(token: NewTokenRecord, by: string, tokensMax?: number): Promise<TokenRecord>;

  /** False when the tenant has no such token, or it was already revoked. */
  revoke(tenant: string, id: string, by: string): Promise<boolean>;

  /**
   * Calls `listener` with the id of a token that was revoked or removed with its tenant: soon after another process did
   * it.
   */
  onRevoke(listener: (id: string) => void): () => void;
}

export interface TokenPart {
  /** By default all of them. */
  readonly limit?: number;
  readonly after?: string | undefined;
}

export interface NewTokenRecord {
  /** Identifies the token, and is no secret. */
  readonly id: string;
  readonly tenant: string;
  readonly hash: string;
  /** Its name for people. */
  readonly name: string;
  readonly grant: JsonObject;
  /** Milliseconds since the epoch; null for a token that never expires. */
  readonly expiresAt: number | null;
}

export interface TokenRecord extends NewTokenRecord {
  readonly createdAt: number;
  readonly revokedAt: number | null;
}
