import Database from "#better-sqlite3";
import type { Cid } from "../../lib/cid.ts";
import { BerthError } from "../../lib/errors.ts";
import type { JsonObject } from "../../lib/json.ts";
import { CHANGES_OF_PLACE, verified } from "../rules.ts";
import type { KeptState, NamedChange, TenantSnapshot } from "../store.ts";
import { storeNow } from "./clock.ts";

/**
 * Reads a tenant of a SQLite file in one transaction on its own connection. Sorting uses numbers and CIDs, so that only
 * one content at a time is in memory.
 */
export function sqliteTenantSnapshot(file: string, tenant: string): TenantSnapshot {
  const database = new Database(file, { readonly: true, fileMustExist: true });
  try {
    return read(database, tenant);
  } catch (error) {
    database.close();
    throw error;
  }
}

function read(database: Database.Database, tenant: string): TenantSnapshot {
  // The first read fixes the moment.
  database.exec("BEGIN");
  const limits = database.prepare<[string], string>("SELECT limits FROM tenant WHERE name = ?").pluck().get(tenant);
  if (limits === undefined) throw new BerthError("tenant_not_found", `"${tenant}"`);

  const cids = database.prepare<[string], { id: number; cid: Cid }>(
    "SELECT id, cid FROM tenant_content JOIN content ON id = content_id WHERE tenant = ? ORDER BY cid",
  );
  const bytesOf = database.prepare<[number], Uint8Array>("SELECT bytes FROM content WHERE id = ?").pluck();
  const ofNames = `FROM name_change WHERE tenant = ? AND kind NOT IN ${CHANGES_OF_PLACE}`;
  const changes = database.prepare<[string], NamedChange>(
    `SELECT kind, name, cid, changed_at AS changedAt, changed_by AS "by" ${ofNames} ORDER BY kind, name, id`,
  );
  const ofState = `FROM state_server AS o JOIN state AS s ON s.server_id = o.id
    WHERE o.tenant = ? AND (s.expires_at IS NULL OR s.expires_at > ?)`;
  const now = storeNow();
  const state = database.prepare<[string, number], Omit<KeptState, "isJson"> & { isJson: 0 | 1 }>(
    `SELECT o.server, s.key, s.value, s.is_json AS isJson, s.version, s.changed_at AS changedAt,
     s.expires_at AS expiresAt ${ofState} ORDER BY o.server, s.key`,
  );
  return {
    limits: JSON.parse(limits) as JsonObject,
    changedAt:
      database.prepare<[string], number | null>(`SELECT max(changed_at) ${ofNames}`).pluck().get(tenant) ?? null,
    async *contents() {
      for (const { id, cid } of cids.iterate(tenant)) yield { cid, bytes: verified(cid, bytesOf.get(id)!) };
    },
    async *changes() {
      yield* changes.iterate(tenant);
    },
    async secrets() {
      return database
        .prepare<[string], string>("SELECT name FROM secret WHERE tenant = ? ORDER BY name")
        .pluck()
        .all(tenant);
    },
    async *state() {
      for (const row of state.iterate(tenant, now)) yield { ...row, isJson: row.isJson === 1 };
    },
    async close() {
      database.close();
    },
  };
}
