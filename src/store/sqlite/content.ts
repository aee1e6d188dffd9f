import type Database from "#better-sqlite3";
import { cidsIn, type Block, type Cid } from "../../lib/cid.ts";
import { isPackage } from "../rules.ts";
import type { Change } from "../store.ts";

/** Content in a SQLite file: shared bytes, and the claims of tenants on them. Used within transactions. */
export class SqliteContent {
  readonly #statements;

  constructor(database: Database.Database) {
    this.#statements = prepare(database);
  }

  /** The number of a content, which is written if missing. */
  idOf({ cid, bytes }: Block): number {
    const held = this.#statements.held.get(cid);
    if (!held) {
      const id = Number(this.#statements.put.run(cid, bytes).lastInsertRowid);
      if (isPackage(bytes)) this.#statements.addLeaf.run(id);
      return id;
    }
    // Bytes that went bad on the disk are repaired when anyone puts the right ones again.
    if (!held.bytes.equals(bytes)) this.#statements.mend.run(bytes, held.id);
    return held.id;
  }

  /** Writes a content for a tenant; false when the tenant already had it. */
  claim(tenant: string, block: Block): boolean {
    return this.#statements.claim.run(tenant, this.idOf(block)).changes > 0;
  }

  /** True if the tenant has content that nothing referred to, so that each change is searched for references. */
  hasLeft(tenant: string): boolean {
    return this.#statements.hasLeft.get(tenant) !== undefined;
  }

  /**
   * Keeps what a change of a tenant refers to, if it was about to be removed because nothing referred to it. Returns the
   * bytes that the tenant claims again.
   */
  takeBack(tenant: string, { put = [], set = [] }: Pick<Change, "put" | "set">): number {
    if (!this.hasLeft(tenant)) return 0;
    const wanted = new Set<Cid>();
    for (const { cid } of set) if (cid !== null) wanted.add(cid);
    for (const { cid, bytes } of put) for (const each of [cid, ...cidsIn(bytes)]) wanted.add(each);
    let claimed = 0;
    // What it refers to in turn is added on the way.
    for (const cid of wanted) {
      const left = this.#statements.left.get(tenant, cid);
      if (!left) continue;
      this.#statements.forgetLeft.run(tenant, left.id);
      if (this.#statements.claim.run(tenant, left.id).changes > 0) claimed += left.length;
      const bytes = left.isLeaf ? undefined : this.#statements.bytes.get(left.id);
      if (bytes) for (const each of cidsIn(bytes)) wanted.add(each);
    }
    return claimed;
  }

  isClaimed(tenant: string, cid: Cid): boolean {
    return this.#statements.isClaimed.get(tenant, cid) !== undefined;
  }

  /** The unverified bytes, if the tenant has a claim on them. */
  read(tenant: string, cid: Cid): Uint8Array | undefined {
    return this.#statements.read.get(tenant, cid);
  }
}

function prepare(database: Database.Database) {
  const claimed = "FROM tenant_content JOIN content ON id = content_id WHERE tenant = ? AND cid = ?";
  return {
    held: database.prepare<[string], { id: number; bytes: Buffer }>("SELECT id, bytes FROM content WHERE cid = ?"),
    put: database.prepare<[string, Uint8Array]>("INSERT INTO content (cid, bytes) VALUES (?, ?)"),
    addLeaf: database.prepare<[number]>("INSERT INTO content_leaf (content_id, is_package) VALUES (?, 1)"),
    hasLeft: database.prepare<[string], number>("SELECT 1 FROM left_content WHERE tenant = ? LIMIT 1").pluck(),
    left: database.prepare<[string, string], { id: number; length: number; isLeaf: number }>(
      `SELECT id, LENGTH(bytes) AS length, EXISTS (SELECT 1 FROM content_leaf WHERE content_id = id) AS isLeaf
       FROM content JOIN left_content ON left_content.content_id = id WHERE tenant = ? AND cid = ?`,
    ),
    bytes: database.prepare<[number], Buffer>("SELECT bytes FROM content WHERE id = ?").pluck(),
    forgetLeft: database.prepare<[string, number]>("DELETE FROM left_content WHERE tenant = ? AND content_id = ?"),
    mend: database.prepare<[Uint8Array, number]>("UPDATE content SET bytes = ? WHERE id = ?"),
    claim: database.prepare<[string, number]>(
      "INSERT OR IGNORE INTO tenant_content (tenant, content_id) VALUES (?, ?)",
    ),
    isClaimed: database.prepare<[string, string], number>(`SELECT 1 ${claimed}`).pluck(),
    read: database.prepare<[string, string], Uint8Array>(`SELECT bytes ${claimed}`).pluck(),
  };
}
