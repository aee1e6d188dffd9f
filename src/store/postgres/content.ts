import { cidDigest, type Block, type Cid } from "../../lib/cid.ts";
import { isPackage } from "../rules.ts";
import type { RunSql } from "./database.ts";

/**
 * The maximum size of content that one statement sends: copying it several times blocks the thread for milliseconds.
 */
const SENT_BYTES = 1024 * 1024;
/** The maximum size that one statement fetches: results arrive as text, which takes even longer. */
const FETCHED_BYTES = 1024 * 1024;

/** Content in Postgres: shared bytes, and the claims of tenants on them. Writes are parts of transactions. */

/**
 * Writes missing contents, repairs damaged ones, and locks all of them against removal. Returns their ids. Locks are
 * taken in the order of CIDs, to avoid deadlocks.
 */
export async function putContents(run: RunSql, blocks: readonly Block[]): Promise<Map<Cid, number>> {
  const blocksByCid = new Map(blocks.map((block) => [block.cid, block]));
  if (blocksByCid.size === 0) return new Map();
  const existing = await run<{ id: number; cid: Cid; isSound: boolean }>(
    `SELECT id, cid, sha256(bytes) = digest AS "isSound"
     FROM content JOIN unnest($1::text[], $2::bytea[]) AS wanted (cid, digest) USING (cid)
     ORDER BY cid FOR KEY SHARE OF content`,
    [[...blocksByCid.keys()], [...blocksByCid.keys()].map(cidDigest)],
  );
  const ids = new Map(existing.filter(({ isSound }) => isSound).map(({ id, cid }) => [cid, id]));
  const missing = [...blocksByCid.values()].filter(({ cid }) => !ids.has(cid));
  for (const batch of batchesBySize(missing.sort((a, b) => (a.cid < b.cid ? -1 : 1)))) {
    const isLong = batch[0]!.bytes.length > SENT_BYTES;
    for (const { id, cid } of await (isLong ? writeLong(run, batch[0]!) : write(run, batch))) ids.set(cid, id);
  }
  return ids;
}

type WrittenContents = readonly { readonly id: number; readonly cid: Cid }[];

const UPSERT = "ON CONFLICT (cid) DO UPDATE SET bytes = excluded.bytes RETURNING id, cid";

function write(run: RunSql, blocks: readonly Block[]): Promise<WrittenContents> {
  return run(
    `INSERT INTO content (cid, bytes, is_leaf, is_package)
     SELECT cid, substr($1::bytea, through - length + 1, length), is_package, is_package
     FROM unnest($2::text[], $3::int[], $4::int[], $5::boolean[]) WITH ORDINALITY AS each
       (cid, through, length, is_package, at) ORDER BY at ${UPSERT}`,
    [
      Buffer.concat(blocks.map(({ bytes }) => bytes)),
      blocks.map(({ cid }) => cid),
      endOffsets(blocks),
      blocks.map(({ bytes }) => bytes.length),
      blocks.map(({ bytes }) => isPackage(bytes)),
    ],
  );
}

/** Sends the bytes in parts that the database concatenates. */
async function writeLong(run: RunSql, { cid, bytes }: Block): Promise<WrittenContents> {
  for (let from = 0; from < bytes.length; from += SENT_BYTES)
    await run("INSERT INTO content_part (cid, start, bytes) VALUES ($1, $2, $3)", [
      cid,
      from,
      bytes.subarray(from, from + SENT_BYTES),
    ]);
  return run(
    `WITH part AS (DELETE FROM content_part WHERE cid = $1 RETURNING start, bytes)
     INSERT INTO content (cid, bytes, is_leaf, is_package)
     SELECT $1, string_agg(bytes, '' ORDER BY start), $2, $2 FROM part ${UPSERT}`,
    [cid, isPackage(bytes)],
  );
}

/** Gives a tenant claims on contents. Returns the ids of those that it had no claim on before. */
export async function claimContents(run: RunSql, tenant: string, ids: Iterable<number>): Promise<Set<number>> {
  const claimed = await run<{ id: number }>(
    `INSERT INTO tenant_content (tenant, content_id) SELECT $1, id FROM unnest($2::bigint[]) AS id
     ON CONFLICT DO NOTHING RETURNING content_id AS id`,
    [tenant, [...ids]],
  );
  return new Set(claimed.map(({ id }) => id));
}

/** Returns the unverified bytes if the tenant has a claim on them. */
export async function readContent(run: RunSql, tenant: string, cid: Cid): Promise<Uint8Array | undefined> {
  const from = "tenant_content JOIN content ON id = content_id WHERE tenant = $2 AND cid = $3";
  return (await readBytes(run, from, [tenant, cid]))?.bytes;
}

/**
 * Returns the unverified bytes of the contents that the tenant has a claim on, in as many queries as their size takes.
 */
export async function readContents(run: RunSql, tenant: string, cids: readonly Cid[]): Promise<Map<Cid, Uint8Array>> {
  const found = new Map<Cid, Uint8Array>();
  for (let pending: Cid[] = [...new Set(cids)]; pending.length > 0;) {
    const batch = await run<{ cid: Cid; bytes: Uint8Array | null }>(
      `SELECT cid, CASE WHEN through <= $3 THEN bytes END AS bytes FROM (
         SELECT cid, bytes, sum(octet_length(bytes)) OVER (ORDER BY cid) AS through
         FROM tenant_content JOIN content ON id = content_id WHERE tenant = $1 AND cid = ANY ($2)) AS each
       ORDER BY cid`,
      [tenant, pending, FETCHED_BYTES],
    );
    for (const { cid, bytes } of batch) if (bytes) found.set(cid, bytes);
    pending = batch.flatMap(({ cid, bytes }) => (bytes ? [] : [cid]));
    if (pending.length < batch.length || pending.length === 0) continue;
    // Even the first one is too long for one query.
    const [longCid] = pending.splice(0, 1) as [Cid];
    const bytes = await readContent(run, tenant, longCid);
    if (bytes) found.set(longCid, bytes);
  }
  return found;
}

/** Returns the unverified bytes of the single content in `from`, whose parameters begin with `$2`. */
export async function readBytes(run: RunSql, from: string, values: readonly string[]): Promise<Block | undefined> {
  const [found] = await run<Block & { readonly id: number; readonly length: number }>(
    `SELECT id, cid, octet_length(bytes) AS length, substr(bytes, 1, $1) AS bytes FROM ${from}`,
    [FETCHED_BYTES, ...values],
  );
  if (!found || found.length <= FETCHED_BYTES) return found;
  const buffer = Buffer.alloc(found.length);
  for (let at = 0, { bytes } = found; ;) {
    buffer.set(bytes, at);
    at += bytes.length;
    if (at >= found.length) return { cid: found.cid, bytes: buffer };
    const [next] = await run<Pick<Block, "bytes">>("SELECT substr(bytes, $1, $2) AS bytes FROM content WHERE id = $3", [
      at + 1,
      FETCHED_BYTES,
      found.id,
    ]);
    // Removed by a collection in the meantime.
    if (!next || next.bytes.length === 0) return undefined;
    bytes = next.bytes;
  }
}

function* batchesBySize(blocks: readonly Block[]): Generator<Block[]> {
  let batch: Block[] = [];
  let bytes = 0;
  for (const block of blocks) {
    if (batch.length > 0 && bytes + block.bytes.length > SENT_BYTES) {
      yield batch;
      [batch, bytes] = [[], 0];
    }
    batch.push(block);
    bytes += block.bytes.length;
  }
  if (batch.length > 0) yield batch;
}

function endOffsets(blocks: readonly Block[]): number[] {
  let end = 0;
  return blocks.map(({ bytes }) => (end += bytes.length));
}
