import { BerthError } from "../../lib/errors.ts";
import type { HeartbeatResult, Lease, NodeMessage, Node, NodeStore } from "../../lib/node-store.ts";
import { lock, type PostgresDatabase, type RunSql } from "./database.ts";
import type { Feed } from "./feed.ts";

/** How long a message is stored for a node that is too busy to read it. */
const MESSAGE_MS = 60_000;
/** The size limit of a mailbox. Messages that arrive simultaneously may exceed it. */
const MAILBOX_BYTES = 64 * 1024 * 1024;
/** The maximum taken out of a mailbox at once; the next query follows immediately. */
const TAKEN_BYTES = 1024 * 1024;
const TAKEN_MESSAGES = 200;
/** The maximum number of expired messages that one transaction removes. */
const EXPIRED_AT_ONCE = 100;
/** How long an ended lease is stored. Fences follow the clock, so a later holder's is greater anyway. */
const ENDED_LEASE_MS = 86_400_000;

const ASYNC_COMMIT = { isDurable: false } as const;

/** The coordination of nodes in Postgres, by the clock of the database. */
export function postgresNodes(database: PostgresDatabase, feed: Feed): NodeStore {
  return {
    beat: (node, ms) => database.transaction((run) => beat(run, node, ms), ASYNC_COMMIT),

    leave: (node) =>
      database.transaction(async (run) => {
        await run(
          `WITH gone AS (DELETE FROM node WHERE id = $1),
             unread AS (DELETE FROM letter WHERE to_node = $1)
           UPDATE lease SET ended_at = berth_now() WHERE node = $1 AND ended_at IS NULL`,
          [node],
        );
      }, ASYNC_COMMIT),

    post: (from, letters) =>
      database.transaction(async (run) => {
        const posted = await post(run, from, letters);
        await feed.wake(run);
        return posted;
      }, ASYNC_COMMIT),

    take: (node) =>
      database.transaction(async (run) => {
        const taken = await run<{ id: number; text: string }>(
          `WITH next AS (
             SELECT id, sum(bytes) OVER (ORDER BY id) AS through, bytes
             FROM (SELECT id, bytes FROM letter WHERE to_node = $1 ORDER BY id LIMIT $2) AS first)
           DELETE FROM letter USING next
           WHERE letter.id = next.id AND (through <= $3 OR through = next.bytes) RETURNING letter.id, text`,
          [node, TAKEN_MESSAGES, TAKEN_BYTES],
        );
        return taken.sort((a, b) => a.id - b.id).map(({ text }) => text);
      }, ASYNC_COMMIT),

    onLetter: (node, listener) => feed.onLetter(node, listener),

    async lease(name, node) {
      // Usually another node holds it, so check first without the lock.
      const holder = await findLease(database.run, name);
      // Durable: after a crash of the database, a lease that a node holds must not be given to another one.
      return holder ?? (await database.transaction((run) => acquireLease(run, name, node)));
    },

    leased: (name) => findLease(database.run, name),

    endLease: (name, node) =>
      database.transaction(async (run) => {
        await run("UPDATE lease SET ended_at = berth_now() WHERE name = $1 AND node = $2 AND ended_at IS NULL", [
          name,
          node,
        ]);
      }, ASYNC_COMMIT),
  };
}

async function beat(run: RunSql, { id, facts }: Node, ms: number): Promise<HeartbeatResult> {
  // The lock prevents other nodes from removing it as expired.
  const [previous] = await run<{ expiresAt: number }>(
    'SELECT expires_at AS "expiresAt" FROM node WHERE id = $1 FOR UPDATE',
    [id],
  );
  // Its leases are still its own if no other node has noticed the expiry.
  const living = await run<Node & { readonly now: number }>(
    `WITH now AS MATERIALIZED (SELECT berth_now() AS at),
       gone AS (DELETE FROM node WHERE id IN (
         SELECT id FROM node, now WHERE expires_at <= at AND id <> $1 FOR UPDATE OF node SKIP LOCKED) RETURNING id),
       unread AS (DELETE FROM letter USING gone WHERE to_node = gone.id),
       ended AS (UPDATE lease SET ended_at = at FROM gone, now WHERE node = gone.id AND ended_at IS NULL),
       forgotten AS (DELETE FROM lease USING now WHERE ended_at <= at - $4::bigint),
       ${REMOVE_EXPIRED},
       written AS (INSERT INTO node (id, facts, expires_at) SELECT $1, $2, at + $3::bigint FROM now
         ON CONFLICT (id) DO UPDATE SET facts = excluded.facts, expires_at = excluded.expires_at)
     SELECT id, facts, at AS now FROM node, now WHERE id <> $1 AND id NOT IN (SELECT id FROM gone)
     UNION ALL SELECT $1, $2, at FROM now ORDER BY id`,
    [id, facts, ms, ENDED_LEASE_MS],
  );
  return {
    living: living.map(({ id: each, facts: said }) => ({ id: each, facts: said })),
    wasGone: !previous || previous.expiresAt <= living[0]!.now,
  };
}

const REMOVE_EXPIRED = `expired AS (DELETE FROM letter WHERE id IN (
  SELECT id FROM letter, now WHERE expires_at <= at ORDER BY expires_at LIMIT ${EXPIRED_AT_ONCE}
  FOR UPDATE OF letter SKIP LOCKED))`;

async function post(run: RunSql, from: string, messages: readonly NodeMessage[]): Promise<number[]> {
  const nodes = await run<{ id: string; waiting: number }>(
    `WITH now AS MATERIALIZED (SELECT berth_now() AS at), ${REMOVE_EXPIRED}
     SELECT id, (SELECT coalesce(sum(bytes), 0) FROM letter WHERE to_node = node.id AND letter.expires_at > at) AS waiting
     FROM node, now WHERE expires_at > at ORDER BY id`,
  );
  const mailboxes = new Map(nodes.map(({ id, waiting: storedBytes }) => [id, storedBytes]));
  const copies: { readonly mailbox: string; readonly message: number }[] = [];
  const posted = messages.map(({ to, text }, index) => {
    const recipients =
      to === undefined ? [...mailboxes.keys()].filter((id) => id !== from) : mailboxes.has(to) ? [to] : [];
    for (const mailbox of recipients) {
      const storedBytes = mailboxes.get(mailbox)! + Buffer.byteLength(text);
      if (storedBytes > MAILBOX_BYTES)
        throw new BerthError("too_many_requests", "the receiving node is overloaded", {
          data: { retryAfterSeconds: 1 },
        });
      mailboxes.set(mailbox, storedBytes);
      copies.push({ mailbox, message: index + 1 });
    }
    return recipients.length;
  });
  if (copies.length > 0)
    await run(
      `INSERT INTO letter (to_node, bytes, expires_at, text)
       SELECT box, octet_length(text), berth_now() + $1::bigint, text
       FROM unnest($2::text[], $3::bigint[]) WITH ORDINALITY AS copy (box, letter, turn)
       JOIN unnest($4::text[]) WITH ORDINALITY AS written (text, letter) USING (letter) ORDER BY turn`,
      [
        MESSAGE_MS,
        copies.map(({ mailbox }) => mailbox),
        copies.map(({ message }) => message),
        messages.map(({ text }) => text),
      ],
    );
  return posted;
}

async function findLease(run: RunSql, name: string): Promise<Lease | undefined> {
  const [lease] = await run<Lease>(
    `SELECT node, fence FROM lease JOIN node ON id = node
     WHERE name = $1 AND ended_at IS NULL AND expires_at > berth_now()`,
    [name],
  );
  return lease;
}

/** Statements after the lock see all earlier changes. */
async function acquireLease(run: RunSql, name: string, node: string): Promise<Lease> {
  await lock(run, "lease", name);
  // The holder may be storing a heartbeat at this moment, and must then keep the lease.
  const [current] = await run<Lease>(
    `WITH holder AS (
       SELECT expires_at FROM node WHERE id = (SELECT node FROM lease WHERE name = $1 AND ended_at IS NULL)
       FOR UPDATE SKIP LOCKED)
     SELECT node, fence FROM lease JOIN node ON id = node
     WHERE name = $1 AND ended_at IS NULL
       AND coalesce((SELECT holder.expires_at > berth_now() FROM holder), true)`,
    [name],
  );
  if (current) return current;
  const [taken] = await run<Lease>(
    `INSERT INTO lease AS before (name, node, fence) VALUES ($1, $2, berth_now())
     ON CONFLICT (name) DO UPDATE SET node = excluded.node, ended_at = NULL,
       fence = greatest(before.fence + 1, excluded.fence)
     RETURNING node, fence`,
    [name, node],
  );
  return taken!;
}
