import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import Database from "#better-sqlite3";
import type { AuditLinks } from "../../src/audit/audit-entry.ts";
import type { AuditedCall } from "../../src/audit/call-block.ts";
import type { AuditFilter } from "../../src/audit/filter.ts";
import type { AuditRecord } from "../../src/audit/record.ts";
import { searchLog } from "../../src/audit/search.ts";
import { DATABASE_FILE } from "../../src/store/sqlite/open-database.ts";

export class Folder {
  readonly path = mkdtempSync(join(tmpdir(), "berth-audit-"));

  /** Changes the file as an attacker with access to it could; returns the number of changed rows. */
  tamper(sql: string, ...values: unknown[]): number {
    return this.#use((database) => database.prepare(sql).run(...values).changes);
  }

  put(column: string, value: unknown, number: number): void {
    this.tamper(`UPDATE audit SET ${column} = ? WHERE arrival = ?`, value, number);
  }

  rows(sql: string, ...values: unknown[]): unknown[] {
    return this.#use((database) => database.prepare(sql).all(...values), { readonly: true });
  }

  #use<T>(work: (database: Database.Database) => T, options: Database.Options = {}): T {
    const database = new Database(join(this.path, DATABASE_FILE), options);
    try {
      return work(database);
    } finally {
      database.close();
    }
  }

  remove(): void {
    rmSync(this.path, { recursive: true, force: true });
  }
}

/** All records of a log, the oldest first. */
export async function recordsOf(
  links: AuditLinks,
  filter: AuditFilter & { tenant?: string } = {},
): Promise<AuditRecord[]> {
  const found = await searchLog(links, { ...filter, limit: 100_000, linksMax: Infinity });
  return found!.records.toReversed();
}

/** A call in the form that observers get. */
export function callOf(some: { tenant?: string; server?: string; tool?: string; text?: string } = {}): AuditedCall {
  const { tenant = "default", server = "echo", tool = "say", text = "hello" } = some;
  return {
    tool: { tenant, server, release: "bafyrelease", tool },
    outcome: "ok",
    beganAt: performance.now(),
    ms: 1.25,
    retries: 0,
    principal: { id: "token:1" },
    trace: { requestId: "request-1" },
    args: { text },
    result: { content: [{ type: "text", text }] },
  };
}
