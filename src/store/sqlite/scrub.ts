import { fdatasyncSync, openSync, readSync, writeSync } from "node:fs";
import Database from "#better-sqlite3";
import { identityOf, stamp, stampEnd } from "./store-files.ts";
import type { Turns } from "./step-schedule.ts";

/**
 * Overwrites what SQLite leaves behind in its file: it moves rows within and between pages, and where they stood before
 * stays as it was until something else is written there. `secure_delete` overwrites rows that are deleted, and not those
 * earlier copies. Here every part of a page that belongs to no row is overwritten with zeros, which SQLite never reads.
 *
 * This is written past SQLite, while this thread holds the lock of writers and all of the log is in the file: so nobody
 * else writes to it, and a page that is written by halves is still a whole one. Each step ends with a commit, whereupon
 * every process drops its copies of pages. Resolves with false where a reader went on for so long that it is not through.
 */
export async function scrub(file: string, fd: number, busyMs: number, turns: Turns): Promise<boolean> {
  const database = new Database(file, { fileMustExist: true, timeout: busyMs });
  const other = new Database(file, { fileMustExist: true, timeout: 0 });
  const stateOfLog = (mode: "NOOP" | "PASSIVE"): LogState => (other.pragma(`wal_checkpoint(${mode})`) as [LogState])[0];
  const isWhole = (mode: "NOOP" | "PASSIVE"): boolean => {
    const { log, checkpointed } = stateOfLog(mode);
    return log === checkpointed;
  };
  /** Runs a step that commits something while all of the log is in the file; false where readers keep it out of there. */
  const whileWhole = async (step: () => boolean): Promise<boolean> => {
    for (const until = performance.now() + WAIT_MS; performance.now() < until;) {
      await turns.rest();
      if (isWhole("PASSIVE")) {
        const did = await turns.write(() => database.transaction(() => isWhole("NOOP") && step()).immediate());
        if (did) return true;
      } else await turns.pause(AGAIN_MS);
    }
    return false;
  };
  try {
    // A log that restarts is cut off, so that no part of it is left that was written before.
    for (const each of [database, other]) {
      each.pragma("wal_autocheckpoint = 0");
      each.pragma("journal_size_limit = 0");
    }
    await turns.write(() => stampEnd(database));
    const roots = database.prepare<[], number>("SELECT rootpage FROM sqlite_schema WHERE rootpage > 0").pluck();
    const done = new Map<number, Kind>();
    const progress = { isThrough: false };
    while (!progress.isThrough) {
      const step = (): boolean => {
        progress.isThrough = new Pages(fd, done).clean([1, ...roots.all()]);
        stamp(database);
        return true;
      };
      if (!(await whileWhole(step))) return false;
    }
    fdatasyncSync(fd);
    for (const until = performance.now() + WAIT_MS; performance.now() < until; await turns.pause(AGAIN_MS)) {
      const hasStamped = await whileWhole(() => {
        stamp(database);
        return true;
      });
      // Where a reader kept the log from restarting, this was added to its end.
      if (!hasStamped || stateOfLog("NOOP").log === 1) return hasStamped;
    }
    return false;
  } finally {
    other.close();
    database.close();
  }
}

/** The pages of the log, and how many of them are in the file. */
interface LogState {
  readonly log: number;
  readonly checkpointed: number;
}

/** How long a step waits for readers to end, and how often it looks. */
const WAIT_MS = 5_000;
const AGAIN_MS = 20;

/** The values of the table `scrubbed` while something is to be overwritten, and while that is under way. */
export const [MUST_SCRUB, SCRUBBING] = [0, -1] as const;

const opened = new Map<string, number>();

/** A descriptor of a database. It is never closed, since that would release every lock that this process has on the file. */
export function descriptorOf(file: string): number {
  const identity = identityOf(file) ?? file;
  const fd = opened.get(identity) ?? openSync(file, "r+");
  opened.set(identity, fd);
  return fd;
}

/** Pages that are overwritten in one step. */
const AT_ONCE = 256;

/** The kinds of pages of trees, by their first byte. */
const [INDEX_INNER, TABLE_INNER, INDEX_LEAF, TABLE_LEAF] = [2, 5, 10, 13];
type Kind = "leaf" | "other";

/** The header of the file, in which the first page begins. */
const FILE_HEADER = 100;

/** The pages of a database file (https://www.sqlite.org/fileformat2.html). */
class Pages {
  readonly #fd: number;
  readonly #done: Map<number, Kind>;
  readonly #size: number;
  /** The rest of a page is not SQLite's. */
  readonly #usable: number;
  readonly #count: number;
  readonly #freeTrunk: number;
  readonly #link = Buffer.alloc(4);
  #left = AT_ONCE;

  constructor(fd: number, done: Map<number, Kind>) {
    this.#fd = fd;
    this.#done = done;
    const header = Buffer.alloc(FILE_HEADER);
    readSync(fd, header, 0, FILE_HEADER, 0);
    const size = header.readUInt16BE(16);
    this.#size = size === 1 ? 65_536 : size;
    this.#usable = this.#size - header[20]!;
    this.#count = header.readUInt32BE(28);
    this.#freeTrunk = header.readUInt32BE(32);
  }

  /** Cleans some pages that were not cleaned yet; true when there are no more. */
  clean(roots: readonly number[]): boolean {
    const waiting = [...roots];
    for (let page = waiting.pop(); page !== undefined; page = waiting.pop()) {
      const children = this.#cleanTreePage(page);
      if (!children) return false;
      waiting.push(...children);
    }
    return this.#cleanFree();
  }

  /** Returns the pages below it; undefined where this was enough for one step. */
  #cleanTreePage(number: number): number[] | undefined {
    const page = this.#read(number);
    const start = number === 1 ? FILE_HEADER : 0;
    const kind = page[start]!;
    const isInner = kind === INDEX_INNER || kind === TABLE_INNER;
    if (!isInner && kind !== INDEX_LEAF && kind !== TABLE_LEAF) throw new Error(`page ${number} is none of a tree`);
    const cells = page.readUInt16BE(start + 3);
    const pointers = start + (isInner ? 12 : 8);
    if (!this.#done.has(number)) {
      if (this.#left === 0) return undefined;
      const content = page.readUInt16BE(start + 5) || 65_536;
      const before = Buffer.from(page);
      page.fill(0, pointers + cells * 2, content);
      for (let free = page.readUInt16BE(start + 1); free !== 0; free = page.readUInt16BE(free)) {
        page.fill(0, free + 4, free + page.readUInt16BE(free + 2));
      }
      if (kind !== TABLE_INNER) {
        for (let cell = 0; cell < cells; cell++) this.#cleanEnd(page, kind, page.readUInt16BE(pointers + cell * 2));
      }
      this.#cleaned(number, page, before, isInner ? "other" : "leaf");
    }
    if (!isInner) return [];
    const below = Array.from({ length: cells }, (_, cell) => page.readUInt32BE(page.readUInt16BE(pointers + cell * 2)));
    return [...below, page.readUInt32BE(start + 8)].filter((child) => this.#done.get(child) !== "leaf");
  }

  /** Cleans the end of the last page of a row that takes more than a part of one page. */
  #cleanEnd(page: Buffer, kind: number, cell: number): void {
    let at = kind === INDEX_INNER ? cell + 4 : cell;
    const [length, afterLength] = varint(page, at);
    at = kind === TABLE_LEAF ? varint(page, afterLength)[1] : afterLength;
    const most = kind === TABLE_LEAF ? this.#usable - 35 : Math.floor(((this.#usable - 12) * 64) / 255) - 23;
    if (length <= most) return;
    const least = Math.floor(((this.#usable - 12) * 32) / 255) - 23;
    const fitting = least + ((length - least) % (this.#usable - 4));
    const here = fitting <= most ? fitting : least;
    let next = page.readUInt32BE(at + here);
    let rest = length - here;
    for (const room = this.#usable - 4; rest > room; rest -= room) next = this.#nextOf(next);
    const last = this.#read(next);
    const before = Buffer.from(last);
    last.fill(0, 4 + rest, this.#usable);
    this.#write(next, last, before);
  }

  #nextOf(number: number): number {
    readSync(this.#fd, this.#link, 0, 4, (number - 1) * this.#size);
    return this.#link.readUInt32BE(0);
  }

  #cleanFree(): boolean {
    for (let trunk = this.#freeTrunk; trunk !== 0;) {
      const page = this.#read(trunk);
      const count = page.readUInt32BE(4);
      if (!this.#done.has(trunk)) {
        if (this.#left === 0) return false;
        const before = Buffer.from(page);
        page.fill(0, 8 + count * 4, this.#usable);
        this.#cleaned(trunk, page, before);
      }
      for (let index = 0; index < count; index++) {
        const leaf = page.readUInt32BE(8 + index * 4);
        if (this.#done.has(leaf)) continue;
        if (this.#left === 0) return false;
        this.#cleaned(leaf, Buffer.alloc(this.#size), this.#read(leaf));
      }
      trunk = page.readUInt32BE(0);
    }
    return true;
  }

  #read(number: number): Buffer {
    if (number < 1 || number > this.#count) throw new Error(`there is no page ${number}`);
    const page = Buffer.alloc(this.#size);
    readSync(this.#fd, page, 0, this.#size, (number - 1) * this.#size);
    return page;
  }

  #cleaned(number: number, page: Buffer, before: Buffer, kind: Kind = "other"): void {
    this.#write(number, page, before);
    this.#done.set(number, kind);
    this.#left -= 1;
  }

  #write(number: number, page: Buffer, before: Buffer): void {
    if (!page.equals(before)) writeSync(this.#fd, page, 0, this.#size, (number - 1) * this.#size);
  }
}

/** A number as SQLite writes it, and where it ends. Lengths and row ids of Berth are exact as numbers. */
function varint(page: Buffer, start: number): [value: number, end: number] {
  let value = 0;
  for (let at = start; at < start + 8; at++) {
    const byte = page[at]!;
    value = value * 128 + (byte & 0x7f);
    if (byte < 0x80) return [value, at + 1];
  }
  return [value * 256 + page[start + 8]!, start + 9];
}
