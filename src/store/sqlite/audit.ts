import type Database from "#better-sqlite3";
import type { AuditEntry, AuditHead, AuditLink, AuditLinks, ReadableLinks } from "../../audit/audit-entry.ts";
import {
  addAnchor,
  allLinks,
  anchorHead,
  appendLinks,
  chainHeads,
  isAnchorDue,
  isRetentionDue,
  newestLinks,
  retain,
  retentions,
} from "../audit.ts";
import type { Steps } from "../steps.ts";
import { withoutWaiting, attempt } from "./attempt.ts";
import { sqliteDialect } from "./dialect.ts";
import { inTransaction, runSteps } from "./steps.ts";
import type { WriteAheadLog } from "./write-ahead-log.ts";

/** Appends an event to the audit log in the transaction of its change. */
export function appendAudit(database: Database.Database, entry: AuditEntry): void {
  runSteps(database, appendLinks(sqliteDialect, [entry]));
}

/** Appends events in a transaction of its own. */
export function appendAllAudit(database: Database.Database, entries: readonly AuditEntry[]): void {
  inTransaction(database, () => appendLinks(sqliteDialect, entries));
}

export function auditHead(database: Database.Database): AuditHead | undefined {
  return runSteps(database, anchorHead(sqliteDialect));
}

/** The audit log for verification. */
export function readableLinks(database: Database.Database): ReadableLinks {
  const read = async <T>(steps: Steps<T>): Promise<T> => attempt(() => runSteps(database, steps));
  return {
    newest: (query) => read(newestLinks(sqliteDialect, query)),
    async *all() {
      yield* database.prepare<[], AuditLink>(allLinks(sqliteDialect)).iterate();
    },
    retentions: () => read(retentions(sqliteDialect)),
    heads: () => read(chainHeads(sqliteDialect)),
  };
}

/** The audit log in SQLite. `busyMs` is how long it waits for other processes. */
export function sqliteAuditLinks(database: Database.Database, log: WriteAheadLog, busyMs: number): AuditLinks {
  const write = <T>(work: () => T, patient = false): Promise<T> =>
    log.write(() => (patient ? work() : withoutWaiting(database, busyMs, work)));
  return {
    ...readableLinks(database),
    head: async () => attempt(() => auditHead(database)),
    append: (entries, { patient } = {}) => write(() => appendAllAudit(database, entries), patient),

    anchor: ({ now = false, patient } = {}) =>
      write(() => {
        // Check without the lock first, as there is usually nothing to do.
        if (runSteps(database, isAnchorDue(now))) inTransaction(database, () => addAnchor(sqliteDialect, now));
        return auditHead(database);
      }, patient),

    retain: (keep) =>
      write(
        () =>
          runSteps(database, isRetentionDue(sqliteDialect, keep)) &&
          inTransaction(database, () => retain(sqliteDialect, keep)),
      ),
  };
}
