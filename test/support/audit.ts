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
  tamper(sql: string): number {
    const database = new Database(join(this.path, DATABASE_FILE));
    try {
      return database.prepare(sql).run().changes;
    } finally {
      database.close();
    }
  }

  put(column: string, value: unknown, number: number): void {
    const database = new Database(join(this.path, DATABASE_FILE));
    try {
      database.prepare(`UPDATE audit SET ${column} = ? WHERE arrival = ?`).run(value, number);
    } finally {
      database.close();
    }
  }

  rows(sql: string, ...values: unknown[]): unknown[] {
    const database = new Database(join(this.path, DATABASE_FILE), { readonly: true });
    try {
      return database.prepare(sql).all(...values);
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
