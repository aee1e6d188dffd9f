import { createHash } from "node:crypto";
import { jsonBlock, type Cid } from "../lib/cid.ts";

/**
 * The CID of the contents of an app as a client reads them, with their media types and `_meta`; undefined where there
 * are none, or more than so many bytes of them. Contents that are neither text nor bytes do not count: nobody gets them.
 */
export function digestOfApp(contents: readonly object[], bytesMax: number): Cid | undefined {
  const read = (contents as readonly Contents[]).filter(
    ({ text, blob }) => typeof text === "string" || typeof blob === "string",
  );
  const units = read.reduce((sum, { text, blob }) => sum + lengthOf(text) + lengthOf(blob), 0);
  return read.length === 0 || units > bytesMax ? undefined : jsonBlock(read).cid;
}

/**
 * The digest of a file of a skill, as its list writes it, from the contents that a client reads. Undefined where two
 * clients may find different bytes in them: more than one content, text beside bytes, or base64 that is written loosely.
 */
export function digestOfFile(contents: readonly object[]): string | undefined {
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

function lengthOf(value: unknown): number {
  return typeof value === "string" ? Buffer.byteLength(value) : 0;
}
