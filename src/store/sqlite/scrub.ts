import { fdatasyncSync, openSync, readSync, writeSync } from "node:fs";
import Database from "#better-sqlite3";
import type { StepSchedule } from "./step-schedule.ts";
import { fileIdentity, stampInTransaction, tryStampLog } from "./store-files.ts";

/**
 * Overwrites what SQLite leaves behind in its file: it moves rows within and between pages, and their previous
 * locations keep the data until they are reused. `secure_delete` overwrites deleted rows, but not such earlier copies.
 * This function overwrites all parts of pages that belong to no row with zeros; SQLite never reads these parts.
 *
 * It bypasses SQLite while this thread holds the write lock and the whole log is in the file. So no other process
 * writes to the file, and a partially written page remains valid. Each step ends with a commit, after which every
 * process drops its cached pages. Resolves with false if a long-running reader prevented it from finishing.
 */
export async function scrub(file: string, fd: number, busyMs: number, schedule: StepSchedule): Promise<boolean> {
  const database = new Database(file, { fileMustExist: true, timeout: busyMs });
  const checkpointer = new Database(file, { fileMustExist: true, timeout: 0 });
  const readLogState = (mode: "NOOP" | "PASSIVE"): LogState =>
    (checkpointer.pragma(`wal_checkpoint(${mode})`) as [LogState])[0];
  const isLogMoved = (mode: "NOOP" | "PASSIVE"): boolean => {
    const { log, checkpointed } = readLogState(mode);
    return log === checkpointed;
  };
  /** Runs a step that commits while the whole log is in the file. Resolves with false if readers prevent that. */
  const whileLogMoved = async (step: () => boolean): Promise<boolean> => {
    for (const until = performance.now() + WAIT_MS; performance.now() < until;) {
      await schedule.rest();
      if (isLogMoved("PASSIVE")) {
        const isDone = await schedule.write(() => database.transaction(() => isLogMoved("NOOP") && step()).immediate());
        if (isDone) return true;
      } else await schedule.pause(RETRY_MS);
    }
    return false;
  };
  try {
    // Truncate a restarted log, so that it contains no earlier data.
    for (const each of [database, checkpointer]) {
      each.pragma("wal_autocheckpoint = 0");
      each.pragma("journal_size_limit = 0");
    }
    await schedule.write(() => tryStampLog(database));
    const roots = database.prepare<[], number>("SELECT rootpage FROM sqlite_schema WHERE rootpage > 0").pluck();
    const cleanedPages = new Map<number, PageKind>();
    const progress = { isFinished: false };
    while (!progress.isFinished) {
      const step = (): boolean => {
        progress.isFinished = new Pages(fd, cleanedPages).clean([1, ...roots.all()]);
        stampInTransaction(database);
        return true;
      };
      if (!(await whileLogMoved(step))) return false;
    }
    fdatasyncSync(fd);
    for (const until = performance.now() + WAIT_MS; performance.now() < until; await schedule.pause(RETRY_MS)) {
      const isStamped = await whileLogMoved(() => {
        stampInTransaction(database);
        return true;
      });
      // If a reader kept the log from restarting, the stamp was appended to it.
      if (!isStamped || readLogState("NOOP").log === 1) return isStamped;
    }
    return false;
  } finally {
    checkpointer.close();
    database.close();
  }
}

/** The number of pages in the log, and how many of them are in the file. */
interface LogState {
  readonly log: number;
  readonly checkpointed: number;
}

/** How long a step waits for readers to end, and how often it checks. */
const WAIT_MS = 5_000;
const RETRY_MS = 20;

/** The values of the table `scrubbed` when overwriting is required, and while it is running. */
export const [MUST_SCRUB, SCRUBBING] = [0, -1] as const;

const descriptors = new Map<string, number>();

/** A descriptor of a database. It is never closed, as that would release all locks of this process on the file. */
export function openDescriptor(file: string): number {
  const identity = fileIdentity(file) ?? file;
  const fd = descriptors.get(identity) ?? openSync(file, "r+");
  descriptors.set(identity, fd);
  return fd;
}

/** Pages that are overwritten in one step. */
const AT_ONCE = 256;

/** The kinds of b-tree pages, by their first byte. */
const [INDEX_INNER, TABLE_INNER, INDEX_LEAF, TABLE_LEAF] = [2, 5, 10, 13];
type PageKind = "leaf" | "other";

/** The file header at the beginning of the first page. */
const FILE_HEADER = 100;

/** The pages of a database file (https://www.sqlite.org/fileformat2.html). */
class Pages {
  readonly #fd: number;
  readonly #cleanedPages: Map<number, PageKind>;
  readonly #size: number;
  /** SQLite does not use the rest of a page. */
  readonly #usable: number;
  readonly #count: number;
  readonly #freeTrunk: number;
  readonly #link = Buffer.alloc(4);
  #remaining = AT_ONCE;

  constructor(fd: number, cleanedPages: Map<number, PageKind>) {
    this.#fd = fd;
    this.#cleanedPages = cleanedPages;
    const header = Buffer.alloc(FILE_HEADER);
    readSync(fd, header, 0, FILE_HEADER, 0);
    const size = header.readUInt16BE(16);
    this.#size = size === 1 ? 65_536 : size;
    this.#usable = this.#size - header[20]!;
    this.#count = header.readUInt32BE(28);
    this.#freeTrunk = header.readUInt32BE(32);
  }

  /** Cleans some of the remaining pages. Returns true if there are no more. */
  clean(roots: readonly number[]): boolean {
    const pending = [...roots];
    for (let page = pending.pop(); page !== undefined; page = pending.pop()) {
      const children = this.#cleanTreePage(page);
      if (!children) return false;
      pending.push(...children);
    }
    return this.#cleanFree();
  }

  /** Returns the child pages; undefined if the step has reached its limit. */
  #cleanTreePage(number: number): number[] | undefined {
    const page = this.#read(number);
    const start = number === 1 ? FILE_HEADER : 0;
    const kind = page[start]!;
    const isInner = kind === INDEX_INNER || kind === TABLE_INNER;
    if (!isInner && kind !== INDEX_LEAF && kind !== TABLE_LEAF) throw new Error(`page ${number} is not a b-tree page`);
    const cells = page.readUInt16BE(start + 3);
    const pointers = start + (isInner ? 12 : 8);
    if (!this.#cleanedPages.has(number)) {
      if (this.#remaining === 0) return undefined;
      const content = page.readUInt16BE(start + 5) || 65_536;
      const before = Buffer.from(page);
      page.fill(0, pointers + cells * 2, content);
      for (let freeBlock = page.readUInt16BE(start + 1); freeBlock !== 0; freeBlock = page.readUInt16BE(freeBlock)) {
        page.fill(0, freeBlock + 4, freeBlock + page.readUInt16BE(freeBlock + 2));
      }
      if (kind !== TABLE_INNER) {
        for (let cell = 0; cell < cells; cell++)
          this.#cleanOverflowEnd(page, kind, page.readUInt16BE(pointers + cell * 2));
      }
      this.#markCleaned(number, page, before, isInner ? "other" : "leaf");
    }
    if (!isInner) return [];
    const children = Array.from({ length: cells }, (_, cell) =>
      page.readUInt32BE(page.readUInt16BE(pointers + cell * 2)),
    );
    return [...children, page.readUInt32BE(start + 8)].filter((child) => this.#cleanedPages.get(child) !== "leaf");
  }

  /** Cleans the end of the last overflow page of a row. */
  #cleanOverflowEnd(page: Buffer, kind: number, cell: number): void {
    let at = kind === INDEX_INNER ? cell + 4 : cell;
    const [length, afterLength] = varint(page, at);
    at = kind === TABLE_LEAF ? varint(page, afterLength)[1] : afterLength;
    const maxLocal = kind === TABLE_LEAF ? this.#usable - 35 : Math.floor(((this.#usable - 12) * 64) / 255) - 23;
    if (length <= maxLocal) return;
    const minLocal = Math.floor(((this.#usable - 12) * 32) / 255) - 23;
    const localFit = minLocal + ((length - minLocal) % (this.#usable - 4));
    const localLength = localFit <= maxLocal ? localFit : minLocal;
    let overflowPage = page.readUInt32BE(at + localLength);
    let rest = length - localLength;
    for (const capacity = this.#usable - 4; rest > capacity; rest -= capacity)
      overflowPage = this.#readNext(overflowPage);
    const last = this.#read(overflowPage);
    const before = Buffer.from(last);
    last.fill(0, 4 + rest, this.#usable);
    this.#write(overflowPage, last, before);
  }

  #readNext(number: number): number {
    readSync(this.#fd, this.#link, 0, 4, (number - 1) * this.#size);
    return this.#link.readUInt32BE(0);
  }

  #cleanFree(): boolean {
    for (let trunk = this.#freeTrunk; trunk !== 0;) {
      const page = this.#read(trunk);
      const count = page.readUInt32BE(4);
      if (!this.#cleanedPages.has(trunk)) {
        if (this.#remaining === 0) return false;
        const before = Buffer.from(page);
        page.fill(0, 8 + count * 4, this.#usable);
        this.#markCleaned(trunk, page, before);
      }
      for (let index = 0; index < count; index++) {
        const leaf = page.readUInt32BE(8 + index * 4);
        if (this.#cleanedPages.has(leaf)) continue;
        if (this.#remaining === 0) return false;
        this.#markCleaned(leaf, Buffer.alloc(this.#size), this.#read(leaf));
      }
      trunk = page.readUInt32BE(0);
    }
    return true;
  }

  #read(number: number): Buffer {
    if (number < 1 || number > this.#count) throw new Error(`page ${number} does not exist`);
    const page = Buffer.alloc(this.#size);
    readSync(this.#fd, page, 0, this.#size, (number - 1) * this.#size);
    return page;
  }

  #markCleaned(number: number, page: Buffer, before: Buffer, kind: PageKind = "other"): void {
    this.#write(number, page, before);
    this.#cleanedPages.set(number, kind);
    this.#remaining -= 1;
  }

  #write(number: number, page: Buffer, before: Buffer): void {
    if (!page.equals(before)) writeSync(this.#fd, page, 0, this.#size, (number - 1) * this.#size);
  }
}

/** Reads a variable-length integer of SQLite, and returns its end. Lengths and row ids of Berth are safe integers. */
function varint(page: Buffer, start: number): [value: number, end: number] {
  let value = 0;
  for (let at = start; at < start + 8; at++) {
    const byte = page[at]!;
    value = value * 128 + (byte & 0x7f);
    if (byte < 0x80) return [value, at + 1];
  }
  return [value * 256 + page[start + 8]!, start + 9];
}
