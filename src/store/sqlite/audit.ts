import type Database from "#better-sqlite3";
import {
  SERVICE,
  type AuditEntry,
  type AuditHead,
  type AuditLink,
  type ChainHead,
  type Keep,
  type Retention,
  type LinkQuery,
  type AuditLinks,
} from "../../audit/audit-entry.ts";
import { ANCHOR_MS, anchorBody, GENESIS, linkAfter, WRITTEN_LATE_MS } from "../../audit/chain.ts";
import {
  bodiesToRemove,
  bodyBytesMax,
  bytesOver,
  daysBefore,
  forgottenWith,
  headBefore,
  isStated,
  LEAP_MS,
  linksToRemove,
  presentOf,
  readRetention,
  recordOfLimits,
  recordOfLinks,
  REMOVED_LINKS,
  type DueBodies,
  type RemovableLink,
} from "../../audit/retention.ts";
import { atOnce, attempt } from "./attempt.ts";
import { storeNow } from "./clock.ts";
import type { WriteAheadLog } from "./write-ahead-log.ts";

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
    const previous = this.#statements.end.get(tenant) ?? { ...GENESIS, at: 0 };
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

  heads(): ChainHead[] {
    const { number, hash } = this.head() ?? GENESIS;
    return [{ chain: null, number, hash }, ...this.#statements.ends.all()];
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

  /** The time before which something goes. */
  #before(days: number): number {
    if (days === 0) return 0;
    const now = storeNow();
    const { latest, lastBefore, firstFrom } = this.#statements;
    const times = {
      latest: latest.get(),
      lastBefore: lastBefore.get(now - LEAP_MS),
      firstFrom: firstFrom.get(now - LEAP_MS),
    };
    return daysBefore(days, presentOf({ now, ...times }));
  }

  /** Returns true only on a trial. */
  #stateLimits(keep: Keep, isTrial = false): boolean {
    this.#stated ??= this.retentions().find((each) => each.limits);
    if (isStated(this.#stated, keep, storeNow())) return false;
    if (isTrial) return true;
    this.#appendRetention(recordOfLimits(keep), keep);
    return false;
  }

  #appendRetention(record: AuditEntry, limits: Keep): void {
    this.append(record);
    this.#stated = { at: storeNow(), limits };
  }

  #removeOldLinks(keep: Keep, isTrial = false): boolean {
    const before = this.#before(keep.auditDays);
    const oldest = this.#statements.oldestLink.get();
    if (!oldest || oldest.at >= before) return false;
    if (isTrial) return true;
    const removed = linksToRemove(this.#oldestLinksWith(oldest), before);
    const head = headBefore(oldest.chain, this.retentions());
    // Comes first, since a chain with nothing in it has no end.
    this.#appendRetention(recordOfLinks(removed, head, keep), keep);
    for (const link of removed) this.#removeLink(link);
    return true;
  }

  /** The oldest links of the chain of which this one is the oldest. */
  #oldestLinksWith({ chain }: RemovableLink): RemovableLink[] {
    const { oldestAnchors, oldestOfTenant } = this.#statements;
    return chain === null ? oldestAnchors.all(REMOVED_LINKS) : oldestOfTenant.all(chain, REMOVED_LINKS);
  }

  #removeLink(link: RemovableLink): void {
    this.#statements.removeLink.run(link.arrival);
    this.#uncount(link.tenant, link.kind === "call", link.keptBytes);
    const forgotten = forgottenWith(link);
    if (forgotten) this.#statements.forget.run(forgotten.chain, forgotten.number);
  }

  #uncount(tenant: string, isCall: boolean, bytes: number): void {
    if (bytes > 0) this.#statements.uncount.run(isCall ? bytes : 0, isCall ? 0 : bytes, tenant);
  }

  #removeBodies(keep: Keep, isTrial = false): boolean {
    const before = this.#before(keep.auditCallDays);
    for (const { tenant, isCall, bytes } of this.#statements.keptBytes.all()) {
      const over = bytesOver(bytes, bodyBytesMax(isCall === 1, keep));
      const oldest = isCall && before > 0 ? this.#statements.oldest.get({ tenant, isCall }) : undefined;
      const isOld = oldest !== undefined && oldest.at < before;
      if (over === 0 && !isOld) continue;
      if (!isTrial) this.#removeBodiesOf({ tenant, isCall: isCall === 1, over, before }, keep);
      return true;
    }
    return false;
  }

  #removeBodiesOf(due: DueBodies, keep: Keep): void {
    const { tenant, isCall } = due;
    const of = { tenant, isCall: isCall ? 1 : 0 };
    const removed = bodiesToRemove(this.#statements.oldestOf.all({ ...of, max: REMOVED_LINKS }), due, keep);
    if (!removed) return;
    this.#statements.removeBodies.run({ ...of, through: removed.arrivals.at(-1)! });
    this.#uncount(tenant, isCall, removed.bytes);
    this.#appendRetention(removed.record, keep);
  }
}

function minuteOf(at: number): number {
  return Math.floor(at / ANCHOR_MS);
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

/** SQLite keeps a value of any type in any column: damaged data has the right type and fits nothing. */
const HASH = "CAST(hash AS BLOB) AS hash";
const PLACE = "iif(kind = 'anchor', NULL, tenant) AS chain, place AS number";
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
    latest: database.prepare<[], number | null>("SELECT max(at) FROM audit").pluck(),
    lastBefore: database.prepare<[number], number | null>("SELECT max(at) FROM audit WHERE at < ?").pluck(),
    firstFrom: database.prepare<[number], number | null>("SELECT min(at) FROM audit WHERE at >= ?").pluck(),
    oldestLink: database.prepare<[], RemovableLink>(`${removable} ORDER BY at, arrival LIMIT 1`),
    oldestAnchors: database.prepare<[number], RemovableLink>(
      `${removable} WHERE kind = 'anchor' ORDER BY at, arrival LIMIT ?`,
    ),
    oldestOfTenant: database.prepare<[string, number], RemovableLink>(
      `${removable} WHERE tenant = ? AND ${isOther} ORDER BY at, arrival LIMIT ?`,
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
    retentions: database.prepare<[], Parameters<typeof readRetention>[0]>(
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
      Pick<AuditLink, "number" | "arrival" | "at" | "bytes" | "records">
    >(
      `SELECT place AS number, arrival, at, bytes, records FROM audit WHERE ${kept}
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
