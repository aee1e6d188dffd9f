import { closeSync, existsSync, openSync, readSync } from "node:fs";
import { endianness } from "node:os";

/**
 * Reads SQLite's write-ahead log without SQLite (https://sqlite.org/fileformat2.html#walformat). SQLite reads the log
 * up to the first frame that does not follow from the previous ones. That is usually where the log of a killed process
 * ends, but may also be where the log was damaged on disk, which SQLite silently ignores.
 */
const HEADER_BYTES = 32;
const FRAME_HEADER_BYTES = 24;
const MAGIC = 0x377f0682;
/** The offset of `application_id` in the first page. */
const ID_OFFSET = 68;

interface Frame {
  /** From 1. */
  readonly number: number;
  readonly page: number;
  readonly isCommit: boolean;
  /** True in the current run of the log; false for a leftover of an earlier one. */
  readonly isCurrentRun: boolean;
  /** True if the frame follows from the previous one. */
  readonly isValid: boolean;
  readonly content: Buffer;
}

interface Log {
  readonly salts: Buffer;
  /** True if the header is valid. */
  readonly isValid: boolean;
  /** Each frame is valid until the next one is read. */
  readonly frames: Iterable<Frame>;
}

export interface BrokenLog {
  /** The first frame that does not follow from the previous ones; SQLite reads none from there on. */
  readonly frame: number;
  /** The last committed frame. */
  readonly committed: number;
}

/** Undefined if SQLite reads every committed frame of the log. This process must not have the database open. */
export function findBrokenLog(databaseFile: string): BrokenLog | undefined {
  return withLog(`${databaseFile}-wal`, (log) => {
    const indexedCommit = readIndexedCommit(`${databaseFile}-shm`, log.salts);
    let [intact, committed, last, isBroken] = [0, 0, 0, !log.isValid];
    for (const { number, isCurrentRun, isValid, isCommit } of log.frames) {
      isBroken ||= !isValid;
      if (!isBroken) intact = number;
      if (isValid && isCommit) committed = number;
      if (isCurrentRun) last = number;
    }
    // A later reader leaves a shorter index, and a power cut may have lost more of the log than of its index.
    if (indexedCommit !== undefined && indexedCommit <= last) committed = Math.max(committed, indexedCommit);
    return committed > intact ? { frame: intact + 1, committed } : undefined;
  });
}

/** True if a first page among the readable frames has an accepted id; undefined if there is no first page. */
export function hasAcceptedId(file: string, accepts: (id: number, isFirst: boolean) => boolean): boolean | undefined {
  return withLog(file, (log) => {
    let isAccepted: boolean | undefined;
    for (const { page, isValid, content } of log.isValid ? log.frames : []) {
      if (!isValid || isAccepted) break;
      if (page === 1) isAccepted = accepts(content.readUInt32BE(ID_OFFSET), isAccepted === undefined);
    }
    return isAccepted;
  });
}

export function readStoreId(file: string): number {
  return withFile(file, (read) => {
    const first = Buffer.alloc(ID_OFFSET + 4);
    return read(0, first) ? first.readUInt32BE(ID_OFFSET) : 0;
  });
}

/** Undefined if the file is missing or cannot be a log. */
function withLog<T>(file: string, work: (log: Log) => T | undefined): T | undefined {
  if (!existsSync(file)) return undefined;
  return withFile(file, (read) => {
    const header = Buffer.alloc(HEADER_BYTES);
    const first = Buffer.alloc(FRAME_HEADER_BYTES);
    if (!read(0, header)) return undefined;
    const isMarked = header.readUInt32BE(0) >>> 1 === MAGIC >>> 1;
    const isBigEndian = isMarked ? (header[3]! & 1) === 1 : endianness() === "BE";
    const pageBytes = header.readUInt32BE(8);
    if (pageBytes < 512 || pageBytes > 65_536 || (pageBytes & (pageBytes - 1)) !== 0) return undefined;
    const sums = checksum(header.subarray(0, HEADER_BYTES - 8), isBigEndian, [0, 0]);
    const isValid = isMarked && sums[0] === header.readInt32BE(24) && sums[1] === header.readInt32BE(28);
    if (!isValid && !read(HEADER_BYTES, first)) return undefined;
    const salts = isValid ? header.subarray(16, 24) : first.subarray(8, 16);
    const begin: Sums = [header.readInt32BE(24), header.readInt32BE(28)];
    return work({ salts, isValid, frames: readFrames(read, { salts, begin, pageBytes, isBigEndian }) });
  });
}

function* readFrames(
  read: Read,
  log: { readonly salts: Buffer; readonly begin: Sums; readonly pageBytes: number; readonly isBigEndian: boolean },
): Generator<Frame> {
  const { salts, begin, pageBytes, isBigEndian } = log;
  const frame = Buffer.from(new ArrayBuffer(FRAME_HEADER_BYTES + pageBytes));
  const content = frame.subarray(FRAME_HEADER_BYTES);
  let previous: Sums | undefined = begin;
  for (let number = 1; read(HEADER_BYTES + (number - 1) * frame.length, frame); number++) {
    const isCurrentRun = frame.subarray(8, 16).equals(salts);
    const stated: Sums = [frame.readInt32BE(16), frame.readInt32BE(20)];
    let isValid = false;
    if (isCurrentRun && previous) {
      const sums = checksum(content, isBigEndian, checksum(frame.subarray(0, 8), isBigEndian, previous));
      isValid = sums[0] === stated[0] && sums[1] === stated[1];
    }
    previous = isCurrentRun ? stated : undefined;
    yield {
      number,
      page: frame.readUInt32BE(0),
      isCommit: frame.readUInt32BE(4) !== 0,
      isCurrentRun,
      isValid,
      content,
    };
  }
}

const INDEX_HEADER_BYTES = 48;

/** The last committed frame according to SQLite's index of the log; undefined if the index belongs to another run. */
function readIndexedCommit(file: string, salts: Buffer): number | undefined {
  if (!existsSync(file)) return undefined;
  return withFile(file, (read) => {
    const index = Buffer.from(new ArrayBuffer(INDEX_HEADER_BYTES));
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

/** Fills `into` from an offset; false if the file is too short. */
type Read = (at: number, into: Buffer) => boolean;

function withFile<T>(file: string, work: (read: Read) => T): T {
  const descriptor = openSync(file, "r");
  try {
    return work((at, into) => readSync(descriptor, into, 0, into.length, at) === into.length);
  } finally {
    closeSync(descriptor);
  }
}
