import { findCids, type Cid } from "../lib/cid.ts";
import { toBatches } from "./collection-sums.ts";
import type { Dialect } from "./dialect.ts";
import { toIds } from "./leftover-claims.ts";
import { rows, type Steps } from "./steps.ts";
import type { Change } from "./store.ts";

/** The numbers of possible CIDs to look up, and of bytes of content to read, at once. */
const CIDS = 1_000;
const BYTES = 1024 * 1024;
/** The maximum number of contents to read at once. */
const ROWS = 200;

/** The content that one tenant refers to. */
export class ContentReach {
  readonly #dialect: Dialect;
  readonly #tenant: string;
  readonly #reached = new Set<Cid>();
  /** Contents that were read and refer to no others. */
  #leaves: Cid[] = [];

  constructor(dialect: Dialect, tenant: string) {
    this.#dialect = dialect;
    this.#tenant = tenant;
  }

  has(cid: Cid): boolean {
    return this.#reached.has(cid);
  }

  markIn(texts: readonly Uint8Array[]): Steps<void> {
    return this.mark(texts.flatMap((text) => [...findCids(text)]));
  }

  /** Texts that match no content of the tenant are not stored. */
  *mark(roots: readonly Cid[]): Steps<void> {
    for (let pending = new Set(roots); pending.size > 0;) {
      const referenced = new Set<Cid>();
      const unvisited = [...pending].filter((cid) => !this.#reached.has(cid));
      for (const batch of toBatches(unvisited, CIDS)) {
        const contents = yield* this.#findContents(batch);
        for (const { cid } of contents) this.#reached.add(cid);
        const nonLeaves = contents.filter(({ isLeaf }) => !isLeaf);
        for (const part of toBatches(nonLeaves, ROWS, BYTES)) yield* this.#read(part, referenced);
      }
      pending = referenced;
    }
  }

  #findContents(cids: readonly Cid[]): Steps<FoundContent[]> {
    return rows<FoundContent>(
      `SELECT cid, ${this.#dialect.isLeaf} AS "isLeaf", octet_length(bytes) AS bytes FROM content
       WHERE ${this.#dialect.oneOf("cid", "$2")} AND (
         EXISTS (SELECT 1 FROM tenant_content WHERE tenant = $1 AND content_id = id)
         OR EXISTS (SELECT 1 FROM left_content WHERE tenant = $1 AND content_id = id))`,
      [this.#tenant, cids],
    );
  }

  *#read(blocks: readonly FoundContent[], referenced: Set<Cid>): Steps<void> {
    const contents = yield* rows<{ cid: Cid; bytes: Buffer }>(
      `SELECT cid, bytes FROM content WHERE ${this.#dialect.oneOf("cid", "$1")}`,
      [blocks.map(({ cid }) => cid)],
    );
    for (const { cid, bytes } of contents) {
      const cids = findCids(bytes);
      if (cids.size === 0) this.#leaves.push(cid);
      for (const each of cids) referenced.add(each);
    }
  }

  /** Returns newly found leaves, to be stored so that later collections do not read them again. */
  takeLeaves(): Cid[] {
    return this.#leaves.splice(0);
  }
}

interface FoundContent {
  readonly cid: Cid;
  readonly isLeaf: boolean | number;
  readonly bytes: number;
}

/**
 * Recovers what a change of a tenant refers to if it was about to be removed as unreferenced. Returns the bytes that
 * the tenant claims again.
 */
export function* reclaim(
  dialect: Dialect,
  tenant: string,
  { put = [], set = [] }: Pick<Change, "put" | "set">,
): Steps<number> {
  const left = yield* rows("SELECT 1 FROM left_content WHERE tenant = $1 LIMIT 1", [tenant]);
  if (left.length === 0) return 0;
  const visited = new Set<Cid>();
  for (const { cid } of set) if (cid !== null) visited.add(cid);
  for (const { cid, bytes } of put) for (const each of [cid, ...findCids(bytes)]) visited.add(each);
  let added = 0;
  for (let pending = [...visited]; pending.length > 0;) {
    const contentClause = "FROM content WHERE content.id = content_id";
    const recovered = yield* rows<{ id: number; length: number; bytes: Uint8Array | null }>(
      `DELETE FROM left_content
       WHERE tenant = $1 AND content_id IN (SELECT id FROM content WHERE ${dialect.oneOf("cid", "$2")})
       RETURNING content_id AS id, (SELECT octet_length(bytes) ${contentClause}) AS length,
         (SELECT CASE WHEN NOT ${dialect.isLeaf} THEN bytes END ${contentClause}) AS bytes`,
      [tenant, pending],
    );
    const claimed = yield* rows<{ id: number }>(
      `INSERT INTO tenant_content (tenant, content_id) SELECT $1, id FROM content WHERE ${dialect.oneOf("id", "$2")}
       ON CONFLICT DO NOTHING RETURNING content_id AS id`,
      [tenant, toIds(recovered)],
    );
    const claimedIds = new Set(toIds(claimed));
    for (const { id, length } of recovered) if (claimedIds.has(id)) added += length;
    // What these contents refer to is recovered with them.
    pending = [];
    for (const { bytes } of recovered) {
      for (const cid of bytes ? findCids(bytes) : []) if (visited.size < visited.add(cid).size) pending.push(cid);
    }
  }
  return added;
}
