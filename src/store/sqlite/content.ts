import type Database from "#better-sqlite3";
import type { Block, Cid } from "../../lib/cid.ts";
import { isPackage } from "../rules.ts";

/** Content in a SQLite file: shared bytes, and the claims of tenants on them. Used within transactions. */
export class SqliteContent {
  readonly #statements;

  constructor(database: Database.Database) {
    this.#statements = prepare(database);
  }

  /** The id of a content, which is written if missing. */
  idOf({ cid, bytes }: Block): number {
    const existing = this.#statements.find.get(cid);
    if (!existing) {
      const id = Number(this.#statements.put.run(cid, bytes).lastInsertRowid);
      if (isPackage(bytes)) this.#statements.addLeaf.run(id);
      return id;
    }
    // Bytes that were damaged on disk are repaired when the content is put again.
    if (!existing.bytes.equals(bytes)) this.#statements.repair.run(bytes, existing.id);
    return existing.id;
  }

  /** Writes a content for a tenant. Returns false if the tenant already had it. */
  claim(tenant: string, block: Block): boolean {
    return this.#statements.claim.run(tenant, this.idOf(block)).changes > 0;
  }

  isClaimed(tenant: string, cid: Cid): boolean {
    return this.#statements.isClaimed.get(tenant, cid) !== undefined;
  }

  /** Returns the unverified bytes if the tenant has a claim on them. */
  read(tenant: string, cid: Cid): Uint8Array | undefined {
    return this.#statements.read.get(tenant, cid);
  }
}

function prepare(database: Database.Database) {
  const claimed = "FROM tenant_content JOIN content ON id = content_id WHERE tenant = ? AND cid = ?";
  return {
    find: database.prepare<[string], { id: number; bytes: Buffer }>("SELECT id, bytes FROM content WHERE cid = ?"),
    put: database.prepare<[string, Uint8Array]>("INSERT INTO content (cid, bytes) VALUES (?, ?)"),
    addLeaf: database.prepare<[number]>("INSERT INTO content_leaf (content_id, is_package) VALUES (?, 1)"),
    repair: database.prepare<[Uint8Array, number]>("UPDATE content SET bytes = ? WHERE id = ?"),
    claim: database.prepare<[string, number]>(
      "INSERT OR IGNORE INTO tenant_content (tenant, content_id) VALUES (?, ?)",
    ),
    isClaimed: database.prepare<[string, string], number>(`SELECT 1 ${claimed}`).pluck(),
    read: database.prepare<[string, string], Uint8Array>(`SELECT bytes ${claimed}`).pluck(),
  };
}
