import { hash, randomBytes } from "node:crypto";
import { crc32 } from "node:zlib";

/**
 * How a token is written: `berth_`, 256 bits of randomness in base 62, and a checksum of both. Scanners for secrets
 * that were published by mistake find it by its beginning, and know by its end that it is one.
 */
const PREFIX = "berth_";
const SECRET_BYTES = 32;
const SECRET_CHARACTERS = 43;
const CHECKSUM_CHARACTERS = 6;
const SHAPE = new RegExp(`^${PREFIX}[0-9A-Za-z]{${SECRET_CHARACTERS + CHECKSUM_CHARACTERS}}$`);
const DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

export function newToken(): string {
  const secret = inBase62(BigInt(`0x${randomBytes(SECRET_BYTES).toString("hex")}`), SECRET_CHARACTERS);
  return withChecksum(`${PREFIX}${secret}`);
}

/** Whether it is written as a token is: what was cut off or mistyped is told without a look into the store. */
export function isTokenText(text: string): boolean {
  return SHAPE.test(text) && withChecksum(text.slice(0, -CHECKSUM_CHARACTERS)) === text;
}

/**
 * What is kept of a token, in hexadecimal. One round of SHA-256 is right for it: slow hashes and salts protect what
 * people choose and what can be guessed, and nobody guesses 256 random bits. So it is also safe to look a token up by
 * its hash: the time that this takes tells something of hashes, from which no token can be found.
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
