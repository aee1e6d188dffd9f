import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { appendFile, open } from "node:fs/promises";

/**
 * Appends a checksum to a backup. SQLite's own checks and those of contents miss most changed bits, such as in names,
 * tokens, and state. SQLite ignores what follows its pages, so the file is still a database.
 */
export async function appendChecksum(file: string): Promise<void> {
  await appendFile(file, await checksumLine(file));
}

/**
 * Removes and verifies the checksum of a copy of a backup. A plain copy of a database has none. A file length that no
 * database can have counts as a wrong checksum.
 */
export async function takeChecksum(file: string): Promise<"missing" | "right" | "wrong"> {
  const handle = await open(file, "r+");
  try {
    const { size } = await handle.stat();
    if (size % PAGE_BYTES_MIN === 0) return "missing";
    const pagesEnd = Math.max(0, size - LINE_BYTES);
    const { buffer } = await handle.read(Buffer.alloc(LINE_BYTES), 0, LINE_BYTES, pagesEnd);
    await handle.truncate(pagesEnd);
    return buffer.toString("latin1") === (await checksumLine(file)) ? "right" : "wrong";
  } finally {
    await handle.close();
  }
}

/** Page sizes are multiples of the smallest one. */
const PAGE_BYTES_MIN = 512;
const LINE_BYTES = "\nberth backup sha256:\n".length + 64;

async function checksumLine(file: string): Promise<string> {
  const sum = createHash("sha256");
  for await (const part of createReadStream(file)) sum.update(part as Buffer);
  return `\nberth backup sha256:${sum.digest("hex")}\n`;
}
