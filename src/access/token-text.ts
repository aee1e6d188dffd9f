import { hash, randomBytes } from "node:crypto";
import { crc32 } from "node:zlib";

/**
 * The format of a token: `berth_`, 256 random bits in base 62, and a checksum of both. Secret scanners find it by its
 * prefix and confirm it by its checksum.
 */
const PREFIX = "berth_";
const SECRET_BYTES = 32;
const SECRET_CHARACTERS = 43;
const CHECKSUM_CHARACTERS = 6;
const PATTERN = new RegExp(`^${PREFIX}[0-9A-Za-z]{${SECRET_CHARACTERS + CHECKSUM_CHARACTERS}}$`);
const DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

export function newToken(): string {
  const secret = inBase62(BigInt(`0x${randomBytes(SECRET_BYTES).toString("hex")}`), SECRET_CHARACTERS);
  return withChecksum(`${PREFIX}${secret}`);
}

/** True for the format of a token: detects truncated and mistyped tokens without a store lookup. */
export function isTokenText(text: string): boolean {
  return PATTERN.test(text) && withChecksum(text.slice(0, -CHECKSUM_CHARACTERS)) === text;
}

/**
 * The stored form of a token, in hexadecimal. One round of SHA-256 is enough: slow hashes and salts protect secrets
 * that people choose or that can be guessed, not 256 random bits. For the same reason, looking up a token by its hash
 * is safe: timing only reveals hashes, from which no token can be found.
 */
export function tokenHash(text: string): string {
  return hash("sha256", text, "hex");
}

function withChecksum(text: string): string {
  return `${text}${inBase62(BigInt(crc32(text)), CHECKSUM_CHARACTERS)}`;
}

function inBase62(number: bigint, characters: number): string {
  let text = "";
  for (let rest = number; text.length < characters; rest /= 62n) text = DIGITS[Number(rest % 62n)]! + text;
  return text;
}
