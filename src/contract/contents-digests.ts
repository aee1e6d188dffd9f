import { createHash } from "node:crypto";
import { jsonBlock, type Cid } from "../lib/cid.ts";

/** The CID of an app's contents as clients read them; undefined if there are none, or more than `bytesMax`. */
export function hashAppContents(contents: readonly object[], bytesMax: number): Cid | undefined {
  const read = (contents as readonly Contents[]).filter(
    ({ text, blob }) => typeof text === "string" || typeof blob === "string",
  );
  const units = read.reduce((sum, { text, blob }) => sum + byteLength(text) + byteLength(blob), 0);
  return read.length === 0 || units > bytesMax ? undefined : jsonBlock(read).cid;
}

/** The digest of a skill's file, as its list has it; undefined if two clients may read different bytes. */
export function hashSkillFile(contents: readonly object[]): string | undefined {
  const [only, ...more] = contents as readonly Contents[];
  if (!only || more.length > 0) return undefined;
  const { text, blob } = only;
  if (typeof text === "string") return blob === undefined ? sha256(text) : undefined;
  if (typeof blob !== "string" || text !== undefined) return undefined;
  const bytes = Buffer.from(blob, "base64");
  return bytes.toString("base64") === blob ? sha256(bytes) : undefined;
}

function sha256(bytes: string | Uint8Array): string {
  return `sha256:${createHash("sha256").update(bytes).digest("hex")}`;
}

interface Contents {
  readonly text?: unknown;
  readonly blob?: unknown;
}

function byteLength(value: unknown): number {
  return typeof value === "string" ? Buffer.byteLength(value) : 0;
}
