import type Database from "#better-sqlite3";
import { matches, matchesInTurns, type Block, type Cid } from "../../lib/cid.ts";
import { BerthError } from "../../lib/errors.ts";

/** Content in a SQLite file: shared bytes, and the claims of tenants on them. Used within transactions. */
export class SqliteContent {
  readonly #statements;

  constructor(database: Database.Database) {
    this.#statements = prepare(database);
  }

  /** The number of a content, which is written if missing. */
  idOf({ cid, bytes }: Block): number {
    const held = this.#statements.held.get(cid);
    if (!held) return Number(this.#statements.put.run(cid, bytes).lastInsertRowid);
    // Bytes that went bad on the disk are repaired when anyone puts the right ones again.
    if (!held.bytes.equals(bytes)) this.#statements.mend.run(bytes, held.id);
    return held.id;
  }

  /** Writes a content for a tenant; false when the tenant already had it. */
  claim(tenant: string, block: Block): boolean {
    return this.#statements.claim.run(tenant, this.idOf(block)).changes > 0;
  }

  isClaimed(tenant: string, cid: Cid): boolean {
    return this.#statements.isClaimed.get(tenant, cid) !== undefined;
  }

  /** The unverified bytes, if the tenant has a claim on them. */
  read(tenant: string, cid: Cid): Uint8Array | undefined {
    return this.#statements.read.get(tenant, cid);
  }
}

/** The bytes, if they match their CID. Throws `content_corrupt`. */
export function verified(cid: Cid, bytes: Uint8Array): Uint8Array {
  return sound(cid, bytes, matches(cid, bytes));
}

/** As `verified`, for bytes that may be long: calls of others get their turns meanwhile. Throws or rejects. */
export function verifiedInTurns(cid: Cid, bytes: Uint8Array): Uint8Array | Promise<Uint8Array> {
  const matching = matchesInTurns(cid, bytes);
  return matching instanceof Promise
    ? matching.then((isSound) => sound(cid, bytes, isSound))
    : sound(cid, bytes, matching);
}

function sound(cid: Cid, bytes: Uint8Array, isSound: boolean): Uint8Array {
  if (isSound) return bytes;
  throw new BerthError("content_corrupt", `${cid}; save it again, or restore a backup`, { data: { cid } });
}

function prepare(database: Database.Database) {
  const claimed = "FROM tenant_content JOIN content ON id = content_id WHERE tenant = ? AND cid = ?";
  return {
    held: database.prepare<[string], { id: number; bytes: Buffer }>("SELECT id, bytes FROM content WHERE cid = ?"),
    put: database.prepare<[string, Uint8Array]>("INSERT INTO content (cid, bytes) VALUES (?, ?)"),
    mend: database.prepare<[Uint8Array, number]>("UPDATE content SET bytes = ? WHERE id = ?"),
    claim: database.prepare<[string, number]>(
      "INSERT OR IGNORE INTO tenant_content (tenant, content_id) VALUES (?, ?)",
    ),
    isClaimed: database.prepare<[string, string], number>(`SELECT 1 ${claimed}`).pluck(),
    read: database.prepare<[string, string], Uint8Array>(`SELECT bytes ${claimed}`).pluck(),
  };
}
