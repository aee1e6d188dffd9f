import type Database from "#better-sqlite3";
import { BerthError } from "../../lib/errors.ts";
import type { HeartbeatResult, Lease, NodeMessage, Node } from "../../lib/node-store.ts";
import { storeNow } from "./clock.ts";

/** How long a message is stored for a node that is too busy to read it. */
const MESSAGE_MS = 60_000;
/** The size limit of a mailbox. */
const MAILBOX_BYTES = 64 * 1024 * 1024;
/** The maximum taken out of a mailbox at once, to keep it short; the next query follows immediately. */
const TAKEN_BYTES = 1024 * 1024;
const TAKEN_MESSAGES = 200;
/** The maximum number of expired messages that one write removes. */
const EXPIRED_AT_ONCE = 100;
/** How long an ended lease is stored. Fences follow the clock, so a later holder's is greater anyway. */
const ENDED_LEASE_MS = 86_400_000;
/** The interval at which messages are polled, with and without other nodes. */
const POLL_MS = 50;
const POLL_ALONE_MS = 500;

/** The coordination of nodes in SQLite. Each function is a transaction. */
export function sqliteNodes(database: Database.Database) {
  const statements = prepare(database);

  const isAlive = (id: string, now: number): boolean => statements.isAlive.get(id, now) !== undefined;

  const forget = (id: string): void => {
    statements.remove.run(id);
    statements.removeLetters.run(id);
    statements.endLeases.run(storeNow(), id);
  };

  const beat = database.transaction(({ id, facts }: Node, ms: number): HeartbeatResult => {
    const now = storeNow();
    const wasGone = !isAlive(id, now);
    // Its leases are still its own if no other node has noticed the expiry.
    for (const gone of statements.expired.all(now)) if (gone !== id) forget(gone);
    statements.removeLeases.run(now - ENDED_LEASE_MS);
    statements.removeExpired.run(now, EXPIRED_AT_ONCE);
    statements.write.run(id, facts, now + ms);
    return { living: statements.all.all(), wasGone };
  });

  const put = (to: string, text: string, bytes: number, now: number): void => {
    if ((statements.waiting.get(to) ?? 0) + bytes > MAILBOX_BYTES)
      throw new BerthError("too_many_requests", "the receiving node is overloaded", {
        data: { retryAfterSeconds: 1 },
      });
    statements.post.run(to, bytes, now + MESSAGE_MS, text);
  };

  const post = database.transaction((from: string, messages: readonly NodeMessage[]): number[] => {
    const now = storeNow();
    statements.removeExpired.run(now, EXPIRED_AT_ONCE + messages.length);
    return messages.map(({ to, text }) => {
      const bytes = Buffer.byteLength(text);
      const mailboxes = to === undefined ? statements.others.all(from, now) : isAlive(to, now) ? [to] : [];
      for (const mailbox of mailboxes) put(mailbox, text, bytes, now);
      return mailboxes.length;
    });
  });

  const take = database.transaction((node: string): string[] => {
    const texts: string[] = [];
    let [bytes, last] = [0, 0];
    for (const message of statements.letters.iterate(node)) {
      if (texts.length === TAKEN_MESSAGES || (bytes > 0 && bytes + message.bytes > TAKEN_BYTES)) break;
      texts.push(message.text);
      bytes += message.bytes;
      last = message.id;
    }
    if (texts.length > 0) statements.removeTaken.run(node, last);
    return texts;
  });

  const findLease = (name: string, now: number): Lease | undefined => {
    const lease = statements.lease.get(name);
    return lease && isAlive(lease.node, now) ? lease : undefined;
  };

  const lease = database.transaction((name: string, node: string): Lease => {
    const now = storeNow();
    const current = findLease(name, now);
    if (current) return current;
    const fence = Math.max((statements.fence.get(name) ?? 0) + 1, now);
    statements.writeLease.run(name, node, fence);
    return { node, fence };
  });

  return {
    beat: (node: Node, ms: number) => beat.immediate(node, ms),
    leave: (node: string) => database.transaction(forget).immediate(node),
    post: (from: string, messages: readonly NodeMessage[]) => post.immediate(from, messages),
    hasLetter: (node: string): boolean => statements.waits.get(node) !== undefined,
    take: (node: string) => take.immediate(node),
    lease: (name: string, node: string) => lease.immediate(name, node),
    leased: (name: string) => findLease(name, storeNow()),
    endLease: (name: string, node: string) => void statements.endLease.run(storeNow(), name, node),
  };
}

/** Notices messages. A poll without changes only reads a number from shared memory. A single node polls rarely. */
export class MailboxPoller {
  readonly #version: () => number;
  readonly #hasLetter: (node: string) => boolean;
  readonly #listeners = new Map<string, () => void>();
  #seenVersion = -1;
  #timer: NodeJS.Timeout | undefined;
  #intervalMs = POLL_ALONE_MS;

  constructor(version: () => number, hasLetter: (node: string) => boolean) {
    this.#version = version;
    this.#hasLetter = hasLetter;
  }

  listen(node: string, listener: () => void): () => void {
    this.#listeners.set(node, listener);
    this.#timer ??= this.#startTimer();
    return () => {
      this.#listeners.delete(node);
      if (this.#listeners.size === 0) this.close();
    };
  }

  /** Other nodes can send messages at any time. */
  adjustInterval(hasOtherNodes: boolean): void {
    const intervalMs = hasOtherNodes ? POLL_MS : POLL_ALONE_MS;
    if (intervalMs === this.#intervalMs) return;
    this.#intervalMs = intervalMs;
    if (!this.#timer) return;
    clearInterval(this.#timer);
    this.#timer = this.#startTimer();
  }

  close(): void {
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  #startTimer(): NodeJS.Timeout {
    return setInterval(() => this.#poll(), this.#intervalMs).unref();
  }

  #poll(): void {
    try {
      const version = this.#version();
      if (version === this.#seenVersion) return;
      for (const [node, listener] of this.#listeners) if (this.#hasLetter(node)) listener();
      this.#seenVersion = version;
    } catch {
      // The database is busy or failing, which its users notice. The next poll reads the same.
    }
  }
}

function prepare(database: Database.Database) {
  return {
    isAlive: database.prepare<[string, number], number>("SELECT 1 FROM node WHERE id = ? AND expires_at > ?").pluck(),
    all: database.prepare<[], Node>("SELECT id, facts FROM node ORDER BY id"),
    others: database
      .prepare<[string, number], string>("SELECT id FROM node WHERE id <> ? AND expires_at > ? ORDER BY id")
      .pluck(),
    expired: database.prepare<[number], string>("SELECT id FROM node WHERE expires_at <= ?").pluck(),
    write: database.prepare<[string, string, number]>(
      "INSERT OR REPLACE INTO node (id, facts, expires_at) VALUES (?, ?, ?)",
    ),
    remove: database.prepare<[string]>("DELETE FROM node WHERE id = ?"),
    post: database.prepare<[string, number, number, string]>(
      "INSERT INTO letter (to_node, bytes, expires_at, text) VALUES (?, ?, ?, ?)",
    ),
    waiting: database.prepare<[string], number | null>("SELECT sum(bytes) FROM letter WHERE to_node = ?").pluck(),
    waits: database.prepare<[string], number>("SELECT 1 FROM letter WHERE to_node = ? LIMIT 1").pluck(),
    letters: database.prepare<[string], { id: number; bytes: number; text: string }>(
      "SELECT id, bytes, text FROM letter WHERE to_node = ? ORDER BY id",
    ),
    removeTaken: database.prepare<[string, number]>("DELETE FROM letter WHERE to_node = ? AND id <= ?"),
    removeLetters: database.prepare<[string]>("DELETE FROM letter WHERE to_node = ?"),
    removeExpired: database.prepare<[number, number]>(
      "DELETE FROM letter WHERE id IN (SELECT id FROM letter WHERE expires_at <= ? ORDER BY expires_at LIMIT ?)",
    ),
    lease: database.prepare<[string], Lease>("SELECT node, fence FROM lease WHERE name = ? AND ended_at IS NULL"),
    fence: database.prepare<[string], number>("SELECT fence FROM lease WHERE name = ?").pluck(),
    writeLease: database.prepare<[string, string, number]>(
      "INSERT OR REPLACE INTO lease (name, node, fence, ended_at) VALUES (?, ?, ?, NULL)",
    ),
    endLease: database.prepare<[number, string, string]>(
      "UPDATE lease SET ended_at = ? WHERE name = ? AND node = ? AND ended_at IS NULL",
    ),
    endLeases: database.prepare<[number, string]>("UPDATE lease SET ended_at = ? WHERE node = ? AND ended_at IS NULL"),
    removeLeases: database.prepare<[number]>("DELETE FROM lease WHERE ended_at <= ?"),
  };
}
