import { BerthError } from "../../lib/errors.ts";
import type { Beat, Lease, Letter, Node, NodeStore } from "../../lib/node-store.ts";
import { lock, type PostgresDatabase, type RunSql } from "./database.ts";
import type { Feed } from "./feed.ts";

/** How long a letter waits for a node that is too busy to read it. */
const LETTER_MS = 60_000;
/** The most that waits in one box, in bytes; letters that arrive at the same moment may exceed it. */
const BOX_BYTES = 64 * 1024 * 1024;
/** The most that one look takes out of a box; the next one follows at once. */
const TAKEN_BYTES = 1024 * 1024;
const TAKEN_LETTERS = 200;
/** The most expired letters that one transaction removes. */
const EXPIRED_AT_ONCE = 100;
/** A lease that ended so long ago is forgotten. Fences follow the clock, so the next holder's is greater all the same. */
const LEASE_KEPT_MS = 86_400_000;

const QUICK = { isDurable: false } as const;

/** The part of the Postgres store that nodes keep, by the clock of the database. */
export function postgresNodes(database: PostgresDatabase, feed: Feed): NodeStore {
  return {
    beat: (node, ms) => database.transaction((run) => beat(run, node, ms), QUICK),

    leave: (node) =>
      database.transaction(async (run) => {
        await run(
          `WITH gone AS (DELETE FROM node WHERE id = $1),
             unread AS (DELETE FROM letter WHERE to_node = $1)
           UPDATE lease SET ended_at = berth_now() WHERE node = $1 AND ended_at IS NULL`,
          [node],
        );
      }, QUICK),

    post: (from, letters) =>
      database.transaction(async (run) => {
        const posted = await post(run, from, letters);
        await feed.wake(run);
        return posted;
      }, QUICK),

    take: (node) =>
      database.transaction(async (run) => {
        const taken = await run<{ id: number; text: string }>(
          `WITH next AS (
             SELECT id, sum(bytes) OVER (ORDER BY id) AS through, bytes
             FROM (SELECT id, bytes FROM letter WHERE to_node = $1 ORDER BY id LIMIT $2) AS first)
           DELETE FROM letter USING next
           WHERE letter.id = next.id AND (through <= $3 OR through = next.bytes) RETURNING letter.id, text`,
          [node, TAKEN_LETTERS, TAKEN_BYTES],
        );
        return taken.sort((a, b) => a.id - b.id).map(({ text }) => text);
      }, QUICK),

    onLetter: (node, listener) => feed.onLetter(node, listener),

    async lease(name, node) {
      // Most of the time somebody has it, and nobody should wait for the lock.
      const held = await leased(database.run, name);
      // A node that has it must not find that a crash of the database gave it to another one.
      return held ?? (await database.transaction((run) => take(run, name, node)));
    },

    leased: (name) => leased(database.run, name),

    endLease: (name, node) =>
      database.transaction(async (run) => {
        await run("UPDATE lease SET ended_at = berth_now() WHERE name = $1 AND node = $2 AND ended_at IS NULL", [
          name,
          node,
        ]);
      }, QUICK),
  };
}

async function beat(run: RunSql, { id, facts }: Node, ms: number): Promise<Beat> {
  // From here on nobody else finds that it is gone.
  const [known] = await run<{ expiresAt: number }>(
    'SELECT expires_at AS "expiresAt" FROM node WHERE id = $1 FOR UPDATE',
    [id],
  );
  // What it held is still its own where nobody has noticed.
  const living = await run<Node & { readonly now: number }>(
    `WITH now AS MATERIALIZED (SELECT berth_now() AS at),
       gone AS (DELETE FROM node WHERE id IN (
         SELECT id FROM node, now WHERE expires_at <= at AND id <> $1 FOR UPDATE OF node SKIP LOCKED) RETURNING id),
       unread AS (DELETE FROM letter USING gone WHERE to_node = gone.id),
       ended AS (UPDATE lease SET ended_at = at FROM gone, now WHERE node = gone.id AND ended_at IS NULL),
       forgotten AS (DELETE FROM lease USING now WHERE ended_at <= at - $4::bigint),
       ${EXPIRED},
       written AS (INSERT INTO node (id, facts, expires_at) SELECT $1, $2, at + $3::bigint FROM now
         ON CONFLICT (id) DO UPDATE SET facts = excluded.facts, expires_at = excluded.expires_at)
     SELECT id, facts, at AS now FROM node, now WHERE id <> $1 AND id NOT IN (SELECT id FROM gone)
     UNION ALL SELECT $1, $2, at FROM now ORDER BY id`,
    [id, facts, ms, LEASE_KEPT_MS],
  );
  return {
    living: living.map(({ id: each, facts: said }) => ({ id: each, facts: said })),
    wasGone: !known || known.expiresAt <= living[0]!.now,
  };
}

const EXPIRED = `expired AS (DELETE FROM letter WHERE id IN (
  SELECT id FROM letter, now WHERE expires_at <= at ORDER BY expires_at LIMIT ${EXPIRED_AT_ONCE}
  FOR UPDATE OF letter SKIP LOCKED))`;

async function post(run: RunSql, from: string, letters: readonly Letter[]): Promise<number[]> {
  const found = await run<{ id: string; waiting: number }>(
    `WITH now AS MATERIALIZED (SELECT berth_now() AS at), ${EXPIRED}
     SELECT id, (SELECT coalesce(sum(bytes), 0) FROM letter WHERE to_node = node.id AND letter.expires_at > at) AS waiting
     FROM node, now WHERE expires_at > at ORDER BY id`,
  );
  const boxes = new Map(found.map(({ id, waiting }) => [id, waiting]));
  const copies: { readonly box: string; readonly letter: number }[] = [];
  const posted = letters.map(({ to, text }, index) => {
    const addressed = to === undefined ? [...boxes.keys()].filter((id) => id !== from) : boxes.has(to) ? [to] : [];
    for (const box of addressed) {
      const waiting = boxes.get(box)! + Buffer.byteLength(text);
      if (waiting > BOX_BYTES)
        throw new BerthError("too_many_requests", "the node that it is meant for does not keep up", {
          data: { retryAfterSeconds: 1 },
        });
      boxes.set(box, waiting);
      copies.push({ box, letter: index + 1 });
    }
    return addressed.length;
  });
  if (copies.length > 0)
    await run(
      `INSERT INTO letter (to_node, bytes, expires_at, text)
       SELECT box, octet_length(text), berth_now() + $1::bigint, text
       FROM unnest($2::text[], $3::bigint[]) WITH ORDINALITY AS copy (box, letter, turn)
       JOIN unnest($4::text[]) WITH ORDINALITY AS written (text, letter) USING (letter) ORDER BY turn`,
      [LETTER_MS, copies.map(({ box }) => box), copies.map(({ letter }) => letter), letters.map(({ text }) => text)],
    );
  return posted;
}

async function leased(run: RunSql, name: string): Promise<Lease | undefined> {
  const [held] = await run<Lease>(
    `SELECT node, fence FROM lease JOIN node ON id = node
     WHERE name = $1 AND ended_at IS NULL AND expires_at > berth_now()`,
    [name],
  );
  return held;
}

/** Statements after the lock see all that others did before it. */
async function take(run: RunSql, name: string, node: string): Promise<Lease> {
  await lock(run, "lease", name);
  // Whoever holds it may give a sign of life at this moment, and finds then that it was not gone.
  const [held] = await run<Lease>(
    `WITH holder AS (
       SELECT expires_at FROM node WHERE id = (SELECT node FROM lease WHERE name = $1 AND ended_at IS NULL)
       FOR UPDATE SKIP LOCKED)
     SELECT node, fence FROM lease JOIN node ON id = node
     WHERE name = $1 AND ended_at IS NULL
       AND coalesce((SELECT holder.expires_at > berth_now() FROM holder), true)`,
    [name],
  );
  if (held) return held;
  const [taken] = await run<Lease>(
    `INSERT INTO lease AS before (name, node, fence) VALUES ($1, $2, berth_now())
     ON CONFLICT (name) DO UPDATE SET node = excluded.node, ended_at = NULL,
       fence = greatest(before.fence + 1, excluded.fence)
     RETURNING node, fence`,
    [name, node],
  );
  return taken!;
}
