import { createHash, hash } from "node:crypto";
import { base32 } from "multiformats/bases/base32";
import { canonicalJson } from "./canonical-json.ts";
import { createYielder } from "./event-loop.ts";
import { hasMoreValues } from "./json.ts";

/**
 * Content addresses: CIDv1, sha2-256, base32 in lower case (`bafk…` for bytes, `bagu…` for structures). This is the
 * only file that hashes content or knows the notation of CIDs.
 */
export type Cid = string;

/** Bytes together with their address. */
export interface Block {
  readonly cid: Cid;
  readonly bytes: Uint8Array;
}

/** Codes of https://github.com/multiformats/multicodec. */
const SHA2_256 = 0x12;
const RAW = 0x55;
const DAG_JSON = 0x0129;

/** The start of a CID's bytes: version 1, the codec as a varint, the hash and its length in bytes. */
const HEADS: ReadonlyMap<number, Uint8Array> = new Map([
  [RAW, Uint8Array.of(1, RAW, SHA2_256, 32)],
  [DAG_JSON, Uint8Array.of(1, (DAG_JSON & 0x7f) | 0x80, DAG_JSON >> 7, SHA2_256, 32)],
]);

/** Encoded by hand: pages need hundreds at a time, and the library's CID objects take three times as long. */
function computeCid(codec: number, bytes: Uint8Array): Cid {
  return encodeCid(codec, hash("sha256", bytes, "buffer"));
}

function encodeCid(codec: number, digest: Uint8Array): Cid {
  const text = base32.encode(Buffer.concat([HEADS.get(codec)!, digest]));
  // The library appends character by character: such a string takes 1.6 KB until it is copied.
  return Buffer.from(text, "latin1").toString("latin1");
}

/** The `raw` block of bytes, or of a string as UTF-8. */
export function rawBlock(content: Uint8Array | string): Block {
  const bytes = typeof content === "string" ? new TextEncoder().encode(content) : content;
  return { cid: computeCid(RAW, bytes), bytes };
}

/**
 * The `dag-json` block of a structure: keys sorted, no spaces, so equal structures have equal bytes. Properties that
 * are `undefined` are omitted. Throws `TypeError` for values that JSON cannot represent.
 */
export function jsonBlock(value: unknown): Block {
  const bytes = new TextEncoder().encode(canonicalJson(value));
  return { cid: computeCid(DAG_JSON, bytes), bytes };
}

/**
 * Like `jsonBlock`, for a long list or an object of long lists: yields to other calls between two items. `onItem`
 * receives each item with the name of its list and its canonical bytes.
 */
export async function jsonBlockYielding(
  structure: object | readonly unknown[],
  onItem: (list: string, item: unknown, bytes: Uint8Array) => void = () => {},
): Promise<Block> {
  const yieldIfDue = createYielder();
  const hash = createHash("sha256");
  const parts: Uint8Array[] = [];
  const write = (text: string): Uint8Array => {
    const bytes = Buffer.from(text);
    parts.push(bytes);
    hash.update(bytes);
    return bytes;
  };
  const writeList = async (name: string, items: readonly unknown[]): Promise<void> => {
    write("[");
    for (const [index, item] of items.entries()) {
      if (index > 0) write(",");
      onItem(name, item, write(canonicalJson(item)));
      await yieldIfDue();
    }
    write("]");
  };
  if (Array.isArray(structure)) await writeList("", structure);
  else {
    const members = Object.entries(structure).filter(([, value]) => value !== undefined);
    let separator = "{";
    for (const [name, value] of members.sort(([one], [other]) => (one < other ? -1 : 1))) {
      write(`${separator}${JSON.stringify(name)}:`);
      separator = ",";
      if (Array.isArray(value)) await writeList(name, value);
      else {
        write(canonicalJson(value));
        await yieldIfDue();
      }
    }
    write(members.length === 0 ? "{}" : "}");
  }
  return { cid: encodeCid(DAG_JSON, hash.digest()), bytes: Buffer.concat(parts) };
}

/** The CID of a structure, by its canonical bytes. */
export function jsonCid(bytes: Uint8Array): Cid {
  return computeCid(DAG_JSON, bytes);
}

/** The structure in the bytes of a `dag-json` block. Berth stores no links in them, so "/" is a key like any other. */
export function decodeJson(bytes: Uint8Array): unknown {
  return JSON.parse(new TextDecoder().decode(bytes));
}

/**
 * Like `decodeJson`, for structures that Berth writes and keeps short. Undefined for a longer one, which an imported
 * tenant may contain, so that parsing it delays no other call.
 */
export function decodeRecord(bytes: Uint8Array): unknown {
  if (bytes.length > RECORD_BYTES_MAX) return undefined;
  const text = new TextDecoder().decode(bytes);
  return hasMoreValues(text, RECORD_VALUES_MAX) ? undefined : JSON.parse(text);
}

/** An entry of `mcps` is the longest record. */
const [RECORD_BYTES_MAX, RECORD_VALUES_MAX] = [4 * 1024 * 1024, 50_000];

/**
 * Decodes an object of long lists, such as a contract, yielding to other calls between two items. Undefined if one item
 * is longer than a record may be.
 */
export async function decodeJsonYielding(bytes: Uint8Array): Promise<unknown> {
  if (bytes.length <= INLINE_BYTES_MAX || bytes[0] !== OPEN_OBJECT) return decodeRecord(bytes);
  const yieldIfDue = createYielder();
  let at = 1;
  const next = (): unknown => {
    const end = endOfValue(bytes, at);
    const value = decodeRecord(bytes.subarray(at, end));
    at = value === undefined ? TRUNCATED : end;
    return value;
  };
  const members: [string, unknown][] = [];
  while (bytes[at] === QUOTE) {
    const name = next() as string;
    at += 1;
    let value: unknown;
    if (bytes[at] === OPEN_LIST && bytes[at + 1] !== CLOSE_LIST) {
      const items: unknown[] = [];
      do {
        at += 1;
        items.push(next());
        await yieldIfDue();
      } while (bytes[at] === COMMA);
      at += 1;
      value = items;
    } else value = next();
    members.push([name, value]);
    await yieldIfDue();
    if (bytes[at] === COMMA) at += 1;
  }
  return at === TRUNCATED ? undefined : Object.fromEntries(members);
}

/** The end of a truncated value: reading ends there. */
const TRUNCATED = Infinity;
/** The most that is decoded without yielding, in a millisecond or two. */
const INLINE_BYTES_MAX = 64 * 1024;
const [QUOTE, ESCAPE, COMMA, OPEN_LIST, CLOSE_LIST, OPEN_OBJECT, CLOSE_OBJECT] = Buffer.from('"\\,[]{}');

/** The end of the value that begins at `at`, in canonical JSON. */
function endOfValue(bytes: Uint8Array, at: number): number {
  let depth = 0;
  for (let index = at; index < bytes.length; index++) {
    switch (bytes[index]) {
      case QUOTE:
        for (index++; bytes[index] !== QUOTE && index < bytes.length; index++) if (bytes[index] === ESCAPE) index++;
        if (depth === 0) return index + 1;
        break;
      case OPEN_LIST:
      case OPEN_OBJECT:
        depth++;
        break;
      case CLOSE_LIST:
      case CLOSE_OBJECT:
        if (depth === 0) return index;
        if (--depth === 0) return index + 1;
        break;
      case COMMA:
        if (depth === 0) return index;
    }
  }
  return bytes.length;
}

export function isCid(text: string): boolean {
  return codecOf(text) !== undefined;
}

/** True if `cid` names a structure (`dag-json`); false for bytes and for an invalid CID. */
export function isStructure(cid: Cid): boolean {
  return codecOf(cid) === DAG_JSON;
}

/** The SHA-256 of the content of a CID. */
export function cidDigest(cid: Cid): Uint8Array {
  return base32.decode(cid).subarray(-32);
}

/** The CID of the bytes with this SHA-256. */
export function cidFromDigest(digest: Uint8Array): Cid {
  return encodeCid(RAW, digest);
}

/** True if `bytes` match `cid`. False for a string that is not a CID of Berth's two kinds. */
export function matches(cid: Cid, bytes: Uint8Array): boolean {
  const codec = codecOf(cid);
  return codec !== undefined && computeCid(codec, bytes) === cid;
}

/** Like `matches`; returns a promise for long bytes, and yields to other calls meanwhile. */
export function matchesYielding(cid: Cid, bytes: Uint8Array): boolean | Promise<boolean> {
  const codec = codecOf(cid);
  if (codec === undefined || bytes.length <= HASH_STEP_BYTES) return matches(cid, bytes);
  return hashYielding(bytes).then((digest) => encodeCid(codec, digest) === cid);
}

/** Like `rawBlock`; yields to other calls while hashing long bytes. */
export async function rawBlockYielding(bytes: Uint8Array): Promise<Block> {
  return { cid: encodeCid(RAW, await hashYielding(bytes)), bytes };
}

/** The SHA-256 of bytes, or another hash; yields to other calls meanwhile. */
export async function hashYielding(bytes: Uint8Array, algorithm = "sha256"): Promise<Buffer> {
  const yieldIfDue = createYielder();
  const hash = createHash(algorithm);
  for (let at = 0; at < bytes.length; at += HASH_STEP_BYTES) {
    hash.update(bytes.subarray(at, at + HASH_STEP_BYTES));
    await yieldIfDue();
  }
  return hash.digest();
}

/** Hashing this many bytes takes a millisecond or two. */
const HASH_STEP_BYTES = 1024 * 1024;

/**
 * The notation of both prefixes and the digest, with no bits beyond its end. Checked by a pattern: a parser that throws
 * takes fifty times as long for each of the thousands of strings that are not CIDs.
 */
const CID_PATTERN = /^b(?:(afkrei[a-h][a-z2-7]{50}[aeimquy4])|aguqeera[a-z2-7]{51}[aq])$/;

/** The length of Berth's longer CIDs. Whole configurations are checked as well. */
const CID_LENGTH_MAX = 61;

function codecOf(text: string): number | undefined {
  if (text.length > CID_LENGTH_MAX) return undefined;
  const match = CID_PATTERN.exec(text);
  if (!match) return undefined;
  return match[1] === undefined ? DAG_JSON : RAW;
}

/**
 * The CIDs that occur as text in bytes, whatever they mean there, including those with characters that JSON escapes.
 * Bytes without any are searched at memory speed.
 */
export function findCids(bytes: Uint8Array): Set<Cid> {
  const cids = new Set<Cid>();
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
  collectCids(buffer, cids);
  if (buffer.includes(ESCAPED)) {
    const plain = buffer
      .toString("latin1")
      .replace(/\\u00([0-7][0-9a-f])/gi, (_: string, code: string) => String.fromCharCode(Number.parseInt(code, 16)));
    collectCids(Buffer.from(plain, "latin1"), cids);
  }
  return cids;
}

function collectCids(buffer: Buffer, cids: Set<Cid>): void {
  for (const { start, letters: length } of NOTATIONS) {
    for (let at = buffer.indexOf(start); at >= 0; at = buffer.indexOf(start, at + 1)) {
      const text = buffer.toString("latin1", at, at + length);
      if (isCid(text)) cids.add(text);
    }
  }
}

const ESCAPED = "\\u00";
const NOTATIONS = [
  { start: "bafkrei", letters: 59 },
  { start: "baguqeera", letters: CID_LENGTH_MAX },
] as const;
