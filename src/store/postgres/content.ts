import { digestOf, type Block, type Cid } from "../../lib/cid.ts";
import { isPackage } from "../rules.ts";
import type { RunSql } from "./database.ts";

/** The bytes of content that one statement sends: each is copied a few times on its way, which takes the thread milliseconds. */
const SENT_BYTES = 1024 * 1024;
/** The bytes that one statement fetches: they arrive as text, which takes longer still. */
const FETCHED_BYTES = 1024 * 1024;

/** Content in Postgres: shared bytes, and the claims of tenants on them. The writing functions are parts of transactions. */

/**
 * Writes what is missing, and what went bad on the disk, and keeps all of it from being removed meanwhile. Returns its
 * numbers. All go by the order of CIDs, so that nobody waits for each other.
 */
export async function putContents(run: RunSql, blocks: readonly Block[]): Promise<Map<Cid, number>> {
  const wanted = new Map(blocks.map((block) => [block.cid, block]));
  if (wanted.size === 0) return new Map();
  const there = await run<{ id: number; cid: Cid; isSound: boolean }>(
    `SELECT id, cid, sha256(bytes) = digest AS "isSound"
     FROM content JOIN unnest($1::text[], $2::bytea[]) AS wanted (cid, digest) USING (cid)
     ORDER BY cid FOR KEY SHARE OF content`,
    [[...wanted.keys()], [...wanted.keys()].map(digestOf)],
  );
  const ids = new Map(there.filter(({ isSound }) => isSound).map(({ id, cid }) => [cid, id]));
  const missing = [...wanted.values()].filter(({ cid }) => !ids.has(cid));
  for (const some of inParts(missing.sort((a, b) => (a.cid < b.cid ? -1 : 1)))) {
    const isLong = some[0]!.bytes.length > SENT_BYTES;
    for (const { id, cid } of await (isLong ? writeLong(run, some[0]!) : write(run, some))) ids.set(cid, id);
  }
  return ids;
}

type Written = readonly { readonly id: number; readonly cid: Cid }[];

const WRITTEN = "ON CONFLICT (cid) DO UPDATE SET bytes = excluded.bytes RETURNING id, cid";

function write(run: RunSql, blocks: readonly Block[]): Promise<Written> {
  return run(
    `INSERT INTO content (cid, bytes, is_leaf, is_package)
     SELECT cid, substr($1::bytea, through - length + 1, length), is_package, is_package
     FROM unnest($2::text[], $3::int[], $4::int[], $5::boolean[]) WITH ORDINALITY AS each
       (cid, through, length, is_package, at) ORDER BY at ${WRITTEN}`,
    [
      Buffer.concat(blocks.map(({ bytes }) => bytes)),
      blocks.map(({ cid }) => cid),
      endsOf(blocks),
      blocks.map(({ bytes }) => bytes.length),
      blocks.map(({ bytes }) => isPackage(bytes)),
    ],
  );
}

/** Part by part, which the database puts together. */
async function writeLong(run: RunSql, { cid, bytes }: Block): Promise<Written> {
  for (let from = 0; from < bytes.length; from += SENT_BYTES)
    await run("INSERT INTO content_part (cid, start, bytes) VALUES ($1, $2, $3)", [
      cid,
      from,
      bytes.subarray(from, from + SENT_BYTES),
    ]);
  return run(
    `WITH part AS (DELETE FROM content_part WHERE cid = $1 RETURNING start, bytes)
     INSERT INTO content (cid, bytes, is_leaf, is_package)
     SELECT $1, string_agg(bytes, '' ORDER BY start), $2, $2 FROM part ${WRITTEN}`,
    [cid, isPackage(bytes)],
  );
}

/** Lets a tenant read contents, and returns the numbers of those that it could not read before. */
export async function claimContents(run: RunSql, tenant: string, ids: Iterable<number>): Promise<Set<number>> {
  const claimed = await run<{ id: number }>(
    `INSERT INTO tenant_content (tenant, content_id) SELECT $1, id FROM unnest($2::bigint[]) AS id
     ON CONFLICT DO NOTHING RETURNING content_id AS id`,
    [tenant, [...ids]],
  );
  return new Set(claimed.map(({ id }) => id));
}

/** The unverified bytes, if the tenant has a claim on them. */
export async function readContent(run: RunSql, tenant: string, cid: Cid): Promise<Uint8Array | undefined> {
  const from = "tenant_content JOIN content ON id = content_id WHERE tenant = $2 AND cid = $3";
  return (await readBytes(run, from, [tenant, cid]))?.bytes;
}

/** The unverified bytes of those contents that the tenant has a claim on, in as many parts as their length takes. */
export async function readContents(run: RunSql, tenant: string, cids: readonly Cid[]): Promise<Map<Cid, Uint8Array>> {
  const found = new Map<Cid, Uint8Array>();
  for (let wanted: Cid[] = [...new Set(cids)]; wanted.length > 0;) {
    const there = await run<{ cid: Cid; bytes: Uint8Array | null }>(
      `SELECT cid, CASE WHEN through <= $3 THEN bytes END AS bytes FROM (
         SELECT cid, bytes, sum(octet_length(bytes)) OVER (ORDER BY cid) AS through
         FROM tenant_content JOIN content ON id = content_id WHERE tenant = $1 AND cid = ANY ($2)) AS each
       ORDER BY cid`,
      [tenant, wanted, FETCHED_BYTES],
    );
    for (const { cid, bytes } of there) if (bytes) found.set(cid, bytes);
    wanted = there.flatMap(({ cid, bytes }) => (bytes ? [] : [cid]));
    if (wanted.length < there.length || wanted.length === 0) continue;
    // Even the first is longer.
    const [long] = wanted.splice(0, 1) as [Cid];
    const bytes = await readContent(run, tenant, long);
    if (bytes) found.set(long, bytes);
  }
  return found;
}

/** The unverified bytes of the one content in `from`, whose parameters begin with `$2`. */
export async function readBytes(run: RunSql, from: string, values: readonly string[]): Promise<Block | undefined> {
  const [found] = await run<Block & { readonly id: number; readonly length: number }>(
    `SELECT id, cid, octet_length(bytes) AS length, substr(bytes, 1, $1) AS bytes FROM ${from}`,
    [FETCHED_BYTES, ...values],
  );
  if (!found || found.length <= FETCHED_BYTES) return found;
  const whole = Buffer.alloc(found.length);
  for (let at = 0, { bytes } = found; ;) {
    whole.set(bytes, at);
    at += bytes.length;
    if (at >= found.length) return { cid: found.cid, bytes: whole };
    const [next] = await run<Pick<Block, "bytes">>("SELECT substr(bytes, $1, $2) AS bytes FROM content WHERE id = $3", [
      at + 1,
      FETCHED_BYTES,
      found.id,
    ]);
    // Collected meanwhile.
    if (!next || next.bytes.length === 0) return undefined;
    bytes = next.bytes;
  }
}

function* inParts(blocks: readonly Block[]): Generator<Block[]> {
  let part: Block[] = [];
  let bytes = 0;
  for (const block of blocks) {
    if (part.length > 0 && bytes + block.bytes.length > SENT_BYTES) {
      yield part;
      [part, bytes] = [[], 0];
    }
    part.push(block);
    bytes += block.bytes.length;
  }
  if (part.length > 0) yield part;
}

function endsOf(blocks: readonly Block[]): number[] {
  let end = 0;
  return blocks.map(({ bytes }) => (end += bytes.length));
}
