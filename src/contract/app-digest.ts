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

interface Contents {
  readonly text?: unknown;
  readonly blob?: unknown;
}

function lengthOf(value: unknown): number {
  return typeof value === "string" ? Buffer.byteLength(value) : 0;
}
