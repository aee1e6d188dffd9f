import { closeSync, existsSync, openSync, readSync } from "node:fs";
import { endianness } from "node:os";

/**
 * SQLite's write-ahead log, read without SQLite (https://sqlite.org/fileformat2.html#walformat). SQLite reads it up to
 * the first frame that does not follow from those before it. That is where the log of a killed process ends, and
 * silently also one that has gone bad on the disk.
 */
const HEADER = 32;
const FRAME_HEADER = 24;
const MAGIC = 0x377f0682;
/** Where SQLite keeps `application_id`, in the first page. */
const ID_AT = 68;

interface Frame {
  /** From 1. */
  readonly number: number;
  readonly page: number;
  readonly isCommit: boolean;
  /** True in the current run of the log; else the frame is left from an earlier one. */
  readonly isOfRun: boolean;
  /** The frame follows from the one before it, as that one stands there. */
  readonly isSound: boolean;
  readonly content: Buffer;
}

interface Log {
  readonly salts: Buffer;
  /** The header is sound. */
  readonly isSound: boolean;
  /** Each frame is valid until the next one is read. */
  readonly frames: Iterable<Frame>;
}

export interface BrokenLog {
  /** The first frame that does not follow from those before it; SQLite reads none from there on. */
  readonly frame: number;
  /** The last committed frame. */
  readonly committed: number;
}

/**
 * Undefined for a log of which SQLite reads everything that was committed. This process must not have the database
 * open.
 */
export function brokenLog(databaseFile: string): BrokenLog | undefined {
  return withLog(`${databaseFile}-wal`, (log) => {
    const indexed = committedIn(`${databaseFile}-shm`, log.salts);
    let [whole, committed, last, isBroken] = [0, 0, 0, !log.isSound];
    for (const { number, isOfRun, isSound, isCommit } of log.frames) {
      isBroken ||= !isSound;
      if (!isBroken) whole = number;
      if (isSound && isCommit) committed = number;
      if (isOfRun) last = number;
    }
    // A reader since then has left a shorter index, and a power cut may have taken more of the log than of its index.
    if (indexed !== undefined && indexed <= last) committed = Math.max(committed, indexed);
    return committed > whole ? { frame: whole + 1, committed } : undefined;
  });
}

/**
 * True if the log has a first page, among the frames that SQLite would read, whose id is accepted; undefined if it has no
 * first page.
 */
export function someIdInLog(file: string, accepts: (id: number, isFirst: boolean) => boolean): boolean | undefined {
  return withLog(file, (log) => {
    let isAccepted: boolean | undefined;
    for (const { page, isSound, content } of log.isSound ? log.frames : []) {
      if (!isSound || isAccepted) break;
      if (page === 1) isAccepted = accepts(content.readUInt32BE(ID_AT), isAccepted === undefined);
    }
    return isAccepted;
  });
}

export function idInFile(file: string): number {
  return withFile(file, (read) => {
    const first = Buffer.alloc(ID_AT + 4);
    return read(0, first) ? first.readUInt32BE(ID_AT) : 0;
  });
}

/** Undefined where there is no file, or nothing that could be a log. */
function withLog<T>(file: string, work: (log: Log) => T | undefined): T | undefined {
  if (!existsSync(file)) return undefined;
  return withFile(file, (read) => {
    const header = Buffer.alloc(HEADER);
    const first = Buffer.alloc(FRAME_HEADER);
    if (!read(0, header)) return undefined;
    const isMarked = header.readUInt32BE(0) >>> 1 === MAGIC >>> 1;
    const isBigEndian = isMarked ? (header[3]! & 1) === 1 : endianness() === "BE";
    const pageBytes = header.readUInt32BE(8);
    if (pageBytes < 512 || pageBytes > 65_536 || (pageBytes & (pageBytes - 1)) !== 0) return undefined;
    const sums = checksum(header.subarray(0, HEADER - 8), isBigEndian, [0, 0]);
    const isSound = isMarked && sums[0] === header.readInt32BE(24) && sums[1] === header.readInt32BE(28);
    if (!isSound && !read(HEADER, first)) return undefined;
    const salts = isSound ? header.subarray(16, 24) : first.subarray(8, 16);
    const begin: Sums = [header.readInt32BE(24), header.readInt32BE(28)];
    return work({ salts, isSound, frames: framesOf(read, { salts, begin, pageBytes, isBigEndian }) });
  });
}

function* framesOf(
  read: Read,
  log: { readonly salts: Buffer; readonly begin: Sums; readonly pageBytes: number; readonly isBigEndian: boolean },
): Generator<Frame> {
  const { salts, begin, pageBytes, isBigEndian } = log;
  const frame = Buffer.from(new ArrayBuffer(FRAME_HEADER + pageBytes));
  const content = frame.subarray(FRAME_HEADER);
  let before: Sums | undefined = begin;
  for (let number = 1; read(HEADER + (number - 1) * frame.length, frame); number++) {
    const isOfRun = frame.subarray(8, 16).equals(salts);
    const stated: Sums = [frame.readInt32BE(16), frame.readInt32BE(20)];
    let isSound = false;
    if (isOfRun && before) {
      const sums = checksum(content, isBigEndian, checksum(frame.subarray(0, 8), isBigEndian, before));
      isSound = sums[0] === stated[0] && sums[1] === stated[1];
    }
    before = isOfRun ? stated : undefined;
    yield { number, page: frame.readUInt32BE(0), isCommit: frame.readUInt32BE(4) !== 0, isOfRun, isSound, content };
  }
}

const INDEX_HEADER = 48;

/** The last committed frame according to SQLite's index of the log; undefined where it belongs to another run. */
function committedIn(file: string, salts: Buffer): number | undefined {
  if (!existsSync(file)) return undefined;
  return withFile(file, (read) => {
    const index = Buffer.from(new ArrayBuffer(INDEX_HEADER));
    if (!read(0, index) || !index.subarray(32, 40).equals(salts)) return undefined;
    const words = new Int32Array(index.buffer);
    const sums = checksum(index.subarray(0, 40), endianness() === "BE", [0, 0]);
    return sums[0] === words[10] && sums[1] === words[11] ? words[4] : undefined;
  });
}

type Sums = readonly [number, number];

/** SQLite's checksum (https://sqlite.org/fileformat2.html#checksum_algorithm), continued from `begin`. */
function checksum(bytes: Buffer, isBigEndian: boolean, begin: Sums): Sums {
  const own = isBigEndian === (endianness() === "BE") ? bytes : Buffer.from(bytes).swap32();
  const words =
    own.byteOffset % 4 === 0
      ? new Int32Array(own.buffer, own.byteOffset, own.length / 4)
      : new Int32Array(Uint8Array.from(own).buffer);
  let [one, other] = begin;
  for (let at = 0; at < words.length; at += 2) {
    one = (one + words[at]! + other) | 0;
    other = (other + words[at + 1]! + one) | 0;
  }
  return [one, other];
}

/** Fills `into` from an offset; false where the file is too short. */
type Read = (at: number, into: Buffer) => boolean;

function withFile<T>(file: string, work: (read: Read) => T): T {
  const opened = openSync(file, "r");
  try {
    return work((at, into) => readSync(opened, into, 0, into.length, at) === into.length);
  } finally {
    closeSync(opened);
  }
}
