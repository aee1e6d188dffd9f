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
import { atOnce, attempt } from "./attempt.ts";
import { sqliteDialect } from "./dialect.ts";
import { inTransaction, runSteps } from "./steps.ts";
import type { WriteAheadLog } from "./write-ahead-log.ts";

/** Appends an event to the audit log in the transaction of its change. */
export function appendAudit(database: Database.Database, entry: AuditEntry): void {
  runSteps(database, appendLinks(sqliteDialect, [entry]));
}

/** As `appendAudit`, in a transaction of its own. */
export function appendAllAudit(database: Database.Database, entries: readonly AuditEntry[]): void {
  inTransaction(database, () => appendLinks(sqliteDialect, entries));
}

export function auditHead(database: Database.Database): AuditHead | undefined {
  return runSteps(database, anchorHead(sqliteDialect));
}

/** The audit log, to be verified. */
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

/** The audit log as the rest of Berth uses it. `busyMs` is how long it waits for other processes. */
export function sqliteAuditLinks(database: Database.Database, log: WriteAheadLog, busyMs: number): AuditLinks {
  const write = <T>(work: () => T, patient = false): Promise<T> =>
    log.write(() => (patient ? work() : atOnce(database, busyMs, work)));
  return {
    ...readableLinks(database),
    head: async () => attempt(() => auditHead(database)),
    append: (entries, { patient } = {}) => write(() => appendAllAudit(database, entries), patient),

    anchor: ({ now = false, patient } = {}) =>
      write(() => {
        // Usually there is nothing to do, and nothing has to wait for the lock.
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
