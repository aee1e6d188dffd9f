import type Database from "#better-sqlite3";
import {
  KEPT_SHARE,
  SERVICE,
  entryOf,
  type AuditEntry,
  type AuditHead,
  type AuditHeads,
  type AuditLink,
  type Chain,
  type Keep,
  type Retention,
  type LinkQuery,
  type AuditLinks,
  type RemovedLink,
} from "../../audit/audit-entry.ts";
import { anchorBody, GENESIS, hexOf, linkAfter } from "../../audit/chain.ts";
import { canonicalJson } from "../../lib/canonical-json.ts";
import { type JsonObject, isObject, soundObject } from "../../lib/json.ts";
import { atOnce, attempt } from "./attempt.ts";
import { storeNow } from "./clock.ts";
import type { WriteAheadLog } from "./write-ahead-log.ts";

/** The most that one retention transaction removes, so that none delays calls for long. */
const REMOVED_BYTES = 1024 * 1024;
const REMOVED_LINKS = 250;
const DAY_MS = 86_400_000;
/**
 * After this long without a record, the clock may have been set forward: age counts once the log has gone on for as
 * long.
 */
const LEAP_MS = 7 * DAY_MS;
/**
 * The limits are recorded again after this long, so that any saved head is preceded by them at a short distance, and so
 * that the log is never silent for longer while Berth runs.
 */
const LIMITS_STATED_MS = 6 * DAY_MS;
const ANCHOR_MS = 60_000;
/** An event is recorded at most this much later than it happened. */
const WRITTEN_LATE_MS = 3_600_000;

/** The audit log in a SQLite file. A change appends within its own transaction; every other event has its own. */
export class SqliteAudit {
  readonly #database: Database.Database;
  readonly #statements: ReturnType<typeof prepare>;
  /** The limits that were recorded last. */
  #stated: Pick<Retention, "at" | "limits"> | undefined;

  constructor(database: Database.Database) {
    this.#database = database;
    this.#statements = prepare(database);
  }

  /** Must run in a write transaction, so that no other process reads the same head. */
  append(entry: AuditEntry): void {
    const { tenant, kind, body } = entry;
    const previous = this.#statements.end.get(tenant) ?? { ...this.#origin(), number: 0, at: 0 };
    // The chain orders the times, whatever happens to the clock.
    const link = linkAfter(previous, Math.max(storeNow(), previous.at), entry);
    this.#add(link, body);
    // A record of a removal stays for as long as its link.
    const bytes = kind === "retention" ? 0 : link.bytes;
    const isCall = kind === "call";
    const { number, hash, at } = link;
    this.#statements.grow.run(tenant, number, hash, at, isCall ? bytes : 0, isCall ? 0 : bytes);
  }

  #add(link: ReturnType<typeof linkAfter>, body: AuditEntry["body"]): void {
    const { number, at, since, tenant, kind, records, bytes, digest, hash } = link;
    this.#statements.add.run(number, at, since, tenant, kind, records, bytes, digest, hash, body);
  }

  #origin(): AuditHead {
    return this.#statements.origin.get() ?? GENESIS;
  }

  readonly appendAll = (entries: readonly AuditEntry[]): void => {
    this.#database.transaction(() => entries.forEach((entry) => this.append(entry))).immediate();
  };

  newest({ tenant, kind, since, until, from, max }: LinkQuery): AuditLink[] {
    const latest = until === undefined ? Number.MAX_SAFE_INTEGER : until + WRITTEN_LATE_MS;
    const [fromAt, fromArrival] =
      !from || from.at > latest ? [latest, Number.MAX_SAFE_INTEGER] : [from.at, from.arrival];
    const query = { since: since ?? 0, until: until ?? Number.MAX_SAFE_INTEGER, fromAt, fromArrival, max };
    const { newest, newestOfKind, newestOfTenant, newestOfTenantAndKind } = this.#statements;
    if (tenant === undefined) return kind === undefined ? newest.all(query) : newestOfKind.all({ ...query, kind });
    if (kind === undefined) return newestOfTenant.all({ ...query, tenant });
    return newestOfTenantAndKind.all({ ...query, tenant, kind });
  }

  all(): Iterable<AuditLink> {
    return this.#statements.all.iterate();
  }

  retentions(): Retention[] {
    return this.#statements.retentions.all().map(readRetention);
  }

  heads(): AuditHeads {
    const { number, hash } = this.head() ?? GENESIS;
    return { origin: this.#origin(), heads: [{ chain: null, number, hash }, ...this.#statements.ends.all()] };
  }

  head(): AuditHead | undefined {
    const { number, hash } = this.#statements.anchors.get() ?? GENESIS;
    return number === 0 ? undefined : { number, hash };
  }

  /** Usually there is nothing to do, and nobody should wait for the lock. */
  anchor(now: boolean): AuditHead | undefined {
    if (this.#isAnchorDue(now)) this.#database.transaction(() => this.#anchorIfDue(now)).immediate();
    return this.head();
  }

  #anchorIfDue(now: boolean): void {
    // Another process may have been first.
    if (!this.#isAnchorDue(now)) return;
    const previous = this.#statements.anchors.get() ?? { ...GENESIS, at: 0 };
    const entry = {
      tenant: SERVICE,
      kind: "anchor",
      body: anchorBody(this.#statements.grown.all()),
      records: 0,
    } as const;
    const link = linkAfter(previous, Math.max(storeNow(), previous.at), entry);
    this.#add(link, entry.body);
    this.#statements.setAnchors.run(link.number, link.hash, link.at);
    this.#statements.setAnchored.run();
  }

  #isAnchorDue(now: boolean): boolean {
    const { at } = this.#statements.anchors.get() ?? { at: 0 };
    const isOfThisMinute = minuteOf(at) === minuteOf(storeNow());
    return (now || !isOfThisMinute) && this.#statements.grown.get() !== undefined;
  }

  /** Takes one step; true when there may be another. */
  retain(keep: Keep): boolean {
    const step = this.#database.transaction(
      () => this.#removeOldLinks(keep) || this.#removeBodies(keep) || this.#stateLimits(keep),
    );
    // Usually there is nothing to do, and nobody should wait for the lock.
    const isDue = this.#removeOldLinks(keep, true) || this.#removeBodies(keep, true) || this.#stateLimits(keep, true);
    return isDue ? step.immediate() : false;
  }

  /**
   * The time that ages are measured from: the clock, or the log's time before the clock leapt. A wrong clock empties no
   * log.
   */
  #present(): number {
    const now = storeNow();
    // The clock was set back.
    if ((this.#statements.latest.get() ?? 0) > now) return now;
    const before = this.#statements.lastBefore.get(now - LEAP_MS) ?? now;
    const after = this.#statements.firstFrom.get(now - LEAP_MS) ?? now;
    return after - before > LEAP_MS ? before : now;
  }

  /**
   * Records the limits: later removals have to be within limits that the log itself has stated. Returns true only on a
   * trial.
   */
  #stateLimits(keep: Keep, isTrial = false): boolean {
    const limits = limitsOf(keep);
    const stated = (this.#stated ??= this.retentions().find((each) => each.limits));
    const isStated = canonicalJson(stated?.limits ?? null) === canonicalJson(limits);
    if (isStated && stated!.at > storeNow() - LIMITS_STATED_MS) return false;
    if (isTrial) return true;
    this.#appendRetention(SERVICE, keep, {});
    return false;
  }

  #appendRetention(tenant: string, keep: Keep, facts: JsonObject): void {
    const limits = limitsOf(keep);
    this.append(entryOf(tenant, "retention", { ...facts, limits }));
    this.#stated = { at: storeNow(), limits };
  }

  #removeOldLinks(keep: Keep, isTrial = false): boolean {
    const { auditDays } = keep;
    const before = auditDays === 0 ? 0 : this.#present() - auditDays * DAY_MS;
    const oldest = this.#statements.oldestLink.get();
    if (!oldest || oldest.at >= before) return false;
    if (isTrial) return true;
    const removed: RemovableLink[] = [];
    let bytes = 0;
    for (const link of this.#oldestLinksWith(oldest)) {
      if (link.at >= before || bytes > REMOVED_BYTES) break;
      removed.push(link);
      bytes += link.keptBytes;
    }
    const through = removed.at(-1)!;
    const { chain, number } = through;
    const last = lastRemoved(through, removed.at(-2)?.hash ?? this.#headBefore(removed[0]!));
    const facts = { links: removed.length, through: number, hash: hexOf(through.hash), last, reason: "auditDays" };
    // Comes first, since a chain with nothing in it has no end.
    this.#appendRetention(SERVICE, keep, { ...(chain !== null && { chain }), ...facts });
    for (const link of removed) this.#removeLink(link);
    return true;
  }

  /** The oldest links of the chain of which this one is the oldest. */
  #oldestLinksWith({ chain, kind, tenant }: RemovableLink): RemovableLink[] {
    const { oldestOfOne, oldestAnchors, oldestOfTenant } = this.#statements;
    if (chain !== null) return oldestOfTenant.all(tenant, REMOVED_LINKS);
    return kind === "anchor" ? oldestAnchors.all(REMOVED_LINKS) : oldestOfOne.all(this.#origin().number, REMOVED_LINKS);
  }

  #headBefore({ chain, number }: RemovableLink): Uint8Array {
    const begun = chain === null && number === 1 ? GENESIS : this.#origin();
    return (this.retentions().find(({ cut, from }) => cut && from === chain)?.cut ?? begun).hash;
  }

  #removeLink({ arrival, tenant, kind, keptBytes, said }: RemovableLink): void {
    this.#statements.removeLink.run(arrival);
    this.#uncount(tenant, kind === "call", keptBytes);
    if (said === null) return;
    // Nobody is told any more that there was such a chain: a tenant of its name begins a new one.
    const { cut, from } = readRetention({ ...NOWHERE, tenant, body: said });
    if (cut && typeof from === "string" && from !== SERVICE) this.#statements.forget.run(from, cut.number);
  }

  #uncount(tenant: string, isCall: boolean, bytes: number): void {
    if (bytes > 0) this.#statements.uncount.run(isCall ? bytes : 0, isCall ? 0 : bytes, tenant);
  }

  #removeBodies(keep: Keep, isTrial = false): boolean {
    const { auditCallDays, auditCallBytesPerTenant, auditBytesPerTenant } = keep;
    const before = auditCallDays === 0 ? 0 : this.#present() - auditCallDays * DAY_MS;
    for (const { tenant, isCall, bytes } of this.#statements.keptBytes.all()) {
      const bytesMax = (isCall ? auditCallBytesPerTenant : auditBytesPerTenant) || Infinity;
      const oldest = isCall && before > 0 ? this.#statements.oldest.get({ tenant, isCall }) : undefined;
      const isOld = oldest !== undefined && oldest.at < before;
      if (bytes <= bytesMax && !isOld) continue;
      if (isTrial) return true;
      const over = bytes > bytesMax ? bytes - bytesMax * KEPT_SHARE : 0;
      this.#removeBodiesOf(tenant, isCall, { over, before }, keep);
      return true;
    }
    return false;
  }

  /** Removes the oldest bodies until `over` bytes are gone, and all bodies from before `before`. */
  #removeBodiesOf(
    tenant: string,
    isCall: number,
    { over, before }: { readonly over: number; readonly before: number },
    keep: Keep,
  ): void {
    let [removed, records] = [0, 0];
    let through: { chain: Chain; number: number; arrival: number } | undefined;
    for (const link of this.#statements.oldestOf.all({ tenant, isCall, max: REMOVED_LINKS })) {
      const isWanted = removed < over || (isCall === 1 && link.at < before);
      if (!isWanted || removed > REMOVED_BYTES) break;
      // A record tells of one chain.
      if (through && through.chain !== link.chain) break;
      removed += link.bytes;
      records += link.records;
      through = link;
    }
    if (!through) return;
    const { chain, number, arrival } = through;
    this.#statements.removeBodies.run({ tenant, isCall, through: arrival });
    this.#uncount(tenant, isCall === 1, removed);
    const reason = over > 0 ? (isCall ? "auditCallBytesPerTenant" : "auditBytesPerTenant") : "auditCallDays";
    const facts = { of: isCall ? "calls" : "changes", records, bytes: removed, through: number, reason };
    this.#appendRetention(tenant, keep, { ...(chain !== null && { chain }), ...facts });
  }
}

function minuteOf(at: number): number {
  return Math.floor(at / ANCHOR_MS);
}

/** The limits alone, without other fields. */
function limitsOf({ auditDays, auditCallDays, auditBytesPerTenant, auditCallBytesPerTenant }: Keep) {
  return { auditDays, auditCallDays, auditBytesPerTenant, auditCallBytesPerTenant };
}

interface KeptBytes {
  readonly tenant: string;
  readonly isCall: number;
  readonly bytes: number;
}

interface NewestQuery extends Required<Pick<LinkQuery, "max">> {
  readonly since: number;
  readonly until: number;
  readonly fromAt: number;
  readonly fromArrival: number;
}

interface RemovableLink extends Omit<AuditLink, "body"> {
  /** The size of the body, if retention may have removed it before. */
  readonly keptBytes: number;
  /** The body of a record of retention. */
  readonly said: string | null;
}

/** SQLite keeps a value of any type in any column: damaged data has the right type and fits nothing. */
const HASH = "CAST(hash AS BLOB) AS hash";
const PLACE = "iif(place IS NULL OR kind = 'anchor', NULL, tenant) AS chain, coalesce(place, arrival) AS number";
const LINK = `${PLACE}, arrival, at, since, tenant, kind, records, bytes, CAST(digest AS BLOB) AS digest, ${HASH}`;
const IS_REMOVABLE = "body IS NOT NULL AND kind <> 'retention' AND kind <> 'anchor'";

function prepare(database: Database.Database) {
  const read = `${LINK}, CAST(body AS TEXT) AS body`;
  const newest = (where: string): string =>
    `SELECT ${read} FROM audit
     WHERE ${where} AND (at, arrival) <= (@fromAt, @fromArrival) AND at >= @since AND since <= @until
     ORDER BY at DESC, arrival DESC LIMIT @max`;
  const isOther = "kind <> 'anchor'";
  const kept = `tenant = @tenant AND (kind = 'call') = @isCall AND ${IS_REMOVABLE}`;
  const removable =
    `SELECT ${LINK}, iif(${IS_REMOVABLE}, bytes, 0) AS "keptBytes", ` +
    "iif(kind = 'retention', CAST(body AS TEXT), NULL) AS said FROM audit";
  const end = `CAST(place AS INTEGER) AS number, ${HASH}`;
  return {
    end: database.prepare<[string], AuditHead & { at: number }>(
      `SELECT ${end}, CAST(at AS INTEGER) AS at FROM audit_chain WHERE tenant = ?`,
    ),
    ends: database.prepare<[], AuditHead & { chain: string }>(
      `SELECT tenant AS chain, ${end} FROM audit_chain WHERE place > 0 ORDER BY tenant`,
    ),
    grow: database.prepare<[string, number, Uint8Array, number, number, number]>(
      `INSERT INTO audit_chain (tenant, place, hash, at, anchored, call_bytes, other_bytes) VALUES (?, ?, ?, ?, 0, ?, ?)
       ON CONFLICT (tenant) DO UPDATE SET place = excluded.place, hash = excluded.hash, at = excluded.at,
       call_bytes = call_bytes + excluded.call_bytes, other_bytes = other_bytes + excluded.other_bytes`,
    ),
    grown: database.prepare<[], AuditHead & { tenant: string }>(
      `SELECT tenant, ${end} FROM audit_chain WHERE place > anchored ORDER BY tenant`,
    ),
    setAnchored: database.prepare<[]>("UPDATE audit_chain SET anchored = place WHERE place > anchored"),
    forget: database.prepare<[string, number]>("DELETE FROM audit_chain WHERE tenant = ? AND place = ?"),
    anchors: database.prepare<[], AuditHead & { at: number }>(
      `SELECT ${end}, CAST(at AS INTEGER) AS at FROM audit_anchored`,
    ),
    setAnchors: database.prepare<[number, Uint8Array, number]>("UPDATE audit_anchored SET place = ?, hash = ?, at = ?"),
    origin: database.prepare<[], AuditHead>(
      "SELECT CAST(origin_place AS INTEGER) AS number, CAST(origin_hash AS BLOB) AS hash FROM audit_anchored",
    ),
    latest: database.prepare<[], number | null>("SELECT max(at) FROM audit").pluck(),
    lastBefore: database.prepare<[number], number | null>("SELECT max(at) FROM audit WHERE at < ?").pluck(),
    firstFrom: database.prepare<[number], number | null>("SELECT min(at) FROM audit WHERE at >= ?").pluck(),
    oldestLink: database.prepare<[], RemovableLink>(`${removable} ORDER BY at, arrival LIMIT 1`),
    oldestOfOne: database.prepare<[number, number], RemovableLink>(
      `${removable} WHERE arrival <= ? AND place IS NULL ORDER BY arrival LIMIT ?`,
    ),
    oldestAnchors: database.prepare<[number], RemovableLink>(
      `${removable} WHERE kind = 'anchor' ORDER BY at, arrival LIMIT ?`,
    ),
    oldestOfTenant: database.prepare<[string, number], RemovableLink>(
      `${removable} WHERE tenant = ? AND place IS NOT NULL AND ${isOther} ORDER BY at, arrival LIMIT ?`,
    ),
    removeLink: database.prepare<[number]>("DELETE FROM audit WHERE arrival = ?"),
    add: database.prepare(
      `INSERT INTO audit (place, at, since, tenant, kind, records, bytes, digest, hash, body)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, CAST(? AS TEXT))`,
    ),
    newest: database.prepare<[NewestQuery], AuditLink>(newest(isOther)),
    newestOfKind: database.prepare<[NewestQuery & { kind: string }], AuditLink>(newest("kind = @kind")),
    newestOfTenant: database.prepare<[NewestQuery & { tenant: string }], AuditLink>(
      newest(`tenant = @tenant AND ${isOther}`),
    ),
    newestOfTenantAndKind: database.prepare<[NewestQuery & { tenant: string; kind: string }], AuditLink>(
      newest("tenant = @tenant AND kind = @kind"),
    ),
    all: database.prepare<[], AuditLink>(`SELECT ${read} FROM audit ORDER BY arrival`),
    // Newest first.
    retentions: database.prepare<[], RetentionRow>(
      `SELECT ${PLACE}, arrival, at, tenant, CAST(body AS TEXT) AS body FROM audit
       WHERE kind = 'retention' ORDER BY arrival DESC`,
    ),
    keptBytes: database.prepare<[], KeptBytes>(
      `SELECT tenant, 0 AS "isCall", other_bytes AS bytes FROM audit_chain WHERE other_bytes > 0
       UNION ALL SELECT tenant, 1, call_bytes FROM audit_chain WHERE call_bytes > 0 ORDER BY tenant, "isCall"`,
    ),
    uncount: database.prepare<[number, number, string]>(
      "UPDATE audit_chain SET call_bytes = call_bytes - ?, other_bytes = other_bytes - ? WHERE tenant = ?",
    ),
    oldest: database.prepare<[{ tenant: string; isCall: number }], { at: number }>(
      `SELECT at FROM audit WHERE ${kept} ORDER BY arrival LIMIT 1`,
    ),
    oldestOf: database.prepare<
      [{ tenant: string; isCall: number; max: number }],
      Pick<AuditLink, "chain" | "number" | "arrival" | "at" | "bytes" | "records">
    >(
      `SELECT ${PLACE}, arrival, at, bytes, records FROM audit WHERE ${kept}
       ORDER BY arrival LIMIT @max`,
    ),
    removeBodies: database.prepare<[{ tenant: string; isCall: number; through: number }]>(
      `UPDATE audit SET body = NULL WHERE ${kept} AND arrival <= @through`,
    ),
  };
}

/** The audit log as the rest of Berth uses it. `busyMs` is how long it waits for other processes. */
export function sqliteAuditLinks(
  database: Database.Database,
  log: WriteAheadLog,
  audit: SqliteAudit,
  busyMs: number,
): AuditLinks {
  return {
    append(entries, { patient = false } = {}) {
      const append = (): void => audit.appendAll(entries);
      return log.write(() => (patient ? append() : atOnce(database, busyMs, append)));
    },
    async newest(query) {
      return attempt(() => audit.newest(query));
    },
    async *all() {
      yield* audit.all();
    },
    async retentions() {
      return attempt(() => audit.retentions());
    },
    async heads() {
      return attempt(() => audit.heads());
    },
    async head() {
      return attempt(() => audit.head());
    },
    anchor({ now = false, patient = false } = {}) {
      const anchor = (): AuditHead | undefined => audit.anchor(now);
      return log.write(() => (patient ? anchor() : atOnce(database, busyMs, anchor)));
    },
    retain: (keep) => log.write(() => atOnce(database, busyMs, () => audit.retain(keep))),
  };
}

/** The database row of a retention record. */
interface RetentionRow extends Pick<AuditLink, "chain" | "number" | "arrival" | "at" | "tenant" | "body"> {}

const NOWHERE = { chain: SERVICE, number: 0, arrival: 0, at: 0 } as const;

interface Facts {
  readonly limits?: Keep;
  readonly through?: number;
  readonly hash?: string;
  readonly of?: string;
  /** Missing where the one chain of earlier versions is meant, or that of the anchors, which continues it. */
  readonly chain?: string;
  readonly last?: Omit<RemovedLink, "digest" | "previous"> & { readonly digest: string; readonly previous: string };
}

/** Reads a retention record. For one that went bad on the disk it only says that it is there. */
function readRetention({ body, ...place }: RetentionRow): Retention {
  const facts = soundObject(body ?? "");
  if (!facts || !areFacts(facts)) return { ...place, isDamaged: true };
  const { limits, through, hash, of, last, chain: from = null } = facts;
  const record = { ...place, ...(limits && { limits }) };
  if (through === undefined) return record;
  if (place.tenant !== SERVICE || hash === undefined) {
    return { ...record, from, bodies: { through, isCall: of === "calls" } };
  }
  const removed = last && { ...last, digest: bytesOf(last.digest), previous: bytesOf(last.previous) };
  return { ...record, from, cut: { number: through, hash: bytesOf(hash), last: removed } };
}

function areFacts(facts: JsonObject): facts is JsonObject & Facts {
  const { limits, through, hash, of, chain, last } = facts;
  return (
    (limits === undefined || (isObject(limits) && LIMITS.every((name) => Number.isFinite(limits[name])))) &&
    (through === undefined || Number.isSafeInteger(through)) &&
    [hash, of, chain].every((text) => text === undefined || typeof text === "string") &&
    (last === undefined ||
      (isObject(last) &&
        LAST_NUMBERS.every((name) => Number.isSafeInteger(last[name])) &&
        LAST_TEXTS.every((name) => typeof last[name] === "string")))
  );
}

const LIMITS = ["auditDays", "auditCallDays", "auditBytesPerTenant", "auditCallBytesPerTenant"] as const;
const LAST_NUMBERS = ["at", "since", "records", "bytes"] as const;
const LAST_TEXTS = ["tenant", "kind", "digest", "previous"] as const;

/** The facts of the last link that is removed. */
function lastRemoved(link: Omit<AuditLink, "body">, previous: Uint8Array): JsonObject {
  const { at, since, tenant, kind, records, bytes, digest } = link;
  return { at, since, tenant, kind, records, bytes, digest: hexOf(digest), previous: hexOf(previous) };
}

function bytesOf(hex: string): Uint8Array {
  return Buffer.from(hex, "hex");
}
