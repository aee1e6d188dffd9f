import type Database from "better-sqlite3";
import type { AuditLinks } from "../audit/entry.ts";
import type { SqliteAudit } from "./sqlite-audit.ts";
import { atOnce, attempt, withoutDisk } from "./sqlite-work.ts";

/** The audit log as it is used from outside of the store. `busyMs` is how long others are waited for. */
export function sqliteAuditLinks(database: Database.Database, audit: SqliteAudit, busyMs: number): AuditLinks {
  return {
    async append(entries, { patient = false } = {}) {
      const write = (): void => withoutDisk(database, () => attempt(() => audit.appendAll(entries)));
      if (patient) write();
      else atOnce(database, busyMs, write);
    },
    newest: (query) => attempt(() => audit.newest(query)),
    all: () => audit.all(),
    removals: () => attempt(() => audit.removals()),
    head: () => attempt(() => audit.head()),
    async retain(keep) {
      return atOnce(database, busyMs, () => withoutDisk(database, () => attempt(() => audit.retain(keep))));
    },
  };
}
