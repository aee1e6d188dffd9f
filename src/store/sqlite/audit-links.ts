import type Database from "#better-sqlite3";
import type { AuditLinks } from "../../audit/audit-entry.ts";
import type { SqliteAudit } from "./audit.ts";
import { atOnce, attempt } from "./work.ts";
import type { WriteAheadLog } from "./write-ahead-log.ts";

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
    newest: (query) => attempt(() => audit.newest(query)),
    all: () => audit.all(),
    retentions: () => attempt(() => audit.retentions()),
    head: () => attempt(() => audit.head()),
    retain: (keep) => log.write(() => atOnce(database, busyMs, () => audit.retain(keep))),
  };
}
