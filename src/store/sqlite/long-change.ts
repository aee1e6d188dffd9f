import type { MessagePort } from "node:worker_threads";
import type { Block, Cid } from "../../lib/cid.ts";
import { createYielder } from "../../lib/event-loop.ts";
import type { Change, NameMove } from "../store.ts";

/** Sending more contents and names, or more bytes, in one message would block the event loop for too long. */
const LONG_ITEMS = 500;
const LONG_BYTES = 4 * 1024 * 1024;
/** The maximum number of contents or names, and of bytes, per message. Sending one takes about a millisecond. */
const PART_ITEMS = 250;
const PART_BYTES = 4 * 1024 * 1024;
/** A part of a change, or the rest of it, which is sent last. */
type ChangePart =
  | { readonly cids: readonly Cid[]; readonly lengths: readonly number[]; readonly bytes: Uint8Array<ArrayBuffer> }
  | { readonly set: readonly NameMove[] }
  | { readonly rest: Omit<Change, "put" | "set"> };

export function isLongChange({ put = [], set = [] }: Change): boolean {
  return put.length + set.length > LONG_ITEMS || put.reduce((sum, { bytes }) => sum + bytes.length, 0) > LONG_BYTES;
}

/** Sends a change to another thread in parts, yielding to the event loop in between. */
export async function sendChange(
  to: Pick<MessagePort, "postMessage">,
  { put = [], set = [], ...rest }: Change,
): Promise<void> {
  const send = (part: ChangePart): void => to.postMessage(part, "bytes" in part ? [part.bytes.buffer] : []);
  const yieldIfDue = createYielder();
  for (let start = 0, end = 0; start < put.length; start = end) {
    await yieldIfDue();
    end = findPartEnd(put, start);
    send(pack(put.slice(start, end)));
  }
  for (let start = 0; start < set.length; start += PART_ITEMS) {
    await yieldIfDue();
    send({ set: set.slice(start, start + PART_ITEMS) });
  }
  send({ rest });
}

export function receiveChange(port: MessagePort): Promise<Change> {
  const put: Block[] = [];
  const set: NameMove[] = [];
  return new Promise((resolve) =>
    port.on("message", (part: ChangePart) => {
      if ("cids" in part) put.push(...unpack(part));
      else if ("set" in part) set.push(...part.set);
      else resolve({ ...part.rest, put, set });
    }),
  );
}

function unpack({ cids, lengths, bytes }: Extract<ChangePart, { readonly bytes: unknown }>): Block[] {
  let at = 0;
  return cids.map((cid, index) => ({ cid, bytes: bytes.subarray(at, (at += lengths[index]!)) }));
}

/** A part contains at least one block, however long. */
function findPartEnd(put: readonly Block[], start: number): number {
  let [end, bytes] = [start, 0];
  do bytes += put[end++]!.bytes.length;
  while (end < put.length && end - start < PART_ITEMS && bytes + put[end]!.bytes.length <= PART_BYTES);
  return end;
}

/** Transfers a single buffer: thousands of small ones would each be copied with the buffer behind them. */
function pack(blocks: readonly Block[]) {
  const lengths = blocks.map(({ bytes }) => bytes.length);
  const bytes = new Uint8Array(lengths.reduce((sum, length) => sum + length, 0));
  let at = 0;
  for (const block of blocks) {
    bytes.set(block.bytes, at);
    at += block.bytes.length;
  }
  return { cids: blocks.map(({ cid }) => cid), lengths, bytes } satisfies ChangePart;
}
