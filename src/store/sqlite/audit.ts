import type Database from "#better-sqlite3";
import {
  KEPT_SHARE,
  SERVICE,
  entryOf,
  type AuditEntry,
  type AuditHead,
  type AuditLink,
  type Keep,
  type Retention,
  type LinkQuery,
  type AuditLinks,
  type RemovedLink,
} from "../../audit/audit-entry.ts";
import { GENESIS, hexOf, linkAfter } from "../../audit/chain.ts";
import { canonicalJson } from "../../lib/canonical-json.ts";
import { type JsonObject, isObject, soundObject } from "../../lib/json.ts";
import { atOnce, attempt } from "./attempt.ts";
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
    const previous = this.#statements.last.get() ?? { ...GENESIS, at: 0 };
    // The chain orders the times, whatever happens to the clock.
    const link = linkAfter(previous, Math.max(Date.now(), previous.at), entry);
    const { number, at, since, tenant, kind, records, bytes, digest, hash } = link;
    this.#statements.add.run(number, at, since, tenant, kind, records, bytes, digest, hash, entry.body);
    // A record of a removal stays for as long as its link.
    if (kind !== "retention") this.#statements.count.run({ tenant, isCall: isCall(kind), bytes });
  }

  readonly appendAll = (entries: readonly AuditEntry[]): void => {
    this.#database.transaction(() => entries.forEach((entry) => this.append(entry))).immediate();
  };

  newest({ tenant, kind, since, until, from, max }: LinkQuery): AuditLink[] {
    const latest = until === undefined ? Number.MAX_SAFE_INTEGER : until + WRITTEN_LATE_MS;
    const [fromAt, fromNumber] = !from || from.at > latest ? [latest, Number.MAX_SAFE_INTEGER] : [from.at, from.number];
    const query = { since: since ?? 0, until: until ?? Number.MAX_SAFE_INTEGER, fromAt, fromNumber, max };
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

  head(): AuditHead | undefined {
    return this.#statements.last.get();
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
    const now = Date.now();
    // The clock was set back.
    if ((this.#statements.last.get()?.at ?? 0) > now) return now;
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
    if (isStated && stated!.at > Date.now() - LIMITS_STATED_MS) return false;
    if (isTrial) return true;
    this.#appendRetention(SERVICE, keep, {});
    return false;
  }

  #appendRetention(tenant: string, keep: Keep, facts: JsonObject): void {
    const limits = limitsOf(keep);
    this.append(entryOf(tenant, "retention", { ...facts, limits }));
    this.#stated = { at: Date.now(), limits };
  }

  #removeOldLinks(keep: Keep, isTrial = false): boolean {
    const { auditDays } = keep;
    const first = this.#statements.first.get();
    const before = auditDays === 0 ? 0 : this.#present() - auditDays * DAY_MS;
    if (!first || first.at >= before) return false;
    if (isTrial) return true;
    let [through, removed] = [first, 0];
    for (const link of this.#statements.oldestLinks.all(REMOVED_LINKS)) {
      if (link.at >= before || removed > REMOVED_BYTES) break;
      through = link;
      removed += link.keptBytes;
    }
    for (const { tenant, isCall, bytes } of this.#statements.bytesThrough.all(through.number)) {
      this.#statements.count.run({ tenant, isCall, bytes: -bytes });
    }
    const { number } = through;
    const links = number - first.number + 1;
    const preceding = this.#statements.link.get(number - 1) ?? this.retentions().find(({ cut }) => cut)?.cut ?? GENESIS;
    const last = lastRemoved(this.#statements.link.get(number)!, preceding.hash);
    const facts = { links, through: number, hash: hexOf(through.hash), last, reason: "auditDays" };
    // Comes first, since the next record is numbered after the existing ones.
    this.#appendRetention(SERVICE, keep, facts);
    this.#statements.removeThrough.run(through.number);
    return true;
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
    let [removed, records, through] = [0, 0, 0];
    for (const link of this.#statements.oldestOf.all({ tenant, isCall, max: REMOVED_LINKS })) {
      const isWanted = removed < over || (isCall === 1 && link.at < before);
      if (!isWanted || removed > REMOVED_BYTES) break;
      removed += link.bytes;
      records += link.records;
      through = link.number;
    }
    if (through === 0) return;
    this.#statements.removeBodies.run({ tenant, isCall, through });
    this.#statements.count.run({ tenant, isCall, bytes: -removed });
    const reason = over > 0 ? (isCall ? "auditCallBytesPerTenant" : "auditBytesPerTenant") : "auditCallDays";
    const facts = { of: isCall ? "calls" : "changes", records, bytes: removed, through, reason };
    this.#appendRetention(tenant, keep, facts);
  }
}

/** The limits alone, without other fields. */
function limitsOf({ auditDays, auditCallDays, auditBytesPerTenant, auditCallBytesPerTenant }: Keep) {
  return { auditDays, auditCallDays, auditBytesPerTenant, auditCallBytesPerTenant };
}

function isCall(kind: string): number {
  return kind === "call" ? 1 : 0;
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
  readonly fromNumber: number;
}

function prepare(database: Database.Database) {
  const columns = "number, at, since, tenant, kind, records, bytes, digest, hash, body";
  // SQLite keeps a value of any type in any column: damaged data has the right type and fits nothing.
  const read =
    "number, at, since, tenant, kind, records, bytes, CAST(digest AS BLOB) AS digest, CAST(hash AS BLOB) AS hash, " +
    "CAST(body AS TEXT) AS body";
  const newest = (where: string): string =>
    `SELECT ${read} FROM audit
     WHERE ${where} (at, number) <= (@fromAt, @fromNumber) AND at >= @since AND since <= @until
     ORDER BY at DESC, number DESC LIMIT @max`;
  const kept = "tenant = @tenant AND (kind = 'call') = @isCall AND body IS NOT NULL AND kind <> 'retention'";
  return {
    last: database.prepare<[], AuditHead & { at: number }>(
      "SELECT number, CAST(hash AS BLOB) AS hash, CAST(at AS INTEGER) AS at FROM audit ORDER BY number DESC LIMIT 1",
    ),
    first: database.prepare<[], AuditHead & { at: number }>(
      "SELECT number, CAST(hash AS BLOB) AS hash, at FROM audit ORDER BY number LIMIT 1",
    ),
    lastBefore: database.prepare<[number], number | null>("SELECT max(at) FROM audit WHERE at < ?").pluck(),
    firstFrom: database.prepare<[number], number | null>("SELECT min(at) FROM audit WHERE at >= ?").pluck(),
    oldestLinks: database.prepare<[number], AuditHead & { at: number; keptBytes: number }>(
      `SELECT number, CAST(hash AS BLOB) AS hash, at, iif(body IS NULL, 0, bytes) AS "keptBytes" FROM audit ORDER BY number LIMIT ?`,
    ),
    add: database.prepare(`INSERT INTO audit (${columns}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, CAST(? AS TEXT))`),
    count: database.prepare<[KeptBytes]>(
      `INSERT INTO audit_kept_bytes (tenant, is_call, bytes) VALUES (@tenant, @isCall, @bytes)
       ON CONFLICT (tenant, is_call) DO UPDATE SET bytes = bytes + @bytes`,
    ),
    newest: database.prepare<[NewestQuery], AuditLink>(newest("")),
    newestOfKind: database.prepare<[NewestQuery & { kind: string }], AuditLink>(newest("kind = @kind AND")),
    newestOfTenant: database.prepare<[NewestQuery & { tenant: string }], AuditLink>(newest("tenant = @tenant AND")),
    newestOfTenantAndKind: database.prepare<[NewestQuery & { tenant: string; kind: string }], AuditLink>(
      newest("tenant = @tenant AND kind = @kind AND"),
    ),
    all: database.prepare<[], AuditLink>(`SELECT ${read} FROM audit ORDER BY number`),
    link: database.prepare<[number], AuditLink>(`SELECT ${read} FROM audit WHERE number = ?`),
    // Newest first.
    retentions: database.prepare<[], RetentionRow>(
      "SELECT number, at, tenant, CAST(body AS TEXT) AS body FROM audit WHERE kind = 'retention' ORDER BY number DESC",
    ),
    keptBytes: database.prepare<[], KeptBytes>(
      'SELECT tenant, is_call AS "isCall", bytes FROM audit_kept_bytes WHERE bytes > 0 ORDER BY tenant, is_call',
    ),
    oldest: database.prepare<[{ tenant: string; isCall: number }], { at: number }>(
      `SELECT at FROM audit WHERE ${kept} ORDER BY number LIMIT 1`,
    ),
    oldestOf: database.prepare<
      [{ tenant: string; isCall: number; max: number }],
      { number: number; at: number; bytes: number; records: number }
    >(`SELECT number, at, bytes, records FROM audit WHERE ${kept} ORDER BY number LIMIT @max`),
    removeBodies: database.prepare<[{ tenant: string; isCall: number; through: number }]>(
      `UPDATE audit SET body = NULL WHERE ${kept} AND number <= @through`,
    ),
    // Selected by number: grouping would make SQLite scan everything that is kept.
    bytesThrough: database.prepare<[number], KeptBytes>(
      `SELECT tenant, kind = 'call' AS "isCall", sum(bytes) AS bytes FROM audit NOT INDEXED
       WHERE number <= ? AND body IS NOT NULL AND kind <> 'retention' GROUP BY tenant, kind = 'call'`,
    ),
    removeThrough: database.prepare<[number]>("DELETE FROM audit WHERE number <= ?"),
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
    async head() {
      return attempt(() => audit.head());
    },
    retain: (keep) => log.write(() => atOnce(database, busyMs, () => audit.retain(keep))),
  };
}

/** The database row of a retention record. */
interface RetentionRow {
  readonly number: number;
  readonly at: number;
  readonly tenant: string;
  readonly body: string | null;
}

interface Facts {
  readonly limits?: Keep;
  readonly through?: number;
  readonly hash?: string;
  readonly of?: string;
  readonly last?: Omit<RemovedLink, "digest" | "previous"> & { readonly digest: string; readonly previous: string };
}

/** Reads a retention record. For one that went bad on the disk it only says that it is there. */
function readRetention({ number, at, tenant, body }: RetentionRow): Retention {
  const facts = soundObject(body ?? "");
  if (!facts || !areFacts(facts)) return { number, at, tenant, isDamaged: true };
  const { limits, through, hash, of, last } = facts;
  const record = { number, at, tenant, ...(limits && { limits }) };
  if (through === undefined) return record;
  if (tenant !== SERVICE || hash === undefined) return { ...record, bodies: { through, isCall: of === "calls" } };
  const removed = last && { ...last, digest: bytesOf(last.digest), previous: bytesOf(last.previous) };
  return { ...record, cut: { number: through, hash: bytesOf(hash), last: removed } };
}

function areFacts(facts: JsonObject): facts is JsonObject & Facts {
  const { limits, through, hash, of, last } = facts;
  return (
    (limits === undefined || (isObject(limits) && LIMITS.every((name) => Number.isFinite(limits[name])))) &&
    (through === undefined || Number.isSafeInteger(through)) &&
    [hash, of].every((text) => text === undefined || typeof text === "string") &&
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
