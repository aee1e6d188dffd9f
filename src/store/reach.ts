import { cidsIn, type Cid } from "../lib/cid.ts";
import { partsOf } from "./collection-sums.ts";
import type { Dialect } from "./dialect.ts";
import { idsOf } from "./left-claims.ts";
import { rows, type Steps } from "./steps.ts";
import type { Change } from "./store.ts";

/** Texts that may be CIDs and are looked up together, and bytes of content that are read together. */
const CIDS = 1_000;
const BYTES = 1024 * 1024;
/** Contents that are read together. */
const ROWS = 200;

/** The content that one tenant refers to. */
export class ContentReach {
  readonly #dialect: Dialect;
  readonly #tenant: string;
  readonly #reached = new Set<Cid>();
  /** Contents that were read and name no other. */
  #leaves: Cid[] = [];

  constructor(dialect: Dialect, tenant: string) {
    this.#dialect = dialect;
    this.#tenant = tenant;
  }

  has(cid: Cid): boolean {
    return this.#reached.has(cid);
  }

  markIn(texts: readonly Uint8Array[]): Steps<void> {
    return this.mark(texts.flatMap((text) => [...cidsIn(text)]));
  }

  /** Texts that lead to nothing of the tenant are not remembered. */
  *mark(roots: readonly Cid[]): Steps<void> {
    for (let wanted = new Set(roots); wanted.size > 0;) {
      const named = new Set<Cid>();
      const unknown = [...wanted].filter((cid) => !this.#reached.has(cid));
      for (const some of partsOf(unknown, CIDS)) {
        const found = yield* this.#found(some);
        for (const { cid } of found) this.#reached.add(cid);
        const inner = found.filter(({ isLeaf }) => !isLeaf);
        for (const few of partsOf(inner, ROWS, BYTES)) yield* this.#read(few, named);
      }
      wanted = named;
    }
  }

  #found(cids: readonly Cid[]): Steps<Found[]> {
    return rows<Found>(
      `SELECT cid, ${this.#dialect.isLeaf} AS "isLeaf", octet_length(bytes) AS bytes FROM content
       WHERE ${this.#dialect.oneOf("cid", "$2")} AND (
         EXISTS (SELECT 1 FROM tenant_content WHERE tenant = $1 AND content_id = id)
         OR EXISTS (SELECT 1 FROM left_content WHERE tenant = $1 AND content_id = id))`,
      [this.#tenant, cids],
    );
  }

  *#read(found: readonly Found[], named: Set<Cid>): Steps<void> {
    const contents = yield* rows<{ cid: Cid; bytes: Buffer }>(
      `SELECT cid, bytes FROM content WHERE ${this.#dialect.oneOf("cid", "$1")}`,
      [found.map(({ cid }) => cid)],
    );
    for (const { cid, bytes } of contents) {
      const cids = cidsIn(bytes);
      if (cids.size === 0) this.#leaves.push(cid);
      for (const each of cids) named.add(each);
    }
  }

  /** They are stored, so that no collection reads them again. */
  takeLeaves(): Cid[] {
    return this.#leaves.splice(0);
  }
}

interface Found {
  readonly cid: Cid;
  readonly isLeaf: boolean | number;
  readonly bytes: number;
}

/**
 * Keeps what a change of a tenant refers to, if it was about to be removed because nothing referred to it. Returns the
 * bytes that the tenant claims again.
 */
export function* takeBack(
  dialect: Dialect,
  tenant: string,
  { put = [], set = [] }: Pick<Change, "put" | "set">,
): Steps<number> {
  const left = yield* rows("SELECT 1 FROM left_content WHERE tenant = $1 LIMIT 1", [tenant]);
  if (left.length === 0) return 0;
  const seen = new Set<Cid>();
  for (const { cid } of set) if (cid !== null) seen.add(cid);
  for (const { cid, bytes } of put) for (const each of [cid, ...cidsIn(bytes)]) seen.add(each);
  let added = 0;
  for (let wanted = [...seen]; wanted.length > 0;) {
    const ofContent = "FROM content WHERE content.id = content_id";
    const back = yield* rows<{ id: number; length: number; bytes: Uint8Array | null }>(
      `DELETE FROM left_content
       WHERE tenant = $1 AND content_id IN (SELECT id FROM content WHERE ${dialect.oneOf("cid", "$2")})
       RETURNING content_id AS id, (SELECT octet_length(bytes) ${ofContent}) AS length,
         (SELECT CASE WHEN NOT ${dialect.isLeaf} THEN bytes END ${ofContent}) AS bytes`,
      [tenant, wanted],
    );
    const claimed = yield* rows<{ id: number }>(
      `INSERT INTO tenant_content (tenant, content_id) SELECT $1, id FROM content WHERE ${dialect.oneOf("id", "$2")}
       ON CONFLICT DO NOTHING RETURNING content_id AS id`,
      [tenant, idsOf(back)],
    );
    const ids = new Set(idsOf(claimed));
    for (const { id, length } of back) if (ids.has(id)) added += length;
    // What it refers to in turn comes back with it.
    wanted = [];
    for (const { bytes } of back) {
      for (const cid of bytes ? cidsIn(bytes) : []) if (seen.size < seen.add(cid).size) wanted.push(cid);
    }
  }
  return added;
}
