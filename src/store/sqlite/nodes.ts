import type Database from "#better-sqlite3";
import { BerthError } from "../../lib/errors.ts";
import type { Beat, Lease, Letter, Node } from "../../lib/node-store.ts";
import { storeNow } from "./clock.ts";

/** How long a letter waits for a node that is too busy to read it. */
const LETTER_MS = 60_000;
/** The most that waits in one box, in bytes. */
const BOX_BYTES = 64 * 1024 * 1024;
/** The most that one look takes out of a box, so that nothing waits for it for long; the next one follows at once. */
const TAKEN_BYTES = 1024 * 1024;
const TAKEN_LETTERS = 200;
/** The most expired letters that one write removes. */
const EXPIRED_AT_ONCE = 100;
/** A lease that ended so long ago is forgotten. Fences follow the clock, so the next holder's is greater all the same. */
const LEASE_KEPT_MS = 86_400_000;
/** How soon a letter is noticed, and how soon where there was no other node to write one. */
const LOOK_MS = 50;
const LOOK_ALONE_MS = 500;

/** The part of the SQLite store that nodes keep. Each function is one transaction. */
export function sqliteNodes(database: Database.Database) {
  const statements = prepare(database);

  const isAlive = (id: string, now: number): boolean => statements.isAlive.get(id, now) !== undefined;

  const forget = (id: string): void => {
    statements.remove.run(id);
    statements.removeLetters.run(id);
    statements.endLeases.run(storeNow(), id);
  };

  const beat = database.transaction(({ id, facts }: Node, ms: number): Beat => {
    const now = storeNow();
    const wasGone = !isAlive(id, now);
    // What it held is still its own where nobody has noticed.
    for (const gone of statements.expired.all(now)) if (gone !== id) forget(gone);
    statements.removeLeases.run(now - LEASE_KEPT_MS);
    statements.removeExpired.run(now, EXPIRED_AT_ONCE);
    statements.write.run(id, facts, now + ms);
    return { living: statements.all.all(), wasGone };
  });

  const put = (to: string, text: string, bytes: number, now: number): void => {
    if ((statements.waiting.get(to) ?? 0) + bytes > BOX_BYTES)
      throw new BerthError("too_many_requests", "the node that it is meant for does not keep up", {
        data: { retryAfterSeconds: 1 },
      });
    statements.post.run(to, bytes, now + LETTER_MS, text);
  };

  const post = database.transaction((from: string, letters: readonly Letter[]): number[] => {
    const now = storeNow();
    statements.removeExpired.run(now, EXPIRED_AT_ONCE + letters.length);
    return letters.map(({ to, text }) => {
      const bytes = Buffer.byteLength(text);
      const boxes = to === undefined ? statements.others.all(from, now) : isAlive(to, now) ? [to] : [];
      for (const box of boxes) put(box, text, bytes, now);
      return boxes.length;
    });
  });

  const take = database.transaction((node: string): string[] => {
    const texts: string[] = [];
    let [bytes, last] = [0, 0];
    for (const letter of statements.letters.iterate(node)) {
      if (texts.length === TAKEN_LETTERS || (bytes > 0 && bytes + letter.bytes > TAKEN_BYTES)) break;
      texts.push(letter.text);
      bytes += letter.bytes;
      last = letter.id;
    }
    if (texts.length > 0) statements.removeTaken.run(node, last);
    return texts;
  });

  const leased = (name: string, now: number): Lease | undefined => {
    const lease = statements.lease.get(name);
    return lease && isAlive(lease.node, now) ? lease : undefined;
  };

  const lease = database.transaction((name: string, node: string): Lease => {
    const now = storeNow();
    const held = leased(name, now);
    if (held) return held;
    const fence = Math.max((statements.fence.get(name) ?? 0) + 1, now);
    statements.writeLease.run(name, node, fence);
    return { node, fence };
  });

  return {
    beat: (node: Node, ms: number) => beat.immediate(node, ms),
    leave: (node: string) => database.transaction(forget).immediate(node),
    post: (from: string, letters: readonly Letter[]) => post.immediate(from, letters),
    hasLetter: (node: string): boolean => statements.waits.get(node) !== undefined,
    take: (node: string) => take.immediate(node),
    lease: (name: string, node: string) => lease.immediate(name, node),
    leased: (name: string) => leased(name, storeNow()),
    endLease: (name: string, node: string) => void statements.endLease.run(storeNow(), name, node),
  };
}

/**
 * Notices letters. A look that finds nothing new in the database reads one number from shared memory; where a node is
 * alone, looks are rare.
 */
export class LetterBoxes {
  readonly #version: () => number;
  readonly #hasLetter: (node: string) => boolean;
  readonly #listeners = new Map<string, () => void>();
  #seenVersion = -1;
  #timer: NodeJS.Timeout | undefined;
  #everyMs = LOOK_ALONE_MS;

  constructor(version: () => number, hasLetter: (node: string) => boolean) {
    this.#version = version;
    this.#hasLetter = hasLetter;
  }

  listen(node: string, listener: () => void): () => void {
    this.#listeners.set(node, listener);
    this.#timer ??= this.#begin();
    return () => {
      this.#listeners.delete(node);
      if (this.#listeners.size === 0) this.close();
    };
  }

  /** With others there, letters may come at any time. */
  expect(fromOthers: boolean): void {
    const everyMs = fromOthers ? LOOK_MS : LOOK_ALONE_MS;
    if (everyMs === this.#everyMs) return;
    this.#everyMs = everyMs;
    if (!this.#timer) return;
    clearInterval(this.#timer);
    this.#timer = this.#begin();
  }

  close(): void {
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  #begin(): NodeJS.Timeout {
    return setInterval(() => this.#look(), this.#everyMs).unref();
  }

  #look(): void {
    try {
      const version = this.#version();
      if (version === this.#seenVersion) return;
      for (const [node, listener] of this.#listeners) if (this.#hasLetter(node)) listener();
      this.#seenVersion = version;
    } catch {
      // The database is busy or failing, which its users are told. The next look sees the same.
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
